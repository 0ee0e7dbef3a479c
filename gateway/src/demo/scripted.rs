//! The scripted shopper: goes through the whole sale step by step, and checks each answer to the letter.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ropeline_decision::cookie;
use ropeline_queue::{Arrival, Phase, Place};
use ropeline_token::KeySet;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

use super::crowd::{API, Purchase, Reservation};
use super::plan::{PRODUCT_PAGE, SALE};
use super::snapshot::{self, Snapshot};
use super::tally::Tally;
use super::web::{Browser, Web};
use crate::draw_document::{DrawDocument, Outcome};

/// Where the shopper wants to go, with what must not get lost on the way.
const WANTED: &str = "/products/sneaker?colour=night&from=news%20letter";
/// While something is expected every moment.
const SOON: Duration = Duration::from_millis(200);

#[derive(Debug, Deserialize)]
struct Standing {
    #[serde(default)]
    ticket: String,
    state: String,
    phase: Phase,
    arrival: Arrival,
    place: Option<Place>,
    ahead: Option<u64>,
    eta: Option<Eta>,
}

#[derive(Debug, Deserialize)]
struct Eta {
    low_s: u64,
    high_s: u64,
}

/// Goes through the sale, telling each step.
///
/// # Errors
/// At the first answer that is not as it must be.
pub(super) async fn run(web: Web, steps: UnboundedSender<String>, tally: &Tally) -> anyhow::Result<()> {
    let shopper = Shopper { browser: web.browser(), steps };
    let arrival = shopper.join().await?;
    tally.counts().joined += 1;
    let place = shopper.draw(arrival).await?;
    shopper.wait(arrival, place, tally).await?;
    let token = shopper.claim().await?;
    tally.counts().admitted += 1;
    shopper.enter(&token).await?;
    let purchase = shopper.buy().await?;
    let new = tally.counts().purchases.insert(purchase.clone());
    ensure!(new, "the purchase {purchase} is a shopper's of the crowd too");
    Ok(())
}

struct Shopper {
    browser: Browser,
    steps: UnboundedSender<String>,
}

// === impl Shopper ===

impl Shopper {
    fn tell(&self, step: impl Into<String>) {
        // Nobody listens any more when the demo is being ended.
        let _ = self.steps.send(step.into());
    }

    async fn join(&self) -> anyhow::Result<Arrival> {
        let page = self.browser.visit(WANTED).await?.expect("the protected page", &[200])?;
        ensure!(page.is_room(), "the product page was shown to somebody without an admission");
        let cache = page.header("cache-control").unwrap_or_default().to_owned();
        ensure!(
            cache.contains("no-store") || cache.contains("private"),
            "a shared cache may keep the room in place of a page: Cache-Control: {cache}"
        );
        self.tell(format!(
            "GET {WANTED}: {}, the waiting room in place, Cache-Control: {cache}",
            page.status
        ));
        let data =
            self.browser.fetch(WANTED).await?.expect("the protected page, by a script", &[401, 429])?;
        let code = data.problem().unwrap_or_default();
        ensure!(code == "admission_missing", "a script is refused with {code:?}");
        self.tell(format!("the same by a script: {} {code}", data.status));

        let joined: Standing = self.call("join").await?;
        self.tell(format!("join: arrival {}, {}", joined.arrival.0, joined.phase.as_str()));
        let again: Standing = self.call("join").await?;
        ensure!(
            again.ticket == joined.ticket && again.arrival == joined.arrival && !joined.ticket.is_empty(),
            "a second join gave another ticket: {again:?}"
        );
        self.tell("join again: the same ticket, byte for byte");
        ensure!(
            joined.phase == Phase::PreQueue,
            "joined in the phase {}, not before the draw",
            joined.phase.as_str()
        );
        let status = self.status().await?;
        ensure!(status.state == "waiting" && status.place.is_none(), "before the draw: {status:?}");
        self.tell("status: waiting for the draw; no place before it");
        Ok(joined.arrival)
    }

