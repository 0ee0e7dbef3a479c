//! Gateways that commit as fast as they can, one of them always slower than the others: none is passed over.

use std::sync::Arc;
use std::time::Instant;

use ropeline_test_redis::{Durable, Reply, Server};

use super::fixture::settings;
use super::history::History;
use super::racing::{sale, visitor};
use crate::contract::definition;
use crate::redis::standing::Standing;
use crate::redis::{RedisCheckpoint, RedisServers, RedisSettings, RedisStore, keys};
use crate::{Join, QueueStore};

const CALLERS: u64 = 8;
const BATCHES: u64 = 30;

async fn new_sale() -> Server {
    let server = Server::start(Durable::Never);
    let store = RedisStore::open(&settings(RedisServers::Single(server.url()))).unwrap();
    store.create(definition("drop", 1).check().unwrap(), [1; 32]).await.unwrap();
    server
}

fn open(server: &Server) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(&settings(RedisServers::Single(server.url()))).unwrap())
}

/// Every caller joins one batch after the other, without a pause.
async fn flat_out(gateways: u64) {
    let server = new_sale().await;
    let stores: Vec<_> = (0..gateways).map(|_| open(&server)).collect();
    let mut callers = Vec::new();
    for caller in 0..gateways * CALLERS {
        let store = Arc::clone(&stores[usize::try_from(caller % gateways).unwrap()]);
        callers.push(tokio::spawn(async move {
            let mut history = History::default();
            // The batches of one gateway are larger than those of the others.
            let size = if caller % gateways == 0 { 100 } else { 5 };
            for batch in 0..BATCHES {
                let first = (caller << 32) + batch * size;
                let who: Vec<u64> = (first..first + size).collect();
                let joins = who.iter().map(|who| Join::of(visitor(*who))).collect();
                let asked = Instant::now();
                for (who, joined) in who.iter().zip(store.join(&sale(), joins).await.unwrap()) {
                    history.joined(asked, visitor(*who), joined.unwrap());
                }
            }
            history
        }));
    }
    let mut history = History::default();
    for caller in callers {
        history.add(caller.await.unwrap());
    }
    history.check();
    let reports: Vec<_> = stores.iter().map(|store| store.redis_report()).collect();
    let longest: Vec<u64> = reports.iter().map(|report| report.longest_wait).collect();
    let conflicts: u64 = reports.iter().map(|report| report.conflicts).sum();
    let commits: u64 = reports.iter().map(|report| report.commits).sum();
    let lost: u64 = reports.iter().map(|report| report.turns_lost).sum();
    println!(
        "{gateways} gateways: {commits} commits, {conflicts} in vain, most let pass {longest:?}, {lost} turns lost"
    );
    // From when a gateway is put on the list of turns, each of those before it commits once at most, and is behind it after
    // that. What was committed before does not count: a gateway that gets no processor between looking and committing is
    // late by any number of commits, a dozen on a busy machine.
    assert!(longest.iter().all(|longest| *longest < gateways), "passed over: {longest:?}");
    assert!(longest.iter().any(|longest| *longest > 0), "they never met");
    assert!(conflicts <= commits, "{conflicts} batches were run in vain for {commits} that were not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_gateways_flat_out_neither_is_passed_over() {
    flat_out(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_eight_gateways_flat_out_none_is_passed_over() {
    flat_out(8).await;
}

/// Who is on the list of turns.
fn turns(server: &Server) -> Vec<String> {
    match server.ask(&["HGET", &keys::head(&sale()), "turns"]) {
        Reply::Text(turns) => {
            turns.split(' ').filter_map(|turn| Some(turn.split_once('@')?.0.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// Commits nothing in particular on a version, and is refused.
async fn be_refused(store: &RedisStore, gateway: &str, found: &Standing, version: &str) -> Option<u64> {
    let (link, scripts) = (&store.shared.link, &store.shared.scripts);
    let keys = [keys::head(&sale()), keys::log(&sale())];
    let args = [&*found.line, version, "", "", "", "", "", &*found.run, "1", "1", gateway, ""];
    let refused: Standing = link.run(&scripts.commit, &keys, &args).await.unwrap();
    refused.turn.map(|turn| turn.before)
}

async fn look(store: &RedisStore) -> Standing {
    let (link, scripts) = (&store.shared.link, &store.shared.scripts);
    link.run(&scripts.sync, &[keys::head(&sale()), keys::log(&sale())], &["", "0", "", ""]).await.unwrap()
}

/// Commits on a version that is long gone, as a gateway does that is too late.
pub(super) async fn be_too_late(store: &RedisStore, gateway: &str) {
    let found = look(store).await;
    assert!(be_refused(store, gateway, &found, "0").await.is_some(), "it was given no turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_turn_is_not_overtaken_by_who_looked_before() {
    let server = new_sale().await;
    let store = open(&server);
    let found = look(&store).await;
    be_too_late(&store, "dead").await;
    let latest = found.version.to_string();
    assert_eq!(be_refused(&store, "beef", &found, &latest).await, Some(1));
    assert_eq!(turns(&server), ["dead", "beef"]);
    assert_eq!(look(&store).await.version, found.version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_dies_before_its_turn_holds_nobody_up_for_long() {
    let server = new_sale().await;
    let (store, other) = (open(&server), open(&server));
    for gateway in ["dead1", "dead2"] {
        be_too_late(&store, gateway).await;
    }
    assert_eq!(turns(&server), ["dead1", "dead2"]);
    let join = |who| vec![Join::of(visitor(who))];
    let sale = sale();
    let (one, two) = tokio::join!(store.join(&sale, join(1)), other.join(&sale, join(2)));
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
    assert!(turns(&server).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_nothing_to_commit_gives_up_the_turn() {
    let server = new_sale().await;
    let (store, other) = (open(&server), open(&server));
    let join = || vec![Join::of(visitor(1))];
    store.join(&sale(), join()).await.unwrap();
    be_too_late(&other, "dead").await;
    // Waits for a turn, and has been put on record already.
    other.join(&sale(), join()).await.unwrap();
    // It gives up the turn after it has answered.
    other.view(&sale()).await.unwrap();
    assert!(turns(&server).is_empty());
    // Who only looks waits for nobody.
    be_too_late(&other, "dead").await;
    store.view(&sale()).await.unwrap();
    assert_eq!(turns(&server), ["dead"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_whose_checkpoint_refuses_gives_up_the_turn() {
    let server = new_sale().await;
    let (store, folder) = (open(&server), tempfile::tempdir().unwrap());
    let checkpoint = Some(RedisCheckpoint::Folder(folder.path().to_path_buf()));
    let settings = RedisSettings { checkpoint, ..settings(RedisServers::Single(server.url())) };
    let refused = RedisStore::open(&settings).unwrap();
    refused.sales().await.unwrap();
    // No folder any more.
    folder.close().unwrap();
    be_too_late(&store, "dead").await;
    // Waits for a turn, and comes to nothing.
    refused.join(&sale(), vec![Join::of(visitor(1))]).await.unwrap_err();
    // It gives up the turn after it has answered.
    refused.view(&sale()).await.unwrap_err();
    assert!(turns(&server).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_only_asked_for_again_and_again_ends() {
    let server = new_sale().await;
    let (store, other) = (open(&server), open(&server));
    be_too_late(&other, "dead").await;
    let keys = [keys::head(&sale()), keys::log(&sale())];
    let asks = async {
        loop {
            let (link, scripts) = (&other.shared.link, &other.shared.scripts);
            let _: Standing = link.run(&scripts.sync, &keys, &["", "0", "dead", ""]).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let (sale, joins) = (sale(), vec![Join::of(visitor(1))]);
    tokio::select! {
        joined = store.join(&sale, joins) => assert!(joined.is_ok(), "{joined:?}"),
        () = asks => {}
    }
}
