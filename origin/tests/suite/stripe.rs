//! Checkout through Stripe's API, against a payment service that keeps Stripe's promises, and a network that does not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Method;
use ropeline_origin::config::{RawPayments, RawProvider, RawStripe};
use ropeline_payment_service::{Payment, PaymentService, Plan, State, sign};
use serde_json::Value;

use crate::common::{Gate, ISSUER, SALE, Said, Shop, client, open_books, product, said, unix_seconds};
use crate::crash::Process;

pub(crate) const ACCOUNT: &str = "sk_test_0123456789";
pub(crate) const ENDPOINT: &str = "whsec_of_the_endpoint";
pub(crate) const NEXT_ENDPOINT: &str = "whsec_of_the_endpoint_from_now_on";
pub(crate) const CARD: &str = "pm_card_visa";
pub(crate) const DECLINED: &str = "pm_card_visa_chargeDeclined";
pub(crate) const CONFIRMED: &str = "pm_card_threeDSecure2Required";

/// A shop that is paid through a payment service of its own.
pub(crate) struct Paid {
    pub(crate) shop: Shop,
    pub(crate) service: PaymentService,
}

pub(crate) fn by_stripe(base_url: String) -> RawPayments {
    let account = RawStripe {
        secret_key: ACCOUNT.into(),
        webhook_secrets: vec![ENDPOINT.into()],
        base_url,
        at_once: vec!["ideal".into()],
        timeout_seconds: 2,
    };
    RawPayments {
        provider: RawProvider::Stripe,
        webhook_secret: None,
        reconcile_seconds: 1,
        test_delay_ms: None,
        test_database: None,
        stripe: Some(account),
    }
}

impl Paid {
    pub(crate) async fn open(total: i64, plan: Plan) -> Self {
        Self::open_with(total, plan, |_| {}).await
    }

    pub(crate) async fn open_with(
        total: i64,
        plan: Plan,
        change: impl FnOnce(&mut ropeline_origin::RawConfig),
    ) -> Self {
        let service = PaymentService::start(plan, ACCOUNT).await.unwrap();
        let shop = Shop::open_with(total, |raw| {
            raw.payments = by_stripe(service.base_url());
            change(raw);
        })
        .await;
        Self { shop, service }
    }

    /// From now on events are sent.
    pub(crate) fn with_events(self) -> Self {
        self.service.send_events_to(&format!("{}/webhooks/payments", self.shop.base), ENDPOINT);
        self
    }

    /// The one payment that there is.
    fn payment(&self) -> Payment {
        let mut payments = self.service.payments();
        assert_eq!(payments.len(), 1, "{payments:?}");
        payments.remove(0)
    }

    async fn send(&self, event: &Value, secrets: &[&str], time: u64) -> Said {
        let body = event.to_string();
        let request = self
            .shop
            .request(Method::POST, "/webhooks/payments")
            .header("stripe-signature", sign(secrets, &body, time))
            .body(body);
        said(request).await
    }

    /// The last event of a kind.
    fn event(&self, kind: &str) -> Value {
        self.service.events().into_iter().rfind(|event| event["type"] == kind).expect("no such event")
    }

    async fn state(&self, visitor: &str, path: &str) -> String {
        said(self.shop.get(visitor, path)).await.body["state"].as_str().unwrap().to_owned()
    }
}

/// Waits for something that is to come.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came to this: {what}");
}

#[tokio::test]
async fn an_ordinary_purchase_is_authorised_captured_and_sold() {
    let paid = Paid::open(1, Plan::calm()).await;
    let held = paid.shop.held("ann").await;
    let sold = paid.shop.pay("ann", "k", &held, CARD).await;
    assert_eq!((sold.status.as_u16(), &sold.body["state"]), (201, &Value::from("sold")), "{}", sold.text);
    let payment = paid.payment();
    assert_eq!((payment.state, payment.authorised, payment.captured), (State::Captured, 1, 1));
    assert_eq!((payment.amount, payment.currency.as_str()), (18_900, "eur"));
    assert_eq!(payment.purchase, sold.body["id"].as_str().unwrap());
    assert_eq!(paid.shop.stock().await, (0, 0, 1));
}

