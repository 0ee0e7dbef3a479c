//! Checkout against a payment service that behaves, and one that does not.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::common::{SECRET, Said, Shop, said, unix_seconds};

impl Shop {
    /// The status of every payment in the payment service's own books.
    async fn payments(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT status FROM payments ORDER BY created_at, rowid")
            .fetch_all(&mut self.payment_books().await)
            .await
            .unwrap()
    }

    async fn webhook(&self, body: &Value, time: u64, secret: &str) -> Said {
        let body = body.to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{time}.{body}").as_bytes());
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let request = self
            .request(reqwest::Method::POST, "/webhooks/payments")
            .header("payment-signature", format!("t={time},v1={hex}"))
            .body(body);
        said(request).await
    }
}

fn event(id: &str, kind: &str, purchase: &Value) -> Value {
    json!({ "id": id, "type": kind, "created": 1, "data": { "object": { "purchase": purchase["id"], "status": "x" } } })
}

#[tokio::test]
async fn a_declined_card_leaves_the_hold_for_another() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let declined = shop.pay("ann", "k1", &held, "4000 0000 0000 0002").await;
    assert_eq!((declined.status.as_u16(), declined.code()), (402, "payment_declined"));
    assert!(declined.body["detail"].as_str().unwrap().contains("Nothing was charged"));
    assert_eq!(declined.header("ropeline-lease"), Some("hold"));
    assert_eq!(shop.stock().await, (0, 1, 0));
    let paid = shop.pay("ann", "k2", &held, "test_accepted").await;
    assert_eq!(paid.status, 201);
    assert_eq!(shop.payments().await, ["declined", "captured"]);
    assert_eq!(shop.stock().await, (0, 0, 1));
}

#[tokio::test]
async fn a_slow_bank_is_waited_for() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k1", &held, "test_slow").await;
    assert_eq!((slow.status.as_u16(), &slow.body["state"]), (202, &json!("authorising")));
    assert_eq!((slow.header("ropeline-lease"), slow.header("retry-after")), (Some("hold"), Some("1")));
    let second = shop.pay("ann", "k2", &held, "test_accepted").await;
    assert_eq!((second.status.as_u16(), second.code()), (409, "payment_running"));
    shop.let_the_bank_decide().await;
    let sold = shop.settled("ann", slow.header("location").unwrap(), &["sold"]).await;
    assert_eq!(sold.header("ropeline-lease"), Some("end"));
    assert_eq!(
        sold.header("ropeline-stock"),
        Some("0; held=0"),
        "nobody else would tell the queue that it is over"
    );
    assert_eq!(shop.payments().await, ["captured"]);
    assert_eq!(shop.stock().await, (0, 0, 1));
}

#[tokio::test]
async fn lost_replies_and_lost_webhooks_are_made_up_for() {
    let shop = Shop::open(2).await;
    for (visitor, card) in [("ann", "test_lost_reply"), ("bob", "test_silent")] {
        let held = shop.held(visitor).await;
        let paid = shop.pay(visitor, "k", &held, card).await;
        // Sold already where somebody else was quicker to ask than this call to answer.
        assert!(matches!(paid.status.as_u16(), 201 | 202), "{}", paid.body);
        shop.settled(visitor, paid.header("location").unwrap(), &["sold"]).await;
    }
    assert_eq!(shop.payments().await, ["captured", "captured"]);
    assert_eq!(shop.stock().await, (0, 0, 2));
}

#[tokio::test]
async fn a_bank_that_goes_back_on_its_word_costs_nobody_anything() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let refused = shop.pay("ann", "k", &held, "test_capture_refused").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (402, "payment_declined"), "{}", refused.body);
    assert_eq!(shop.payments().await, ["voided"]);
    assert_eq!(shop.stock().await, (0, 1, 0));
    assert_eq!(shop.pay("ann", "k2", &held, "test_accepted").await.status, 201);
}

