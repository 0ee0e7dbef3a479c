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

#[tokio::test]
async fn case_2_the_wait_is_unknown_until_it_is_measured_then_a_true_range_that_never_jumps() {
    let pace = format!(r#"{{ admit = {PACE}, per = "1s", burst = {PACE} }}"#);
    let house = House::open(sale_not_yet_open().set("pace", &pace)).await;
    let crowd = crowd(&house.gateway, 700).await;
    let last = crowd.last().expect("a crowd");
    let before = look(&house, last).await;
    assert!(before.rate.is_none() && before.pace.is_none(), "made up before anything was measured");
    house.gateway.command(SALE, "open", &json!({})).await;

    // Three stretches of five seconds are the least that says anything.
    let mut shown = until("the wait is known", || async {
        let shown = look(&house, last).await;
        (shown.rate.is_some() && shown.pace.is_some()).then_some(shown)
    })
    .await;
    assert!(shown.serving >= 15 * PACE, "known after {} calls: made up", shown.serving);
    assert!(shown.rate.unwrap().holds(PER_MINUTE), "{:?}", shown.rate);

    // The operator lets in many at once, for which the measurements before them still count.
    let admit = json!({ "sale": SALE, "batch_size": 75 });
    house.gateway.operator(Method::POST, "/api/v1/queue/admit", Some(&admit)).await;
    let end = shown.serving + 75 + 20 * PACE;
    while shown.serving < end {
        let now = until("the queue moves on", || async {
            let now = look(&house, last).await;
            (now.serving > shown.serving).then_some(now)
        })
        .await;
        let ranges = [("rate", shown.rate, now.rate), ("wait", shown.pace, now.pace)];
        for (what, before, now) in ranges {
            let (Some(before), Some(now)) = (before, now) else { panic!("the {what} is unknown again") };
            assert!(now.is_near(before), "the {what} jumped: {before:?} -> {now:?}");
        }
        shown = now;
    }

    house.gateway.command(SALE, "pause", &json!({ "reason": "a van is unloaded" })).await;
    let paused = look(&house, last).await;
    assert!(paused.rate.is_none() && paused.pace.is_none(), "a queue that stands still has no wait to tell");
}
