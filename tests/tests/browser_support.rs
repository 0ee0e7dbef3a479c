//! The browser support itself: a real page, with scripts and without.

#![allow(clippy::unwrap_used, reason = "a test: what fails is printed")]

use fantoccini::Locator;
use ropeline_tests::browser::{Browser, JavaScript, Screen, Setup};

const PAGE: &str = "data:text/html,<title>t</title><p id=p>as served</p>\
    <script>document.getElementById('p').textContent='changed by script'</script>";

async fn text_of_page(screen: Screen, javascript: JavaScript) -> String {
    let browser = Browser::open(Setup { screen, javascript, ..Setup::default() }).await;
    browser.client.goto(PAGE).await.unwrap();
    browser.client.find(Locator::Id("p")).await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn scripts_run_when_they_may() {
    assert_eq!(text_of_page(Screen::Desktop, JavaScript::On).await, "changed by script");
}

#[tokio::test]
async fn scripts_do_not_run_when_they_may_not() {
    assert_eq!(text_of_page(Screen::Phone, JavaScript::Off).await, "as served");
}
