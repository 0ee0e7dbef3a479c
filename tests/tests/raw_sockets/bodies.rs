//! Where a request's body ends, and what follows it: RFC 9112 sections 6, 7 and 11.2.

use ropeline_tests::raw::Outcome;
use ropeline_tests::shop::BODY;
use ropeline_tests::wait;

use crate::{Front, LIMIT};

/// A POST to the unprotected path with these header lines, and a body that is a request of its own.
fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST /free HTTP/1.1\r\nHost: shop.test\r\n{headers}\r\n{body}").into_bytes()
}

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: shop.test\r\n\r\n";

#[tokio::test]
async fn a_length_that_is_not_one_number_is_refused() {
    let front = Front::start().await;
    let cases = [
        ("two that differ", post("Content-Length: 5\r\nContent-Length: 0\r\n", "hello")),
        ("two that agree", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello")),
        ("a list", post("Content-Length: 5, 5\r\n", "hello")),
        ("a list that differs", post("Content-Length: 5, 0\r\n", "hello")),
        ("a sign", post("Content-Length: +5\r\n", "hello")),
        ("below zero", post("Content-Length: -5\r\n", "hello")),
        ("hexadecimal", post("Content-Length: 0x5\r\n", "hello")),
        ("a fraction", post("Content-Length: 5.0\r\n", "hello")),
        ("two numbers", post("Content-Length: 5 5\r\n", "hello")),
        ("empty", post("Content-Length:\r\n", "hello")),
        ("text", post("Content-Length: five\r\n", "hello")),
        ("beyond 64 bits", post("Content-Length: 18446744073709551621\r\n", "hello")),
        ("NUL behind it", post("Content-Length: 5\0\r\n", "hello")),
        ("a space before the colon", post("Content-Length : 5\r\n", "hello")),
    ];
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn a_length_beside_a_transfer_coding_is_refused() {
    // RFC 9112 section 6.1: "ought to be handled as an error".
    let front = Front::start().await;
    let chunked = "5\r\nhello\r\n0\r\n\r\n";
    let cases = [
        ("length first", post("Content-Length: 15\r\nTransfer-Encoding: chunked\r\n", chunked)),
        ("coding first", post("Transfer-Encoding: chunked\r\nContent-Length: 15\r\n", chunked)),
        ("CL.TE", post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", &format!("0\r\n\r\n{HIDDEN}"))),
        (
            "TE.CL",
            post(
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                &format!("2c\r\n{HIDDEN}\r\n0\r\n\r\n"),
            ),
        ),
    ];
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn a_transfer_coding_other_than_chunked_is_refused() {
    let front = Front::start().await;
    let body = format!("0\r\n\r\n{HIDDEN}");
    let cases = [
        ("unknown", post("Transfer-Encoding: xchunked\r\n", &body)),
        ("identity", post("Transfer-Encoding: identity\r\n", &body)),
        ("chunked is not last", post("Transfer-Encoding: chunked, identity\r\n", &body)),
        ("chunked twice", post("Transfer-Encoding: chunked, chunked\r\n", &body)),
        ("two lines", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", &body)),
        (
            "two lines, the other way",
            post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", &body),
        ),
        ("another coding before it", post("Transfer-Encoding: gzip, chunked\r\n", &body)),
        ("quoted", post("Transfer-Encoding: \"chunked\"\r\n", &body)),
        ("a vertical tab behind it", post("Transfer-Encoding: chunked\x0b\r\n", &body)),
        ("a space before the colon", post("Transfer-Encoding : chunked\r\n", &body)),
        ("empty", post("Transfer-Encoding:\r\n", &body)),
    ];
    let mut cases: Vec<_> = cases.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let old = b"POST /free HTTP/1.0\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    cases.push(("chunked in HTTP/1.0", old));
    front.refuses(&cases).await;
}

#[tokio::test]
async fn broken_chunks_never_make_a_whole_request() {
    let front = Front::start().await;
    let cases = [
        "zz\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5h\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "\r\n\r\n",
        ";a=b\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!!0\r\n\r\n",
        "5\r\nhelloworld\r\n0\r\n\r\n",
        "5\0\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n",
        "5\r\nhel",
        "5\r\nhello\r\n0\r\n",
        "5\r\nhello\r\n0\n\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\r\n\r",
    ];
    let cases = cases.map(|body| (body, post("Transfer-Encoding: chunked\r\n", body)));
    front.never_completes(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn broken_chunks_on_their_way_never_make_a_whole_request() {
    // The head and sound chunks go first, so that the request is being forwarded when the fault comes to light.
    let front = Front::start().await;
    for fault in ["\r\n", "5;\r\nhello\r\n", "zz\r\n", "5 \r\nhello\r\n", "0\r\nX-A\r\n\r\n", "0\r\n\n"] {
        let before = front.shop.bytes().concat().len();
        let mut raw = front.connect().await;
        raw.send(&post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n")).await;
        wait::until("the request to be on its way", || async {
            (front.shop.bytes().concat().len() > before).then_some(())
        })
        .await;
        raw.send(fault.as_bytes()).await;
        match raw.receive(LIMIT, false).await {
            Outcome::Answer(answer) => {
                assert_eq!(answer.status, 400, "{fault:?}");
                assert!(answer.text().contains("request_malformed"), "{fault:?}: {}", answer.text());
            }
            Outcome::Closed(bytes) => assert_eq!(bytes, b"", "{fault:?}"),
            Outcome::Silence(_) => panic!("{fault:?}: neither answered nor closed"),
        }
        assert_eq!(front.shop.requests(), [], "{fault:?}");
    }
    front.forwards().await;
}

#[tokio::test]
async fn junk_in_a_chunk_extension_is_refused() {
    // RFC 9112 section 7.1.1. A shop that takes extensions for something sees other chunks than a gateway that skips
    // whatever stands there.
    let front = Front::start().await;
    let lines = [
        "5;",
        "5; ",
        "5;;a",
        "5;=b",
        "5;a=",
        "5;a= ",
        "5;a=b ",
        "5;a ",
        "5;a b",
        "5;a=b c",
        "5;a=b=c",
        "5;a,b",
        "5;a=\"b",
        "5;a=\"b\"c",
        "5;a=\"b\\",
        "5;a=\"\nb\"",
        "5;a=\"\rb\"",
        "5;a=\"\r\nb\"",
        "5;a=\"\0\"",
        "5;a=\"\u{7f}\"",
        "5;\n",
        "5;a\n",
        "5;a=b\n",
        "5;\0",
        "5;\u{e9}",
        "5;<a>",
        "5;5\r5",
        "5,a=b",
        "5=b",
    ];
    let cases = lines
        .map(|line| (line, post("Transfer-Encoding: chunked\r\n", &format!("{line}\r\nhello\r\n0\r\n\r\n"))));
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
    let last = lines.map(|line| line.replacen('5', "0", 1));
    let cases = last.each_ref().map(|line| {
        let body = format!("5\r\nhello\r\n{line}\r\n\r\n");
        (line.as_str(), post("Transfer-Encoding: chunked\r\n", &body))
    });
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(100_000));
    let many = format!("5{}\r\nhello\r\n0\r\n\r\n", ";a".repeat(50_000));
    let (long, many) =
        (post("Transfer-Encoding: chunked\r\n", &long), post("Transfer-Encoding: chunked\r\n", &many));
    front.never_completes(&[("a long extension", &long), ("many extensions", &many)]).await;
}

#[tokio::test]
async fn chunks_are_framed_anew() {
    // RFC 9112 section 7.1.1: extensions mean something to one hop only.
    for (body, forwarded) in [
        ("5;a=b\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("5;a;b=c;d=\"e;\\\"f\"\r\nhello\r\n0;g\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("5 ; a = \"\tb\"\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("0005\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("A\r\n0123456789\r\n000\r\n\r\n", "A\r\n0123456789\r\n0\r\n\r\n"),
        ("0\r\n\r\n", "0\r\n\r\n"),
    ] {
        let front = Front::start().await;
        let answer = front.exchange(&post("Transfer-Encoding: chunked\r\n", body)).await.answer();
        assert_eq!(answer.text(), BODY, "{body:?}");
        let requests = front.shop.requests();
        assert_eq!(requests.len(), 1, "{body:?}");
        assert_eq!(String::from_utf8_lossy(&requests[0].body), forwarded, "{body:?}");
    }
}

#[tokio::test]
async fn malformed_trailers_are_refused() {
    // RFC 9112 section 7.1.2. None of them goes to the shop; but where they end must be beyond doubt.
    let front = Front::start().await;
    let trailers = [
        "X-A\r\n",
        ": b\r\n",
        "X-A : b\r\n",
        " X-A: b\r\n",
        "X-A: b\r\n c\r\n",
        "X A: b\r\n",
        "X-\u{e9}: b\r\n",
        "X-A: b\0\r\n",
        "X-A: b\u{7f}\r\n",
        "X-A: b\n",
        "X-A: b\rc\r\n",
        "X-A: b\r\r\n",
        "GET /hidden HTTP/1.1\r\n",
    ];
    let cases = trailers.map(|lines| {
        (lines, post("Transfer-Encoding: chunked\r\n", &format!("5\r\nhello\r\n0\r\n{lines}\r\n")))
    });
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
    let many = format!("5\r\nhello\r\n0\r\n{}\r\n", "X-A: b\r\n".repeat(20_000));
    front.never_completes(&[("too many", &post("Transfer-Encoding: chunked\r\n", &many))]).await;
}

#[tokio::test]
async fn bodies_beyond_the_limit_never_make_a_whole_request() {
    let front = Front::with(|settings| settings.set("upstream", "max_request_body", "\"64KiB\"")).await;
    let body = "a".repeat(70_000);
    let length = post("Content-Length: 70000\r\n", &body);
    front.refuses(&[("by its length", &length)]).await;
    let chunked = post("Transfer-Encoding: chunked\r\n", &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    let claimed = post("Content-Length: 99999999999\r\n", "hello");
    front.never_completes(&[("in chunks", &chunked), ("a huge length, little of it sent", &claimed)]).await;
}

#[tokio::test]
async fn a_body_cut_short_never_makes_a_whole_request() {
    let front = Front::start().await;
    for bytes in
        [post("Content-Length: 10\r\n", "hello"), post("Transfer-Encoding: chunked\r\n", "a\r\nhello")]
    {
        let mut raw = front.connect().await;
        raw.send(&bytes).await;
        raw.finish().await;
        let outcome = raw.receive(LIMIT, false).await;
        assert!(!matches!(outcome, Outcome::Silence(_)), "neither answered nor closed");
        assert_eq!(front.shop.requests(), []);
    }
    front.forwards().await;
}

#[tokio::test]
async fn a_body_for_the_gateway_itself_is_not_read_as_the_next_request() {
    // The gateway answers these itself; what it leaves unread must not become a request on the same connection.
    let front = Front::start().await;
    let length = HIDDEN.len();
    for (path, headers, body) in [
        ("/sale", format!("Content-Length: {length}\r\n"), HIDDEN.to_owned()),
        (
            "/sale",
            "Transfer-Encoding: chunked\r\n".to_owned(),
            format!("{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n"),
        ),
        ("/api/v1/queue/join", format!("Content-Length: {length}\r\n"), HIDDEN.to_owned()),
        ("/api/v1/queue/nothing-here", format!("Content-Length: {length}\r\n"), HIDDEN.to_owned()),
        ("/%00", format!("Content-Length: {length}\r\n"), HIDDEN.to_owned()),
    ] {
        for method in ["POST", "GET", "HEAD"] {
            let mut raw = front.connect().await;
            raw.send(
                format!("{method} {path} HTTP/1.1\r\nHost: shop.test\r\n{headers}\r\n{body}").as_bytes(),
            )
            .await;
            let answer = raw.receive(LIMIT, method == "HEAD").await.answer();
            assert_ne!(answer.text(), BODY, "{method} {path}");
            // A second, faultless request: answered in its turn, or the connection is closed; never a third answer.
            raw.send(b"GET /second HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n").await;
            match raw.receive(LIMIT, false).await {
                Outcome::Answer(answer) => assert_eq!(answer.text(), BODY, "{method} {path}"),
                Outcome::Closed(rest) => assert_eq!(rest, b"", "{method} {path}"),
                Outcome::Silence(_) => panic!("{method} {path}: neither answered nor closed"),
            }
            let lines: Vec<_> = front.shop.requests().into_iter().map(|request| request.line).collect();
            assert!(!lines.iter().any(|line| line.contains("hidden")), "{method} {path}: {lines:?}");
        }
    }
    front.forwards().await;
}

#[tokio::test]
async fn pipelining_does_not_lead_past_the_room() {
    let front = Front::start().await;
    let mut raw = front.connect().await;
    raw.send(
        b"GET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n\
          GET /sale HTTP/1.1\r\nHost: shop.test\r\nAccept: application/json\r\n\r\n\
          GET /free HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert_eq!(raw.receive(LIMIT, false).await.answer().text(), BODY);
    // The gateway may close rather than take more of a pipeline; what it answers, it answers in order.
    if let Outcome::Answer(answer) = raw.receive(LIMIT, false).await {
        assert_eq!(answer.status, 401);
        if let Outcome::Answer(answer) = raw.receive(LIMIT, false).await {
            assert_eq!(answer.text(), BODY);
        }
    }
    assert!(front.shop.requests().iter().all(|request| request.line == "GET /free HTTP/1.1"));
    front.forwards().await;
}

#[tokio::test]
async fn trailers_bring_no_headers_to_the_shop() {
    let front = Front::start().await;
    let body = "5\r\nhello\r\n0\r\nRopeline-Visitor: forged\r\nHost: other.test\r\nContent-Length: 3\r\n\r\n";
    front.exchange(&post("Transfer-Encoding: chunked\r\n", body)).await;
    front.forwards().await;
    let received = String::from_utf8_lossy(&front.shop.bytes().concat()).to_lowercase();
    for word in ["forged", "other.test", "content-length: 3"] {
        assert!(!received.contains(word), "{word} reached the shop:\n{received}");
    }
}
