//! The whole path without JavaScript: forms, rendered states, slow refreshes.

use ropeline_tests::browser::{JavaScript, Setup};
use ropeline_tests::wait::until;
use serde_json::json;

use crate::stage::{Stage, WANTED, drawn_sale, product};

#[tokio::test]
async fn a_shopper_without_scripts_lives_through_a_whole_sale() {
    let setup = Setup { javascript: JavaScript::Off, language: "de", ..Setup::default() };
    let stage = Stage::set(setup, drawn_sale(), product(50)).await;
    let browser = &stage.browser;

    stage.announce(0, 10_000).await;
    stage.visit().await;
    assert_eq!(stage.state().await.as_deref(), Some("joining"));
    browser.screenshot("plain-joining").await;
    stage.click("#join button").await;
    stage.until_state("in_draw").await;
    assert_eq!(stage.address().await, stage.url(WANTED), "the form forgot where the shopper was");
    assert!(stage.text("when").await.contains("UTC"), "{}", stage.text("when").await);
    browser.screenshot("plain-in-draw").await;
    stage.crowd(60).await;

    stage
        .until("the places are being drawn", || async {
            browser.client.refresh().await.ok()?;
            (stage.state().await.as_deref() == Some("drawing")).then_some(())
        })
        .await;
    browser.screenshot("plain-drawing").await;
    until("the draw is public", || async { stage.snapshot().await["draw"]["seed"].as_str().map(drop) }).await;
    stage.command("open", json!({})).await;
    // The rest comes by itself: the page looks again every fifteen seconds.
    let waits = stage
        .until("the page has looked again", || async {
            let inside = browser.client.source().await.ok()?.contains("class=\"price\"");
            let waiting = stage.state().await.as_deref() == Some("waiting");
            (inside || waiting).then_some(waiting)
        })
        .await;
    // One in sixty-one is drawn first and is in by now.
    if waits {
        let place = stage.number("place").await - 1;
        let ahead = stage.number("ahead").await;
        assert!(
            ahead == place || ahead + 1 == place,
            "{ahead} ahead of {place}: one at most has been called"
        );
        browser.screenshot("plain-waiting").await;

        let reason =
            json!({ "reason": "The till is slow.", "translations": { "de": "Die Kasse ist langsam." } });
        stage.command("pause", reason).await;
        browser.client.refresh().await.unwrap();
        assert_eq!(stage.state().await.as_deref(), Some("paused"));
        assert_eq!(stage.text("reason").await, "Die Kasse ist langsam.");
        browser.screenshot("plain-paused").await;
        stage.command("resume", json!({})).await;

        stage.admit(place).await;
        browser.client.refresh().await.unwrap();
    }
    stage.until_in_the_shop().await;
    stage.buy("plain").await;
    stage.console_is_clean(None).await;
}
