//! Events on their way out: taken by lease, in order, by any number of takers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use super::bench::{Bench, settings};
use crate::store::{Again, Backlog, Fate, Leased, Settings, Settled, Store};

const LONG: i64 = 60_000;
/// A lease that is over when it begins, as that of a taker who died.
const OVER: i64 = -1;

fn sinks(names: &[&str]) -> Settings {
    Settings { sinks: names.iter().map(|name| (*name).to_owned()).collect(), ..settings() }
}

/// Puts events of an aggregate into the outbox, `hook`'s and due.
async fn put(bench: &Bench, aggregate: &str, seqs: std::ops::RangeInclusive<i64>) {
    let rows: Vec<String> = seqs
        .map(|seq| format!("('hook', '{aggregate}', {seq}, '{aggregate}{seq}', 'k', '{{}}', {seq}, {seq})"))
        .collect();
    let rows = rows.join(", ");
    bench
        .run(&format!(
            "INSERT INTO outbox (sink, aggregate, seq, id, kind, payload, created_at, next_try) VALUES {rows}"
        ))
        .await;
}

async fn take(store: &Store, lease_ms: i64) -> Vec<Leased> {
    let mut events = store.take_events("hook", lease_ms, 100).await.unwrap();
    events.sort_by(|a, b| a.id.cmp(&b.id));
    events
}

fn ids(events: &[Leased]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

async fn settle(store: &Store, event: &Leased, fate: Fate) {
    let Leased { aggregate, seq, leased_until, .. } = event.clone();
    let settled = Settled { aggregate, seq, leased_until, fate };
    store.settle_events("hook", vec![settled]).await.unwrap();
}

fn again(wait_ms: i64) -> Fate {
    Fate::Again { wait_ms, why: "status 500".into(), tried: true }
}

fn dead() -> Fate {
    Fate::Dead { why: "status 410".into() }
}

/// What was put off while the clock was an hour ahead waits for nobody once it is set right, but what was since then does.
pub(super) async fn a_clock_that_is_set_back_leaves_no_event_waiting(bench: &Bench) {
    let store = bench.open(&[], sinks(&["hook"])).await;
    put(bench, "a", 1..=1).await;
    put(bench, "b", 1..=1).await;
    let first = take(&store, LONG).await;
    assert_eq!(ids(&first), ["a1", "b1"]);
    settle(&store, &first[1], again(LONG)).await;
    assert_eq!(take(&store, LONG).await, [], "leased, and put off");
    put(bench, "c", 1..=1).await;
    settle(&store, &take(&store, LONG).await[0], dead()).await;
    assert_eq!(store.send_again(Again::AllDead, None).await.unwrap(), 1);
    bench.run("UPDATE outbox SET next_try = next_try + 3600000, put_off_at = put_off_at + 3600000").await;
    assert_eq!(ids(&take(&store, LONG).await), ["a1", "b1", "c1"]);
    assert_eq!(take(&store, LONG).await, []);
}

pub(super) async fn events_of_one_aggregate_are_taken_one_after_the_other(bench: &Bench) {
    let store = bench.open(&[], sinks(&["hook"])).await;
    put(bench, "a", 1..=3).await;
    put(bench, "b", 1..=1).await;
    let first = take(&store, LONG).await;
    assert_eq!(ids(&first), ["a1", "b1"]);
    assert_eq!((first[0].kind.as_str(), first[0].payload.as_str(), first[0].tries), ("k", "{}", 1));
    assert!(take(&store, LONG).await.is_empty(), "both are taken");
    settle(&store, &first[0], Fate::Told).await;
    let next = take(&store, LONG).await;
    assert_eq!(ids(&next), ["a2"]);
    settle(&store, &next[0], again(3_600_000)).await;
    assert!(take(&store, LONG).await.is_empty(), "the third waits behind the second, which is not due");
    let listed = store.outbox(Some("hook"), false, 10).await.unwrap();
    assert_eq!(listed.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["b1", "a2", "a3"]);
    assert_eq!((listed[1].tries, listed[1].failure.as_deref()), (1, Some("status 500")));
    let nobody = Fate::Again { wait_ms: 0, why: "no connection".into(), tried: false };
    settle(&store, &first[1], nobody).await;
    let again = take(&store, LONG).await;
    assert_eq!((ids(&again), again[0].tries), (vec!["b1"], 1), "a try that found nobody does not count");
    assert!(store.take_events("other", LONG, 10).await.unwrap().is_empty());
}

pub(super) async fn a_limit_takes_what_is_due_for_longest(bench: &Bench) {
    let store = bench.open(&[], sinks(&["hook"])).await;
    for (aggregate, seq) in [("a", 3), ("b", 1), ("c", 2)] {
        put(bench, aggregate, seq..=seq).await;
    }
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.extend(store.take_events("hook", LONG, 1).await.unwrap());
    }
    assert_eq!(ids(&taken), ["b1", "c2", "a3"]);
}

