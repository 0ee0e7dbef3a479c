//! The whole path through an edge, its cache on, with two shoppers at once.

use std::time::Instant;

use futures_util::future::join_all;
use ropeline_tests::browser::{JavaScript, Setup};
use ropeline_tests::raw::{self, Response};
use ropeline_tests::wait::PATIENCE;

use crate::stage::{Stage, WANTED, product, sale};

/// Looks at the same page in turns.
const TURNS: usize = 8;

/// Visitors who come at once.
const CROWD: usize = 200;

const ROOM: &str = "/api/v1/queue/sales/runner/room";

/// What is the same for everyone.
const PUBLIC: [&str; 2] = [ROOM, "/api/v1/queue/sales/runner/snapshot"];

/// What the product's page says to somebody who owns one.
const OWNED: &str = "You have bought 1 unit";

#[tokio::test]
async fn two_shoppers_at_once_go_through_an_edge_and_never_see_each_other_s_pages() {
    let Some(first) = Stage::set_behind_workerd(Setup::default(), sale(), product(50)).await else { return };
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

    let cache = first.cache.as_ref().unwrap();
    for path in PUBLIC {
        let looks = (0..CROWD).map(|_| get(&first, path));
        for answer in join_all(looks).await {
            assert_eq!((answer.status, answer.header("set-cookie")), (200, None), "{path}");
        }
        assert!(cache.asked_for(path).iter().any(|asked| asked.hit), "{path} never came from the cache");
    }
    let asked = cache.asked();
    let (public, own): (Vec<_>, Vec<_>) = asked.iter().partition(|asked| is_public(&asked.path));
    let kept: Vec<_> = own.iter().filter(|asked| asked.hit).map(|asked| &asked.path).collect();
    assert!(kept.is_empty(), "what is somebody's own came from the cache: {kept:?}");
    let pages = cache.asked_for("/products/runner").len();
    assert!(pages > 3 * TURNS, "of {} pages only {pages} came through the cache", 4 * TURNS);
    for call in ["join", "status", "claim"] {
        assert!(!cache.asked_for(&format!("/api/v1/queue/{call}")).is_empty(), "nobody has asked for {call}");
    }
    eprintln!(
        "edge: {} public answers, {} of them kept; {} personal ones, none of them kept",
        public.len(),
        public.iter().filter(|asked| asked.hit).count(),
        own.len()
    );
}

/// Whether a path is the same for everyone.
fn is_public(path: &str) -> bool {
    PUBLIC.contains(&path) || path.starts_with("/api/v1/queue/assets/") || path.starts_with("/assets/")
}

async fn get(stage: &Stage, target: &str) -> Response {
    let address = stage.public.strip_prefix("http://").unwrap();
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nAccept: text/html\r\nConnection: close\r\n\r\n");
    raw::exchange(address.parse().unwrap(), request.as_bytes(), PATIENCE).await.answer()
}

#[tokio::test]
async fn without_scripts_an_edge_is_no_dead_end() {
    let setup = Setup { javascript: JavaScript::Off, ..Setup::default() };
    let Some(stage) = Stage::set_behind_workerd(setup, sale(), product(50)).await else { return };
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
    let Some(stage) = Stage::set_behind_workerd(Setup::default(), sale(), product(50)).await else { return };
    let begun = Instant::now();
    for answer in join_all((0..CROWD).map(|_| get(&stage, WANTED))).await {
        assert_eq!(answer.status, 200);
    }
    // A room is good for a second, or until the clock of its host shows the next one.
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let rooms = stage.cache.as_ref().unwrap().asked_for(ROOM);
    let reached = rooms.iter().filter(|asked| !asked.hit).count();
    assert!(
        reached >= 1 && rooms.len() <= seconds + 2,
        "{CROWD} visitors in {seconds} s: {} rooms were fetched, {reached} of them from the gateway",
        rooms.len()
    );
}
