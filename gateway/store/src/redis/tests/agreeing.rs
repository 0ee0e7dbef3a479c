//! Gateways that do not fit to those beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ropeline_queue::TickInput;
use ropeline_test_redis::{Cluster, Durable, Reply, Server};

use super::fixture::settings;
use super::racing::sale;
use crate::contract::definition;
use crate::redis::{RedisCheckpoint, RedisKeys, RedisServers, RedisSettings, RedisStore, keys};
use crate::{QueueStore, StoreError};

/// What there is of a Redis, apart from sales.
fn held(server: &Server) -> [Reply; 2] {
    [server.ask(&["HKEYS", keys::GATEWAYS]), server.ask(&["GET", keys::CHECKPOINT])]
}

fn gateway(settings: &RedisSettings, signs: &str, takes: &[&str]) -> RedisStore {
    let takes = takes.iter().map(|name| (*name).to_owned()).collect();
    let keys = RedisKeys { signs: signs.to_owned(), takes };
    RedisStore::open(settings).unwrap().with_keys(BTreeMap::from([("keys.ticket".to_owned(), keys)]))
}

fn at(settings: &RedisSettings, folder: &Path) -> RedisSettings {
    RedisSettings { checkpoint: Some(RedisCheckpoint::Folder(folder.to_path_buf())), ..settings.clone() }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, why: &str) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::Disagrees { .. }), "{error:?}");
    assert!(error.to_string().contains(why), "{error}");
}

/// Everybody whom nobody has heard of for a while is gone.
fn a_while_later(server: &Server) {
    let Reply::List(here) = server.ask(&["HGETALL", keys::GATEWAYS]) else { panic!("nobody was ever here") };
    for pair in here.chunks(2) {
        let [Reply::Text(name), Reply::Text(at)] = pair else { panic!("{pair:?}") };
        let at = (at.parse::<u64>().unwrap() - 15_000).to_string();
        server.ask(&["HSET", keys::GATEWAYS, name, &at]);
    }
}

#[tokio::test]
async fn a_gateway_with_other_keys_has_nothing_to_do_with_any_sale() {
    let server = Server::start(Durable::Never);
    let settings = settings(RedisServers::Single(server.url()));
    let first = gateway(&settings, "a", &["a"]);
    first.create(definition("drop", 1).check().unwrap(), [1; 32]).await.unwrap();
    let before = held(&server);
    let other = gateway(&settings, "b", &["b", "a"]);
    refused(other.sales().await, "keys.ticket: this gateway signs with b");
    refused(other.view(&sale()).await, "keys.ticket");
    refused(other.tick(&sale(), TickInput::default()).await, "keys.ticket");
    refused(other.create(definition("more", 1).check().unwrap(), [1; 32]).await, "keys.ticket");
    refused(gateway(&settings, "c", &["c"]).sales().await, "another gateway on this Redis signs with a");
    assert_eq!(held(&server), before, "who was refused is taken for one of them");
    // The first is stopped.
    a_while_later(&server);
    assert_eq!(other.sales().await.unwrap(), [sale()]);
    other.view(&sale()).await.unwrap();
    assert_eq!(server.ask(&["HLEN", keys::GATEWAYS]), Reply::Number(1));
    assert!(!other.report().unwrap().disagrees);
    // It was not after all, and both say so.
    first.shared.stay().await.unwrap();
    assert!(first.report().unwrap().disagrees);
    other.shared.stay().await.unwrap();
    assert!(other.report().unwrap().disagrees);
    a_while_later(&server);
    other.shared.stay().await.unwrap();
    assert!(!other.report().unwrap().disagrees);
}

#[tokio::test]
async fn keys_are_replaced_while_gateways_are_restarted_one_after_the_other() {
    let server = Server::start(Durable::Never);
    let settings = settings(RedisServers::Single(server.url()));
    let steps: [(&str, &[&str]); 4] =
        [("old", &["old"]), ("old", &["old", "new"]), ("new", &["new", "old"]), ("new", &["new"])];
    for pair in steps.windows(2) {
        let stores = [0, 1].map(|step: usize| gateway(&settings, pair[step].0, pair[step].1));
        for _ in 0..2 {
            for store in &stores {
                store.sales().await.unwrap();
                store.shared.stay().await.unwrap();
                assert!(!store.report().unwrap().disagrees);
            }
        }
        // All have gone on to the next step, and those of the one before are no more.
        a_while_later(&server);
        stores[1].sales().await.unwrap();
    }
}

#[tokio::test]
async fn of_gateways_that_begin_at_once_and_do_not_fit_one_is_left() {
    let server = Server::start(Durable::Never);
    let settings = settings(RedisServers::Single(server.url()));
    for round in 0..20 {
        server.ask(&["FLUSHALL"]);
        let (a, b) = (gateway(&settings, "a", &["a"]), gateway(&settings, "b", &["b"]));
        let (a, b) = tokio::join!(a.sales(), b.sales());
        let begun = [&a, &b].into_iter().filter(|begun| begun.is_ok()).count();
        assert!(begun <= 1, "round {round}: both have begun");
    }
}

