//! What happens to gateways.

use std::time::Duration;

use ropeline_test_redis::{Durable, Server};
use ropeline_tests::gateway::Servers;

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_killed_at_random_instants_lose_nobodys_place() {
    let redis = Server::start(Durable::EverySecond);
    let mut stage = Stage::open(3, Servers::Single(redis.url())).await;
    for _ in 0..10 {
        stage.a_while(700).await;
        let which = stage.any();
        println!("gateway {which} is killed");
        stage.node(which).process().kill();
        stage.node(which).restart().await;
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_stood_still_for_a_while_takes_nothing_back() {
    let redis = Server::start(Durable::EverySecond);
    let mut stage = Stage::open(3, Servers::Single(redis.url())).await;
    for pause in [100, 1_500, longest()] {
        let which = stage.any();
        println!("gateway {which} stands still for {pause} ms");
        stage.node(which).process().pause();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        stage.node(which).process().resume();
        stage.a_while(700).await;
    }
    stage.end().await;
}

/// In milliseconds; a minute in the long form.
fn longest() -> u64 {
    if std::env::var_os("LONG").is_some() { 60_000 } else { 8_000 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_gateways_are_restarted_one_after_another_and_no_request_fails() {
    let redis = Server::start(Durable::EverySecond);
    let mut stage = Stage::open_faultless(3, Servers::Single(redis.url())).await;
    for which in 0..3 {
        println!("gateway {which} is restarted");
        let ended = stage.node(which).process().stop(Duration::from_secs(60)).await;
        assert!(ended.success(), "{ended}");
        stage.node(which).restart().await;
        stage.more(20).await;
    }
    assert_eq!(stage.unanswered(), 0, "requests that nobody answered");
    stage.end().await;
}
