//! One sale on three masters: where its joins are, and what becomes of them when a step or a copy is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ropeline_queue::{Arrival, JoinRecord, Position, SaleId, TickInput};
use ropeline_test_redis::{Cluster, Durable, Reply, Server};

use super::fixture::settings;
use super::racing::visitor;
use super::scene::patiently;
use crate::contract::definition;
use crate::redis::sale::{Sale, name};
use crate::redis::spread::{Done, Spread, Step};
use crate::redis::{RedisServers, RedisSettings, RedisStore, keys};
use crate::{Join, QueueStore};

/// Arrivals that are moved together.
const GROUP: u64 = keys::GROUP * keys::CHUNK;

/// Two groups, and the beginning of a third.
const VISITORS: u64 = 2 * GROUP + 1_000;

/// A large sale of which the parts belong to different masters.
struct Large {
    cluster: Cluster,
    settings: RedisSettings,
    sale: SaleId,
    base: String,
}

// === impl Large ===

impl Large {
    /// So many have joined through the gateway.
    async fn new(visitors: u64) -> (Self, Arc<RedisStore>) {
        let cluster = Cluster::start(3, Durable::Never);
        let settings = settings(RedisServers::Cluster(cluster.urls()));
        let apart = |sale: &SaleId| {
            let names = [keys::head(sale), keys::away(sale, "", 0), keys::away(sale, "", keys::GROUP)];
            let mut holders = names.map(|name| cluster.holder(&name));
            holders.sort_unstable();
            holders == [0, 1, 2]
        };
        let sale = (0..).map(|number| format!("drop-{number}").parse().unwrap()).find(apart).unwrap();
        let mut large = Self { cluster, settings, sale, base: String::new() };
        let store = large.gateway();
        store.create(definition(large.sale.as_str(), 1).check().unwrap(), [1; 32]).await.unwrap();
        for first in (0..visitors).step_by(4_096) {
            large.join(&store, first..visitors.min(first + 4_096), first).await;
        }
        large.base = large.head("base");
        (large, store)
    }

    fn gateway(&self) -> Arc<RedisStore> {
        Arc::new(RedisStore::open(&self.settings).unwrap())
    }

    fn head(&self, field: &str) -> String {
        let name = keys::head(&self.sale);
        match self.holder(&name).ask(&["HGET", &name, field]) {
            Reply::Text(text) => text,
            _ => String::new(),
        }
    }

    fn holder(&self, name: &str) -> &Server {
        &self.cluster.masters()[self.cluster.holder(name)]
    }

    /// They have these numbers, one after the other.
    async fn join(&self, store: &RedisStore, who: std::ops::Range<u64>, first: u64) {
        let joins: Vec<Join> = who.clone().map(|who| Join::of(visitor(who))).collect();
        let answers = patiently(async || store.join(&self.sale, joins.clone()).await).await;
        for ((who, joined), number) in who.zip(answers).zip(first..) {
            assert_eq!(joined.unwrap().arrival, Arrival(number), "visitor {who}");
        }
    }

    fn is_there(&self, name: &str) -> bool {
        self.holder(name).ask(&["EXISTS", name]) == Reply::Number(1)
    }

    /// How many chunks each master has in slots of their own, and how many are in the sale's.
    fn whereabouts(&self) -> ([u64; 3], u64) {
        let (mut away, mut here) = ([0; 3], 0);
        for chunk in 0..VISITORS.div_ceil(keys::CHUNK) {
            let name = keys::away(&self.sale, &self.base, chunk);
            away[self.cluster.holder(&name)] += u64::from(self.is_there(&name));
            here += u64::from(self.is_there(&keys::joins(&self.sale, &self.base, chunk)));
        }
        (away, here)
    }

