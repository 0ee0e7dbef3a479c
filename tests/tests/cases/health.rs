//! How the shop is doing decides how many are let in: case 21.

use std::time::Duration;

use reqwest::StatusCode;
use ropeline_tests::origin::Tuning;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;
use serde_json::{Value, json};

use crate::common::*;

/// How soon the queue follows what the shop says.
const SOON: Duration = Duration::from_secs(2);

/// A sale with room for ten that calls one after the other.
fn slowly() -> ropeline_tests::gateway::Sale {
    sale().set("max_active", "10").set("pace", r#"{ admit = 1, every = "300ms" }"#)
}

fn called(sale: &Value) -> u64 {
    number(&sale["totals"]["called"])
}

/// Waits for a second of the sale's own clock in which nobody was called, though somebody waits and there is room.
async fn nobody_is_called(gateway: &ropeline_tests::gateway::Gateway, inside: &Visitor, page: &str) {
    let mut since = gateway.sale(SALE).await;
    let mut now = since.clone();
    let begun = number(&since["as_of"]);
    while number(&now["as_of"]) < number(&since["as_of"]) + 1_000 {
        inside.visit(page).await;
        now = gateway.sale(SALE).await;
        if called(&now) != called(&since) {
            since = now.clone();
        }
        assert!(number(&now["as_of"]) < begun + 30_000, "people are let in all the same: {now}");
    }
    let busy = number(&now["active"]) + number(&now["unclaimed"]);
    assert!(busy < 10 && number(&now["waiting"]) > 0, "it was not the shop's health that held them: {now}");
}

#[tokio::test]
async fn case_21_a_shop_that_says_it_has_enough_to_do_is_sent_fewer_within_two_seconds_until_it_says_otherwise()
 {
    let house = House::open(slowly()).await;
    let inside = house.admitted().await;
    let _others = [house.admitted().await, house.admitted().await, house.admitted().await];
    house.shop.say(&[("Ropeline-Load", "130")]);
    let told = inside.visit(PAGE).await;
    assert!(told.header("ropeline-load").is_none(), "the public is told how busy the shop is");
    tokio::time::sleep(SOON).await;
    let waiting = house.joined().await;
    let last = house.joined().await;
    nobody_is_called(&house.gateway, &inside, PAGE).await;
    let (place, behind) = (waiting.status(SALE).await.json(), last.status(SALE).await.json());
    assert_eq!(
        (&place["state"], &behind["state"]),
        (&json!("waiting"), &json!("waiting")),
        "{place} {behind}"
    );

    house.shop.say(&[("Ropeline-Load", "20")]);
    until("the next are called once the shop has less to do", || async {
        for _ in 0..5 {
            inside.visit(PAGE).await;
        }
        (state(&waiting).await == "called" && state(&last).await == "called").then_some(())
    })
    .await;
    assert_eq!(last.status(SALE).await.json()["arrival"], behind["arrival"], "a place was lost");
}

#[tokio::test]
async fn case_21_the_reservation_service_tells_how_busy_it_is() {
    // Whoever asks it anything is as much as it wants to have.
    let tuning = Tuning { requests_at_once: 1, ..Tuning::default() };
    let (gateway, mut origin) = with_origin_tuned(100, 300, tuning, slowly()).await;
    let inside = joined(&gateway).await;
    admitted(&inside).await;
    for _ in 0..3 {
        admitted(&joined(&gateway).await).await;
    }
    let page = format!("/products/{SALE}");
    assert_eq!(inside.visit(&page).await.status, StatusCode::OK);
    tokio::time::sleep(SOON).await;
    let waiting = [joined(&gateway).await, joined(&gateway).await];
    nobody_is_called(&gateway, &inside, &page).await;
    assert_eq!(state(&waiting[1]).await, "waiting");
    assert!(origin.process().running());
}

#[tokio::test]
async fn case_21_a_shop_that_fails_at_confirmation_closes_the_door_keeps_every_place_and_reopens_gently() {
    let (gateway, mut origin) = with_origin(100, slowly()).await;
    let page = format!("/products/{SALE}");
    let inside = joined(&gateway).await;
    admitted(&inside).await;
    let held = reserve(&inside, "hold").await;
    assert_eq!(held.status, StatusCode::CREATED, "{}", held.text());
    let purchases = held.json()["links"]["purchases"].as_str().unwrap().to_owned();
    let pay = json!({ "payment_method": "test_accepted" });

    origin.process().kill();
    // Who confirms is told that it did not work, and tries again; that is how the queue knows.
    for _ in 0..40 {
        let failed = post_once(&inside, &purchases, "pay", &pay).await;
        assert!(failed.status.is_server_error(), "{}", failed.status);
    }
    tokio::time::sleep(SOON).await;
    let crowd = [joined(&gateway).await, joined(&gateway).await, joined(&gateway).await];
    nobody_is_called(&gateway, &inside, &page).await;
    let mut arrivals = Vec::new();
    for one in &crowd {
        arrivals.push(one.status(SALE).await.json()["arrival"].clone());
    }

    origin.restart().await;
    // The same call with the same key: confirmed, once.
    let paid = until("the confirmation succeeds", || async {
        let paid = post_once(&inside, &purchases, "pay", &pay).await;
        (paid.status == StatusCode::CREATED).then_some(paid)
    })
    .await;
    assert_eq!(paid.json()["state"], "sold");
    // One is let in first; while those inside are answered well, the next.
    until("everybody is in in the end", || async {
        let mut all = true;
        for one in &crowd {
            let is_in = one.claim(SALE).await.status == StatusCode::OK;
            if is_in {
                for _ in 0..4 {
                    one.visit(&page).await;
                }
            }
            all &= is_in;
        }
        all.then_some(())
    })
    .await;
    for (one, arrival) in crowd.iter().zip(&arrivals) {
        assert_eq!(&one.status(SALE).await.json()["arrival"], arrival, "a place was lost");
    }
}