#[tokio::test]
async fn a_gateway_with_another_checkpoint_is_refused_until_that_is_meant() {
    let server = Server::start(Durable::Never);
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alone = settings(RedisServers::Single(server.url()));
    let first = RedisStore::open(&at(&alone, one.path())).unwrap();
    first.create(definition("drop", 1).check().unwrap(), [1; 32]).await.unwrap();
    let before = held(&server);
    refused(RedisStore::open(&alone).unwrap().view(&sale()).await, "store.checkpoint: none is named here");
    let other = RedisStore::open(&at(&alone, two.path())).unwrap();
    refused(other.sales().await, "store.checkpoint: this one is ");
    refused(other.view(&sale()).await, keys::CHECKPOINT);
    assert_eq!(held(&server), before);
    assert!(!two.path().join("drop.json").exists());
    // Nor does it help that nobody else is there: a folder that is not mounted is another one.
    a_while_later(&server);
    refused(other.view(&sale()).await, "store.checkpoint");
    // The same, moved to another place, is the same.
    let moved = tempfile::tempdir().unwrap();
    for file in fs::read_dir(one.path()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), moved.path().join(file.file_name())).unwrap();
    }
    let third = RedisStore::open(&at(&alone, moved.path())).unwrap();
    assert_eq!(third.sales().await.unwrap(), [sale()]);
    // As documented.
    server.ask(&["DEL", keys::CHECKPOINT]);
    other.view(&sale()).await.unwrap();
    first.shared.stay().await.unwrap();
    assert!(first.report().unwrap().disagrees, "two go on side by side");
}

#[tokio::test]
async fn a_checkpoint_that_is_begun_is_told_to_those_who_keep_none() {
    let server = Server::start(Durable::Never);
    let folder = tempfile::tempdir().unwrap();
    let alone = settings(RedisServers::Single(server.url()));
    let without = RedisStore::open(&alone).unwrap();
    without.sales().await.unwrap();
    RedisStore::open(&at(&alone, folder.path())).unwrap().sales().await.unwrap();
    without.shared.stay().await.unwrap();
    assert!(without.report().unwrap().disagrees);
}

#[tokio::test]
async fn a_gateway_that_began_while_redis_was_away_is_found_out_when_it_is_back() {
    let mut server = Server::start(Durable::Always);
    let settings = settings(RedisServers::Single(server.url()));
    let first = gateway(&settings, "a", &["a"]);
    first.create(definition("drop", 1).check().unwrap(), [1; 32]).await.unwrap();
    server.kill();
    let other = gateway(&settings, "b", &["b"]);
    let away = other.view(&sale()).await.unwrap_err();
    assert!(matches!(away, StoreError::Unavailable { .. }), "{away:?}");
    server.again();
    let back = other.view(&sale()).await;
    refused(back, "keys.ticket");
}

#[tokio::test]
async fn gateways_of_a_cluster_find_out_each_other() {
    let cluster = Cluster::start(3, Durable::Never);
    let settings = settings(RedisServers::Cluster(cluster.urls()));
    gateway(&settings, "a", &["a"]).sales().await.unwrap();
    refused(gateway(&settings, "b", &["b"]).sales().await, "keys.ticket");
}

#[tokio::test]
async fn who_ends_is_not_waited_for_and_no_other_of_the_same_keys_is_taken_for_it() {
    let server = Server::start(Durable::Never);
    let settings = settings(RedisServers::Single(server.url()));
    let [one, two] = [0, 1].map(|_| gateway(&settings, "a", &["a"]));
    for store in [&one, &two] {
        store.sales().await.unwrap();
    }
    one.part().await.unwrap();
    // It may just have been about to look again.
    one.shared.stay().await.unwrap();
    let next = gateway(&settings, "b", &["b"]);
    refused(next.sales().await, "keys.ticket");
    two.part().await.unwrap();
    next.sales().await.unwrap();
    assert_eq!(server.ask(&["HLEN", keys::GATEWAYS]), Reply::Number(1));
}

#[tokio::test]
async fn who_is_refused_after_it_was_let_in_for_a_moment_is_gone_at_once() {
    let server = Server::start(Durable::Never);
    let settings = settings(RedisServers::Single(server.url()));
    // Of two that begin at once, both see nobody at first.
    for _ in 0..20 {
        server.ask(&["FLUSHALL"]);
        let (a, b) = (gateway(&settings, "a", &["a"]), gateway(&settings, "b", &["b"]));
        let (begun, other) = tokio::join!(a.sales(), b.sales());
        let stays = u64::from(begun.is_ok()) + u64::from(other.is_ok());
        assert_eq!(server.ask(&["HLEN", keys::GATEWAYS]), Reply::Number(i64::try_from(stays).unwrap()));
    }
}

#[tokio::test]
async fn a_gateway_tells_of_itself_whatever_becomes_of_its_sales() {
    let server = Server::start(Durable::Never);
    let store = gateway(&settings(RedisServers::Single(server.url())), "a", &["a"]);
    store.sales().await.unwrap();
    let told = || server.ask(&["HVALS", keys::GATEWAYS]);
    let first = told();
    // No sale is asked for.
    while told() == first {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// What a server that hangs costs is one attempt, however many sales ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_begin_while_redis_hangs_share_one_attempt() {
    const SALES: usize = 20;
    let server = Server::start(Durable::Never);
    let patience = std::time::Duration::from_millis(500);
    let settings = RedisSettings { patience, ..settings(RedisServers::Single(server.url())) };
    let store = std::sync::Arc::new(gateway(&settings, "a", &["a"]));
    let connections = || server.info("stats", "total_connections_received").unwrap();
    let (before, asked) = (connections(), connections());
    server.freeze();
    let mut asks = tokio::task::JoinSet::new();
    for sale in 0..SALES {
        let (store, sale) = (std::sync::Arc::clone(&store), format!("drop-{sale}").parse().unwrap());
        asks.spawn(async move { store.view(&sale).await });
    }
    while let Some(answer) = asks.join_next().await {
        let error = answer.unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    }
    server.thaw();
    let attempts = connections() - asked - (asked - before);
    assert_eq!(attempts, 1);
}
