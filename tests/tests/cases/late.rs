//! A payment that is certain only when its hold is over: case 23.

use std::time::Duration;

use reqwest::StatusCode;
use ropeline_tests::http;
use ropeline_tests::origin::{Origin, Tuning};
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::common::*;

/// The books of the only product, as the operator reads them at the service itself.
async fn books(origin: &Origin) -> Value {
    let url = format!("http://{}/audit", origin.address());
    let text = http::client().get(url).send().await.unwrap().text().await.unwrap();
    let audit: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(audit["balanced"], true, "{audit}");
    audit["products"][0].clone()
}

/// Asks until the purchase at `path` is settled.
async fn settled(visitor: &Visitor, path: &str) -> Value {
    until("the late payment is settled", || async {
        let purchase = visitor.fetch(path).await.json();
        let state = purchase["state"].as_str()?.to_owned();
        matches!(state.as_str(), "sold" | "declined" | "voided" | "refunded").then_some(purchase)
    })
    .await
}

/// Lets time pass in one of the service's files.
async fn change(origin: &Origin, file: &str, sql: &'static str) {
    let file = SqliteConnectOptions::new().filename(origin.folder().join(file));
    let mut books = file.busy_timeout(Duration::from_secs(10)).connect().await.unwrap();
    sqlx::query(sql).execute(&mut books).await.unwrap();
    books.close().await.unwrap();
}

/// The last unit is held by one who pays so slowly with `card` that another has it meanwhile.
async fn paid_too_late(card: &str, becomes: &str, told: &str) {
    // Nothing runs out by itself: what comes first does not depend on how fast anything is.
    let tuning = Tuning { test_delay_ms: 3_600_000, ..Tuning::default() };
    let (gateway, origin) = with_origin_tuned(1, 300, tuning, sale().set("max_active", "2")).await;
    let (ada, bob) = (joined(&gateway).await, joined(&gateway).await);
    admitted(&ada).await;
    admitted(&bob).await;
    let held = reserve(&ada, "hold").await;
    assert_eq!(held.status, StatusCode::CREATED, "{}", held.text());
    let purchases = held.json()["links"]["purchases"].as_str().unwrap().to_owned();
    let slow = post_once(&ada, &purchases, "pay", &json!({ "payment_method": card })).await;
    assert_eq!(slow.status, StatusCode::ACCEPTED, "{}", slow.text());
    let purchase = slow.header("location").unwrap().to_owned();

    change(&origin, "origin.db", "UPDATE reservations SET expires_at = 1").await;
    let other = until("the unit is somebody else's", || async {
        let other = reserve(&bob, "hold").await;
        (other.status == StatusCode::CREATED).then_some(other)
    })
    .await;
    let purchases = other.json()["links"]["purchases"].as_str().unwrap().to_owned();
    let paid = post_once(&bob, &purchases, "pay", &json!({ "payment_method": "test_accepted" })).await;
    assert_eq!(paid.status, StatusCode::CREATED, "{}", paid.text());

    change(&origin, "payments.db", "UPDATE payments SET due_at = 1 WHERE due_at IS NOT NULL").await;
    let late = settled(&ada, &purchase).await;
    assert_eq!(late["state"], becomes, "{late}");
    assert_eq!(late["reservation"]["state"], "expired", "{late}");
    let page = ada.visit(&purchase).await.text();
    assert!(page.contains(told), "{page}");
    let again = post_once(
        &ada,
        late["reservation"]["links"]["purchases"].as_str().unwrap(),
        "pay-again",
        &json!({ "payment_method": "test_accepted" }),
    )
    .await;
    assert_eq!(again.problem(), "hold_over");
    let books = books(&origin).await;
    assert_eq!(
        (&books["sold"], &books["held"], &books["available"]),
        (&json!(1), &json!(0), &json!(0)),
        "{books}"
    );
}

#[tokio::test]
async fn case_23_money_that_is_set_aside_too_late_is_released_and_never_taken() {
    paid_too_late("test_slow", "voided", "nothing was charged").await;
}

#[tokio::test]
async fn case_23_money_that_moved_at_once_and_too_late_is_given_back_in_full() {
    paid_too_late("test_at_once", "refunded", "given back in full").await;
}
