//! The crowd: shoppers who come, wait, claim, reserve and pay, each by its own character.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use ropeline_queue::Arrival;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::character::{Character, Shopping, Waiting};
use super::plan::{PRODUCT_PAGE, Plan, SALE};
use super::snapshot;
use super::tally::{Ending, Tally};
use super::web::{Answer, Browser, Web};

/// The shopper's calls.
pub(super) const API: &str = "/api/v1/queue";

/// How often a shopper asks after a payment that takes its time, or for a unit while all are held.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Sends the whole crowd to the sale that begins at `start`; done when everybody is through.
pub(super) async fn run(plan: Arc<Plan>, web: Web, tally: Arc<Tally>, start: Instant) {
    let mut crowd = JoinSet::new();
    for number in 0..plan.shoppers {
        let character = Character::of(&plan, number);
        let shopper =
            Shopper { plan: Arc::clone(&plan), browser: web.browser(), tally: Arc::clone(&tally), character };
        crowd.spawn(async move {
            tokio::time::sleep_until(start + shopper.character.comes).await;
            let tally = Arc::clone(&shopper.tally);
            tally.ended(shopper.live().await);
        });
    }
    while let Some(ended) = crowd.join_next().await {
        if let Err(error) = ended {
            tally.counts().fault(error.to_string());
        }
    }
}

struct Shopper {
    plan: Arc<Plan>,
    browser: Browser,
    tally: Arc<Tally>,
    character: Character,
}

/// A reservation as the shop shows it.
#[derive(Debug, Deserialize)]
pub(super) struct Reservation {
    /// Names it.
    pub(super) id: String,
    /// Where it stands.
    pub(super) state: String,
}

/// A purchase as the shop shows it.
#[derive(Debug, Deserialize)]
pub(super) struct Purchase {
    /// Names it.
    pub(super) id: String,
    /// Where it stands.
    pub(super) state: String,
}

#[derive(Deserialize)]
struct Joined {
    arrival: u64,
}

enum Called {
    Admitted,
    Not(Ending),
}

enum Reserved {
    Yes(Reservation),
    SoldOut,
}

enum Paid {
    Bought,
    Declined,
    TooLate,
}

// === impl Shopper ===

impl Shopper {
    async fn live(mut self) -> anyhow::Result<Ending> {
        // Whoever comes is shown the room, however little of the sale is left.
        let page = self.browser.visit(PRODUCT_PAGE).await?.expect("protected page", &[200])?;
        ensure!(page.is_room(), "the product page was shown to somebody without an admission");
        let joined = self.call("join").await?;
        if joined.status == 409 {
            return self.over(&joined);
        }
        let Joined { arrival } = joined.expect("join", &[200])?.json()?;
        self.tally.counts().joined += 1;
        if self.character.waiting == Waiting::Vanishes {
            return Ok(Ending::Vanished);
        }
        match self.wait(Arrival(arrival)).await? {
            Called::Admitted => self.shop().await,
            Called::Not(ending) => Ok(ending),
        }
    }

    /// Waits as the room's script does: by the snapshot alone, until the place computed here has been called.
    async fn wait(&mut self, arrival: Arrival) -> anyhow::Result<Called> {
        let (mut place, mut looks) = (None, 0);
        loop {
            let (snapshot, answer) = snapshot::fetch(&self.browser).await?;
            self.tally.counts().polled(answer.took);
            place = place.or_else(|| snapshot.place(arrival));
            looks += 1;
            if place.is_some_and(|place| place < snapshot.serving) {
                break;
            }
            if snapshot.is_over() {
                return Ok(Called::Not(Ending::SoldOut));
            }
            if self.character.waiting == (Waiting::Leaves { looks }) {
                self.call("leave").await?.expect("leave", &[204])?;
                return Ok(Called::Not(Ending::Left));
            }
            sleep(snapshot.poll_after(arrival, place)).await;
        }
        if self.character.waiting == Waiting::OverSleeps {
            sleep(self.plan.claim_window + ASK_AGAIN).await;
        }
        self.claim().await
    }

    async fn claim(&mut self) -> anyhow::Result<Called> {
        let mut recall = false;
        loop {
            let answer = self.call("claim").await?;
            match (answer.status, answer.problem().as_deref()) {
                (200, _) => {
                    let mut counts = self.tally.counts();
                    counts.admitted += 1;
                    counts.recalled += u64::from(recall);
                    return Ok(Called::Admitted);
                }
                (409, Some("recall_pending")) => recall = true,
                (409, Some("sold_out")) => return Ok(Called::Not(Ending::SoldOut)),
                (410, Some("lapsed")) => return Ok(Called::Not(Ending::Missed)),
                _ => bail!("claim: answered {} {}", answer.status, answer.text()),
            }
            sleep(answer.retry_after().unwrap_or(ASK_AGAIN)).await;
        }
    }