    async fn draw(&self, arrival: Arrival) -> anyhow::Result<Place> {
        let snapshot = self.until("the draw was made", |snapshot| snapshot.shuffle().is_some()).await?;
        let jwks = self.browser.fetch("/.well-known/jwks.json").await?.expect("the key set", &[200])?;
        let keys = KeySet::from_jwks(&jwks.body)?;
        let path = format!("{API}/sales/{SALE}/draw");
        let document: DrawDocument = self.browser.fetch(&path).await?.expect("the draw", &[200])?.json()?;
        let verification = document.verify(&keys, &[]);
        for check in &verification.checks {
            let text = match &check.outcome {
                Outcome::Good(text) => text.clone(),
                Outcome::Trusted(text) => format!("on the operator's word: {text}"),
                Outcome::Bad(text) => format!("BAD: {text}"),
                Outcome::Pending(text) => format!("not yet: {text}"),
            };
            self.tell(format!("draw, {}: {text}", check.name));
        }
        ensure!(verification.is_good(), "the draw is not as promised");
        let shuffle = verification.drawn.context("the draw's document has no places yet")?.shuffle;
        let place = shuffle.place(arrival);
        let status = self.status().await?;
        ensure!(
            status.place == Some(place) && snapshot.place(arrival) == Some(place),
            "place {} computed from the draw, told: {status:?}",
            place.0
        );
        self.tell(format!(
            "arrival {} of {} got place {}: computed here, and told the same",
            arrival.0,
            shuffle.size(),
            place.0
        ));
        Ok(place)
    }

    async fn wait(&self, arrival: Arrival, place: Place, tally: &Tally) -> anyhow::Result<()> {
        let early = self.browser.post(&format!("{API}/claim"), &json!({ "sale": SALE })).await?;
        let mut told = Instant::now();
        if early.status == 409 {
            self.tell(format!("claim too early: 409 {}", early.problem().unwrap_or_default()));
        }
        let mut eta_seen = false;
        loop {
            let (snapshot, answer) = snapshot::fetch(&self.browser).await?;
            tally.counts().polled(answer.took);
            if place < snapshot.serving {
                break;
            }
            ensure!(!snapshot.is_over(), "the sale was over before place {} was called", place.0);
            let status = self.status().await?;
            // The first time with an ETA, and every few seconds.
            let news = !eta_seen && status.eta.is_some();
            if status.state == "waiting" && (news || told.elapsed() > Duration::from_secs(4)) {
                eta_seen |= status.eta.is_some();
                told = Instant::now();
                let eta = status.eta.map_or_else(
                    || "not known yet".to_owned(),
                    |eta| format!("{} to {} s", eta.low_s, eta.high_s),
                );
                self.tell(format!("waiting: {} ahead, ETA {eta}", status.ahead.unwrap_or_default()));
            }
            sleep(snapshot.poll_after(arrival, Some(place))).await;
        }
        self.tell(format!("called: place {} is below serving", place.0));
        Ok(())
    }

    async fn claim(&self) -> anyhow::Result<String> {
        let document = json!({ "sale": SALE });
        let path = format!("{API}/claim");
        let mut answer = self.browser.post(&path, &document).await?;
        // Polled too late for the call, on a machine that is very busy: the queue calls once more.
        while answer.problem().as_deref() == Some("recall_pending") {
            self.tell("the call had lapsed; waiting to be called again");
            sleep(answer.retry_after().unwrap_or(SOON)).await;
            answer = self.browser.post(&path, &document).await?;
        }
        let answer = answer.expect("claim", &[200])?;
        let again = self.browser.post(&path, &document).await?.expect("claim again", &[200])?;
        ensure!(answer.body == again.body, "claimed twice, two answers: {} {}", answer.text(), again.text());
        let name = cookie::admission(SALE, false);
        let token = self.browser.cookie(&name).context("the claim set no admission cookie")?;
        self.tell(format!("claim: an admission token of {} bytes; claim again: the same bytes", token.len()));
        Ok(token)
    }

