//! Request targets: RFC 9112 section 3.2, RFC 3986.

use ropeline_tests::shop::BODY;

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
    let targets: [(&str, &[u8]); 21] = [
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
        ("bytes outside ASCII", b"/caf\xc3\xa9"),
        ("bytes that are no UTF-8 in the query", b"/free?\xff"),
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
async fn an_absolute_target_of_the_same_host_is_a_path() {
    // RFC 9112 section 3.2.2: "a server MUST accept the absolute-form in requests". The shop gets the path.
    for (line, forwarded) in [
        ("GET http://shop.test/free/x?a=b", "GET /free/x?a=b HTTP/1.1"),
        ("GET HTTP://shop.test/free", "GET /free HTTP/1.1"),
        ("GET http://shop.test/x/../free", "GET /free HTTP/1.1"),
        ("GET http://shop.test", "GET / HTTP/1.1"),
        ("GET http://shop.test?a", "GET /?a HTTP/1.1"),
    ] {
        let front = Front::start().await;
        let answer = front.exchange(format!("{line} HTTP/1.1\r\nHost: shop.test\r\n\r\n").as_bytes()).await;
        assert_eq!(answer.answer().text(), BODY, "{line}");
        let requests = front.shop.requests();
        assert_eq!(requests.len(), 1, "{line}");
        assert_eq!(
            (requests[0].line.as_str(), requests[0].header("host")),
            (forwarded, vec!["shop.test"]),
            "{line}"
        );
    }
    let front = Front::start().await;
    // What is protected is protected however it is asked for.
    let targets = ["/sale", "//sale", "/x/../sale", "/%73ale"];
    let cases = targets.map(|target| (target, get(format!("http://shop.test{target}").as_bytes())));
    front.does_not_forward(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn targets_in_other_forms_are_refused() {
    // RFC 9112 sections 3.2.2 to 3.2.4. The gateway is no forward proxy: where an absolute target names another host
    // than the Host line there are two to choose from, and shops choose differently.
    let front = Front::start().await;
    front
        .refuses(&[
            ("absolute, another host", b"GET http://other.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, another port", b"GET http://shop.test:81/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, no host line", b"GET http://shop.test/free HTTP/1.1\r\n\r\n"),
            ("absolute, no host line in HTTP/1.0", b"GET http://shop.test/free HTTP/1.0\r\n\r\n"),
            ("absolute, two host lines", b"GET http://a/free HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            ("absolute, no host", b"GET http:///free HTTP/1.1\r\nHost:\r\n\r\n"),
            ("absolute, one slash", b"GET http:/shop.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, a backslash", b"GET http://shop.test\\free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            (
                "absolute, not as the listener is",
                b"GET https://shop.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n",
            ),
            ("absolute, for OPTIONS of all", b"OPTIONS http://shop.test HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, another scheme", b"GET gopher://shop.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("absolute, with a user", b"GET http://a@shop.test/free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("authority", b"GET shop.test:80 HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("asterisk", b"GET * HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("asterisk for OPTIONS", b"OPTIONS * HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        ])
        .await;
}