pub(super) async fn a_lease_that_is_over_is_taken_over_and_who_had_it_has_no_say(bench: &Bench) {
    let store = bench.open(&[], sinks(&["hook"])).await;
    put(bench, "a", 1..=2).await;
    let died = take(&store, OVER).await.remove(0);
    let other = take(&store, LONG).await.remove(0);
    assert_eq!((died.id.as_str(), other.id.as_str(), other.tries), ("a1", "a1", 2));
    for fate in [Fate::Told, again(0), dead()] {
        settle(&store, &died, fate).await;
        assert!(take(&store, LONG).await.is_empty(), "it is the other's");
    }
    settle(&store, &other, Fate::Told).await;
    assert_eq!(ids(&take(&store, LONG).await), ["a2"]);
}

pub(super) async fn the_dead_let_others_pass_and_are_sent_again_when_somebody_says_so(bench: &Bench) {
    let store = bench.open(&[], sinks(&["hook"])).await;
    put(bench, "a", 1..=2).await;
    put(bench, "b", 1..=1).await;
    for event in take(&store, LONG).await {
        settle(&store, &event, dead()).await;
    }
    let next = take(&store, LONG).await;
    assert_eq!(ids(&next), ["a2"]);
    let listed = store.outbox(None, true, 10).await.unwrap();
    assert_eq!(listed.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["a1", "b1"]);
    assert!(listed.iter().all(|event| event.dead && event.failure.as_deref() == Some("status 410")));
    let send = async |which: Again, sink: Option<&str>| {
        store.send_again(which, sink.map(str::to_owned)).await.unwrap()
    };
    assert_eq!(send(Again::One("none".into()), None).await, 0);
    assert_eq!(send(Again::One("a1".into()), Some("other")).await, 0);
    assert_eq!(send(Again::One("a2".into()), None).await, 0, "it is being told");
    assert_eq!(send(Again::One("a1".into()), Some("hook")).await, 1);
    let first = take(&store, LONG).await;
    assert_eq!((ids(&first), first[0].tries), (vec!["a1"], 1), "as if never tried");
    settle(&store, &first[0], again(3_600_000)).await;
    assert_eq!(send(Again::One("a1".into()), None).await, 1, "one that waits is tried at once");
    assert_eq!(ids(&take(&store, LONG).await), ["a1"]);
    assert_eq!(send(Again::AllDead, None).await, 1);
    assert_eq!(ids(&take(&store, LONG).await), ["b1"]);
}

pub(super) async fn what_waits_is_counted_for_each_sink(bench: &Bench) {
    let store = bench.open(&[], sinks(&["hook", "idle"])).await;
    put(bench, "a", 1..=2).await;
    put(bench, "b", 1..=1).await;
    let taken = take(&store, LONG).await;
    settle(&store, &taken[1], dead()).await;
    let backlog = store.backlog().await.unwrap();
    let [hook, idle] = backlog.as_slice() else { panic!("{backlog:?}") };
    assert_eq!((hook.sink.as_str(), hook.waiting, hook.dead), ("hook", 2, 1));
    assert!(hook.oldest_ms > 1_000_000_000_000, "made in 1970");
    assert_eq!(*idle, Backlog { sink: "idle".into(), waiting: 0, oldest_ms: 0, dead: 0 });
}

/// Takers that fail, die and take their time find each event, and none before those of its aggregate that come before it.
pub(super) async fn takers_that_fail_and_die_keep_the_order_and_lose_nothing(bench: &Bench) {
    const AGGREGATES: i64 = 12;
    const EVENTS: i64 = 5;
    let stores = [bench.open(&[], sinks(&["hook"])).await, bench.open(&[], sinks(&["hook"])).await];
    for aggregate in 0..AGGREGATES {
        put(bench, &format!("{aggregate:02}-"), 1..=EVENTS).await;
    }
    let told = Mutex::new(BTreeMap::<String, HashSet<i64>>::new());
    let left = || told.lock().unwrap().values().map(HashSet::len).sum::<usize>() < 60;
    let work = async |store: &Store, seed: u64| {
        let mut chance = fastrand::Rng::with_seed(seed);
        while left() {
            let dies = chance.u8(..8) == 0;
            let lease = if dies { OVER } else { LONG };
            let events = store.take_events("hook", lease, chance.u32(1..8)).await.unwrap();
            let mut settled = Vec::new();
            for Leased { aggregate, seq, leased_until, .. } in events {
                {
                    let mut told = told.lock().unwrap();
                    let told = told.entry(aggregate.clone()).or_default();
                    assert!(
                        (1..seq).all(|earlier| told.contains(&earlier)),
                        "{aggregate}{seq} came too soon"
                    );
                    if dies {
                        continue;
                    }
                    if chance.u8(..4) > 0 {
                        told.insert(seq);
                    }
                }
                let taken = told.lock().unwrap()[&aggregate].contains(&seq);
                let fate = if taken { Fate::Told } else { again(0) };
                settled.push(Settled { aggregate, seq, leased_until, fate });
            }
            store.settle_events("hook", settled).await.unwrap();
        }
    };
    tokio::join!(work(&stores[0], 1), work(&stores[1], 2));
    assert_eq!(bench.number("SELECT COUNT(*) FROM outbox").await, 0);
}