#[tokio::test]
async fn a_decline_is_told_in_stripe_s_words_and_leaves_the_hold() {
    let paid = Paid::open(1, Plan::calm()).await;
    let held = paid.shop.held("ann").await;
    let declined = paid.shop.pay("ann", "k1", &held, DECLINED).await;
    assert_eq!((declined.status.as_u16(), declined.code()), (402, "payment_declined"), "{}", declined.text);
    assert!(declined.body["detail"].as_str().unwrap().starts_with("Your card was declined."));
    let refused = paid.shop.pay("ann", "k2", &held, "pm_card_captureRefused").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (402, "payment_declined"), "{}", refused.text);
    let unknown = paid.shop.pay("ann", "k3", &held, "pm_nobody_knows").await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (402, "payment_declined"), "{}", unknown.text);
    let number = paid.shop.pay("ann", "k4", &held, "4242 4242 4242 4242").await;
    assert_eq!((number.status.as_u16(), number.code()), (422, "payment_method_unknown"));
    assert!(!number.text.contains("4242"), "a card's number is repeated: {}", number.text);
    assert_eq!(paid.shop.stock().await, (0, 1, 0));
    assert_eq!(paid.shop.pay("ann", "k5", &held, CARD).await.status, 201);
    let states: Vec<State> = paid.service.payments().iter().map(|payment| payment.state).collect();
    assert_eq!(states, [State::Declined, State::Canceled, State::Captured]);
}

#[tokio::test]
async fn a_shopper_confirms_at_the_bank_and_comes_back() {
    let paid = Paid::open(1, Plan::calm()).await;
    let held = paid.shop.held("ann").await;
    let pending = paid.shop.pay("ann", "k", &held, CONFIRMED).await;
    assert_eq!(pending.status, 202, "{}", pending.text);
    let path = pending.header("location").unwrap().to_owned();
    let bank = pending.body["next_action"]["redirect_to"].as_str().expect("nowhere to go").to_owned();
    let page = said(paid.shop.get("ann", &path).header("accept", "text/html")).await;
    assert!(page.text.contains(&format!("href=\"{bank}\"")), "{}", page.text);
    let back = client().get(&bank).send().await.unwrap();
    let back = back.headers()["location"].to_str().unwrap().to_owned();
    let back = back.strip_prefix("https://shop.example").expect("not to the shop");
    assert_eq!(back, format!("{path}/return"));
    let back = said(paid.shop.get("ann", &format!("{back}?payment_intent_client_secret=x"))).await;
    assert_eq!((back.status.as_u16(), back.header("location")), (303, Some(path.as_str())));
    let sold = said(paid.shop.get("ann", &path)).await;
    assert_eq!((&sold.body["state"], &sold.body["next_action"]), (&Value::from("sold"), &Value::Null));
    assert_eq!(paid.payment().captured, 1);
    let other = said(paid.shop.get("bob", &format!("{path}/return"))).await;
    assert_eq!(other.status, 404, "somebody else's purchase");
}

#[tokio::test]
async fn a_payment_that_waits_for_the_bank_is_shut_when_the_hold_is_over() {
    let paid = Paid::open(1, Plan::calm()).await;
    let held = paid.shop.held("ann").await;
    let pending = paid.shop.pay("ann", "k", &held, CONFIRMED).await;
    paid.shop.let_holds_run_out().await;
    paid.shop.held("bob").await;
    let path = pending.header("location").unwrap();
    paid.shop.settled("ann", path, &["voided"]).await;
    assert_eq!(paid.payment().state, State::Canceled);
    let page = said(paid.shop.get("ann", path).header("accept", "text/html")).await;
    assert!(page.text.contains("Too late, and nothing was charged"), "{}", page.text);
    // And the shopper who goes to the bank now gets nowhere.
    client().get(pending.body["next_action"]["redirect_to"].as_str().unwrap()).send().await.unwrap();
    let payment = paid.payment();
    assert_eq!((payment.authorised, payment.captured), (0, 0), "{payment:?}");
}

