//! Request lines, versions and line endings: RFC 9112 sections 2 and 3.

use ropeline_tests::raw::Outcome;
use ropeline_tests::shop::BODY;

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
            ("no method", b" /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("NUL in the method", b"G\0T /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("a byte outside ASCII in the method", b"G\xc3\x89T /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("brackets in the method", b"GE(T) /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("an empty target", b"GET  HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("a colon in the method", b"GET: /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("a header line in place of the request line", b"Host: shop.test\r\n\r\n"),
            ("TLS on a plain port", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n"),
            ("binary noise", b"\xff\xfe\xfd\xfc\0\0\0\0\r\n\r\n"),
        ])
        .await;
}

#[tokio::test]
async fn a_request_line_with_other_spaces_is_refused() {
    // RFC 9112 section 3: one SP on either side of the target. Section 3.2: a target with white space has two ends, and
    // is not to be mended by escaping it.
    let front = Front::start().await;
    let lines: [(&str, &[u8]); 18] = [
        ("a space in the target", b"GET /fr ee HTTP/1.1"),
        ("a space in the query", b"GET /free?a b HTTP/1.1"),
        ("two versions", b"GET /free HTTP/1.1 HTTP/1.1"),
        ("two spaces after the method", b"GET  /free HTTP/1.1"),
        ("two spaces after the target", b"GET /free  HTTP/1.1"),
        ("a space after the version", b"GET /free HTTP/1.1 "),
        ("a space before the method", b" GET /free HTTP/1.1"),
        ("a tab after the method", b"GET\t/free HTTP/1.1"),
        ("a tab after the target", b"GET /free\tHTTP/1.1"),
        ("a tab in the target", b"GET /fr\tee HTTP/1.1"),
        ("a tab after the version", b"GET /free HTTP/1.1\t"),
        ("a vertical tab after the target", b"GET /free\x0bHTTP/1.1"),
        ("a form feed after the target", b"GET /free\x0cHTTP/1.1"),
        ("a space outside ASCII", b"GET\xa0/free\xa0HTTP/1.1"),
        ("something after the version", b"GET /free HTTP/1.1 x"),
        ("a header after the version", b"GET /free HTTP/1.1 Host: shop.test"),
        ("a version run into the next word", b"GET /free HTTP/1.1x"),
        ("two versions in a list", b"GET /free HTTP/1.1,HTTP/1.1"),
    ];
    let cases = lines.map(|(name, line)| (name, [line, b"\r\nHost: shop.test\r\n\r\n"].concat()));
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn a_request_line_is_refused_however_it_is_cut() {
    // What comes in pieces is looked at in pieces.
    let front = Front::start().await;
    let bytes = b"GET /fr ee HTTP/1.1\r\nHost: shop.test\r\n\r\n";
    for cut in [1, 5, 7, 8, 10, 19, 20, 21, 30, bytes.len() - 2, bytes.len() - 1] {
        let mut raw = front.connect().await;
        let (first, rest) = bytes.split_at(cut);
        raw.send(first).await;
        front.settle().await;
        raw.send(rest).await;
        match raw.receive(crate::LIMIT, false).await {
            Outcome::Answer(answer) => assert_eq!(answer.status, 400, "cut at {cut}"),
            Outcome::Closed(_) => {}
            Outcome::Silence(_) => panic!("cut at {cut}: neither answered nor closed"),
        }
        assert_eq!(front.shop.bytes().concat(), b"", "cut at {cut}");
    }
    front.forwards().await;
}

#[tokio::test]
async fn what_is_refused_is_answered() {
    // Not only closed: a client learns what to mend, and the request is counted as one.
    let front = Front::start().await;
    for bytes in [
        &b"GET /fr ee HTTP/1.1\r\nHost: shop.test\r\n\r\n"[..],
        b"GET /free HTTP/1.1\nHost: shop.test\n\n",
        b"GET /free?\xc3\xa9 HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        b"POST /free HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    ] {
        let answer = front.exchange(bytes).await.answer();
        assert_eq!(answer.status, 400, "{}", bytes.escape_ascii());
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{}",
            bytes.escape_ascii()
        );
        assert!(answer.text().contains("request_malformed"), "{}", answer.text());
    }
    front.forwards().await;
}

#[tokio::test]
async fn empty_lines_before_a_request_are_passed_over() {
    // RFC 9112 section 2.2: some clients send one after a body.
    let front = Front::start().await;
    for bytes in [
        &b"\r\nGET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"[..],
        b"\r\n\r\nGET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n",
    ] {
        assert_eq!(front.exchange(bytes).await.answer().text(), BODY);
    }
    let mut raw = front.connect().await;
    raw.send(b"POST /free HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!(raw.receive(crate::LIMIT, false).await.answer().text(), BODY);
    raw.send(b"\r\nGET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n").await;
    assert_eq!(raw.receive(crate::LIMIT, false).await.answer().text(), BODY);
    front
        .refuses(&[
            ("a bare LF", b"\nGET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("a bare CR", b"\rGET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("a space in the empty line", b" \r\nGET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
        ])
        .await;
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
            ("HTTP/1", b"GET /free HTTP/1\r\nHost: shop.test\r\n\r\n"),
            ("HTTP/01.1", b"GET /free HTTP/01.1\r\nHost: shop.test\r\n\r\n"),
            ("HTTP/1.1.1", b"GET /free HTTP/1.1.1\r\nHost: shop.test\r\n\r\n"),
            ("HTTP 1.1", b"GET /free HTTP 1.1\r\nHost: shop.test\r\n\r\n"),
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
