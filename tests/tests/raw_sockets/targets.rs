//! Request targets: RFC 9112 section 3.2, RFC 3986.

use crate::Front;

fn get(target: &[u8]) -> Vec<u8> {
    [b"GET ", target, b" HTTP/1.1\r\nHost: shop.test\r\n\r\n"].concat()
}

#[tokio::test]
async fn no_spelling_of_a_protected_path_reaches_the_shop() {
    let front = Front::start().await;
    let spellings = [
        "/sale",
        "/sale/",
        "/Sale",
        "/SALE",
        "/sale?x",
        "/sale/pair/1",
        "//sale",
        "///sale",
        "/sale//",
        "/./sale",
        "/x/../sale",
        "/x/y/../../sale",
        "/../sale",
        "/sale/x/..",
        "/sale/.",
        "/%73ale",
        "/s%61le",
        "/%2e/sale",
        "/x/%2e%2e/sale",
        "/x/.%2E/sale",
        "/x/..//sale",
        "/x//../../sale",
        "/free/..;/sale",
        "/sale;jsessionid=1",
        "/%2Fsale",
        "/x%2f..%2fsale",
        "/x\\..\\sale",
        "/x/..%5csale",
        "/%5Csale",
        "/%2573ale/../sale",
        "/sale%00",
        "/sale%20/../../sale",
        "/sale#free",
    ];
    let cases = spellings.map(|target| (target, get(target.as_bytes())));
    front.does_not_forward(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn targets_that_are_read_in_two_ways_are_refused() {
    let front = Front::start().await;
    let targets: [(&str, &[u8]); 19] = [
        ("an encoded slash", b"/free%2fx"),
        ("an encoded backslash", b"/free%5cx"),
        ("a backslash", b"/free\\x"),
        ("an encoded NUL", b"/free%00"),
        ("NUL", b"/free\0"),
        ("an encoded CR and LF", b"/free%0d%0aX-A:%20b"),
        ("half an escape", b"/free%4"),
        ("an escape of nothing", b"/free%"),
        ("an escape that is none", b"/free%zz"),
        ("an escape of a sign", b"/free%+1"),
        ("bytes that are no UTF-8", b"/free\xff"),
        ("escaped bytes that are no UTF-8", b"/free%ff"),
        ("an overlong slash", b"/free%c0%af"),
        ("a control character", b"/free\x01"),
        ("DEL", b"/free\x7f"),
        ("a fragment", b"/free#x"),
        ("no leading slash", b"free"),
        ("a backslash in front", b"\\free"),
        ("a query alone", b"?free"),
    ];
    let cases = targets.map(|(name, target)| (name, get(target)));
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn targets_in_other_forms_are_refused() {
    // RFC 9112 sections 3.2.2 to 3.2.4. The gateway is no forward proxy: the absolute form gives a second host to
    // choose from, and shops choose differently.
    let front = Front::start().await;
    front
        .refuses(&[
            ("absolute", b"GET http://shop.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, another host", b"GET http://other.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, protected", b"GET http://shop.test/sale HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, another scheme", b"GET gopher://shop.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, with a user", b"GET http://a@shop.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("authority", b"GET shop.test:80 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("asterisk", b"GET * HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("asterisk for OPTIONS", b"OPTIONS * HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        ])
        .await;
}