    async fn shop(&mut self) -> anyhow::Result<Ending> {
        let page = self.browser.visit(PRODUCT_PAGE).await?.expect("product page", &[200])?;
        ensure!(!page.is_room(), "the room was shown to somebody with an admission");
        self.think().await;
        if self.character.shopping == Shopping::Looks {
            self.call("leave").await?.expect("leave", &[204])?;
            return Ok(Ending::Looked);
        }
        let Reserved::Yes(hold) = self.reserve().await? else {
            self.call("leave").await?.expect("leave", &[204])?;
            return Ok(Ending::SoldOut);
        };
        self.think().await;
        let paid = match self.character.shopping {
            Shopping::LetsHoldRunOut => return self.let_run_out(&hold).await,
            Shopping::Buys { card, greedy, .. } => {
                let paid = self.pay(&hold, card).await?;
                if greedy && matches!(paid, Paid::Bought) {
                    self.ask_for_a_second_unit().await?;
                }
                paid
            }
            Shopping::PaysWithSecondCard => match self.pay(&hold, "test_declined").await? {
                Paid::Declined => {
                    self.think().await;
                    self.pay(&hold, "test_accepted").await?
                }
                paid => paid,
            },
            Shopping::Declined | Shopping::Looks => self.pay(&hold, "test_declined").await?,
        };
        let ending = match paid {
            // The purchase ends the admission; there is nothing to leave.
            Paid::Bought => return Ok(Ending::Bought),
            Paid::Declined => {
                self.browser
                    .delete(&format!("/reservations/{}", hold.id))
                    .await?
                    .expect("give back", &[204])?;
                Ending::Declined
            }
            Paid::TooLate => Ending::HoldRanOut,
        };
        self.call("leave").await?.expect("leave", &[204])?;
        Ok(ending)
    }

    async fn reserve(&mut self) -> anyhow::Result<Reserved> {
        let double = matches!(self.character.shopping, Shopping::Buys { double_click: true, .. });
        loop {
            let (first, second) = (self.character.key(), self.character.key());
            let answer = if double {
                let (one, other) = tokio::join!(self.ask_for_unit(&first), self.ask_for_unit(&second));
                self.same_hold(one?, &other?)?
            } else {
                self.ask_for_unit(&first).await?
            };
            match (answer.status, answer.problem().as_deref()) {
                (200 | 201, _) => return Ok(Reserved::Yes(answer.json()?)),
                (409, Some("sold_out")) => return Ok(Reserved::SoldOut),
                (409, Some("all_held")) => sleep(answer.retry_after().unwrap_or(ASK_AGAIN)).await,
                _ => bail!("reserve: answered {} {}", answer.status, answer.text()),
            }
        }
    }

    async fn ask_for_unit(&self, key: &str) -> anyhow::Result<Answer> {
        self.browser.order(&format!("{PRODUCT_PAGE}/reservations"), key, &json!({ "quantity": 1 })).await
    }

    /// Two orders of one instant come to one hold, or to none.
    fn same_hold(&self, one: Answer, other: &Answer) -> anyhow::Result<Answer> {
        if one.status < 300 && other.status < 300 {
            let (first, second): (Reservation, Reservation) = (one.json()?, other.json()?);
            ensure!(first.id == second.id, "one visitor holds {} and {}", first.id, second.id);
            self.tally.counts().double_clicks += 1;
        }
        Ok(if one.status < 300 { one } else { other.clone() })
    }

    async fn ask_for_a_second_unit(&mut self) -> anyhow::Result<()> {
        let key = self.character.key();
        let answer = self.ask_for_unit(&key).await?;
        let code = answer.problem();
        ensure!(
            code.as_deref() == Some("already_bought"),
            "a second unit: answered {} {}",
            answer.status,
            answer.text()
        );
        self.tally.counts().second_refused += 1;
        Ok(())
    }

    async fn pay(&mut self, hold: &Reservation, card: &str) -> anyhow::Result<Paid> {
        let path = format!("/reservations/{}/purchases", hold.id);
        let key = self.character.key();
        let answer = self.browser.order(&path, &key, &json!({ "payment_method": card })).await?;
        match answer.status {
            201 | 202 => self.settled(answer.json()?).await,
            402 => {
                self.tally.counts().declined += 1;
                Ok(Paid::Declined)
            }
            409 if matches!(answer.problem().as_deref(), Some("hold_over" | "payment_too_late")) => {
                Ok(Paid::TooLate)
            }
            _ => bail!("pay: answered {} {}", answer.status, answer.text()),
        }
    }

    async fn settled(&self, mut purchase: Purchase) -> anyhow::Result<Paid> {
        loop {
            match purchase.state.as_str() {
                "sold" => {
                    let unit = purchase.id.clone();
                    let new = self.tally.counts().purchases.insert(purchase.id);
                    ensure!(new, "purchase {unit} was confirmed to two shoppers");
                    return Ok(Paid::Bought);
                }
                "authorising" | "capturing" => sleep(ASK_AGAIN).await,
                _ => return Ok(Paid::TooLate),
            }
            let answer = self.browser.fetch(&format!("/purchases/{}", purchase.id)).await?;
            purchase = answer.expect("purchase", &[200])?.json()?;
        }
    }

    async fn let_run_out(&self, hold: &Reservation) -> anyhow::Result<Ending> {
        let path = format!("/reservations/{}", hold.id);
        let end = Instant::now() + self.plan.hold * 3;
        loop {
            sleep(self.plan.hold / 4).await;
            let answer = self.browser.fetch(&path).await?;
            let hold: Reservation = answer.expect("reservation", &[200])?.json()?;
            if hold.state == "expired" {
                break;
            }
            ensure!(Instant::now() < end, "a hold outlived its time: {hold:?}");
        }
        self.call("leave").await?.expect("leave", &[204])?;
        Ok(Ending::HoldRanOut)
    }

    async fn call(&self, call: &str) -> anyhow::Result<Answer> {
        self.browser.post(&format!("{API}/{call}"), &json!({ "sale": SALE })).await
    }

    /// Whoever comes when all is sold is told so, and nothing else keeps anybody out.
    fn over(&self, joined: &Answer) -> anyhow::Result<Ending> {
        let code = joined.problem().context("join: refused without a reason")?;
        ensure!(matches!(code.as_str(), "sold_out" | "closed"), "join: refused, {code}");
        Ok(Ending::SoldOut)
    }

    async fn think(&mut self) {
        let time = self.character.thinks(&self.plan);
        sleep(time).await;
    }
}