    /// With the admission the page is there; and a window that knows the ticket alone, without any script, is let in
    /// by the page itself and sent on to where it wanted to go.
    async fn enter(&self, token: &str) -> anyhow::Result<()> {
        let name = cookie::admission(SALE, false);
        let other = self.browser.without(&name);
        let sent = other.visit(WANTED).await?.expect("the page, with a ticket alone", &[303])?;
        let location = sent.header("location").unwrap_or_default().to_owned();
        ensure!(location == WANTED, "sent to {location}, not to {WANTED}");
        ensure!(other.cookie(&name).as_deref() == Some(token), "the page's own claim gave another token");
        self.tell(format!("a window without script: 303 to {location}, with the same token"));
        for browser in [&other, &self.browser] {
            let page = browser.visit(WANTED).await?.expect("the product page", &[200])?;
            ensure!(
                !page.is_room() && page.text().contains("Reserve"),
                "not the product page: {}",
                page.text()
            );
            let leak = page.headers.keys().find(|name| name.as_str().starts_with("ropeline-"));
            ensure!(leak.is_none(), "the public is told {leak:?}");
        }
        self.tell(format!("GET {WANTED}: 200, the product page"));
        Ok(())
    }

    async fn buy(&self) -> anyhow::Result<String> {
        let path = format!("{PRODUCT_PAGE}/reservations");
        let one = json!({ "quantity": 1 });
        let first = self.browser.order(&path, "scripted-1", &one).await?.expect("reserve", &[201])?;
        let hold: Reservation = first.json()?;
        self.tell(format!("reserve: 201, {} is {}", hold.id, hold.state));
        let repeated = self.browser.order(&path, "scripted-1", &one).await?;
        ensure!(repeated.body == first.body, "the same request, another answer: {}", repeated.text());
        let again = self.browser.order(&path, "scripted-2", &one).await?.expect("reserve again", &[200])?;
        let again: Reservation = again.json()?;
        ensure!(again.id == hold.id, "one visitor holds {} and {}", hold.id, again.id);
        self.tell("reserve again: 200, the same hold");

        let path = format!("/reservations/{}/purchases", hold.id);
        let card = json!({ "payment_method": "test_accepted" });
        let paid = self.browser.order(&path, "scripted-3", &card).await?.expect("pay", &[201])?;
        let purchase: Purchase = paid.json()?;
        ensure!(purchase.state == "sold", "paid, and the purchase is {}", purchase.state);
        let repeated = self.browser.order(&path, "scripted-3", &card).await?;
        ensure!(repeated.body == paid.body, "paid twice: {}", repeated.text());
        self.tell(format!("pay: 201, {} is {}; pay again: the same answer", purchase.id, purchase.state));

        let path = format!("/purchases/{}", purchase.id);
        let owned: Purchase = self.browser.fetch(&path).await?.expect("the purchase", &[200])?.json()?;
        ensure!(owned.state == "sold", "the purchase is {}", owned.state);
        let page = self.browser.visit(PRODUCT_PAGE).await?.expect("the product page", &[200])?;
        ensure!(page.text().contains("It is yours"), "the product page does not say so: {}", page.text());
        self.tell("the purchase is there, and the product page says: It is yours.");
        Ok(purchase.id)
    }

    async fn until(&self, what: &str, condition: impl Fn(&Snapshot) -> bool) -> anyhow::Result<Snapshot> {
        loop {
            let (snapshot, _) = snapshot::fetch(&self.browser).await?;
            if condition(&snapshot) {
                return Ok(snapshot);
            }
            ensure!(!snapshot.is_over(), "the sale was over before {what}");
            sleep(SOON).await;
        }
    }

    async fn call(&self, call: &str) -> anyhow::Result<Standing> {
        let answer = self.browser.post(&format!("{API}/{call}"), &json!({ "sale": SALE })).await?;
        answer.expect(call, &[200])?.json()
    }

    async fn status(&self) -> anyhow::Result<Standing> {
        let path = format!("{API}/status?sale={SALE}");
        self.browser.fetch(&path).await?.expect("status", &[200])?.json()
    }
}
