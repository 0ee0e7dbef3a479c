//! `[upstream]`: the shop behind the gateway.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use http::HeaderValue;

use super::insecure::Insecure;
use super::read::Section;
use super::report::Fault;

/// The shop behind the gateway, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Where it listens; a name is resolved off the request path.
    pub address: HostPort,
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// Longest wait for the next bytes of an answer.
    pub read_timeout: Duration,
    /// Longest wait for the shop to take the next bytes of a request.
    pub write_timeout: Duration,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Longest request body that is passed on, in bytes.
    pub max_request_body: u64,
    /// TLS towards the shop.
    pub tls: Option<UpstreamTls>,
    /// The `Host` the shop sees.
    pub host_header: HostHeader,
}

/// TLS towards the shop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The server name asked for and checked against the certificate.
    pub sni: String,
    /// Whether the certificate is checked.
    pub verify: bool,
}

/// The `Host` the shop sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostHeader {
    /// The one the shopper asked for.
    Preserve,
    /// Always this one.
    Fixed(HeaderValue),
}

/// A host name or address, with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// A DNS name, or an IP address without brackets.
    pub host: String,
    /// The port; never 0.
    pub port: u16,
}

impl FromStr for HostPort {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let bad = || {
            Fault::new(
                format!("{text:?} is not a host with a port"),
                "write for example \"127.0.0.1:3000\", \"[::1]:3000\" or \"shop.internal:3000\"",
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(bad)?;
        let host = match host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?.to_string(),
            None if is_host(host) => host.to_ascii_lowercase(),
            None => return Err(bad()),
        };
        Ok(Self { host, port })
    }
}

impl HostPort {
    /// Whether a connection to here can end at a listener of this machine on `own`. Of names only `localhost`
    /// (RFC 6761 section 6.3) is known without asking.
    fn reaches(&self, own: SocketAddr) -> bool {
        if own.port() != self.port {
            return false;
        }
        let local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        let own = own.ip().to_canonical();
        match self.host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            // A listener on every address has those of loopback; a connection to "any address" goes to loopback.
            Ok(ip) => ip == own || local(ip) && local(own) && (ip.is_unspecified() || own.is_unspecified()),
            Err(_) => local(own) && (self.host == "localhost" || self.host.ends_with(".localhost")),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A DNS name or an IPv4 address (RFC 1123 section 2.1, RFC 1035 lengths).
pub(super) fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len())
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Reads the table; `own` are the addresses the gateway listens on.
pub(super) fn read(section: Section<'_>, insecure: Insecure, own: &[SocketAddr]) -> Option<Upstream> {
    let address: Option<HostPort> =
        section.need("address", "name the shop's host and port, for example \"127.0.0.1:3000\"", |item| {
            let address: HostPort = item.text()?.parse()?;
            match own.iter().find(|own| address.reaches(**own)) {
                None => Ok(address),
                Some(own) => Err(Fault::new(
                    format!("{address} is where the gateway itself listens ({own}): it would call itself without end"),
                    "name the shop's own address, or move the gateway's under [listen]",
                )),
            }
        });
    let timeout = |key: &'static str, default: u64| {
        section.or(key, Duration::from_secs(default), |item| item.duration_in(Duration::from_millis(1), HOUR))
    };
    let connect_timeout = timeout("connect_timeout", 3);
    let read_timeout = timeout("read_timeout", 30);
    let write_timeout = timeout("write_timeout", 30);
    let idle_timeout = timeout("idle_timeout", 60);
    let max_request_body = section.or("max_request_body", 1 << 20, |item| item.size_in(0, 1 << 30));
    let with_tls = section.or("tls", false, |item| item.bool());
    let sni = section.get("sni", |item| {
        let text = item.text()?;
        if is_host(text) {
            Ok(text.to_owned())
        } else {
            Err(Fault::new(format!("{text:?} is not a host name"), "write a DNS name"))
        }
    });
    if sni.is_some() && !with_tls {
        section
            .fault("sni", Fault::new("has no effect without TLS", "set upstream.tls = true, or remove sni"));
    }
    let host_header = section.or("host_header", HostHeader::Preserve, |item| match item.text()? {
        "preserve" => Ok(HostHeader::Preserve),
        text => {
            let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
            let value = HeaderValue::from_str(text).ok().filter(|_| is_host(host));
            value.map(HostHeader::Fixed).ok_or_else(|| {
                Fault::new(format!("{text:?} is not a host"), "write \"preserve\" or a host name")
            })
        }
    });
    section.finish();
    let address = address?;
    let tls = with_tls.then(|| UpstreamTls {
        sni: sni.unwrap_or_else(|| address.host.clone()),
        verify: !insecure.upstream_certificate_unchecked,
    });
    Some(Upstream {
        address,
        connect_timeout,
        read_timeout,
        write_timeout,
        idle_timeout,
        max_request_body,
        tls,
        host_header,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_leads_back_to_a_listener_is_told_from_the_shops() {
        let reaches = |shop: &str, own: &str| shop.parse::<HostPort>().unwrap().reaches(own.parse().unwrap());
        for (shop, own) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "0.0.0.0:8080"),
            ("127.0.0.1:8080", "[::]:8080"),
            ("[::1]:8080", "[::]:8080"),
            ("[::ffff:127.0.0.1]:8080", "127.0.0.1:8080"),
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LOCALHOST:8080", "[::1]:8080"),
            ("10.0.0.5:443", "10.0.0.5:443"),
        ] {
            assert!(reaches(shop, own), "{shop} {own}");
        }
        for (shop, own) in [
            ("127.0.0.1:3000", "127.0.0.1:8080"),
            ("127.0.0.2:8080", "127.0.0.1:8080"),
            ("10.0.0.5:8080", "127.0.0.1:8080"),
            ("shop.internal:8080", "0.0.0.0:8080"),
            ("localhost:8080", "10.0.0.5:8080"),
        ] {
            assert!(!reaches(shop, own), "{shop} {own}");
        }
    }

    #[test]
    fn a_host_and_a_port_are_told_from_anything_else() {
        for (text, host) in
            [("127.0.0.1:3000", "127.0.0.1"), ("[::1]:3000", "::1"), ("Shop.Internal:3000", "shop.internal")]
        {
            let parsed: HostPort = text.parse().unwrap();
            assert_eq!((parsed.host.as_str(), parsed.port), (host, 3000));
            assert_eq!(parsed.to_string().parse::<HostPort>().unwrap(), parsed);
        }
        for text in
            ["", ":80", "shop", "shop:0", "shop:99999", "::1:80", "http://shop:80", "a b:80", "[shop]:80"]
        {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
