//! What happens to Redis.

use std::time::Duration;

use ropeline_test_redis::{Durable, Server};
use ropeline_tests::gateway::Servers;
use tokio::task::block_in_place;

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_and_started_again_with_all_it_had_answered_loses_nobodys_place() {
    let mut redis = Server::start(Durable::Always);
    let mut stage = Stage::open(2, Servers::Single(redis.url())).await;
    for _ in 0..4 {
        stage.a_while(1_500).await;
        println!("Redis is killed");
        block_in_place(|| redis.kill());
        stage.a_while(1_500).await;
        block_in_place(|| redis.again());
        stage.more(10).await;
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_comes_back_empty_loses_nobodys_place() {
    let mut redis = Server::start(Durable::Never);
    let mut stage = Stage::open(2, Servers::Single(redis.url())).await;
    for _ in 0..3 {
        stage.a_while(1_500).await;
        println!("Redis is killed, and comes back empty");
        block_in_place(|| redis.kill());
        stage.a_while(1_000).await;
        block_in_place(|| redis.again());
        stage.more(10).await;
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_stands_still_keeps_nobody_out_who_is_in() {
    let redis = Server::start(Durable::EverySecond);
    let mut stage = Stage::open(2, Servers::Single(redis.url())).await;
    for pause in [200, 1_500, 5_000] {
        println!("Redis stands still for {pause} ms");
        redis.freeze();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        redis.thaw();
        stage.more(10).await;
        stage.a_while(500).await;
    }
    stage.end().await;
}
