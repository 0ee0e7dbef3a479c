//! What of a request a host may change, or refuse, before the guest gets to see it.

use std::collections::BTreeSet;

use super::vectors::Case;

/// A form in which a request can be written and that not every host hands on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RawForm {
    /// Dot segments in the path, escaped ones included, that the URL standard resolves.
    DotSegments,
    /// Repeated slashes.
    EmptySegments,
    /// A backslash in the path, which the URL standard takes for a slash.
    Backslash,
    /// An escaped slash or backslash.
    EscapedSlash,
    /// An escape that is none: a percent sign without two digits after it.
    BrokenEscape,
    /// An escaped control character, or bytes that are no UTF-8.
    EscapedBytes,
    /// An escape that need not be one, or in lower case.
    NeedlessEscape,
    /// A semicolon in the path.
    Parameters,
    /// Characters that a URL has to escape, or may, in its path or query.
    UrlCharacters,
    /// A question mark with nothing after it.
    EmptyQuery,
    /// A target that is no path: `*`, an absolute one, none at all, or with a fragment.
    Target,
    /// A host that is none.
    Host,
    /// A host with a port or a trailing dot.
    HostSpelling,
    /// Another method than GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS.
    Method,
    /// Two lines of one field, cookies aside.
    RepeatedField,
    /// Two lines of cookies.
    RepeatedCookie,
    /// A value with bytes beyond visible ASCII.
    FieldBytes,
    /// An underscore in a field's name.
    Underscore,
    /// An empty value.
    EmptyField,
}

/// The forms that `case` is written in.
pub(super) fn of(case: &Case) -> BTreeSet<RawForm> {
    use RawForm::*;

    let mut forms = BTreeSet::new();
    let mut note = |found: bool, form| {
        if found {
            forms.insert(form);
        }
    };
    let (path, query) = case.target.split_once('?').unwrap_or((&case.target, ""));
    let lower = path.to_ascii_lowercase();
    let dots = lower.replace("%2e", ".").replace('\\', "/");
    note(dots.split('/').any(|segment| matches!(segment.split(';').next(), Some("." | ".."))), DotSegments);
    note(path.contains("//"), EmptySegments);
    note(path.contains('\\'), Backslash);
    note(lower.contains("%2f") || lower.contains("%5c"), EscapedSlash);
    note(path.contains(';') || lower.contains("%3b"), Parameters);
    for (at, _) in path.match_indices('%') {
        let digits = path.get(at + 1..at + 3).unwrap_or_default();
        let byte =
            u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match byte {
            None => note(true, BrokenEscape),
            Some(byte) => {
                note(byte.is_ascii_control() || !byte.is_ascii(), EscapedBytes);
                let needless = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
                note(needless || digits != digits.to_ascii_uppercase(), NeedlessEscape);
            }
        }
    }
    let odd = |byte: u8| !byte.is_ascii_graphic() || b"\"<>`{}|^'[]".contains(&byte);
    note(path.bytes().any(odd) || query.bytes().any(|byte| odd(byte) || byte == b'\\'), UrlCharacters);
    note(query.is_empty() && case.target.ends_with('?'), EmptyQuery);
    note(!path.starts_with('/') || case.target.contains('#'), Target);
    note(!is_host_name(&case.host), Host);
    note(is_host_name(&case.host) && (case.host.ends_with('.') || case.host.contains(':')), HostSpelling);
    let usual = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    note(!usual.contains(&case.method.as_str()), Method);
    let mut seen = BTreeSet::new();
    for (name, value) in case.fields() {
        let name = name.to_ascii_lowercase();
        note(name.contains('_'), Underscore);
        note(value.is_empty(), EmptyField);
        note(value.iter().any(|byte| !matches!(byte, b' '..=b'~')), FieldBytes);
        let form = if name == "cookie" { RepeatedCookie } else { RepeatedField };
        note(!seen.insert(name), form);
    }
    forms
}

/// Letters, digits, hyphens and dots, and a port.
fn is_host_name(host: &str) -> bool {
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.split('.').all(label)
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && !host.ends_with(':')
        && port.len() <= 4
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{Act, Expect, FieldValue};
    use super::*;

    fn forms(target: &str, headers: &[(&str, &[u8])]) -> Vec<RawForm> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), FieldValue::new(*value)));
        let act = Act::Room { path: String::new(), status: 200 };
        let case = Case {
            name: String::new(),
            settings: String::new(),
            now: None,
            method: "GET".to_owned(),
            host: "shop.example".to_owned(),
            target: target.to_owned(),
            headers: headers.collect(),
            expect: Expect { act, kind: String::new(), sale: None, code: None, gone: Vec::new() },
            jose: None,
        };
        of(&case).into_iter().collect()
    }

    #[test]
    fn a_plain_request_has_none() {
        assert_eq!(forms("/sale/7?a=b&c=%2f", &[("accept", b"*/*"), ("cookie", b"a=b")]), []);
    }

    #[test]
    fn what_a_host_may_change_is_found() {
        use RawForm::*;

        assert_eq!(forms("/a/%2e%2E/b", &[]), [DotSegments, NeedlessEscape]);
        assert_eq!(forms("/a//b", &[]), [EmptySegments]);
        assert_eq!(forms("/a\\b", &[]), [Backslash]);
        assert_eq!(forms("/a%2Fb", &[]), [EscapedSlash]);
        assert_eq!(forms("/a%0Ab%", &[]), [BrokenEscape, EscapedBytes]);
        assert_eq!(forms("/a;b?\"", &[]), [Parameters, UrlCharacters]);
        assert_eq!(forms("/a?", &[]), [EmptyQuery]);
        assert_eq!(forms("*", &[]), [Target]);
        assert_eq!(
            forms("/", &[("a", b"\xFF"), ("A", b"x"), ("b_c", b"")]),
            [RepeatedField, FieldBytes, Underscore, EmptyField]
        );
        assert_eq!(forms("/", &[("cookie", b"a=b"), ("cookie", b"c=d")]), [RepeatedCookie]);
    }
}
