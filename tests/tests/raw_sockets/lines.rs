//! Request lines, versions and line endings: RFC 9112 sections 2 and 3.

use crate::Front;

#[tokio::test]
async fn bare_line_endings_are_refused() {
    // RFC 9112 section 2.2. A shop that reads a bare LF (or CR) as a line's end sees other headers than a gateway
    // that does not.
    let front = Front::start().await;
    front
        .refuses(&[
            ("LF alone everywhere", b"GET /free HTTP/1.1\nHost: shop.test\n\n"),
            ("LF alone after the request line", b"GET /free HTTP/1.1\nHost: shop.test\r\n\r\n"),
            ("LF alone after a header", b"GET /free HTTP/1.1\r\nHost: shop.test\nX-A: b\r\n\r\n"),
            ("LF alone at the end of the head", b"GET /free HTTP/1.1\r\nHost: shop.test\r\n\n"),
            ("CR alone in a value", b"GET /free HTTP/1.1\r\nHost: shop.test\r\nX-A: b\rX-C: d\r\n\r\n"),
            ("CR alone in a name", b"GET /free HTTP/1.1\r\nHost: shop.test\r\nX-\rA: b\r\n\r\n"),
            ("CR alone in the request line", b"GET /free\r HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("CR CR LF", b"GET /free HTTP/1.1\r\r\nHost: shop.test\r\r\n\r\r\n"),
        ])
        .await;
}

#[tokio::test]
async fn folded_headers_are_refused() {
    // RFC 9112 section 5.2.
    let front = Front::start().await;
    front
        .refuses(&[
            ("folded with a space", b"GET /free HTTP/1.1\r\nHost: shop.test\r\nX-A: b\r\n c\r\n\r\n"),
            ("folded with a tab", b"GET /free HTTP/1.1\r\nHost: shop.test\r\nX-A: b\r\n\tc\r\n\r\n"),
            ("folded before the first header", b"GET /free HTTP/1.1\r\n Host: shop.test\r\nX-A: b\r\n\r\n"),
            (
                "a folded transfer coding",
                b"POST /free HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
            ),
        ])
        .await;
}

#[tokio::test]
async fn malformed_request_lines_are_refused() {
    let front = Front::start().await;
    front
        .refuses(&[
            ("no target", b"GET HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("no version", b"GET /free\r\nHost: shop.test\r\n\r\n"),
            ("a tab in the target", b"GET /fr\tee HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("no method", b" /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("NUL in the method", b"G\0T /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("a colon in the method", b"GET: /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("a header line in place of the request line", b"Host: shop.test\r\n\r\n"),
            ("TLS on a plain port", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n"),
            ("binary noise", b"\xff\xfe\xfd\xfc\0\0\0\0\r\n\r\n"),
        ])
        .await;
}

#[tokio::test]
async fn a_space_in_the_target_reaches_the_shop_escaped_or_not_at_all() {
    // RFC 9112 section 3.2: such a target is not to be taken as it stands, for it has two ends.
    let front = Front::start().await;
    front.exchange(b"GET /fr ee HTTP/1.1\r\nHost: shop.test\r\n\r\n").await;
    front.exchange(b"GET /free HTTP/1.1 HTTP/1.1\r\nHost: shop.test\r\n\r\n").await;
    for request in front.shop.requests() {
        assert_eq!(request.line.split(' ').count(), 3, "{}", request.line);
    }
    front.forwards().await;
}

#[tokio::test]
async fn other_versions_are_refused() {
    let front = Front::start().await;
    front
        .refuses(&[
            ("HTTP/0.9", b"GET /free\r\n"),
            ("HTTP/0.9, spelled out", b"GET /free HTTP/0.9\r\n\r\n"),
            ("HTTP/1.2", b"GET /free HTTP/1.2\r\nHost: shop.test\r\n\r\n"),
            ("HTTP/2.0 in text", b"GET /free HTTP/2.0\r\nHost: shop.test\r\n\r\n"),
            ("HTTP/11", b"GET /free HTTP/11\r\nHost: shop.test\r\n\r\n"),
            ("HTTP/1.10", b"GET /free HTTP/1.10\r\nHost: shop.test\r\n\r\n"),
            ("lower case", b"GET /free http/1.1\r\nHost: shop.test\r\n\r\n"),
            ("another protocol", b"GET /free ICAP/1.1\r\nHost: shop.test\r\n\r\n"),
        ])
        .await;
}

#[tokio::test]
async fn heads_beyond_the_limit_are_refused() {
    let front = Front::with(|settings| settings.set("limits", "header_bytes", "\"16KiB\"")).await;
    let long = "a".repeat(20_000);
    let one = format!("GET /free HTTP/1.1\r\nHost: shop.test\r\nX-A: {long}\r\n\r\n");
    let many = format!("GET /free HTTP/1.1\r\nHost: shop.test\r\n{}\r\n", "X-A: b\r\n".repeat(4_000));
    let name = format!("GET /free HTTP/1.1\r\nHost: shop.test\r\n{long}: b\r\n\r\n");
    let target = format!("GET /free?{long} HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    let method = format!("{long} /free HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    let endless = format!("GET /free HTTP/1.1\r\nHost: shop.test\r\nX-A: {}", "a".repeat(2_000_000));
    front
        .refuses(&[
            ("one header", one.as_bytes()),
            ("many headers", many.as_bytes()),
            ("a header's name", name.as_bytes()),
            ("the target", target.as_bytes()),
            ("the method", method.as_bytes()),
            ("a header without an end", endless.as_bytes()),
        ])
        .await;
}
