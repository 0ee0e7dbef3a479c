//! A place belongs to the visitor: over tabs and restarts, until it is given up or called in vain.

use fantoccini::Locator;
use ropeline_tests::browser::{Screen, Setup};
use ropeline_tests::wait::until;
use serde_json::json;

use crate::stage::{Stage, WANTED, product, sale};

#[tokio::test]
async fn ten_windows_are_one_visitor_who_may_close_them_all() {
    let mut stage = Stage::set(Setup::default(), sale(), product(5)).await;
    stage.crowd(1).await;
    let client = stage.browser.client.clone();
    let open = "for (let tab = 0; tab < 10; tab++) window.open(`${arguments[0]}&tab=${tab}`)";
    client.execute(open, vec![json!(stage.url(WANTED))]).await.unwrap();
    let first = client.window().await.unwrap();
    let windows = stage
        .until("ten windows are open", || async {
            client.windows().await.ok().filter(|windows| windows.len() == 11)
        })
        .await;
    for window in windows.into_iter().filter(|window| *window != first) {
        client.switch_to_window(window).await.unwrap();
        stage.until_state("waiting").await;
        assert_eq!(stage.number("place").await, 2);
    }
    assert_eq!(stage.sale().await["arrivals"], 2, "the crowd's and one more");
    stage.console_is_clean(None).await;

    stage.browser.reopen().await;
    stage.visit().await;
    stage.until_state("waiting").await;
    assert_eq!(stage.number("place").await, 2);
    assert_eq!(stage.sale().await["arrivals"], 2);
}

#[tokio::test]
async fn a_paused_queue_says_why_in_the_visitors_language_and_can_be_left() {
    let setup = Setup { language: "de-AT", screen: Screen::Phone, ..Setup::default() };
    let stage = Stage::set(setup, sale(), product(5)).await;
    stage.crowd(1).await;
    stage.visit().await;
    stage.until_state("waiting").await;
    stage.ask("window.stayed = true").await;
    stage.browser.screenshot("phone-waiting").await;

    let reason = json!({
        "reason": "The till is slow. Your place is safe.",
        "translations": { "de": "Die Kasse ist langsam. Dein Platz ist sicher.", "fr": "La caisse est lente." },
    });
    stage.command("pause", reason).await;
    stage.until_state("paused").await;
    assert_eq!(stage.text("reason").await, "Die Kasse ist langsam. Dein Platz ist sicher.");
    let language = stage.ask("return document.getElementById('reason').lang").await;
    assert_eq!(language.unwrap(), "de", "a screen reader has to know how to say it");
    stage.browser.screenshot("phone-paused").await;

    stage.click("#leave summary").await;
    stage.browser.screenshot("phone-leave").await;
    stage.click("#leave button").await;
    stage.until_state("left").await;
    stage.browser.screenshot("phone-left").await;
    stage.crowd(1).await;
    stage.click("#rejoin button").await;
    stage.until_state("paused").await;
    assert_eq!(stage.number("place").await, 4, "behind who joined meanwhile");
    assert_eq!(stage.ask("return window.stayed").await, Some(true.into()), "the page was loaded again");
    stage.console_is_clean(None).await;
}

#[tokio::test]
async fn who_missed_the_call_is_told_and_joins_again_at_the_back() {
    let sale = sale().set("claim_window", r#""1s""#).set("recall_grace", r#""0s""#);
    let stage = Stage::set(Setup::default(), sale, product(5)).await;
    stage.crowd(1).await;
    stage.visit().await;
    stage.until_state("waiting").await;
    stage.browser.client.goto("about:blank").await.unwrap();
    stage.admit(1).await;
    until("both calls have lapsed", || async { (stage.sale().await["totals"]["lapsed"] == 2).then_some(()) })
        .await;
    stage.visit().await;
    stage.until_state("lapsed").await;
    stage.browser.screenshot("lapsed").await;
    stage.click("#rejoin button").await;
    stage.until_state("waiting").await;
    assert_eq!(stage.number("place").await, 3);
    let buttons = stage.browser.client.find_all(Locator::Css("#rejoin[hidden]")).await.unwrap();
    assert_eq!(buttons.len(), 1);
    stage.console_is_clean(Some(410)).await;
}
