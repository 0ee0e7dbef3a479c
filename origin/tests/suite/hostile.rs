//! Requests that no well-meant client sends, byte by byte over a socket.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{SECRET, Shop, said, unix_seconds};

impl Shop {
    async fn socket(&self) -> TcpStream {
        TcpStream::connect(self.base.trim_start_matches("http://")).await.unwrap()
    }

    /// What is answered to these bytes, up to the end of the connection.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut client = self.socket().await;
        client.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), client.read_to_end(&mut answer));
        read.await.expect("the connection is still open").unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// Head of a request to reserve, up to what is to be added.
    fn head(&self, visitor: &str) -> String {
        let token = self.gate.token(visitor);
        format!(
            "POST /products/runner/reservations HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\
             Ropeline-Admission: {token}\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"
        )
    }

    /// What is answered to a request to reserve with these headers and this body.
    async fn reserve_with(&self, visitor: &str, headers: &[u8], body: &str) -> String {
        let mut request = self.head(visitor).into_bytes();
        request.extend_from_slice(headers);
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        self.raw(&request).await
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn an_array_is_not_taken_for_the_object_whose_values_it_has() {
    let shop = Shop::open(3).await;
    let answer = shop.reserve_with("ann", b"", "[2, null, null]").await;
    assert!(status(&answer) == "400" && answer.contains("an object is needed"), "{answer}");
    let held = shop.held("ann").await;
    let pay = held["links"]["purchases"].as_str().unwrap();
    let paid = said(shop.post("ann", "p", pay, &json!(["test_accepted", null, null]))).await;
    assert_eq!((paid.status.as_u16(), paid.code()), (400, "body_invalid"), "{}", paid.text);
    assert_eq!(shop.stock().await, (2, 1, 0));
}

#[tokio::test]
async fn a_body_in_another_coding_is_refused_and_not_read_as_it_stands() {
    let shop = Shop::open(3).await;
    for headers in ["Content-Encoding: gzip\r\n", "Content-Encoding: identity\r\nContent-Encoding: br\r\n"] {
        let answer = shop.reserve_with("ann", headers.as_bytes(), "{}").await;
        assert!(status(&answer) == "415" && answer.contains("content_coding_unknown"), "{answer}");
    }
    assert_eq!(shop.stock().await, (3, 0, 0));
    assert_eq!(status(&shop.reserve_with("ann", b"Content-Encoding: identity\r\n", "{}").await), "201");
}

/// Whence a request comes is said once, in words that are known, or it comes from elsewhere.
#[tokio::test]
async fn a_request_of_another_site_does_not_pass_by_saying_so_oddly() {
    let shop = Shop::open(9).await;
    let own: &[&[u8]] = &[
        b"Origin: https://shop.example\r\n",
        b"Origin: http://SHOP.example\r\n",
        b"Sec-Fetch-Site: same-origin\r\nOrigin: https://elsewhere.example\r\n",
        b"Sec-Fetch-Site: none\r\n",
    ];
    for (index, headers) in own.iter().enumerate() {
        let answer = shop.reserve_with(&format!("own-{index}"), headers, "{}").await;
        assert_eq!(status(&answer), "201", "{answer}");
    }
    let foreign: &[&[u8]] = &[
        b"Origin: https://elsewhere.example\r\n",
        b"Origin: null\r\n",
        b"Origin: https://shop.example\r\nOrigin: https://elsewhere.example\r\n",
        b"Origin: https://\xff\r\n",
        b"Sec-Fetch-Site: cross-site\r\n",
        b"Sec-Fetch-Site: CROSS-SITE\r\n",
        b"Sec-Fetch-Site: \xff\r\n",
        b"Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n",
    ];
    for headers in foreign {
        let answer = shop.reserve_with("eve", headers, "{}").await;
        assert!(status(&answer) == "403" && answer.contains("cross_site"), "{headers:?}: {answer}");
    }
    assert_eq!(shop.stock().await, (5, 4, 0));
}

#[tokio::test]
async fn what_is_the_operator_s_is_hidden_from_whatever_came_through_a_proxy() {
    let shop = Shop::open(1).await;
    for path in ["/audit", "/metrics", "/healthz"] {
        let ask = |more: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n");
        assert_eq!(status(&shop.raw(ask("").as_bytes()).await), "200");
        for proxy in ["Via: 1.1 cache", "X-Real-IP: 192.0.2.1", "X-Forwarded-For:", "Forwarded: for=_a"] {
            let answer = shop.raw(ask(&format!("{proxy}\r\n")).as_bytes()).await;
            assert_eq!(status(&answer), "404", "{path} with {proxy}");
        }
    }
}

/// What a visitor wrote is kept with the refusal for days: not so much of it as fits into a request.
#[tokio::test]
async fn a_label_that_no_unit_can_have_is_refused_without_being_kept() {
    let shop = Shop::open_with(3, |raw| raw.products[0].kind = ropeline_origin::config::RawKind::Units).await;
    for label in ["x".repeat(41), "x".repeat(15_000)] {
        let body = json!({ "units": [label] });
        let refused = said(shop.post("ann", "k", "/products/runner/reservations", &body)).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "unit_unknown"));
        assert!(refused.text.len() < 500, "{}", refused.text);
    }
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotency_keys")
        .fetch_one(&mut shop.books().await)
        .await
        .unwrap();
    assert_eq!(kept, 0);
}