/// The payment is confirmed when the hold is over and the unit is somebody else's.
#[tokio::test]
async fn a_late_authorisation_is_voided_and_no_money_moves() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k", &held, "test_slow").await;
    shop.let_holds_run_out().await;
    let bob = shop.reserve("bob", "k").await;
    assert_eq!(bob.status, 201, "{}", bob.body);
    shop.let_the_bank_decide().await;
    let path = slow.header("location").unwrap();
    let voided = shop.settled("ann", path, &["voided"]).await;
    assert_eq!(voided.body["reservation"]["state"], "expired");
    assert_eq!(voided.header("ropeline-lease"), Some("open"), "the lease still counts a hold that is over");
    assert_eq!(shop.payments().await, ["voided"]);
    assert_eq!(shop.stock().await, (0, 1, 0), "the unit is bob's");
    assert_eq!(shop.pay("bob", "k2", &bob.body, "test_accepted").await.status, 201);
    let page = said(shop.get("ann", path).header("accept", "text/html")).await;
    assert!(page.text.contains("Too late, and nothing was charged"), "{}", page.text);
}

/// The reconciler finds a payment that nobody told of, for a hold that is over, and shuts it: nobody has refused anything.
#[tokio::test]
async fn a_payment_that_is_shut_because_its_hold_is_over_is_not_called_refused() {
    for (given_back, told) in
        [(false, "Too late, and nothing was charged"), (true, "You gave it back, and nothing was charged")]
    {
        let shop = Shop::open(1).await;
        let held = shop.held("ann").await;
        let slow = shop.pay("ann", "k", &held, "test_slow").await;
        if given_back {
            let cancel = format!("{}/cancel", held["links"]["self"].as_str().unwrap());
            assert_eq!(said(shop.post("ann", "c", &cancel, &json!({}))).await.status, 204);
        } else {
            shop.let_holds_run_out().await;
        }
        shop.let_the_bank_decide_unheard().await;
        let path = slow.header("location").unwrap();
        let voided = shop.settled("ann", path, &["voided"]).await;
        assert_eq!(voided.body["reason"], Value::Null, "{}", voided.text);
        assert_eq!((shop.payments().await, shop.stock().await), (vec!["voided".to_owned()], (1, 0, 0)));
        let page = said(shop.get("ann", path).header("accept", "text/html")).await;
        assert!(page.text.contains(told), "{}", page.text);
    }
}

#[tokio::test]
async fn money_that_moved_too_late_comes_back_once() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k", &held, "test_at_once").await;
    shop.let_holds_run_out().await;
    shop.held("bob").await;
    shop.let_the_bank_decide().await;
    shop.settled("ann", slow.header("location").unwrap(), &["refunded"]).await;
    assert_eq!(shop.payments().await, ["refunded"]);
    assert_eq!(shop.stock().await, (0, 1, 0));
}

/// Given up with a reason, and captured after all: the reason is kept, and must not be taken for the outcome.
#[tokio::test]
async fn a_payment_that_was_given_up_and_then_captured_is_not_called_free() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k", &held, "test_slow").await;
    let now = unix_seconds();
    assert_eq!(shop.webhook(&event("evt_1", "payment.declined", &slow.body), now, SECRET).await.status, 200);
    assert_eq!(shop.webhook(&event("evt_2", "payment.captured", &slow.body), now, SECRET).await.status, 200);
    let path = slow.header("location").unwrap();
    let refunding = shop.settled("ann", path, &["refunding", "refunded"]).await;
    assert!(refunding.body["reason"].is_string(), "{}", refunding.body);
    for path in [path, held["links"]["checkout"].as_str().unwrap()] {
        let page = said(shop.get("ann", path).header("accept", "text/html")).await;
        assert_eq!(page.status, 200);
        assert!(page.text.contains("given back in full"), "{}", page.text);
        assert!(!page.text.contains("Nothing was charged"), "{}", page.text);
    }
}

#[tokio::test]
async fn money_that_moves_at_once_buys_the_unit_that_is_held() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k", &held, "test_at_once").await;
    shop.let_the_bank_decide().await;
    shop.settled("ann", slow.header("location").unwrap(), &["sold"]).await;
    assert_eq!((shop.payments().await, shop.stock().await), (vec!["captured".to_owned()], (0, 0, 1)));
}

