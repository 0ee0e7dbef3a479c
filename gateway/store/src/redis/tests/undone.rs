//! Calls that come to nothing leave nothing behind in the gateway that ran them.

use std::collections::BTreeMap;

use ropeline_queue::{Command, JoinOptions, PauseReason, Phase};
use ropeline_test_redis::Durable;

use super::racing::{sale, visitor};
use super::scene::Scene;
use crate::redis::RedisCheckpoint;
use crate::{Join, QueueStore, StoreError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_one_call_leaves_no_half_of_it() {
    let mut scene = Scene::new(Durable::Never).await;
    let store = scene.gateway();
    scene.join(&store, 0..2).await;
    let fault = store
        .on_sale(&sale(), 1, |queue, now| -> () {
            queue.join(visitor(7), JoinOptions::default(), now).unwrap();
            panic!("a fault in the queue");
        })
        .await;
    assert!(matches!(fault, Err(StoreError::Unavailable { .. })));
    let joins = vec![Join::of(visitor(1)), Join::of(visitor(2))];
    let joined = store.join(&sale(), joins).await.unwrap();
    let arrivals: Vec<_> = joined.into_iter().map(|joined| joined.unwrap().arrival.0).collect();
    assert_eq!(arrivals, [1, 2], "the call that failed had an effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_the_checkpoint_refused_is_not_followed() {
    let mut scene = Scene::new(Durable::Never).await;
    let store = scene.gateway();
    scene.join(&store, 0..2).await;
    let Some(RedisCheckpoint::Folder(folder)) = scene.settings.checkpoint.clone() else { unreachable!() };
    let away = folder.with_extension("away");
    std::fs::rename(&folder, &away).unwrap();
    let reason = PauseReason { text: "A moment.".to_owned(), translations: BTreeMap::new() };
    store.command(&sale(), Command::Pause { reason }).await.unwrap_err();
    // Who needs nothing of the checkpoint goes on.
    scene.join(&store, 2..4).await;
    std::fs::rename(&away, &folder).unwrap();
    scene.join(&store, 4..6).await;
    assert_eq!(scene.tick(&store).await.phase, Phase::Open);
}