#[tokio::test]
async fn money_that_moves_at_once_buys_the_hold_or_another_unit_or_comes_back_once() {
    // Only when the shoppers come back it is asked how they stand: else a payment is shut that its bank has not decided.
    let paid = Paid::open_with(2, Plan::calm(), |raw| raw.payments.reconcile_seconds = 3_600).await;
    let mut paths = Vec::new();
    for visitor in ["ann", "bob"] {
        let held = paid.shop.held(visitor).await;
        let pending = paid.shop.pay(visitor, "k", &held, "ideal").await;
        assert_eq!(pending.status, 202, "{}", pending.text);
        paths.push(pending.header("location").unwrap().to_owned());
    }
    paid.shop.let_holds_run_out().await;
    // One of both units is somebody else's by now; the other is there for whoever's money comes first.
    paid.shop.held("eve").await;
    paid.service.let_the_bank_decide();
    for (visitor, path) in ["ann", "bob"].into_iter().zip(&paths) {
        assert_eq!(said(paid.shop.get(visitor, &format!("{path}/return"))).await.status, 303);
        paid.shop.settled(visitor, path, &["sold", "refunded"]).await;
    }
    let payments = paid.service.payments();
    let refunded: u32 = payments.iter().map(|payment| payment.refunded).sum();
    assert!(payments.iter().all(|payment| payment.captured == 1), "{payments:?}");
    assert_eq!((refunded, paid.shop.stock().await), (1, (0, 1, 1)), "{payments:?}");
}

/// The capture is done and its reply is lost; the process is killed; no webhook ever comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capture_done_reply_lost_process_dead_and_no_webhook() {
    let lost = Plan { only: Some("/capture"), dropped_after: 1_000, events_lost: 1_000, ..Plan::calm() };
    let service = PaymentService::start(lost, ACCOUNT).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::new(7);
    std::fs::write(dir.path().join("jwks.json"), gate.jwks()).unwrap();
    let config = dir.path().join("origin.toml");
    let text = format!(
        "listen = '127.0.0.1:0'\ndatabase = '{folder}/shop.db'\npublic_url = 'https://shop.example'\n\
         [admission]\njwks_file = '{folder}/jwks.json'\nissuer = '{ISSUER}'\naudience = '{SALE}'\n\
         [payments]\nprovider = 'stripe'\nreconcile_seconds = 1\n\
         [payments.stripe]\nsecret_key = '{ACCOUNT}'\nwebhook_secrets = ['{ENDPOINT}']\nbase_url = '{}'\n\
         [[products]]\nid = 'runner'\nname = 'Runner'\nprice_minor = 18900\ncurrency = 'EUR'\ntotal = 1\n",
        service.base_url(),
        folder = dir.path().display()
    );
    std::fs::write(&config, text).unwrap();
    let call = |base: &str, path: &str, key: &str, body: Value| {
        client()
            .post(format!("{base}{path}"))
            .header("ropeline-admission", gate.token("ann"))
            .header("idempotency-key", key)
            .json(&body)
    };
    let process = Process::start(&config);
    let held =
        said(call(&process.base, "/products/runner/reservations", "hold", serde_json::json!({}))).await.body;
    let path = held["links"]["purchases"].as_str().unwrap().to_owned();
    let paying = call(&process.base, &path, "pay", serde_json::json!({ "payment_method": CARD }));
    let paying = tokio::spawn(paying.send());
    until("captured", || service.payments().iter().any(|payment| payment.captured == 1)).await;
    drop(process);
    let _ = paying.await;
    let mut books = open_books(&dir.path().join("shop.db")).await;
    let state: String =
        sqlx::query_scalar("SELECT state FROM purchases").fetch_one(&mut books).await.unwrap();
    assert_eq!(state, "capturing", "it was known before it was over");
    service.change(Plan { events_lost: 1_000, ..Plan::calm() });
    let process = Process::start(&config);
    for _ in 0..600 {
        let state: String =
            sqlx::query_scalar("SELECT state FROM purchases").fetch_one(&mut books).await.unwrap();
        if state == "sold" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The same call has its answer at last.
    let sold = said(call(&process.base, &path, "pay", serde_json::json!({ "payment_method": CARD }))).await;
    assert_eq!((sold.status.as_u16(), &sold.body["state"]), (201, &Value::from("sold")), "{}", sold.text);
    let payments = service.payments();
    assert_eq!((payments.len(), payments[0].captured, payments[0].refunded), (1, 1, 0), "{payments:?}");
}