    /// Looks at the sale until it is so.
    async fn until(&self, store: &RedisStore, what: &str, so: impl Fn() -> bool) {
        for _ in 0..3_000 {
            patiently(async || store.tick(&self.sale, TickInput::default()).await).await;
            if so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("waited in vain for {what}: {:?} {}", self.whereabouts(), self.head("spread"));
    }

    async fn until_spread(&self, store: &RedisStore) {
        self.until(store, "the joins to be moved", || self.whereabouts().1 == 1).await;
    }

    /// The copies of a group are all there.
    fn has_copies(&self, group: u64) -> bool {
        keys::chunks(group).all(|chunk| self.is_there(&keys::away(&self.sale, &self.base, chunk)))
    }

    /// The master of a group is killed, and starts again with nothing.
    fn lose(&mut self, group: u64) {
        assert!(self.has_copies(group));
        let name = keys::away(&self.sale, &self.base, group * keys::GROUP);
        let master = self.cluster.holder(&name);
        self.cluster.master(master).again_empty();
        assert!(!self.is_there(&name));
    }

    /// One of the copies of a group is not what was meant, as an older one is not.
    fn spoil(&self, group: u64, copy: u64) {
        let name = keys::away(&self.sale, &self.base, group * keys::GROUP + copy);
        assert!(self.is_there(&name));
        assert_eq!(self.holder(&name).ask(&["SET", &name, ""]), Reply::Text("OK".into()));
    }

    /// Somebody leaves, and comes back under a new number.
    async fn somebody_comes_back(&self, store: &RedisStore, who: u64, number: u64) {
        let view = store.view(&self.sale).await.unwrap();
        let position = Position { arrival: Arrival(who), ..view.position(Arrival(who)) };
        store.leave(&self.sale, position).await.unwrap().unwrap();
        let joined = store.join(&self.sale, vec![Join::of(visitor(who))]).await.unwrap().remove(0).unwrap();
        assert_eq!(joined.arrival, Arrival(number));
    }

    /// Two gateways know the same.
    async fn same(&self, one: &RedisStore, other: &RedisStore) {
        let (one, other) = (one.view(&self.sale).await.unwrap(), other.view(&self.sale).await.unwrap());
        assert_eq!((one.waiting, one.next_arrival), (other.waiting, other.next_arrival));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_joins_of_a_large_sale_are_on_several_masters() {
    let (large, store) = Large::new(VISITORS).await;
    large.until_spread(&store).await;
    let (away, here) = large.whereabouts();
    assert_eq!((away.iter().filter(|chunks| **chunks == keys::GROUP).count(), here), (2, 1), "{away:?}");
    large.somebody_comes_back(&store, 5, VISITORS).await;
    // Whoever reads the sale finds everybody, and nobody twice.
    let other = large.gateway();
    large.join(&other, 0..5, 0).await;
    large.join(&other, 5..6, VISITORS).await;
    large.join(&other, 6..10_000, 6).await;
    large.join(&other, 100_000..VISITORS, 100_000).await;
    large.same(&store, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_stops_between_the_steps_of_moving_loses_nothing_and_leaves_nothing_twice() {
    let (large, store) = Large::new(GROUP - 10).await;
    // A gateway writes the copies, of what there is by then, and ends.
    let link = &store.shared.link;
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    for chunk in keys::chunks(0) {
        let name = keys::joins(&large.sale, &large.base, chunk);
        chunks.push(link.ask(redis::cmd("GET").arg(name)).await.unwrap());
    }
    let step = Step::Copy { groups: vec![(0, chunks.clone())], again: false };
    assert!(matches!(step.take(link, &large.sale, &large.base).await, Ok(Done::Copied { .. })));
    drop(store);
    // What has been copied is not what counts.
    let other = large.gateway();
    large.somebody_comes_back(&other, 7, GROUP - 10).await;
    large.join(&other, GROUP..GROUP + 9, GROUP - 9).await;
    // All numbers are given, and the copies are taken for what they are.
    large.until(&other, "the joins to be moved", || large.whereabouts().1 == 0).await;
    for (chunk, bytes) in keys::chunks(0).zip(chunks) {
        let name = keys::away(&large.sale, &large.base, chunk);
        let copy: Vec<u8> = other.shared.link.ask(redis::cmd("GET").arg(name)).await.unwrap();
        assert!(copy == bytes, "chunk {chunk} was written twice");
    }
    let third = large.gateway();
    large.join(&third, 0..7, 0).await;
    large.join(&third, 7..8, GROUP - 10).await;
    large.join(&third, 8..9_000, 8).await;
    large.join(&third, GROUP - 100..GROUP - 10, GROUP - 100).await;
    large.join(&third, GROUP..GROUP + 9, GROUP - 9).await;
    large.same(&other, &third).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_cannot_be_committed_does_not_stop_the_sale() {
    let (large, store) = Large::new(GROUP - 10).await;
    // The copies that are found are empty, so all joins are to be kept beside them, which a key of another kind prevents.
    let copy = keys::away(&large.sale, &large.base, 0);
    assert_eq!(large.holder(&copy).ask(&["SET", &copy, ""]), Reply::Text("OK".into()));
    let bucket = keys::admissions(&large.sale, &large.base, 9);
    assert_eq!(large.holder(&bucket).ask(&["SET", &bucket, "?"]), Reply::Text("OK".into()));
    large.join(&store, GROUP - 10..GROUP, GROUP - 10).await;
    let mut failed = 0;
    for _ in 0..300 {
        failed += u32::from(store.tick(&large.sale, TickInput::default()).await.is_err());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!((1..10).contains(&failed), "{failed} of 300 came to nothing");
    assert_eq!(large.holder(&bucket).ask(&["DEL", &bucket]), Reply::Number(1));
    large.until(&store, "the joins to be moved", || large.whereabouts().1 == 0).await;
    large.join(&large.gateway(), 0..GROUP / 16, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_a_master_lost_are_put_back_by_who_knows_them() {
    let (mut large, store) = Large::new(VISITORS).await;
    large.until_spread(&store).await;
    large.somebody_comes_back(&store, 5, VISITORS).await;
    large.lose(0);
    // Nobody reads the sale.
    let before = large.head("spread");
    let again = || large.has_copies(0) && large.head("spread") != before;
    large.until(&store, "the copies to be looked for", again).await;
    // Somebody does, who must not take the sale for smaller than it is.
    large.spoil(1, 3);
    let other = large.gateway();
    other.view(&large.sale).await.unwrap_err();
    assert_eq!(large.head("wanted"), "1");
    large.until(&store, "the copies to be taken for what they are", || large.head("wanted").is_empty()).await;
    large.join(&other, GROUP..2 * GROUP, GROUP).await;
    large.join(&other, 0..5, 0).await;
    large.join(&other, 5..6, VISITORS).await;
    large.same(&store, &other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_nobody_puts_back_are_passed_over_until_somebody_knows_them() {
    let (mut large, store) = Large::new(VISITORS).await;
    large.until_spread(&store).await;
    large.lose(0);
    // That gateway hears of nothing meanwhile.
    let other = large.gateway();
    let view = patiently(async || other.view(&large.sale).await).await;
    assert_eq!(view.next_arrival.0, VISITORS);
    assert_ne!(large.head("base"), large.base);
    assert_eq!(large.whereabouts(), ([0; 3], 0), "what was replaced is still there");
    let ticket = |who| JoinRecord { arrival: Arrival(who), visitor: visitor(who), joined_at: 1_790_000_000 };
    other.reenter(&large.sale, (0..100).map(ticket).collect()).await.unwrap();
    large.join(&other, 0..100, 0).await;
    large.join(&large.gateway(), 0..100, 0).await;
    // It comes back, and knows the others.
    store.tick(&large.sale, TickInput::default()).await.unwrap();
    large.join(&other, 100..5_000, 100).await;
    large.join(&large.gateway(), 100..5_000, 100).await;
    large.join(&other, 100_000..101_000, 100_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missed_is_not_taken_for_lost_while_others_put_it_back_or_cannot() {
    let (mut large, store) = Large::new(VISITORS).await;
    large.until_spread(&store).await;
    large.spoil(0, 3);
    large.spoil(1, 3);
    let mut reader = Sale::new(large.sale.clone(), Arc::clone(&large.gateway().shared), name().unwrap());
    let standing = reader.ask("", "").await.unwrap();
    let missed = |reader: &Sale| reader.spreading.missed.clone();
    reader.load(&standing).await.unwrap_err();
    let both = missed(&reader).unwrap();
    assert_eq!(both.0, [0, 1]);
    reader.load(&standing).await.unwrap_err();
    assert_eq!(missed(&reader), Some(both.clone()));
    assert!(reader.spreading.missed_since(&[1]) > both.1, "one of them has been put back");
    let before = large.head("spread");
    large.until(&store, "the groups to be put back", || large.head("spread") != before).await;
    let standing = reader.ask("", "").await.unwrap();
    reader.load(&standing).await.unwrap();
    assert_eq!(missed(&reader), None);
    reader.replica = None;
    // Another copy than before, which was taken for what it was.
    large.spoil(1, 7);
    reader.load(&standing).await.unwrap_err();
    let master = large.holder(&keys::away(&large.sale, &large.base, 0)).url();
    let master = large.cluster.urls().iter().position(|url| *url == master).unwrap();
    large.cluster.master(master).kill();
    reader.load(&standing).await.unwrap_err();
    assert_eq!(missed(&reader), None, "nobody could put it back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_groups_that_are_missed_are_put_back_in_one_commit() {
    let (large, store) = Large::new(VISITORS).await;
    large.until_spread(&store).await;
    large.spoil(0, 3);
    large.spoil(1, 3);
    let other = large.gateway();
    other.view(&large.sale).await.unwrap_err();
    assert_eq!(large.head("wanted"), "0 1");
    let mut commits = BTreeSet::from([large.head("spread_version")]);
    while !large.head("wanted").is_empty() {
        store.tick(&large.sale, TickInput::default()).await.unwrap();
        commits.insert(large.head("spread_version"));
    }
    assert_eq!(commits.len(), 2, "one before, and one since");
    large.join(&other, 0..VISITORS, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_base_lacks_that_nobody_reads_any_more_is_not_put_back() {
    let (large, _store) = Large::new(1).await;
    let mut reader = Sale::new(large.sale.clone(), Arc::clone(&large.gateway().shared), name().unwrap());
    let standing = reader.ask("", "").await.unwrap();
    reader.load(&standing).await.unwrap();
    reader.replica.as_mut().unwrap().spread = Spread::default().with(0, "some");
    for (base, is_read) in [(large.base.as_str(), true), ("another", false)] {
        let looked = tokio::spawn(async { Ok(Done::Looked(0, false)) });
        while !looked.is_finished() {
            tokio::task::yield_now().await;
        }
        reader.spreading.task = Some((base.to_owned(), looked));
        reader.spread().await;
        let (_, next) = reader.spreading.task.take().unwrap();
        let copied = matches!(next.await.unwrap().unwrap(), Done::Copied { .. });
        assert_eq!(copied, is_read, "{base}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_the_sale_while_joins_are_moved_finds_them() {
    let (large, store) = Large::new(GROUP - 10).await;
    let mut reader = Sale::new(large.sale.clone(), Arc::clone(&large.gateway().shared), name().unwrap());
    let standing = reader.ask("", "").await.unwrap();
    large.join(&store, GROUP - 10..GROUP, GROUP - 10).await;
    large.until(&store, "the joins to be moved", || large.whereabouts().1 == 0).await;
    reader.load(&standing).await.unwrap();
    let found: Vec<Arrival> = reader.replica.unwrap().queue.joins().map(|join| join.arrival).collect();
    assert!(found.into_iter().eq((0..GROUP - 10).map(Arrival)), "some were not found");
}
