//! Shoppers: what they do is decided by the seed and their number, when and what they are answered is not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::goods::{Goods, Kind, Ware};
use super::schedule::Progress;
use crate::common::{Gate, Said, unix_seconds};
use crate::stripe::{CARD, CONFIRMED, DECLINED};

/// Cards, and a method that moves the money at once.
const METHODS: [&str; 10] = [
    CARD,
    CARD,
    CARD,
    CARD,
    CONFIRMED,
    CONFIRMED,
    DECLINED,
    "pm_card_threeDSecureRequiredChargeDeclined",
    "pm_card_captureRefused",
    "ideal",
];
/// How long a shopper repeats a call that is not answered.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same when nothing goes wrong any more, and an answer has to come however slow the machine is.
const TO_THE_END: Duration = Duration::from_secs(240);
/// How long one answer is waited for: longer than a shopper is kept waiting on purpose.
const ONE_ANSWER: Duration = Duration::from_secs(20);

/// A call with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) visitor: String,
    pub(super) key: &'static str,
    pub(super) path: String,
    pub(super) body: Value,
}

/// An answer that counts: not a refusal that passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) call: Call,
    pub(super) status: u16,
    pub(super) body: Value,
}

/// What a visitor saw of a purchase, when it was settled.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) purchase: String,
    pub(super) state: String,
}

/// All shoppers together.
pub(super) struct Crowd {
    pub(super) seed: u64,
    pub(super) gate: Gate,
    pub(super) goods: Goods,
    /// The nodes, as they are reached through a network that loses replies.
    pub(super) bases: Vec<String>,
    pub(super) client: reqwest::Client,
    /// How long a shopper thinks at most.
    pub(super) leisure: Duration,
    sale: Arc<Progress>,
    pub(super) told: Mutex<Vec<Told>>,
    pub(super) seen: Mutex<Vec<Seen>>,
    /// Calls that were never answered, to be repeated in the end.
    pub(super) unanswered: Mutex<Vec<Call>>,
    /// Answers that should never be given.
    pub(super) wrong: Mutex<Vec<String>>,
    /// How often each answer was given.
    pub(super) answers: Mutex<HashMap<(u16, String), usize>>,
    pub(super) lost: AtomicUsize,
}

/// One visitor, with the token that lets in.
struct Shopper<'a> {
    crowd: &'a Crowd,
    visitor: String,
    token: String,
    chance: fastrand::Rng,
}

// === impl Crowd ===

impl Crowd {
    pub(super) fn new(
        seed: u64,
        gate: Gate,
        goods: Goods,
        bases: Vec<String>,
        leisure: Duration,
        sale: Arc<Progress>,
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(ONE_ANSWER)
            .no_proxy()
            .build()
            .unwrap();
        Self {
            seed,
            gate,
            goods,
            bases,
            client,
            leisure,
            sale,
            told: Mutex::default(),
            seen: Mutex::default(),
            unanswered: Mutex::default(),
            wrong: Mutex::default(),
            answers: Mutex::default(),
            lost: AtomicUsize::new(0),
        }
    }

    /// The whole visit of one shopper.
    pub(super) async fn shop(&self, number: u64) {
        let chance = fastrand::Rng::with_seed(self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut shopper = self.shopper(format!("v{number}"), chance);
        shopper.visit().await;
    }

    /// A call once more, long after: what was told, or the code of a refusal that passes. `None`: it was not answered.
    pub(super) async fn again(&self, call: &Call) -> Option<Result<Told, String>> {
        let mut shopper = self.shopper(call.visitor.clone(), fastrand::Rng::with_seed(self.seed));
        let said = shopper.until_answered(call, TO_THE_END).await?;
        if is_passing(&said) {
            return Some(Err(said.code().to_owned()));
        }
        Some(Ok(Told { call: call.clone(), status: said.status.as_u16(), body: said.body }))
    }

    fn shopper(&self, visitor: String, chance: fastrand::Rng) -> Shopper<'_> {
        // Good for whoever's clock is an hour off.
        let mut claims = Gate::claims(&visitor);
        let now = unix_seconds();
        (claims.claims.iat, claims.claims.nbf, claims.claims.exp) = (now - 7_200, now - 7_200, now + 14_400);
        Shopper { crowd: self, token: self.gate.sign(&claims), visitor, chance }
    }

