//! `[listen]`: where the gateway is reached.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::files;
use super::insecure::Insecure;
use super::join_limits::JoinLimits;
use super::read::Section;
use super::report::Fault;

/// All of IPv4, and all of IPv6 that is given out (RFC 4291, section 2.5.4).
const EVERYBODY: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3)),
];

/// Where the gateway listens, and whom it believes about the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Addresses for shoppers; at least one, none twice.
    pub shop: Vec<SocketAddr>,
    /// Address of the operator listener.
    pub operator: SocketAddr,
    /// Certificate and key for the shop's listeners, when the gateway itself ends TLS.
    pub tls: Option<Tls>,
    /// A proxy in front ends TLS: cookies are `Secure` and carry the `__Host-` prefix all the same.
    pub behind_tls: bool,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether those peers also say, in `X-Forwarded-Host`, which host the shopper asked for.
    pub trust_forwarded_host: bool,
}

impl Listen {
    /// True when shoppers reach the shop over TLS, wherever it ends: cookies are `Secure` then.
    pub fn secure_cookies(&self) -> bool {
        self.tls.is_some() || self.behind_tls
    }
}

/// PEM files of the shop's listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain, leaf first.
    pub certificate: PathBuf,
    /// Private key.
    pub private_key: PathBuf,
}

/// Reads the table, and beside it every address in it that the gateway itself listens on, whatever else is wrong.
pub(super) fn read(
    section: Section<'_>,
    insecure: Insecure,
    joins: &JoinLimits,
) -> (Vec<SocketAddr>, Option<Listen>) {
    let shop = shop(&section);
    let operator = section.or("operator", SocketAddr::from(([127, 0, 0, 1], 9900)), |item| {
        let address: SocketAddr = item.parsed("an address with a port", "for example \"127.0.0.1:9900\"")?;
        if address.ip().is_loopback() || insecure.operator_off_loopback {
            return Ok(address);
        }
        Err(Fault::new(
            format!(
                "{address} is not on loopback: the operator's token would cross the network in the clear"
            ),
            "bind it to 127.0.0.1, or set insecure.operator_off_loopback = true",
        ))
    });
    if shop.as_deref().is_some_and(|shop| shop.contains(&operator) && operator.port() != 0) {
        section
            .fault("operator", Fault::new("is also a shop address", "give the operator a port of its own"));
    }
    let tls_section = section.table("tls");
    let tls = if tls_section.present() { tls(&tls_section).map(Some) } else { Some(None) };
    tls_section.finish();
    let behind_tls = section.or("behind_tls", false, |item| item.bool());
    let trusted_proxies = trusted_proxies(&section, insecure);
    let trust_forwarded_host = section.or("trust_forwarded_host", false, |item| item.bool());
    if trust_forwarded_host && trusted_proxies.as_deref().is_some_and(<[_]>::is_empty) {
        let what = "nobody may say which host was asked for: no proxy is trusted";
        section.fault("trust_forwarded_host", Fault::new(what, "name your proxies in trusted_proxies"));
    }
    if let (Some(shop), Some([])) = (&shop, trusted_proxies.as_deref())
        && joins.enabled
    {
        one_client(&section, shop, behind_tls, joins);
    }
    if let (Some(shop), Some(None), false) = (&shop, &tls, behind_tls || insecure.plain_http)
        && let Some(open) = shop.iter().find(|address| !address.ip().is_loopback())
    {
        let what =
            format!("{open} is not on loopback, and without TLS tokens would cross the network in the clear");
        let mend = "add [listen.tls], or set listen.behind_tls = true when a proxy in front ends TLS, \
                    or insecure.plain_http = true";
        section.fault("shop", Fault::new(what, mend));
    }
    section.finish();
    let own = shop.iter().flatten().copied().chain([operator]).collect();
    let listen = || {
        Some(Listen {
            shop: shop?,
            operator,
            tls: tls?,
            behind_tls,
            trusted_proxies: trusted_proxies?,
            trust_forwarded_host,
        })
    };
    (own, listen())
}

/// Warns of a proxy in front that is not named: all that come through it would share what one network has free.
fn one_client(section: &Section<'_>, shop: &[SocketAddr], behind_tls: bool, joins: &JoinLimits) {
    let exempt = |address: &SocketAddr| {
        joins.exempt.iter().any(|network| network.contains(&address.ip().to_canonical()))
    };
    let on_loopback = shop.iter().all(|address| address.ip().is_loopback() && !exempt(address));
    if behind_tls || (on_loopback && !shop.is_empty()) {
        let what = "names no proxy, and one must be in front: all that come through it count as one client when they join";
        let mend = "name it, or the networks that share an address in limits.join.exempt";
        section.warn("trusted_proxies", Fault::new(what, mend));
    }
}

fn shop(section: &Section<'_>) -> Option<Vec<SocketAddr>> {
    let key = "shop";
    if !section.has(key) {
        section.missing(key, "name the addresses for shoppers, for example shop = [\"0.0.0.0:8080\"]");
        return None;
    }
    let shop: Vec<SocketAddr> = section.list(key, |item| {
        item.parsed("an address with a port", "an IP address and a port, for example \"0.0.0.0:8080\"")
    })?;
    if shop.is_empty() {
        section.fault(key, Fault::new("is empty", "name at least one address"));
    }
    let twice =
        shop.iter().enumerate().find(|(at, address)| address.port() != 0 && shop[..*at].contains(address));
    if let Some((_, twice)) = twice {
        section.fault(key, Fault::new(format!("{twice} is named twice"), "name each address once"));
    }
    Some(shop)
}

fn tls(section: &Section<'_>) -> Option<Tls> {
    let certificate = section.need("certificate", "name the PEM file of the certificate chain", |item| {
        let path = item.path()?;
        files::pem(&path, "CERTIFICATE").map(|()| path)
    });
    let private_key = section.need("private_key", "name the PEM file of the private key", |item| {
        let path = item.path()?;
        files::pem(&path, "PRIVATE KEY").map(|()| path)
    });
    if let Some(fault) = private_key.as_deref().and_then(files::readable_by_others) {
        section.warn("private_key", fault);
    }
    Some(Tls { certificate: certificate?, private_key: private_key? })
}

fn trusted_proxies(section: &Section<'_>, insecure: Insecure) -> Option<Vec<IpNet>> {
    if !section.has("trusted_proxies") {
        return Some(Vec::new());
    }
    let networks = section.list("trusted_proxies", |item| item.network())?;
    // Several may be everybody together, as 0.0.0.0/1 and 128.0.0.0/1 are.
    let together = IpNet::aggregate(&networks);
    let everybody = together.iter().find(|network| EVERYBODY.iter().any(|all| network.contains(all)));
    if let (Some(everybody), false) = (everybody, insecure.trust_any_proxy) {
        let together = if networks.contains(everybody) { "" } else { ", which these are together," };
        let what = format!("{everybody}{together} is everybody: any client could claim any address");
        let mend = "name your proxies' networks, or set insecure.trust_any_proxy = true";
        section.fault("trusted_proxies", Fault::new(what, mend));
        return None;
    }
    Some(networks)
}
