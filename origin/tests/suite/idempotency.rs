//! `Idempotency-Key`: missing 400, in flight 409, other payload 422, else the stored answer.

use serde_json::json;

use crate::common::{Shop, said};

const RESERVE: &str = "/products/runner/reservations";

#[tokio::test]
async fn every_post_needs_a_key() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let rsv = held["links"]["self"].as_str().unwrap();
    for (path, body) in [
        (RESERVE.to_owned(), json!({})),
        // Whatever else is wrong.
        (RESERVE.to_owned(), json!({ "quantity": 0 })),
        (format!("{rsv}/purchases"), json!({ "payment_method": "test_accepted" })),
        (format!("{rsv}/purchases"), json!({ "payment_method": "none", "email": "none" })),
        (format!("{rsv}/extension"), json!({})),
        (format!("{rsv}/cancel"), json!({})),
    ] {
        let request = shop
            .request(reqwest::Method::POST, &path)
            .header("ropeline-admission", shop.gate.token("ann"))
            .json(&body);
        let said = said(request).await;
        assert_eq!((said.status.as_u16(), said.code()), (400, "idempotency_key_missing"), "{path}");
    }
    assert_eq!(shop.stock().await, (0, 1, 0));
}

#[tokio::test]
async fn a_repeated_request_has_the_first_answer_also_after_a_restart() {
    let mut shop = Shop::open(1).await;
    let held = shop.reserve("ann", "k1").await;
    let paid = shop.pay("ann", "k2", &held.body, "test_accepted").await;
    let lost = shop.reserve("bob", "k1").await;
    assert_eq!((held.status.as_u16(), paid.status.as_u16(), lost.code()), (201, 201, "sold_out"));
    for restart in [false, true] {
        if restart {
            shop.reopen().await;
        }
        let again = shop.reserve("ann", "k1").await;
        assert_eq!((again.status, &again.text), (held.status, &held.text));
        assert_eq!(again.header("location"), held.header("location"));
        let again = shop.reserve("bob", "k1").await;
        assert_eq!((again.status, &again.text), (lost.status, &lost.text), "keys of two visitors never meet");
        let again = shop.pay("ann", "k2", &held.body, "4242424242424242").await;
        assert_eq!((again.status, &again.text), (paid.status, &paid.text), "the same card by its number");
        assert_eq!(again.header("ropeline-lease"), Some("end"));

        let other = said(shop.post("ann", "k1", RESERVE, &json!({ "quantity": 2 }))).await;
        assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency_key_reused"));
        let other = shop.pay("ann", "k2", &held.body, "test_declined").await;
        assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency_key_reused"));
        let other = shop.pay("ann", "k1", &held.body, "test_accepted").await;
        assert_eq!(other.code(), "idempotency_key_reused", "a key of another call");
    }
    assert_eq!(shop.stock().await, (0, 0, 1));
}

#[tokio::test]
async fn forms_carry_the_key_in_a_field_and_share_it_with_programs() {
    let shop = Shop::open(2).await;
    let form = said(shop.form("ann", RESERVE, "quantity=1&idempotency_key=k1")).await;
    assert_eq!(form.status, 303);
    let program = said(shop.post("ann", "\"k1\"", RESERVE, &json!({ "quantity": 1 }))).await;
    assert_eq!(program.status, 201);
    assert_eq!(form.header("location"), program.body["links"]["checkout"].as_str());
    assert_eq!(shop.stock().await, (1, 1, 0));
    let both = shop.form("bob", RESERVE, "idempotency_key=a").header("idempotency-key", "b");
    assert_eq!(said(both).await.status, 400);
}

#[tokio::test]
async fn requests_at_the_same_time_do_the_work_once() {
    let shop = Shop::open(10).await;
    let held = shop.held("ann").await;
    let path = held["links"]["purchases"].as_str().unwrap();
    let asked: Vec<_> = (0..20)
        .map(|_| {
            tokio::spawn(said(shop.post("ann", "k", path, &json!({ "payment_method": "test_accepted" }))))
        })
        .collect();
    let mut sold = 0;
    for said in asked {
        let said = said.await.unwrap();
        match said.status.as_u16() {
            201 => sold += 1,
            409 => {
                assert_eq!(said.code(), "request_in_flight");
                assert_eq!(said.header("retry-after"), Some("1"));
            }
            status => panic!("{status}: {}", said.text),
        }
    }
    assert!(sold > 0);
    let charged: i64 = sqlx::query_scalar("SELECT count(*) FROM payments")
        .fetch_one(&mut shop.payment_books().await)
        .await
        .unwrap();
    assert_eq!(charged, 1);
    assert_eq!(shop.stock().await, (9, 0, 1));
}