/// Both come in the same instant, again and again: the bank's yes, and the end of the hold with somebody who waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorisation_in_the_same_millisecond_as_expiry_and_re_claim() {
    const ROUNDS: usize = 30;
    let paid = Paid::open_with(1, Plan::calm(), |raw| {
        raw.products = (0..ROUNDS).map(|round| product(&format!("p{round}"), 1)).collect();
    })
    .await
    .with_events();
    let shop = &paid.shop;
    let mut ends = Vec::new();
    for round in 0..ROUNDS {
        let path = format!("/products/p{round}/reservations");
        let held = said(shop.post("ann", &format!("h{round}"), &path, &serde_json::json!({}))).await.body;
        let pending = shop.pay("ann", &format!("p{round}"), &held, CONFIRMED).await;
        let purchase = pending.header("location").unwrap().to_owned();
        let end = SystemTime::now() + Duration::from_millis(40);
        sqlx::query("UPDATE reservations SET expires_at = ?1 WHERE id = ?2")
            .bind(i64::try_from(end.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap())
            .bind(held["id"].as_str().unwrap())
            .execute(&mut shop.books().await)
            .await
            .unwrap();
        tokio::time::sleep(end.duration_since(SystemTime::now()).unwrap_or_default()).await;
        let bob = async {
            let request = shop.post("bob", &format!("h{round}"), &path, &serde_json::json!({}));
            said(request).await.status.as_u16()
        };
        let bank = async { paid.service.let_the_bank_decide() };
        let (bob, ()) = tokio::join!(bob, bank);
        let settled = shop.settled("ann", &purchase, &["sold", "voided"]).await;
        let sold = settled.body["state"] == "sold";
        assert!(!(sold && bob == 201), "round {round}: one unit for two");
        let payment = &paid.service.of(settled.body["id"].as_str().unwrap())[0];
        assert_eq!(payment.captured, u32::from(sold), "round {round}: {payment:?}");
        assert_eq!(payment.state, if sold { State::Captured } else { State::Canceled }, "round {round}");
        ends.push(sold);
    }
    assert!(paid.shop.handle.audit().await.unwrap().balanced);
    println!("{} of {ROUNDS} were sold", ends.iter().filter(|sold| **sold).count());
}

#[tokio::test]
async fn webhooks_forged_or_out_of_time_are_refused_and_slow_ones_taken() {
    let paid = Paid::open(1, Plan::calm()).await;
    let held = paid.shop.held("ann").await;
    let pending = paid.shop.pay("ann", "k", &held, CONFIRMED).await;
    let path = pending.header("location").unwrap();
    paid.service.let_the_bank_decide();
    let event = paid.event("payment_intent.amount_capturable_updated");
    // To the second it counts in a test without a network: here time goes by on the way.
    for (secret, off) in [("whsec_forged_forged", 0), (ENDPOINT, -301), (ENDPOINT, 400)] {
        let time = unix_seconds().saturating_add_signed(off);
        let refused = paid.send(&event, &[secret], time).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "webhook_signature"), "{}", refused.text);
    }
    assert_eq!(paid.send(&event, &[ENDPOINT], unix_seconds() - 200).await.status, 200);
    paid.shop.settled("ann", path, &["sold"]).await;
    assert_eq!(paid.payment().captured, 1);
}

#[tokio::test]
async fn a_forged_word_in_a_believed_webhook_moves_nothing_that_stripe_does_not_confirm() {
    let paid = Paid::open(1, Plan::calm()).await;
    let held = paid.shop.held("ann").await;
    let pending = paid.shop.pay("ann", "k", &held, CONFIRMED).await;
    let path = pending.header("location").unwrap();
    let mut event = paid.event("payment_intent.requires_action");
    event["type"] = "payment_intent.succeeded".into();
    assert_eq!(paid.send(&event, &[ENDPOINT], unix_seconds()).await.status, 200);
    assert_eq!(paid.state("ann", path).await, "authorising", "it was taken at its word");
    assert_eq!(paid.shop.stock().await, (0, 1, 0));
}

#[tokio::test]
async fn while_the_endpoint_s_secret_is_rotated_either_is_believed() {
    let paid = Paid::open_with(1, Plan::calm(), |raw| {
        raw.payments.stripe.as_mut().unwrap().webhook_secrets = vec![NEXT_ENDPOINT.into(), ENDPOINT.into()];
    })
    .await;
    let held = paid.shop.held("ann").await;
    let sold = paid.shop.pay("ann", "k", &held, CARD).await;
    assert_eq!(sold.status, 201);
    let (event, now) = (paid.event("payment_intent.succeeded"), unix_seconds());
    for secrets in [&[ENDPOINT][..], &[NEXT_ENDPOINT], &[ENDPOINT, NEXT_ENDPOINT]] {
        assert_eq!(paid.send(&event, secrets, now).await.status, 200, "{secrets:?}");
    }
}