    pub(super) fn complain(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }
}

fn is_passing(said: &Said) -> bool {
    said.status.as_u16() >= 400 && !said.body["retry_after_s"].is_null()
}

// === impl Shopper ===

impl Shopper<'_> {
    async fn visit(&mut self) {
        let ware = self.crowd.goods.any(&mut self.chance).clone();
        self.think().await;
        let path = format!("/products/{}/reservations", ware.id);
        let wish = self.wish(&ware);
        let Some(held) = self.reserve(&ware, &path, &wish).await else { return };
        let Some(own) = held["links"]["self"].as_str().map(str::to_owned) else { return };
        self.think().await;
        match self.chance.u8(0..100) {
            // Walks away; the hold runs out.
            0..10 => return,
            10..16 => return self.cancel(&own).await,
            16..24 => {
                self.call("extend", &format!("{own}/extension"), json!({})).await;
            }
            24..28 => {
                // Too late on purpose: about when the hold ends.
                let around = f64::from(u32::try_from(super::world::HOLD).unwrap_or(1));
                tokio::time::sleep(Duration::from_secs_f64(around * (0.9 + self.chance.f64() * 0.2))).await;
            }
            _ => {}
        }
        self.pay(&own).await;
    }

    fn wish(&mut self, ware: &Ware) -> Value {
        let quantity = self.chance.i64(1..=ware.most);
        if ware.kind == Kind::Count || self.chance.u8(0..100) < 70 {
            return json!({ "quantity": quantity });
        }
        let mut units: Vec<String> =
            (0..quantity).map(|_| self.chance.i64(1..=ware.total).to_string()).collect();
        units.dedup();
        json!({ "units": units })
    }

    /// Until there is a hold, or no hope. Some have a second tab open.
    async fn reserve(&mut self, ware: &Ware, path: &str, wish: &Value) -> Option<Value> {
        for _ in 0..3 {
            let (one, two) = if self.chance.u8(0..100) < 12 {
                let mut other = self.other_tab();
                tokio::join!(
                    self.call("hold", path, wish.clone()),
                    other.call("hold-b", path, json!({ "quantity": 1 }))
                )
            } else {
                (self.call("hold", path, wish.clone()).await, None)
            };
            if let Some(said) = one.as_ref().filter(|said| said.status == 201 && said.body["state"] == "held")
            {
                self.compare(&said.body, ware, wish);
            }
            // What the other tab got was not this wish.
            let said = one.or(two)?;
            match (said.status.as_u16(), said.code()) {
                (200 | 201, _) => return Some(said.body),
                // Some come back.
                (409, "all_held") => {
                    let wait = self.chance.u64(200..1_000);
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
                _ => return None,
            }
        }
        None
    }

    /// Whether a hold is what was asked for.
    fn compare(&self, hold: &Value, ware: &Ware, wish: &Value) {
        let quantity = match (&wish["quantity"], &wish["units"]) {
            (Value::Number(quantity), _) => quantity.as_i64(),
            (_, Value::Array(units)) => i64::try_from(units.len()).ok(),
            _ => None,
        };
        let labels = hold["units"].as_array().map(Vec::len).unwrap_or_default();
        let numbered = ware.kind == Kind::Units;
        let as_many = !numbered || i64::try_from(labels).ok() == quantity;
        let chosen = wish["units"].is_null() || wish["units"] == hold["units"];
        if hold["quantity"].as_i64() != quantity || !as_many || !chosen {
            self.crowd.complain(format!("{} asked for {wish} and got {hold}", self.visitor));
        }
    }

    async fn pay(&mut self, own: &str) {
        let path = format!("{own}/purchases");
        let method = METHODS[self.chance.usize(0..METHODS.len())];
        let content = json!({ "payment_method": method });
        let mut other = self.other_tab();
        let said = match self.chance.u8(0..100) {
            // Gives the units back in the other tab meanwhile.
            0..6 => tokio::join!(self.call("pay", &path, content), other.cancel(own)).0,
            // Pays in the other tab, too.
            6..12 => {
                let again = json!({ "payment_method": CARD });
                tokio::join!(self.call("pay", &path, content), other.call("pay-b", &path, again)).0
            }
            _ => self.call("pay", &path, content).await,
        };
        let Some(mut said) = said else { return };
        if said.status == 402 {
            // Another card, while the hold lasts.
            let again = self.call("pay-2", &path, json!({ "payment_method": CARD })).await;
            let Some(again) = again else { return };
            said = again;
        }
        let Some(purchase) = said.body["id"].as_str().filter(|id| id.starts_with("pur_")) else { return };
        let (purchase, mut state) = (purchase.to_owned(), said.body["state"].clone());
        for _ in 0..10 {
            if !matches!(state.as_str(), Some("authorising" | "capturing")) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            let Some(said) = self.look(&format!("/purchases/{purchase}")).await else { continue };
            state = said.body["state"].clone();
        }
        if let Some(state @ ("sold" | "declined" | "voided" | "refunded")) = state.as_str() {
            self.crowd.seen.lock().unwrap().push(Seen { purchase, state: state.to_owned() });
        }
    }

    async fn cancel(&mut self, own: &str) {
        self.call("cancel", &format!("{own}/cancel"), json!({})).await;
    }

    fn other_tab(&mut self) -> Self {
        Self {
            crowd: self.crowd,
            visitor: self.visitor.clone(),
            token: self.token.clone(),
            chance: self.chance.fork(),
        }
    }

    async fn think(&mut self) {
        tokio::time::sleep(self.crowd.leisure.mul_f64(self.chance.f64())).await;
    }

    async fn look(&mut self, path: &str) -> Option<Said> {
        let base = self.chance.usize(0..self.crowd.bases.len());
        self.request(Method::GET, base, path, None).await
    }

    /// Calls until there is an answer, and now and then once more after it, which must be answered the same.
    async fn call(&mut self, key: &'static str, path: &str, body: Value) -> Option<Said> {
        let call = Call { visitor: self.visitor.clone(), key, path: path.to_owned(), body };
        let said = self.until_answered(&call, PATIENCE).await?;
        if is_passing(&said) {
            return Some(said);
        }
        self.note(&call, &said);
        if self.chance.u8(0..100) < 10
            && let Some(again) = self.until_answered(&call, PATIENCE).await
        {
            self.note(&call, &again);
        }
        Some(said)
    }

    fn note(&self, call: &Call, said: &Said) {
        let told = Told { call: call.clone(), status: said.status.as_u16(), body: said.body.clone() };
        self.crowd.told.lock().unwrap().push(told);
    }

    async fn until_answered(&mut self, call: &Call, patience: Duration) -> Option<Said> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            let base = self.chance.usize(0..self.crowd.bases.len());
            match self.send(call, base).await {
                Some(said) if !matches!(said.code(), "request_in_flight" | "unavailable") => {
                    return Some(said);
                }
                _ => {
                    let wait = self.chance.u64(20..400);
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
            }
        }
        self.crowd.unanswered.lock().unwrap().push(call.clone());
        None
    }

    async fn send(&self, call: &Call, base: usize) -> Option<Said> {
        self.request(Method::POST, base, &call.path, Some(call)).await
    }

    /// `None`: the reply was lost.
    async fn request(&self, method: Method, base: usize, path: &str, call: Option<&Call>) -> Option<Said> {
        let request = self
            .crowd
            .client
            .request(method, format!("{}{path}", self.crowd.bases[base]))
            .header("ropeline-admission", &self.token);
        let request = match call {
            Some(call) => request.header("idempotency-key", call.key).json(&call.body),
            None => request,
        };
        let answered = async {
            let response = request.send().await.ok()?;
            // Of a broken answer, nothing counts.
            let (status, headers) = (response.status(), response.headers().clone());
            let text = response.text().await.ok()?;
            let body = serde_json::from_str(&text).unwrap_or(Value::Null);
            Some(Said { status, headers, body, text })
        };
        let Some(said) = answered.await else {
            self.crowd.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.crowd.sale.answers.fetch_add(1, Ordering::Relaxed);
        let code = said.code().to_owned();
        let expected = match said.status.as_u16() {
            200 | 201 | 202 | 204 | 402 | 409 => true,
            503 => code == "unavailable",
            _ => false,
        };
        if !expected {
            self.crowd
                .complain(format!("{} {path} was answered {} {}", self.visitor, said.status, said.text));
        }
        *self.crowd.answers.lock().unwrap().entry((said.status.as_u16(), code)).or_default() += 1;
        Some(said)
    }
}