/// The process died after it had begun to pay and before it had answered.
#[tokio::test]
async fn a_key_whose_process_died_is_taken_over() {
    let mut shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let paid = shop.pay("ann", "k", &held, "test_accepted").await;
    sqlx::query("UPDATE idempotency_keys SET answer = NULL WHERE key = 'k'")
        .execute(&mut shop.books().await)
        .await
        .unwrap();
    shop.reopen().await;
    let again = shop.pay("ann", "k", &held, "test_accepted").await;
    assert_eq!((again.status, &again.body), (paid.status, &paid.body));
    assert_eq!(shop.stock().await, (0, 0, 1));
}

/// The answer is kept; how the visitor stands is not.
#[tokio::test]
async fn a_repeated_request_does_not_bring_back_a_lease_that_has_changed() {
    let shop = Shop::open(1).await;
    let held = shop.reserve("ann", "k").await;
    let rsv = held.body["links"]["self"].as_str().unwrap();
    said(shop.post("ann", "c", &format!("{rsv}/cancel"), &json!({}))).await;
    let again = shop.reserve("ann", "k").await;
    assert_eq!((again.status, &again.text), (held.status, &held.text));
    assert_eq!(again.header("ropeline-lease"), Some("open"));
    assert_eq!(again.header("ropeline-stock"), Some("1; held=0"));
}

/// "Try again soon" must be true of the same request, too.
#[tokio::test]
async fn a_refusal_that_passes_does_not_use_up_the_key() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    for _ in 0..2 {
        let none = shop.reserve("bob", "k").await;
        assert_eq!((none.code(), none.header("retry-after")), ("all_held", Some("5")));
    }
    let slow = shop.pay("ann", "p1", &held, "test_slow").await;
    let running = shop.pay("ann", "p2", &held, "test_accepted").await;
    assert_eq!((running.code(), running.header("retry-after")), ("payment_running", Some("1")));
    shop.let_holds_run_out().await;
    let had = shop.reserve("bob", "k").await;
    assert_eq!(had.status, 201, "the same key, and a unit that came back: {}", had.body);
    assert_eq!(shop.pay("ann", "p2", &held, "test_accepted").await.code(), "hold_over");
    assert_eq!(shop.pay("ann", "p1", &held, "test_slow").await.text, slow.text, "what was begun is kept");
    let again = shop.reserve("bob", "k").await;
    assert_eq!((again.status, again.text), (had.status, had.text));
}

/// draft-ietf-httpapi-idempotency-key-header, section 2.7, on every call that makes or ends something.
#[tokio::test]
async fn every_post_answers_as_the_draft_says_also_after_a_restart() {
    let mut shop = Shop::open_with(3, |raw| raw.hold_extension_seconds = 60).await;
    let held = shop.reserve("ann", "hold").await;
    let rsv = held.body["links"]["self"].as_str().unwrap().to_owned();
    let other = shop.held("bob").await;
    let other = other["links"]["self"].as_str().unwrap().to_owned();
    let card = json!({ "payment_method": "test_accepted" });
    let calls = [
        ("ann", RESERVE.to_owned(), json!({ "quantity": 3 }), json!({ "quantity": 2 }), 200),
        ("ann", format!("{rsv}/extension"), json!({}), json!({ "idempotency_key": "x" }), 200),
        ("ann", format!("{rsv}/purchases"), card, json!({ "payment_method": "test_slow" }), 201),
        ("bob", format!("{other}/cancel"), json!({}), json!({ "idempotency_key": "x" }), 204),
    ];
    let mut first = Vec::new();
    for (visitor, path, body, _, status) in &calls {
        let said = said(shop.post(visitor, &format!("\"{path}\""), path, body)).await;
        assert_eq!(said.status.as_u16(), *status, "{path}: {}", said.text);
        first.push(said);
    }
    shop.reopen().await;
    for ((visitor, path, body, wrong, _), first) in calls.iter().zip(&first) {
        let again = said(shop.post(visitor, path, path, body)).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text), "{path}");
        assert_eq!(again.header("location"), first.header("location"), "{path}");
        assert_eq!(again.header("content-type"), first.header("content-type"), "{path}");
        let request = shop.request(reqwest::Method::POST, path).json(body);
        let none = said(request.header("ropeline-admission", shop.gate.token(visitor))).await;
        assert_eq!((none.status.as_u16(), none.code()), (400, "idempotency_key_missing"), "{path}");
        assert_eq!(none.body["type"], "urn:ropeline:problem:idempotency_key_missing");
        // A key that differs between header and body is no key; one of another call or content is somebody else's.
        let wrong = said(shop.post(visitor, path, path, wrong)).await;
        assert!(matches!(wrong.status.as_u16(), 400 | 422), "{path}: {}", wrong.text);
        let moved = said(shop.post(visitor, path, "/products/none/reservations", &json!({}))).await;
        assert_eq!((moved.status.as_u16(), moved.code()), (422, "idempotency_key_reused"), "{path}");
    }
    assert_eq!(shop.stock().await, (2, 0, 1));
}
