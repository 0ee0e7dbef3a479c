//! Header lines: RFC 9112 section 5, RFC 9110 sections 5 and 7.

use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::raw::Outcome;
use ropeline_tests::shop::{BODY, Shop};

use crate::Front;

#[tokio::test]
async fn malformed_header_lines_are_refused() {
    let front = Front::start().await;
    let lines: [(&str, &[u8]); 18] = [
        ("a space before the colon", b"X-A : b"),
        ("a tab before the colon", b"X-A\t: b"),
        ("a space in the name", b"X A: b"),
        ("no name", b": b"),
        ("no name and a space", b" : b"),
        ("no colon", b"X-A"),
        ("a semicolon in place of the colon", b"X-A; b"),
        ("a vertical tab in the value", b"X-A: b\x0bc"),
        ("an escape sequence in the value", b"X-A: \x1b[31m"),
        ("NUL in the name", b"X\0A: b"),
        ("NUL in the value", b"X-A: b\0c"),
        ("a control character in the value", b"X-A: b\x01c"),
        ("DEL in the value", b"X-A: b\x7fc"),
        ("a control character in the name", b"X\x1fA: b"),
        ("brackets in the name", b"X[A]: b"),
        ("a name outside ASCII", b"X-\xc3\xa9: b"),
        ("a quoted name", b"\"X-A\": b"),
        ("a slash in the name", b"X/A: b"),
    ];
    let cases = lines.map(|(name, line)| {
        (name, [b"GET /free HTTP/1.1\r\nHost: shop.test\r\n", line, b"\r\n\r\n"].concat())
    });
    front.refuses(&cases.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()))).await;
}

#[tokio::test]
async fn a_request_without_exactly_one_valid_host_is_refused() {
    // RFC 9112 section 3.2.
    let front = Front::start().await;
    front
        .refuses(&[
            ("none", b"GET /free HTTP/1.1\r\nX-A: b\r\n\r\n"),
            ("two that differ", b"GET /free HTTP/1.1\r\nHost: shop.test\r\nHost: other.test\r\n\r\n"),
            ("two that agree", b"GET /free HTTP/1.1\r\nHost: shop.test\r\nHost: shop.test\r\n\r\n"),
            ("empty", b"GET /free HTTP/1.1\r\nHost:\r\n\r\n"),
            ("a list", b"GET /free HTTP/1.1\r\nHost: shop.test, other.test\r\n\r\n"),
            ("a space", b"GET /free HTTP/1.1\r\nHost: shop test\r\n\r\n"),
            ("a path", b"GET /free HTTP/1.1\r\nHost: shop.test/sale\r\n\r\n"),
            ("a user", b"GET /free HTTP/1.1\r\nHost: user@shop.test\r\n\r\n"),
            ("a bad port", b"GET /free HTTP/1.1\r\nHost: shop.test:80x\r\n\r\n"),
            ("a port beyond 65,535", b"GET /free HTTP/1.1\r\nHost: shop.test:65616\r\n\r\n"),
            ("bytes outside ASCII", b"GET /free HTTP/1.1\r\nHost: shop\xff.test\r\n\r\n"),
        ])
        .await;
}

