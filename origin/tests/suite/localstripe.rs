//! The ordinary flow against `localstripe`, which somebody else wrote from Stripe's documentation.
//!
//! What it lacks, and `stripe.rs` therefore tests against a service of ours: idempotency keys, `return_url` (refused; taken
//! out on the way in here) and so a redirect for 3-D Secure, methods that move the money at once by redirect, events for
//! anything but success and failure of a payment, and sending them again.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ropeline_test_ports::Port;
use serde_json::{Value, json};

use crate::common::{Shop, client, said};
use crate::stripe::{ACCOUNT, ENDPOINT, by_stripe};

const VERSION: &str = "1.15.10";
/// On loopback alone, without a file of its own in the folder for temporary ones.
const START: &str = "
import sys
from aiohttp import web
from localstripe import resources, server
resources.store.dump_to_disk = lambda: None
read = server.get_post_data
async def without_return_url(request, remove_auth=True):
    data = await read(request, remove_auth)
    if data:
        data.pop('return_url', None)
    return data
server.get_post_data = without_return_url
web.run_app(server.app, host='127.0.0.1', port=int(sys.argv[1]), print=None)
";

/// A running `localstripe`, killed when dropped.
struct LocalStripe {
    child: Child,
    base: String,
    _port: Port,
}

impl Drop for LocalStripe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl LocalStripe {
    async fn start() -> Self {
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"), PathBuf::from);
        let python = cache.join(format!("ropeline/localstripe-{VERSION}/bin/python"));
        assert!(python.exists(), "{} is missing: run scripts/setup.sh test", python.display());
        let port = Port::free();
        let child = Command::new(python)
            .args(["-c", START, &port.number().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let local = Self { child, base: format!("http://{}", port.address()), _port: port };
        for _ in 0..600 {
            if client().get(&local.base).send().await.is_ok() {
                return local;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("localstripe did not start");
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let request = client().post(format!("{}{path}", self.base)).bearer_auth(ACCOUNT).json(&body);
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn get(&self, path: &str) -> Value {
        let request = client().get(format!("{}{path}", self.base)).bearer_auth(ACCOUNT);
        serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
    }

    async fn card(&self, number: &str) -> String {
        let card = json!({ "number": number, "exp_month": "12", "exp_year": "2050", "cvc": "123" });
        let method = self.post("/v1/payment_methods", json!({ "type": "card", "card": card })).await;
        method["id"].as_str().unwrap().to_owned()
    }

    async fn shop(&self, total: i64, reconcile_seconds: u64) -> Shop {
        Shop::open_with(total, |raw| {
            raw.payments = by_stripe(self.base.clone());
            raw.payments.reconcile_seconds = reconcile_seconds;
        })
        .await
    }

    /// The shopper confirms at the bank.
    async fn authenticate(&self, intent: &Value) {
        let path = format!("/v1/payment_intents/{}/_authenticate", intent["id"].as_str().unwrap());
        self.post(&path, json!({ "client_secret": intent["client_secret"], "success": true })).await;
    }

    /// The payment intent of a purchase.
    async fn intent(&self, purchase: &str) -> Value {
        let all = self.get("/v1/payment_intents?limit=100").await;
        let mut found = all["data"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|intent| intent["metadata"]["purchase"] == purchase);
        found.next().expect("no such intent").clone()
    }
}

#[tokio::test]
async fn a_checkout_goes_its_ordinary_ways_at_localstripe() {
    let local = LocalStripe::start().await;
    let shop = local.shop(3, 1).await;
    let url = format!("{}/webhooks/payments", shop.base);
    local.post("/_config/webhooks/shop", json!({ "url": url, "secret": ENDPOINT })).await;

    // Authorised and captured.
    let card = local.card("4242424242424242").await;
    let held = shop.held("ann").await;
    let sold = shop.pay("ann", "k", &held, &card).await;
    assert_eq!((sold.status.as_u16(), &sold.body["state"]), (201, &json!("sold")), "{}", sold.text);
    let intent = local.intent(sold.body["id"].as_str().unwrap()).await;
    assert_eq!((&intent["status"], &intent["amount"]), (&json!("succeeded"), &json!(18_900)));

    // Declined.
    let refused = local.card("4000000000000341").await;
    let held = shop.held("bob").await;
    let declined = shop.pay("bob", "k", &held, &refused).await;
    assert_eq!((declined.status.as_u16(), declined.code()), (402, "payment_declined"), "{}", declined.text);
    assert!(declined.body["detail"].as_str().unwrap().starts_with("Your card was declined."));

    // 3-D Secure, and the shopper is there.
    let secured = local.card("4000002500003155").await;
    let pending = shop.pay("bob", "k2", &held, &secured).await;
    assert_eq!((pending.status.as_u16(), &pending.body["state"]), (202, &json!("authorising")));
    let intent = local.intent(pending.body["id"].as_str().unwrap()).await;
    local.authenticate(&intent).await;
    shop.settled("bob", pending.header("location").unwrap(), &["sold"]).await;

    // 3-D Secure, and the hold is over before: void.
    let held = shop.held("eve").await;
    let late = shop.pay("eve", "k", &held, &secured).await;
    shop.let_holds_run_out().await;
    shop.settled("eve", late.header("location").unwrap(), &["voided"]).await;
    assert_eq!(local.intent(late.body["id"].as_str().unwrap()).await["status"], "canceled");

    // And what localstripe sends is believed.
    for _ in 0..200 {
        let taken: i64 = sqlx::query_scalar("SELECT count(*) FROM payment_events")
            .fetch_one(&mut shop.books().await)
            .await
            .unwrap();
        if taken > 0 {
            assert_eq!(shop.stock().await, (1, 0, 2));
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no event of localstripe's was taken");
}

/// Captured over there, as by a person at Stripe's dashboard, and the hold is over here and its unit somebody else's.
#[tokio::test]
async fn money_that_moved_too_late_comes_back_at_localstripe() {
    let local = LocalStripe::start().await;
    let shop = local.shop(1, 3_600).await;
    let held = shop.held("ann").await;
    let secured = local.card("4000002500003155").await;
    let pending = shop.pay("ann", "k", &held, &secured).await;
    assert_eq!(pending.status, 202, "{}", pending.text);
    let intent = local.intent(pending.body["id"].as_str().unwrap()).await;
    local.authenticate(&intent).await;
    let name = intent["id"].as_str().unwrap();
    local.post(&format!("/v1/payment_intents/{name}/capture"), json!({})).await;
    shop.let_holds_run_out().await;
    shop.held("bob").await;
    let path = pending.header("location").unwrap();
    assert_eq!(said(shop.get("ann", &format!("{path}/return"))).await.status, 303);
    shop.settled("ann", path, &["refunded"]).await;
    let refunds = local.get(&format!("/v1/refunds?payment_intent={name}")).await;
    let amounts: Vec<&Value> = refunds["data"].as_array().unwrap().iter().map(|r| &r["amount"]).collect();
    assert_eq!(amounts, [&json!(18_900)]);
    assert_eq!(shop.stock().await, (0, 1, 0));
}
