//! Reading cookies (RFC 6265, section 5.4) and the names of ours.

use alloc::string::String;

use thiserror::Error;

use crate::header::{self, Field};

/// More than one cookie of a name was sent: somebody else may have planted one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("two cookies of the same name were sent")]
pub struct Repeated;

/// The name of the visitor's own cookie.
#[must_use]
pub fn visitor(secure: bool) -> String {
    [prefix(secure), "ropeline-visitor"].concat()
}

/// The name of the cookie that a visitor gets who has not joined anything yet.
#[must_use]
pub fn newcomer(secure: bool) -> String {
    [prefix(secure), "ropeline-newcomer"].concat()
}

/// The name of the cookie that holds the ticket for a sale.
#[must_use]
pub fn ticket(sale: &str, secure: bool) -> String {
    [prefix(secure), "ropeline-ticket-", sale].concat()
}

/// The name of the cookie that holds the admission token for a sale.
#[must_use]
pub fn admission(sale: &str, secure: bool) -> String {
    [prefix(secure), "ropeline-admission-", sale].concat()
}

/// With `__Host-`, a browser takes the cookie only from this host over TLS: no sister host can plant one.
const fn prefix(secure: bool) -> &'static str {
    if secure { "__Host-" } else { "" }
}

/// All cookies of all `Cookie` lines, in order: HTTP/2 may split them over several. A pair without `=` is passed over.
pub fn pairs<'a>(headers: &'a [Field<'a>]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    header::values(headers, "cookie").flat_map(|line| line.split(|byte| *byte == b';')).filter_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = pair.split_at_checked(equals)?;
        Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
    })
}

/// The value of the one cookie of this name, case and all.
///
/// # Errors
/// More than one was sent, even with the same value.
pub fn find<'a>(headers: &'a [Field<'a>], name: &str) -> Result<Option<&'a [u8]>, Repeated> {
    let mut found = pairs(headers).filter(|(cookie, _)| *cookie == name.as_bytes());
    let first = found.next();
    if found.next().is_some() { Err(Repeated) } else { Ok(first.map(|(_, value)| value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(lines: &'a [Field<'a>], name: &str) -> Result<Option<&'a [u8]>, Repeated> {
        find(lines, name)
    }

    #[test]
    fn every_cookie_line_is_read() {
        let lines: [Field<'_>; 4] =
            [("cookie", b"a=1; b=2"), ("accept", b"c=0"), ("Cookie", b"c=3"), ("COOKIE", b" d = 4 ;;e=;f")];
        for (name, expected) in [("a", &b"1"[..]), ("b", b"2"), ("c", b"3"), ("d", b"4"), ("e", b"")] {
            assert_eq!(value(&lines, name), Ok(Some(expected)), "{name}");
        }
        assert_eq!(value(&lines, "f"), Ok(None));
        assert_eq!(value(&lines, "A"), Ok(None));
    }

    #[test]
    fn two_cookies_of_one_name_are_refused_wherever_they_stand() {
        let one_line: [Field<'_>; 1] = [("cookie", b"a=1; b=2; a=1")];
        let two_lines: [Field<'_>; 2] = [("cookie", b"a=1"), ("cookie", b"b=2; a=3")];
        // A cookie without a name whose value looks like a pair is sent as that pair.
        let nameless: [Field<'_>; 1] = [("cookie", b"a=1;a=2=3")];
        for lines in [&one_line[..], &two_lines, &nameless] {
            assert_eq!(value(lines, "a"), Err(Repeated));
        }
        assert_eq!(value(&one_line, "b"), Ok(Some(&b"2"[..])));
    }

    #[test]
    fn a_value_may_hold_an_equals_sign() {
        assert_eq!(value(&[("cookie", b"a==x=")], "a"), Ok(Some(&b"=x="[..])));
    }

    #[test]
    fn names_bear_the_host_prefix_under_tls() {
        assert_eq!(visitor(true), "__Host-ropeline-visitor");
        assert_eq!(ticket("shoe", true), "__Host-ropeline-ticket-shoe");
        assert_eq!(admission("shoe", false), "ropeline-admission-shoe");
    }
}
