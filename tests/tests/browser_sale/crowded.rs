//! A shopper whose network has been given all the numbers that it has free.

use ropeline_tests::browser::{JavaScript, Setup};
use ropeline_tests::gateway::Settings;

use crate::stage::{SALE, Stage, product, sale};

/// One number is free in an hour.
fn one_is_free(settings: Settings) -> Settings {
    let settings = settings.set("limits.join", "exempt", "[]").set("limits.join", "window", "\"1h\"");
    settings.set("limits.join", "ipv4", "1")
}

#[tokio::test]
async fn the_page_computes_what_its_network_is_asked_for_and_joins() {
    let stage = Stage::set_with(Setup::default(), sale(), product(5), one_is_free).await;
    let others = stage.crowd(1).await;
    assert_eq!(others[0].another_tab().join(SALE).await.status, 200, "who has a number is asked");
    stage.visit().await;
    stage.until_state("waiting").await;
    assert_eq!(stage.number("place").await, 2);
    assert_eq!(stage.text("note").await, "", "it still says that it computes");
    stage.browser.screenshot("crowded-joined").await;
    // The challenge came by a 429; what the page did then was within its own policy.
    stage.console_is_clean(Some(429)).await;
    let arrivals = stage.sale().await["arrivals"].clone();
    assert_eq!(arrivals, 2);
}

#[tokio::test]
async fn without_scripts_the_page_says_why_and_when_and_leads_back() {
    let setup = Setup { javascript: JavaScript::Off, ..Setup::default() };
    let stage = Stage::set_with(setup, sale(), product(5), one_is_free).await;
    stage.crowd(1).await;
    stage.visit().await;
    stage.click("#join button").await;
    let said = stage
        .until("it says what is in the way", || async {
            let said = stage.text("barrier").await;
            (!said.is_empty()).then_some(said)
        })
        .await;
    assert!(said.contains("Many people have joined from your network"), "{said}");
    assert!(
        said.contains("In 1 h the next place") || said.contains("In 60 minutes the next place"),
        "{said}"
    );
    assert_eq!(stage.state().await.as_deref(), Some("joining"));
    stage.browser.screenshot("crowded-plain").await;
    let source = stage.browser.client.source().await.unwrap();
    assert!(source.contains("; url=/products/runner?size=42"), "it would ask the form's address again");
    assert_eq!(stage.sale().await["arrivals"], 1);
}
