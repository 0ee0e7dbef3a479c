//! What is told when there is nothing to wait for, and when the browser cannot keep a place.

use reqwest::Method;
use ropeline_tests::browser::{Cookies, JavaScript, Setup};
use ropeline_tests::wait::until;
use serde_json::json;

use crate::stage::{SALE, Stage, WANTED, product, sale};

#[tokio::test]
async fn an_open_page_says_within_seconds_that_the_last_one_is_gone() {
    let stage = Stage::set(Setup::default(), sale(), product(1)).await;
    let buyer = stage.crowd(1).await.pop().unwrap();
    until("the buyer is in", || async { (buyer.claim(SALE).await.status == 200).then_some(()) }).await;
    let page = buyer.fetch("/products/runner").await;
    assert_eq!(page.status, 200, "{}", page.text());
    stage.visit().await;
    stage.until_state("waiting").await;
    until("the queue knows that the last one is at stake", || async {
        let snapshot = stage.snapshot().await;
        let knows = snapshot["stock"]["available"] == 1 && snapshot["poll_after_ms"].as_u64()? <= 2_000;
        knows.then_some(())
    })
    .await;

    let post = async |path: &str, key: &str, document| {
        let answer = buyer
            .send(Method::POST, path, |request| {
                request.header("accept", "application/json").header("idempotency-key", key).json(&document)
            })
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    };
    let hold = post("/products/runner/reservations", "hold", json!({})).await;
    stage
        .until("the page says that all are in baskets", || async {
            stage.text("note").await.contains("in other shoppers' baskets").then_some(())
        })
        .await;
    stage.browser.screenshot("all-held").await;
    let purchases = format!("{}/purchases", hold["links"]["self"].as_str().unwrap());
    post(&purchases, "pay", json!({ "payment_method": "test_accepted" })).await;
    stage.until_state("sold_out").await;
    assert_eq!(stage.text("headline").await, "Sold out");
    assert_eq!(stage.text("figures").await, "", "there is no place to wait for");
    stage.browser.screenshot("sold-out").await;
    stage.console_is_clean(None).await;
}

#[tokio::test]
async fn a_browser_without_cookies_is_told_and_not_sent_in_circles() {
    let setup = Setup { cookies: Cookies::Blocked, ..Setup::default() };
    let stage = Stage::set(setup, sale(), product(5)).await;
    stage.visit().await;
    stage.until_state("blocked").await;
    stage.browser.screenshot("cookies-blocked").await;
    assert_eq!(stage.text("retry").await, "Try again");
    assert_eq!(stage.sale().await["arrivals"], 0, "no place for who cannot keep it");
    stage.ask("window.stayed = true").await;
    stage.click("#retry button").await;
    // It has tried again when it has asked once more who this is.
    stage.until("it has tried again", || async {
        let asked = stage
            .ask("return performance.getEntriesByType('resource').filter((e) => e.name.includes('/status')).length")
            .await?;
        (asked.as_u64()? >= 2).then_some(())
    })
    .await;
    stage.until_state("blocked").await;
    assert_eq!(stage.ask("return window.stayed").await, Some(true.into()), "the page was loaded again");
    assert_eq!(stage.sale().await["arrivals"], 0, "no place for who cannot keep it");
}

#[tokio::test]
async fn a_browser_without_cookies_and_scripts_can_try_once_at_a_time() {
    let setup = Setup { cookies: Cookies::Blocked, javascript: JavaScript::Off, ..Setup::default() };
    let stage = Stage::set(setup, sale(), product(5)).await;
    stage.visit().await;
    stage.click("#join button").await;
    until("the try has been made", || async { (stage.sale().await["arrivals"] == 1).then_some(()) }).await;
    stage.until_state("joining").await;
    assert_eq!(stage.address().await, stage.url(WANTED));
    // Each press is one try; nothing tries by itself.
    assert_eq!(stage.sale().await["arrivals"], 1);
}
