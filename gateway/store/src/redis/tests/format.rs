//! Sales that another version of Ropeline has written.

use std::fs;
use std::path::PathBuf;

use ropeline_queue::{Command, TickInput};
use ropeline_test_redis::{Durable, Reply, Server};

use super::racing::{sale, visitor};
use super::scene::Scene;
use crate::redis::{RedisCheckpoint, RedisSettings, RedisStore, keys};
use crate::{Join, QueueStore, StoreError};

const HEAD: &str = "{rl:drop}:head";

fn newer<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("(format 2, this one knows 1): upgrade this gateway"), "{said}");
}

/// Everything that a gateway may be asked is refused.
async fn touches_nothing(store: &RedisStore) {
    newer(store.join(&sale(), vec![Join::of(visitor(7))]).await);
    newer(store.tick(&sale(), TickInput::default()).await);
    newer(store.view(&sale()).await);
    newer(store.command(&sale(), Command::Close).await);
}

fn document<S>(scene: &Scene<S>) -> PathBuf {
    let Some(RedisCheckpoint::Folder(folder)) = &scene.settings.checkpoint else { panic!("no folder") };
    folder.join("drop.json")
}

/// The document with another number, or none.
fn renumber<S>(scene: &Scene<S>, format: Option<u64>) -> Vec<u8> {
    let text = fs::read(document(scene)).unwrap();
    let mut read: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let fields = read.as_object_mut().unwrap();
    assert_eq!(fields.remove("format"), Some(keys::FORMAT.into()));
    fields.extend(format.map(|format| ("format".to_owned(), format.into())));
    let text = serde_json::to_vec(&read).unwrap();
    fs::write(document(scene), &text).unwrap();
    text
}

#[tokio::test]
async fn a_sale_of_a_newer_version_is_left_as_it_is_and_not_put_back_as_it_was() {
    let mut scene = Scene::<Server>::new(Durable::Never).await;
    // Redis alone tells, where no checkpoint is kept.
    let alone = RedisSettings { checkpoint: None, ..scene.settings.clone() };
    scene.server.ask(&["DEL", keys::CHECKPOINT]);
    let (store, running) = (scene.gateway(), RedisStore::open(&alone).unwrap());
    scene.server.ask(&["DEL", keys::CHECKPOINT]);
    running.view(&sale()).await.unwrap();
    scene.join(&store, 0..3).await;
    let server = &scene.server;
    assert_eq!(server.ask(&["HGET", HEAD, "format"]), Reply::Text(keys::FORMAT.to_string()));
    server.ask(&["HSET", HEAD, "format", "2", "turns", "ab@1", "turn_until", "1"]);
    let (before, written) = (server.ask(&["HGETALL", HEAD]), fs::read(document(&scene)).unwrap());
    for store in [&store, &scene.gateway(), &running] {
        touches_nothing(store).await;
    }
    let definition = crate::contract::definition("drop", 1).check().unwrap();
    newer(store.create(definition, [2; 32]).await);
    assert_eq!(server.ask(&["HGETALL", HEAD]), before);
    assert_eq!(fs::read(document(&scene)).unwrap(), written);
    // The newer version's own gateways know more than these.
    server.ask(&["DEL", HEAD]);
    let lost = running.tick(&sale(), TickInput::default()).await.unwrap_err();
    assert_eq!(lost, StoreError::UnknownSale(sale()));
    assert_eq!(server.ask(&["EXISTS", HEAD]), Reply::Number(0));
}

#[tokio::test]
async fn what_a_newer_version_has_written_down_is_not_overwritten() {
    let mut scene = Scene::<Server>::new(Durable::Never).await;
    let store = scene.gateway();
    scene.join(&store, 0..3).await;
    let written = renumber(&scene, Some(2));
    // It has to be written down before it is committed.
    newer(store.command(&sale(), Command::Close).await);
    newer(scene.gateway().view(&sale()).await);
    scene.server.ask(&["DEL", HEAD]);
    touches_nothing(&scene.gateway()).await;
    assert_eq!(scene.server.ask(&["EXISTS", HEAD]), Reply::Number(0));
    assert_eq!(fs::read(document(&scene)).unwrap(), written);
}

#[tokio::test]
async fn what_has_no_number_is_of_the_first_format_and_is_given_it() {
    let mut scene = Scene::<Server>::new(Durable::Never).await;
    let store = scene.gateway();
    scene.join(&store, 0..3).await;
    scene.server.ask(&["HDEL", HEAD, "format"]);
    renumber(&scene, None);
    let other = scene.gateway();
    scene.join(&other, 0..4).await;
    other.command(&sale(), Command::Close).await.unwrap().unwrap();
    assert_eq!(scene.server.ask(&["HGET", HEAD, "format"]), Reply::Text("1".into()));
    renumber(&scene, Some(1));
}
