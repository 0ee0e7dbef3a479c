//! Who the client is, when proxies of ours stand between.

use std::net::IpAddr;

use ipnet::IpNet;

/// The proxies whose word on a client's address is taken.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Trusts exactly these networks.
    #[must_use]
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether `address` is a proxy of ours.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client's address: the nearest hop that is not a proxy of ours.
    ///
    /// `forwarded_for` are the `X-Forwarded-For` lines in order of arrival. They are read from the right and only
    /// as far as proxies of ours vouch for them; what a stranger wrote further left is never believed.
    #[must_use]
    pub fn client<'a>(
        &self,
        peer: IpAddr,
        forwarded_for: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> IpAddr {
        let mut nearest = peer.to_canonical();
        let hops = forwarded_for.rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
        for hop in hops {
            if !self.contains(nearest) {
                break;
            }
            let Some(address) = parse_hop(hop) else { break };
            nearest = address;
        }
        nearest
    }
}

/// An address as proxies write it: bare, or with a port (`192.0.2.1:80`, `[2001:db8::1]:80`).
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim();
    text.parse::<IpAddr>()
        .ok()
        .or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        trusted.client(peer.parse().unwrap(), lines.iter().map(|line| line.as_bytes())).to_string()
    }

    #[test]
    fn a_stranger_cannot_choose_its_address() {
        assert_eq!(client("198.51.100.7", &["203.0.113.9"]), "198.51.100.7");
    }

    #[test]
    fn our_proxies_are_walked_from_the_right() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 203.0.113.9, 10.2.3.4"]), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &["1.1.1.1", "203.0.113.9:4711"]), "203.0.113.9");
    }

    #[test]
    fn garbage_ends_the_walk_at_the_last_vouched_hop() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9, unknown"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["203.0.113.9, \u{7f}, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(client("10.0.0.1", &[""]), "10.0.0.1");
    }

    #[test]
    fn mapped_addresses_are_the_addresses_they_map() {
        assert_eq!(client("::ffff:10.0.0.1", &["[2001:db8::1]:443"]), "2001:db8::1");
    }
}
