use super::*;

fn quality_of_html(accept: &str) -> u16 {
    preference(&[("Accept", accept.as_bytes())], "text", "html").quality
}

fn asks_for_html(accept: &str) -> bool {
    prefers_html(&[("accept", accept.as_bytes())])
}

/// RFC 9110, section 12.5.1: the example with its qualities, and what follows from specificity.
#[test]
fn the_most_specific_range_counts() {
    let accept =
        "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, */*;q=0.5";
    let headers = [("accept", accept.as_bytes())];
    assert_eq!(preference(&headers, "text", "plain"), Preference { quality: 700, named: true });
    assert_eq!(preference(&headers, "text", "html"), Preference { quality: 300, named: false });
    assert_eq!(preference(&headers, "image", "jpeg"), Preference { quality: 500, named: false });
    assert_eq!(quality_of_html("*/*;q=0.9, text/html;q=0.1"), 100);
    assert_eq!(quality_of_html("text/html;q=0, */*"), 0);
}

#[test]
fn qualities_are_read_as_the_rfc_writes_them() {
    for (accept, quality) in [
        ("text/html;q=1", 1_000),
        ("text/html;q=1.000", 1_000),
        ("TEXT/HTML ; Q=0.5", 500),
        ("text/html;q=0.001", 1),
        ("text/html;q=0.", 0),
        ("text/html;q=0", 0),
    ] {
        assert_eq!(quality_of_html(accept), quality, "{accept}");
    }
    for accept in [
        "text/html;q=1.1",
        "text/html;q=2",
        "text/html;q=0.1234",
        "text/html;q=-1",
        "text/html;q=",
        "text/html;q=.5",
        "text/html;q=abc",
    ] {
        assert_eq!(quality_of_html(accept), 0, "{accept}");
    }
}

#[test]
fn without_the_field_anything_is_acceptable_but_html_is_not_asked_for() {
    assert!(accepts_html(&[]) && !prefers_html(&[]));
    assert!(accepts_html(&[("accept", b"")]) && !prefers_html(&[("accept", b"")]));
}

/// An app that sends what axios sends must not be given HTML.
#[test]
fn an_app_that_takes_anything_does_not_ask_for_html() {
    for accept in [
        "application/json, text/plain, */*",
        "*/*",
        "application/json",
        "application/json, text/html;q=0.9",
        "application/problem+json, text/html;q=0.5",
        "text/html;q=0, */*",
        "text/*",
        "image/avif,image/webp,*/*;q=0.8",
        "text/css,*/*;q=0.1",
        "",
        "text/htmlx",
        "text/html;level=1",
    ] {
        assert!(!asks_for_html(accept), "{accept}");
    }
}

#[test]
fn a_browser_asks_for_html() {
    for accept in [
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
        "text/html, application/json",
        "application/json;q=0.9, text/html",
        "application/xhtml+xml,*/*;q=0.1",
        "TEXT/HTML",
    ] {
        assert!(asks_for_html(accept), "{accept}");
    }
}

#[test]
fn every_accept_line_is_read() {
    let headers: [Field<'_>; 2] = [("accept", b"application/json;q=0.5"), ("Accept", b"text/html")];
    assert!(prefers_html(&headers));
}