/// Else a single visitor could have the gateway let in nobody any more.
#[tokio::test]
async fn bodies_that_do_not_come_make_the_shop_no_busier() {
    let shop = Shop::open_with(3, |raw| raw.limits.requests_at_once = 10).await;
    let mut slow = Vec::new();
    for _ in 0..30 {
        let mut client = shop.socket().await;
        let head = format!("{}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", shop.head("eve"));
        client.write_all(head.as_bytes()).await.unwrap();
        // The body is being waited for when it is asked for.
        let mut answer = [0; 25];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
        slow.push(client);
    }
    let seen = said(shop.get("ann", "/products/runner")).await;
    assert_eq!(seen.header("ropeline-load"), Some("10"), "one request of ten is worked on");
    drop(slow);
}

#[tokio::test]
async fn a_confirmation_is_promised_only_to_who_can_be_written_to() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let path = held["links"]["purchases"].as_str().unwrap();
    for (index, email) in [
        "ann",
        "@host.example",
        "ann@",
        "a..b@host.example",
        ".a@host.example",
        "a@-host",
        "a@host..example",
        "a@host.example,b@host.example",
        "a@host.example\r\nBcc: b@host.example",
        "a b@host.example",
        "a@host.example>",
        &format!("{}@host.example", "a".repeat(65)),
        &format!("a@{}.example", "a".repeat(64)),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({ "payment_method": "test_accepted", "email": email });
        let refused = said(shop.post("ann", &format!("k{index}"), path, &body)).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "email_invalid"), "{email}");
    }
    let body = json!({ "payment_method": "test_accepted", "email": "ann.o'neill+x@münchen.example" });
    assert_eq!(said(shop.post("ann", "good", path, &body)).await.status, 201);
}

/// A webhook signed as the test provider signs.
async fn webhook(shop: &Shop, body: &serde_json::Value) -> u16 {
    use hmac::{Hmac, KeyInit, Mac};
    let (raw, now) = (body.to_string(), unix_seconds());
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{now}.{raw}").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let request = shop
        .request(reqwest::Method::POST, "/webhooks/payments")
        .header("payment-signature", format!("t={now},v1={hex}"))
        .body(raw);
    said(request).await.status.as_u16()
}

/// PostgreSQL keeps no NUL: an event with one would come again and again, and a reason with one would stop its purchase.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_with_characters_that_cannot_be_kept_are_refused_or_mended() {
    let server = ropeline_test_postgres::Postgres::start();
    let url = server.create("shop");
    let mut probe = Shop::open(1).await;
    probe.close().await;
    crate::postgres::on(&mut probe.raw, &url);
    ropeline_origin::operator::migrate(&probe.raw.clone().check().unwrap()).await.unwrap();
    let shop = Shop::open_with(3, |raw| crate::postgres::on(raw, &url)).await;
    let held = shop.held("ann").await;
    let bought = shop.pay("ann", "p", &held, "test_slow").await;
    let id = bought.body["id"].as_str().unwrap();
    let event = |id: &str, purchase: &str, reason: &str| json!({ "id": id, "type": "payment.declined", "data": { "object": { "purchase": purchase, "reason": reason } } });
    assert_eq!(webhook(&shop, &event("evt_\0", id, "No.")).await, 400);
    assert_eq!(webhook(&shop, &event(&"e".repeat(256), id, "No.")).await, 400);
    assert_eq!(webhook(&shop, &event("evt_1", "pur_\0", "No.")).await, 400);
    assert_eq!(webhook(&shop, &event("evt_1", id, &format!("N\0o.{}", "!".repeat(9_000)))).await, 200);
    let path = bought.header("location").unwrap();
    let seen = shop.settled("ann", path, &["declined"]).await;
    let reason = seen.body["reason"].as_str().unwrap();
    assert!(reason.starts_with("N o.!") && reason.len() == 500, "{reason}");
}
