//! The host of a request.

/// The host's name without port and trailing dot, or `None` if it is no host at all.
///
/// Takes what `Host` and `:authority` carry (RFC 9110, section 7.2): a name or an address, IPv6 in brackets. Letters
/// keep their case; names are compared without it.
#[must_use]
pub fn name(host: &str) -> Option<&str> {
    let find = |wanted: u8| host.bytes().position(|byte| byte == wanted);
    let end = if host.starts_with('[') { find(b']')? + 1 } else { find(b':').unwrap_or(host.len()) };
    let (name, port) = (host.get(..end)?, host.get(end..)?);
    let port_is_sound = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => {
            digits.bytes().all(|byte| byte.is_ascii_digit())
                && (digits.is_empty() || digits.parse::<u16>().is_ok())
        }
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let name_is_sound = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => {
            // Of IPv6 no more than this: the whole of its grammar would be a fortieth of an edge's module.
            address.bytes().filter(|byte| *byte == b':').count() >= 2
                && address.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        }
        None => name.as_bytes().split(|byte| *byte == b'.').all(|label| {
            (1..=63).contains(&label.len())
                && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        }),
    };
    (port_is_sound && name_is_sound && name.len() <= 253).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn port_and_trailing_dot_do_not_make_another_host() {
        for host in
            ["Shop.example", "Shop.example.", "Shop.example:8443", "Shop.example.:80", "Shop.example:"]
        {
            assert_eq!(name(host), Some("Shop.example"), "{host}");
        }
        assert_eq!(name("127.0.0.1:8080"), Some("127.0.0.1"));
        assert_eq!(name("[::1]:8080"), Some("[::1]"));
        assert_eq!(name("localhost"), Some("localhost"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let hosts = [
            "",
            ".",
            "..",
            "a..b",
            "shop example",
            "shop%2eexample",
            "user@shop",
            "a/b",
            "a:b",
            "a:80:80",
            "[::1",
            "[]",
            "[.]",
            "[:]",
            "[127.0.0.1]",
            "[::1]x",
            "::1",
            "a:123456",
            "a:65536",
            "shop.example,evil.example",
            "sh\u{f6}p.example",
        ];
        for host in hosts {
            assert_eq!(name(host), None, "{host}");
        }
    }
}
