//! Who takes up room, and for how long: cases 3 and 4.

use reqwest::StatusCode;
use ropeline_tests::wait::{until, until_clock, within};
use serde_json::{Value, json};
use std::time::Duration;

use crate::common::*;

fn total(sale: &Value, name: &str) -> u64 {
    number(&sale["totals"][name])
}

#[tokio::test]
async fn case_3_places_that_nobody_claims_lapse_on_the_clock_and_the_queue_goes_on_under_its_cap() {
    let sale = sale()
        .set("max_active", "5")
        .set("pace", r#"{ admit = 5, every = "100ms" }"#)
        .set("claim_window", r#""1s""#)
        .set("recall_grace", r#""0s""#);
    let house = House::open(sale).await;
    let crowd = crowd(&house.gateway, 20).await;
    // From here on nobody in the queue asks for anything.
    let sale = until("all were called and have lapsed", || async {
        let sale = house.sale().await;
        let busy = number(&sale["active"]) + number(&sale["unclaimed"]);
        assert!(busy <= 5, "the cap does not hold: {sale}");
        (total(&sale, "lapsed") == 20).then_some(sale)
    })
    .await;
    assert_eq!((number(&sale["serving"]), total(&sale, "claimed")), (20, 0), "{sale}");

    let status = crowd[0].status(SALE).await.json();
    assert_eq!((&status["state"], &status["recallable"]), (&json!("lapsed"), &json!(false)), "{status}");
    let claim = crowd[0].claim(SALE).await;
    assert_eq!((claim.status, claim.problem().as_str()), (StatusCode::GONE, "lapsed"));
}

#[tokio::test]
async fn case_3_the_pace_makes_up_for_those_who_never_come() {
    const RATE: u64 = 20;
    const BURST: u64 = 20;
    let sale = sale_not_yet_open()
        .set("compensate_no_shows", "true")
        .set("pace", &format!(r#"{{ admit = {RATE}, per = "1s", burst = {BURST} }}"#))
        .set("claim_window", r#""1s""#);
    let house = House::open(sale).await;
    crowd(&house.gateway, 500).await;
    house.gateway.command(SALE, "open", &json!({})).await;
    let start = until("it is known that nobody comes", || async {
        let sale = house.sale().await;
        (total(&sale, "lapsed") >= RATE).then_some(sale)
    })
    .await;
    until("more were called than the bare pace allows", || async {
        let sale = house.sale().await;
        let called = total(&sale, "called") - total(&start, "called");
        let seconds = (number(&sale["as_of"]) - number(&start["as_of"])).div_ceil(1_000);
        assert!(called <= 2 * (RATE * seconds + BURST), "twice the pace is the most: {sale}");
        (called > RATE * seconds + BURST).then_some(())
    })
    .await;
}

#[tokio::test]
async fn case_4_a_lease_that_ends_frees_its_capacity_within_a_second_with_no_request_from_anybody() {
    const WINDOW_MS: u64 = 60_000;
    let sale = sale_for_one().set("lease", r#""2s""#).set("claim_window", r#""1m""#);
    let house = House::open(sale.set("pace", r#"{ admit = 1, every = "100ms" }"#)).await;
    let first = house.joined().await;
    let claimed = admitted(&first).await.json();
    let next = house.joined().await;
    assert_eq!(state(&next).await, "waiting");

    // The token's time is in whole seconds, so that the lease ends within the second that begins then.
    let ends = number(&claimed["expires_at"]) * 1_000;
    until_clock(ends + 2_000).await;
    let status = next.status(SALE).await.json();
    assert_eq!(status["state"], "called", "{status}");
    let called_at = number(&status["call_expires_at"]) - WINDOW_MS;
    assert!((ends..ends + 10_000).contains(&called_at), "the lease ended at {ends}, called at {called_at}");
}

#[tokio::test]
async fn case_4_a_lease_that_the_shop_or_its_visitor_ends_frees_its_capacity_within_a_second() {
    let house = House::open(sale_for_one().set("pace", r#"{ admit = 1, every = "100ms" }"#)).await;
    let first = house.admitted().await;
    let next = house.joined().await;
    let last = house.joined().await;
    house.shop.say(&[("Ropeline-Lease", "end")]);
    assert_eq!(first.visit(PAGE).await.status, StatusCode::OK);
    within(Duration::from_secs(1), "the next is called", || async {
        (state(&next).await == "called").then_some(())
    })
    .await;
    admitted(&next).await;
    assert_eq!(state(&last).await, "waiting");
    next.leave(SALE).await;
    within(Duration::from_secs(1), "the last is called", || async {
        (state(&last).await == "called").then_some(())
    })
    .await;
}
