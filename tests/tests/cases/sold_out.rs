//! When everything is gone: case 13.

use std::time::Duration;

use reqwest::StatusCode;
use ropeline_tests::shop::BODY;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::{until, within};
use serde_json::{Value, json};

use crate::common::*;

/// How soon everybody is to know.
const SOON: Duration = Duration::from_secs(2);
/// What the room says, and how its markup shows it.
const WORDS: &str = "There is no need to wait.";
const MARK: &str = r#"data-state="sold_out""#;

fn says_so(page: &str) -> bool {
    page.contains(WORDS) && page.contains(MARK)
}

/// All at once, so that the slowest of them counts.
async fn everybody_knows(house: &House, waiting: &Visitor, outside: &Visitor) {
    within(SOON, "everybody knows that it is sold out", || async {
        let (snapshot, room) = (house.snapshot().await, house.room().await);
        let (status, page) = (state(waiting).await, waiting.visit(PAGE).await.text());
        let stranger = outside.visit(PAGE).await.text();
        let known = snapshot["phase"] == "sold_out"
            && status == "sold_out"
            && [room, page, stranger].iter().all(|page| says_so(page));
        known.then_some(())
    })
    .await;
}

/// Room is made and time goes by, and nobody is called.
async fn nobody_is_called(house: &House, inside: &Visitor, waiting: &Visitor) {
    let before = house.sale().await;
    inside.leave(SALE).await;
    until("a second has gone by with room for another", || async {
        let sale = house.sale().await;
        (sale["active"] == 0 && number(&sale["as_of"]) > number(&before["as_of"]) + 1_000).then_some(())
    })
    .await;
    let after = house.sale().await;
    assert_eq!(
        (&after["serving"], &after["totals"]["called"]),
        (&before["serving"], &before["totals"]["called"])
    );
    let claim = waiting.claim(SALE).await;
    assert_eq!((claim.status, claim.problem().as_str()), (StatusCode::CONFLICT, "sold_out"));
}

/// Whoever comes now is told so and not put into a queue.
async fn nobody_joins(outside: &Visitor) {
    let join = outside.join(SALE).await;
    assert_eq!((join.status, join.problem().as_str()), (StatusCode::CONFLICT, "sold_out"));
}

#[tokio::test]
async fn case_13_the_shops_last_unit_is_known_to_everybody_within_two_seconds_and_the_calls_stop() {
    let house = House::open(sale_for_one().set("pace", r#"{ admit = 1, every = "100ms" }"#)).await;
    let (inside, waiting, outside) = (house.admitted().await, house.joined().await, house.visitor());
    assert_eq!(house.snapshot().await["stock"], Value::Null);

    house.shop.say(&[("Ropeline-Stock", "1")]);
    let told = inside.visit(PAGE).await;
    assert_eq!(told.text(), BODY);
    assert!(told.headers.get("ropeline-stock").is_none(), "the public is not told through the shop's header");
    let snapshot = within(SOON, "the stock is known", || async {
        let snapshot = house.snapshot().await;
        (snapshot["stock"]["available"] == 1).then_some(snapshot)
    })
    .await;
    // Near the end nobody is sent away for long.
    assert!(number(&snapshot["poll_after_ms"]) <= 2_000, "{snapshot}");
    within(SOON, "whoever waits looks again soon", || async {
        let status = waiting.status(SALE).await.json();
        (number(&status["poll_after_ms"]) <= 2_000).then_some(())
    })
    .await;
    assert_eq!(snapshot["phase"], "open");

    house.shop.say(&[("Ropeline-Stock", "0")]);
    inside.visit(PAGE).await;
    everybody_knows(&house, &waiting, &outside).await;
    nobody_joins(&outside).await;
    nobody_is_called(&house, &inside, &waiting).await;
}

#[tokio::test]
async fn case_13_the_operators_word_reaches_everybody_within_two_seconds_and_can_be_taken_back() {
    let house = House::open(sale_for_one().set("pace", r#"{ admit = 1, every = "100ms" }"#)).await;
    let (inside, waiting, outside) = (house.admitted().await, house.joined().await, house.visitor());
    house.gateway.command(SALE, "sold-out", &Value::Null).await;
    everybody_knows(&house, &waiting, &outside).await;
    nobody_joins(&outside).await;
    nobody_is_called(&house, &inside, &waiting).await;

    house.gateway.command(SALE, "restock", &Value::Null).await;
    within(SOON, "the next is called", || async { (state(&waiting).await == "called").then_some(()) }).await;
    assert!(!says_so(&house.room().await));
}

#[tokio::test]
async fn case_13_what_others_hold_may_come_back_so_that_nothing_free_is_not_yet_sold_out() {
    let sale = sale().set("max_active", "2").set("pace", r#"{ admit = 1, every = "100ms" }"#);
    let house = House::open(sale).await;
    let inside = house.admitted().await;
    house.shop.say(&[("Ropeline-Stock", "0; held=1"), ("Ropeline-Lease", "hold")]);
    inside.visit(PAGE).await;
    until("the shop's word has arrived", || async {
        (house.sale().await["stock"] == json!({ "available": 0, "held": 1 })).then_some(())
    })
    .await;
    let (scout, waiting) = (house.joined().await, house.joined().await);
    let sale = house.sale().await;
    assert_eq!((&sale["phase"], &sale["unclaimed"]), (&json!("open"), &json!(0)), "called for nothing");

    house.shop.say(&[("Ropeline-Stock", "0; held=1"), ("Ropeline-Lease", "end")]);
    inside.visit(PAGE).await;
    within(SOON, "with nobody inside, one goes to look", || async {
        (state(&scout).await == "called").then_some(())
    })
    .await;
    assert_eq!((state(&waiting).await.as_str(), &house.sale().await["unclaimed"]), ("waiting", &json!(1)));
    house.shop.say(&[("Ropeline-Stock", "2; held=0")]);
    inside.visit(PAGE).await;
    within(SOON, "the unit that came back is offered", || async {
        (state(&waiting).await == "called").then_some(())
    })
    .await;
}

#[tokio::test]
async fn case_13_nothing_more_is_reserved_and_everybody_knows_once_the_last_unit_is_paid() {
    let (gateway, mut origin) = with_origin(1, sale().set("max_active", "2")).await;
    let page = format!("/products/{SALE}");
    let (ada, bob) = (joined(&gateway).await, joined(&gateway).await);
    admitted(&ada).await;
    admitted(&bob).await;
    let carl = joined(&gateway).await;
    let held = reserve(&ada, "ada-1").await;
    assert_eq!(held.status, StatusCode::CREATED, "{}", held.text());
    assert_eq!(reserve(&bob, "bob-1").await.problem(), "all_held");

    let purchases = held.json()["links"]["purchases"].as_str().unwrap().to_owned();
    let paid = post_once(&ada, &purchases, "ada-2", &json!({ "payment_method": "test_accepted" })).await;
    assert_eq!(paid.status, StatusCode::CREATED, "{}", paid.text());
    within(SOON, "who waits knows that it is sold out", || async {
        let told = state(&carl).await == "sold_out" && says_so(&carl.visit(&page).await.text());
        told.then_some(())
    })
    .await;
    assert_eq!(reserve(&bob, "bob-2").await.problem(), "sold_out");
    assert_eq!(gateway.sale(SALE).await["totals"]["called"], 2);
    assert!(origin.process().running());
}
