//! The shop's own pages: a card that is declined, a hold that is over, a pass that is over.

use ropeline_tests::browser::Setup;
use ropeline_tests::origin::Product;
use serde_json::json;

use crate::stage::{Stage, product, sale};

#[tokio::test]
async fn a_declined_card_and_a_hold_that_is_over_are_told_plainly() {
    let stage = Stage::set(Setup::default(), sale(), Product { hold_seconds: 10, ..product(5) }).await;
    stage.visit().await;
    stage.until_in_the_shop().await;
    stage.reserve().await;
    stage.pay("4000 0000 0000 0002").await;
    stage.until_page("/reservations/", "The payment was declined").await;
    let source = stage.browser.client.source().await.unwrap();
    assert!(source.contains("declined") && source.contains("Nothing was charged"), "{source}");
    stage.browser.screenshot("declined").await;
    stage.click("main a.button").await;
    stage.until_page("/checkout/", "Checkout").await;
    let source = stage.browser.client.source().await.unwrap();
    assert!(source.contains("role=\"alert\"") && source.contains("declined"), "{source}");
    stage.browser.screenshot("declined-checkout").await;
    // The page turns by itself when the hold is over.
    stage.until_page("/checkout/", "Product runner").await;
    let source = stage.browser.client.source().await.unwrap();
    assert!(source.contains("The time to pay is over"), "{source}");
    stage.browser.screenshot("hold-over").await;
    stage.console_is_clean(Some(402)).await;
}

#[tokio::test]
async fn a_form_sent_without_a_pass_leads_back_to_its_page() {
    let stage = Stage::set(Setup::default(), sale(), product(5)).await;
    stage.visit().await;
    stage.until_in_the_shop().await;
    stage.reserve().await;
    let checkout = stage.address().await;
    stage.command("revoke", json!({})).await;
    // Who is sent back seconds after the way in has to press a button; this visit has lasted longer.
    stage.ask("sessionStorage.clear()").await;
    // The page that is left has the same address and heading as the one that is come back to.
    stage.ask("document.documentElement.dataset.left = 'yes'").await;
    stage.pay("4242 4242 4242 4242").await;
    // The visit goes on with a new pass, and nothing was paid behind the shopper's back.
    let page = "return [location.pathname, document.querySelector('h1')?.innerText, document.documentElement.dataset.left ?? '']";
    stage
        .until("the checkout is shown anew", || async {
            let seen = stage.ask(page).await?;
            let back = seen[0].as_str()?.starts_with("/checkout/") && seen[1] == "Checkout" && seen[2] == "";
            back.then_some(())
        })
        .await;
    assert_eq!(stage.address().await, checkout);
    stage.pay("4242 4242 4242 4242").await;
    stage.until_page("/purchases/", "It is yours").await;
}
