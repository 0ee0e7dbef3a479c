//! The whole path through an edge, its cache on, with two shoppers at once.

use ropeline_tests::browser::{JavaScript, Setup};
use ropeline_tests::raw::{self, Outcome};
use ropeline_tests::wait::PATIENCE;

use crate::stage::{Stage, WANTED, product, sale};

/// Looks at the same page in turns.
const TURNS: usize = 8;

/// What the product's page says to somebody who owns one.
const OWNED: &str = "You have bought 1 unit";

#[tokio::test]
async fn two_shoppers_at_once_go_through_an_edge_and_never_see_each_other_s_pages() {
    let first = Stage::set_behind_workerd(Setup::default(), sale(), product(50)).await;
    let second = first.beside(Setup::default()).await;

    first.visit().await;
    first.until_in_the_shop().await;
    second.visit().await;
    second.until_state("waiting").await;
    second.browser.screenshot("edge-waiting").await;
    first.buy("edge-first").await;

    // One owns a unit, the other waits: each sees that, and only that, at the same address.
    for _ in 0..TURNS {
        tokio::join!(first.visit(), second.visit());
        tokio::join!(first.until_in_the_shop(), second.until_state("waiting"));
        assert!(first.browser.client.source().await.unwrap().contains(OWNED));
        assert!(!second.browser.client.source().await.unwrap().contains(OWNED));
    }
    first.admit(1).await;
    second.until_in_the_shop().await;
    for _ in 0..TURNS {
        tokio::join!(first.visit(), second.visit());
        tokio::join!(first.until_in_the_shop(), second.until_in_the_shop());
        assert!(first.browser.client.source().await.unwrap().contains(OWNED));
        assert!(!second.browser.client.source().await.unwrap().contains(OWNED), "a page of the other's");
    }
    second.buy("edge-second").await;
    assert_eq!(first.snapshot().await["stock"]["available"], 48);
    for shopper in [&first, &second] {
        shopper.console_is_clean(None).await;
    }
}

#[tokio::test]
async fn without_scripts_an_edge_is_no_dead_end() {
    let setup = Setup { javascript: JavaScript::Off, ..Setup::default() };
    let stage = Stage::set_behind_workerd(setup, sale(), product(50)).await;
    // Called at once by whoever comes first, so that the shopper has to wait.
    let _crowd = stage.crowd(1).await;
    stage.visit().await;
    stage.until_state("joining").await;
    stage.click("#join button").await;
    stage.until_state("waiting").await;
    stage.admit(1).await;
    // The page would look again by itself, slowly; the shopper looks at once.
    stage.visit().await;
    stage.until_in_the_shop().await;
}

#[tokio::test]
async fn a_crowd_before_the_edge_is_one_visitor_before_the_gateway() {
    let stage = Stage::set_behind_workerd(Setup::default(), sale(), product(50)).await;
    let address = stage.public.strip_prefix("http://").unwrap().parse().unwrap();
    let page = format!("GET {WANTED} HTTP/1.1\r\nHost: {address}\r\nAccept: text/html\r\n\r\n");
    let before = stage.decided("api").await;
    const CROWD: u64 = 200;
    for _ in 0..CROWD {
        match raw::exchange(address, page.as_bytes(), PATIENCE).await {
            Outcome::Answer(answer) => assert_eq!(answer.status, 200),
            other => panic!("{other:?}"),
        }
    }
    let asked = stage.decided("api").await - before;
    assert!((1..CROWD / 4).contains(&asked), "the gateway was asked {asked} times for {CROWD} pages");
}