#[tokio::test]
async fn upgrades_are_never_made() {
    let front = Front::start().await;
    let requests: [&[u8]; 3] = [
        b"GET /free HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"GET /free HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
          HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        b"GET /sale HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ];
    for bytes in requests {
        if let Outcome::Answer(answer) = front.exchange(bytes).await {
            assert_ne!(answer.status, 101);
        }
    }
    for request in front.shop.requests() {
        assert_eq!(request.header("upgrade"), [""; 0], "{request:?}");
        assert_eq!(request.header("http2-settings"), [""; 0], "{request:?}");
    }
    front
        .refuses(&[
            ("CONNECT", b"CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n"),
            ("CONNECT to a path", b"CONNECT /free HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
            ("TRACE", b"TRACE /free HTTP/1.1\r\nHost: shop.test\r\nCookie: secret=1\r\n\r\n"),
        ])
        .await;
}

#[tokio::test]
async fn a_trace_is_refused_in_any_case_and_wherever_it_goes() {
    let front = Front::start().await;
    for line in ["TRACE /free", "Trace /sale", "TRACE /api/v1/queue/status"] {
        let request = format!("{line} HTTP/1.1\r\nHost: shop.test\r\n\r\n");
        let answer = front.exchange(request.as_bytes()).await.answer();
        assert_eq!(answer.status, 405, "{line}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"), "{line}");
        assert!(answer.text().contains("method_refused"), "{line}: {}", answer.text());
    }
    assert_eq!(front.shop.requests(), []);
}

#[tokio::test]
async fn forged_headers_do_not_reach_the_shop() {
    let front = Front::start().await;
    let answer = front
        .exchange(
            b"GET /free HTTP/1.1\r\nHost: shop.test\r\nRopeline-Visitor: forged\r\nROPELINE-SALE: forged\r\n\
              ropeline-admission: forged\r\nRopeline-Anything: forged\r\nX-Forwarded-For: 203.0.113.66\r\n\
              X-Forwarded-Host: forged.test\r\nX-Forwarded-Proto: forged\r\nForwarded: for=203.0.113.66\r\n\
              X-Real-IP: 203.0.113.66\r\nTrue_Client_IP: 203.0.113.66\r\nX-HTTP-Method: forged\r\n\
              X-Forwarded-User: forged\r\nX-Host: forged.test\r\nX-Kept: kept\r\n\r\n",
        )
        .await
        .answer();
    assert_eq!(answer.text(), BODY);
    let request = front.shop.requests().remove(0);
    assert_eq!(request.header("x-kept"), ["kept"]);
    for (name, value) in &request.headers {
        assert!(!value.contains("forged") && !value.contains("203.0.113.66"), "{name}: {value}");
    }
}

#[tokio::test]
async fn headers_of_one_hop_end_at_the_gateway() {
    // RFC 9110 section 7.6.1: what Connection names goes no further; what the gateway sets cannot be named away.
    let front = Front::start().await;
    let answer = front
        .exchange(
            b"GET /free HTTP/1.1\r\nHost: shop.test\r\nConnection: X-Hop\r\n\
              X-Hop: forged\r\nKeep-Alive: timeout=99\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n\r\n",
        )
        .await
        .answer();
    assert_eq!(answer.text(), BODY);
    let request = front.shop.requests().remove(0);
    assert_eq!(request.header("host"), ["shop.test"]);
    assert_eq!(request.header("x-forwarded-for"), ["127.0.0.1"]);
    for name in ["x-hop", "keep-alive", "proxy-connection"] {
        assert_eq!(request.header(name), [""; 0], "{name}");
    }
    front
        .refuses(&[
            ("Host named away", b"GET /free HTTP/1.1\r\nHost: shop.test\r\nConnection: Host\r\n\r\n"),
            (
                "the client's address named away",
                b"GET /free HTTP/1.1\r\nHost: shop.test\r\nConnection: X-Forwarded-For\r\n\r\n",
            ),
        ])
        .await;
}

#[tokio::test]
async fn a_host_that_a_trusted_proxy_names_is_the_one_decided_upon_and_asked_for() {
    let shop = Shop::open().await;
    let settings = Settings::new(shop.address()).set("listen", "trusted_proxies", r#"["127.0.0.1"]"#).set(
        "listen",
        "trust_forwarded_host",
        "true",
    );
    let sale = Sale::new("drop", &["/sale"]).set("hosts", r#"["shop.test"]"#);
    let front = Front { gateway: Gateway::start(settings, &[sale]).await, shop };
    let asked = |path: &str, forwarded: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: gateway.test\r\n{forwarded}\r\n").into_bytes()
    };
    let named = asked("/sale", "X-Forwarded-Host: SHOP.test\r\n");
    front.does_not_forward(&[("a protected path of the host named", named.as_slice())]).await;
    let doubtful = asked("/free", "X-Forwarded-Host: a.test, shop.test\r\n");
    let twice = asked("/free", "X-Forwarded-Host: a.test\r\nX-Forwarded-Host: shop.test\r\n");
    front.refuses(&[("a list", doubtful.as_slice()), ("two lines", twice.as_slice())]).await;

    let answer = front.exchange(&asked("/sale", "X-Forwarded-Host: other.test\r\n")).await.answer();
    assert_eq!((answer.status, answer.text().as_str()), (200, BODY));
    let seen = String::from_utf8_lossy(&front.shop.bytes().concat()).to_lowercase();
    assert!(seen.contains("\r\nhost: other.test\r\n") && !seen.contains("gateway.test"), "{seen}");
}