#[tokio::test]
async fn giving_back_while_the_bank_decides_is_possible_and_free() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k", &held, "test_slow").await;
    let cancel = format!("{}/cancel", held["links"]["self"].as_str().unwrap());
    assert_eq!(said(shop.post("ann", "c", &cancel, &json!({}))).await.status, 204);
    assert_eq!(shop.stock().await, (1, 0, 0));
    shop.let_the_bank_decide().await;
    shop.settled("ann", slow.header("location").unwrap(), &["voided"]).await;
    assert_eq!(shop.payments().await, ["voided"]);
}

#[tokio::test]
async fn a_payment_under_way_is_taken_up_after_a_restart() {
    let mut shop = Shop::open(2).await;
    let (ann, bob) = (shop.held("ann").await, shop.held("bob").await);
    let slow = shop.pay("ann", "k", &ann, "test_slow").await;
    let silent = shop.pay("bob", "k", &bob, "test_silent").await;
    shop.reopen().await;
    shop.let_the_bank_decide().await;
    shop.settled("ann", slow.header("location").unwrap(), &["sold"]).await;
    shop.settled("bob", silent.header("location").unwrap(), &["sold"]).await;
    assert_eq!(shop.payments().await, ["captured", "captured"]);
    assert_eq!(shop.stock().await, (0, 0, 2));
}

#[tokio::test]
async fn webhooks_are_believed_by_signature_and_time_alone() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k", &held, "test_at_once").await;
    let captured = event("evt_1", "payment.captured", &slow.body);
    // To the second it counts in a test without a network: here time goes by on the way.
    for (off, secret) in [(0, "whsec_forged_forged"), (-400, SECRET), (400, SECRET)] {
        let time = unix_seconds().saturating_add_signed(off);
        let refused = shop.webhook(&captured, time, secret).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "webhook_signature"), "{}", refused.text);
    }
    let unsigned = shop.request(reqwest::Method::POST, "/webhooks/payments").body(captured.to_string());
    assert_eq!(said(unsigned).await.code(), "webhook_signature");
    let path = slow.header("location").unwrap();
    assert_eq!(said(shop.get("ann", path)).await.body["state"], "authorising");
    assert_eq!(shop.webhook(&captured, unix_seconds() - 200, SECRET).await.status, 200);
    assert_eq!(said(shop.get("ann", path)).await.body["state"], "sold");
    assert_eq!(shop.stock().await, (0, 0, 1));
    let now = unix_seconds();
    assert_eq!(shop.webhook(&json!({ "id": 1 }), now, SECRET).await.code(), "body_invalid");
    let unknown = event("evt_2", "payment.captured", &json!({ "id": "pur_none" }));
    assert_eq!(shop.webhook(&unknown, now, SECRET).await.status, 200);
    assert_eq!(shop.webhook(&event("evt_3", "customer.created", &slow.body), now, SECRET).await.status, 200);
}

#[tokio::test]
async fn webhooks_may_come_twice_late_and_in_any_order() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let slow = shop.pay("ann", "k", &held, "test_slow").await;
    let path = slow.header("location").unwrap().to_owned();
    let now = unix_seconds();
    // The same event twice: the second says nothing, though the purchase stands differently by then.
    let declined = event("evt_1", "payment.declined", &slow.body);
    assert_eq!(shop.webhook(&declined, now, SECRET).await.status, 200);
    let second = shop.pay("ann", "k2", &held, "test_slow").await;
    assert_eq!(second.status, 202);
    assert_eq!(shop.webhook(&declined, now, SECRET).await.status, 200);
    // Capture before authorisation, then an authorisation that is late.
    let captured = event("evt_2", "payment.captured", &second.body);
    let authorised = event("evt_3", "payment.authorised", &second.body);
    for event in [&captured, &authorised, &captured] {
        assert_eq!(shop.webhook(event, now, SECRET).await.status, 200);
    }
    assert_eq!(said(shop.get("ann", second.header("location").unwrap())).await.body["state"], "sold");
    assert_eq!(said(shop.get("ann", &path)).await.body["state"], "declined");
    assert_eq!(shop.stock().await, (0, 0, 1));
    let known: i64 = sqlx::query_scalar("SELECT count(*) FROM payment_events")
        .fetch_one(&mut shop.books().await)
        .await
        .unwrap();
    assert_eq!(known, 3);
}