#[tokio::test]
async fn webhooks_duplicated_reversed_and_three_days_late_change_nothing_that_is_settled() {
    let paid = Paid::open(3, Plan::calm()).await;
    let shop = &paid.shop;
    let mut purchases = Vec::new();
    for (visitor, method, end) in
        [("ann", CARD, "sold"), ("bob", "pm_card_captureRefused", "voided"), ("eve", DECLINED, "declined")]
    {
        let held = shop.held(visitor).await;
        let paid = shop.pay(visitor, "k", &held, method).await;
        let path = paid.body["purchase"].as_str().or(paid.header("location")).unwrap().to_owned();
        shop.settled(visitor, &path, &[end]).await;
        purchases.push((visitor, path, end));
    }
    let before: Vec<Payment> = paid.service.payments();
    let mut events = paid.service.events();
    events.reverse();
    // Three days later they are signed anew: the time in a signature is that of the sending.
    for event in events.iter().chain(&events) {
        assert_eq!(paid.send(event, &[ENDPOINT], unix_seconds()).await.status, 200, "{event}");
    }
    for (visitor, path, end) in &purchases {
        assert_eq!(paid.state(visitor, path).await, *end);
    }
    for (before, after) in before.iter().zip(paid.service.payments()) {
        assert_eq!(
            (before.state, before.captured, before.voided),
            (after.state, after.captured, after.voided)
        );
    }
    assert_eq!(shop.stock().await, (0, 2, 1));
}

#[tokio::test]
async fn an_event_without_the_purchase_is_asked_about_and_a_stranger_s_is_passed_over() {
    let paid = Paid::open(1, Plan::calm()).await;
    let held = paid.shop.held("ann").await;
    let pending = paid.shop.pay("ann", "k", &held, CONFIRMED).await;
    paid.service.let_the_bank_decide();
    let mut event = paid.event("payment_intent.amount_capturable_updated");
    event["data"]["object"]["metadata"] = serde_json::json!({});
    let mut stranger = event.clone();
    stranger["id"] = "evt_stranger".into();
    stranger["data"]["object"]["id"] = "pi_of_somebody_else".into();
    assert_eq!(paid.send(&stranger, &[ENDPOINT], unix_seconds()).await.status, 200);
    assert_eq!(paid.send(&event, &[ENDPOINT], unix_seconds()).await.status, 200);
    paid.shop.settled("ann", pending.header("location").unwrap(), &["sold"]).await;
    // A payment of another name for the same purchase is not the one that counts.
    let mut other = paid.event("payment_intent.succeeded");
    other["data"]["object"]["id"] = "pi_of_somebody_else".into();
    assert_eq!(paid.send(&other, &[ENDPOINT], unix_seconds()).await.status, 200);
}

#[tokio::test]
async fn an_authorisation_that_ran_out_leaves_the_unit_to_the_others() {
    let refuse = Plan { only: Some("/capture"), unavailable: 1_000, ..Plan::calm() };
    let paid = Paid::open(1, refuse).await;
    let held = paid.shop.held("ann").await;
    let pending = paid.shop.pay("ann", "k", &held, CARD).await;
    assert_eq!((pending.status.as_u16(), &pending.body["state"]), (202, &Value::from("capturing")));
    paid.shop.let_holds_run_out().await;
    assert_eq!(paid.shop.stock().await, (0, 1, 0), "the unit is certain while its money is being captured");
    paid.service.let_authorisations_run_out();
    paid.service.change(Plan::calm());
    paid.shop.settled("ann", pending.header("location").unwrap(), &["voided"]).await;
    assert_eq!(paid.shop.stock().await, (1, 0, 0));
    assert_eq!((paid.payment().captured, paid.payment().state), (0, State::Canceled));
}

/// Of a kept failure nothing else is ever heard under its key.
#[tokio::test]
async fn a_failure_that_is_kept_with_its_key_stops_no_purchase() {
    for (at, plan) in [
        ("created", Plan { only: Some("/payment_intents"), failed_before: 500, seed: 3, ..Plan::calm() }),
        ("confirmed", Plan { only: Some("/confirm"), failed_after: 500, seed: 3, ..Plan::calm() }),
        ("captured", Plan { only: Some("/capture"), failed_before: 500, seed: 3, ..Plan::calm() }),
    ] {
        let paid = Paid::open(1, plan).await;
        let held = paid.shop.held("ann").await;
        let pending = paid.shop.pay("ann", "k", &held, CARD).await;
        paid.shop.settled("ann", pending.header("location").unwrap(), &["sold"]).await;
        let captured: u32 = paid.service.payments().iter().map(|payment| payment.captured).sum();
        assert_eq!(captured, 1, "{at}");
    }
}
