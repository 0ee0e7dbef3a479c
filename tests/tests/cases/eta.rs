//! The wait that is shown: case 2.

use reqwest::Method;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;
use serde_json::{Value, json};

use crate::common::*;

/// Calls a second, and a minute.
const PACE: u64 = 5;
const PER_MINUTE: f64 = 60.0 * PACE as f64;

/// A number a minute, as a range, or a wait in seconds.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn read(value: &Value, low: &str, high: &str) -> Option<Self> {
        let number = |name: &str| value[name].as_f64().unwrap_or_else(|| panic!("{value}"));
        (!value.is_null()).then(|| Self { low: number(low), high: number(high) })
    }

    fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether neither end is more than a third off what it was: a quarter is what one measurement may move it.
    fn is_near(self, before: Self) -> bool {
        let near = |now: f64, before: f64| now <= before * 1.34 && now >= before / 1.34;
        near(self.low, before.low) && near(self.high, before.high)
    }
}

/// What is shown at one instant, to everybody and to the last in the queue.
struct Shown {
    serving: u64,
    rate: Option<Range>,
    /// Seconds for each place ahead, so that the queue's own progress is no change.
    pace: Option<Range>,
}

async fn look(house: &House, last: &Visitor) -> Shown {
    let snapshot = house.snapshot().await;
    let status = last.status(SALE).await.json();
    let eta = Range::read(&status["eta"], "low_s", "high_s");
    if let Some(eta) = eta {
        assert!(eta.low <= eta.high, "{status}");
    }
    let ahead = number(&status["ahead"]) as f64;
    Shown {
        serving: number(&snapshot["serving"]),
        rate: Range::read(&snapshot["rate"], "low", "high"),
        pace: eta.map(|eta| Range { low: eta.low / ahead, high: eta.high / ahead }),
    }
}

/// What is shown once the queue has moved on, which is no leap from what was.
async fn moved_on(house: &House, last: &Visitor, before: Shown) -> Shown {
    let now = until("the queue moves on", || async {
        let now = look(house, last).await;
        (now.serving > before.serving).then_some(now)
    })
    .await;
    for (what, before, now) in [("rate", before.rate, now.rate), ("wait", before.pace, now.pace)] {
        let (Some(before), Some(now)) = (before, now) else { panic!("the {what} is unknown again") };
        assert!(now.is_near(before), "the {what} jumped: {before:?} -> {now:?}");
    }
    now
}

#[tokio::test]
async fn case_2_a_wait_that_hangs_on_how_long_others_stay_is_not_made_up() {
    let house =
        House::open(sale().set("max_active", "3").set("pace", r#"{ admit = 1, every = "5s" }"#)).await;
    let crowd = crowd(&house.gateway, 6).await;
    let mut known = Vec::new();
    for visitor in &crowd {
        let status = visitor.status(SALE).await.json();
        if status["state"] == "waiting" {
            known.push((number(&status["place"]), !status["eta"].is_null()));
        }
    }
    known.sort_unstable();
    assert!(known.len() >= 3, "{known:?}");
    assert!(known.iter().all(|(place, known)| *known == (*place < 3)), "three have room: {known:?}");
}

#[tokio::test]
async fn case_2_the_wait_is_a_true_range_from_the_opening_on_and_never_jumps() {
    let pace = format!(r#"{{ admit = {PACE}, per = "1s", burst = {PACE} }}"#);
    // Room for everybody: nothing but the pace is in the way.
    let house = House::open(sale_not_yet_open().set("pace", &pace).set("max_active", "5000")).await;
    let crowd = crowd(&house.gateway, 700).await;
    let last = crowd.last().expect("a crowd");
    let before = look(&house, last).await;
    assert!(before.rate.is_none() && before.pace.is_none(), "made up before anybody was called");
    house.gateway.command(SALE, "open", &json!({})).await;

    // What the pace lets expect, long before three stretches of five seconds have been measured.
    let mut shown = look(&house, last).await;
    assert!(shown.serving < 15 * PACE, "measured before it could be looked at");
    let (rate, wait) = (shown.rate.expect("a rate"), shown.pace.expect("a wait"));
    assert!(rate.holds(PER_MINUTE) && rate.high <= PER_MINUTE, "more than the pace allows: {rate:?}");
    assert!(wait.holds(1.0 / PACE as f64), "{wait:?}");
    let measured = shown.serving + 30 * PACE;
    while shown.serving < measured {
        shown = moved_on(&house, last, shown).await;
    }
    let rate = shown.rate.unwrap();
    assert!(rate.holds(PER_MINUTE) && rate.high < 1.2 * rate.low, "still no more than a guess: {rate:?}");

    // The operator lets in many at once, for which the measurements before them still count.
    let admit = json!({ "sale": SALE, "batch_size": 75 });
    house.gateway.operator(Method::POST, "/api/v1/queue/admit", Some(&admit)).await;
    let end = shown.serving + 75 + 20 * PACE;
    while shown.serving < end {
        shown = moved_on(&house, last, shown).await;
    }

    house.gateway.command(SALE, "pause", &json!({ "reason": "a van is unloaded" })).await;
    let paused = look(&house, last).await;
    assert!(paused.rate.is_none() && paused.pace.is_none(), "a queue that stands still has no wait to tell");
}
