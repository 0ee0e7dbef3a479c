//! Eight gateways on one sale, each doing everything at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropeline_queue::{Arrival, Pace, SaleId, Standing, TickInput, VisitorKey};
use ropeline_test_redis::{Durable, Server};

use super::fixture::settings;
use super::history::History;
use crate::contract::{ManualClock, definition};
use crate::redis::{RedisServers, RedisStore};
use crate::{Clock, Join, QueueStore};

pub(super) fn visitor(who: u64) -> VisitorKey {
    VisitorKey((u128::from(who) << 64 | 1).to_le_bytes())
}

pub(super) fn sale() -> SaleId {
    "drop".parse().unwrap()
}

/// Joins some, ticks, and claims whatever it sees called, so many times over.
async fn gateway(store: Arc<RedisStore>, seed: u64, rounds: u32, visitors: u64) -> History {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut history = History::default();
    for _ in 0..rounds {
        let who: Vec<u64> = (0..random.u64(1..6)).map(|_| random.u64(0..visitors)).collect();
        let joins = who.iter().map(|who| Join::of(visitor(*who))).collect();
        let asked = Instant::now();
        for (who, joined) in who.iter().zip(store.join(&sale(), joins).await.unwrap()) {
            history.joined(asked, visitor(*who), joined.unwrap());
        }
        let asked = Instant::now();
        let view = store.tick(&sale(), TickInput::default()).await.unwrap();
        history.saw(asked, &view);
        for arrival in (0..view.next_arrival.0).map(Arrival) {
            let position = view.position(arrival);
            if matches!(view.standing(position, view.as_of), Standing::Called { .. }) {
                let asked = Instant::now();
                if let Ok(claimed) = store.claim(&sale(), position).await.unwrap() {
                    history.claimed(asked, arrival, claimed);
                }
            }
        }
        if random.u8(0..4) == 0 {
            tokio::time::sleep(Duration::from_millis(random.u64(0..20))).await;
        }
    }
    history
}

async fn race(cap: u32, visitors: u64, rounds: u32) {
    let server = Server::start(Durable::Never);
    let mut raw = definition("drop", cap);
    raw.pace = Pace::Smooth { admit: 1_000, per_ms: 1_000, burst: 500 };
    raw.lease_ms = 1_000;
    raw.claim_window_ms = 1_000;
    raw.recall_grace_ms = 1_000;
    let open = || Arc::new(RedisStore::open(&settings(RedisServers::Single(server.url()))).unwrap());
    open().create(raw.check().unwrap(), [1; 32]).await.unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let gateways: Vec<_> =
        (0..8).map(|number| tokio::spawn(gateway(open(), seed ^ number, rounds, visitors))).collect();
    let mut history = History::default();
    for gateway in gateways {
        history.add(gateway.await.unwrap());
    }
    history.check();
    history.check_admissions(u64::from(cap));
    assert!(history.claims() > 0, "nobody was admitted");
    let numbers: Vec<u64> = history.tickets().iter().map(|ticket| ticket.arrival.0).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "a number was left out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_gateways_admit_one_at_a_time() {
    race(1, 60, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_gateways_admit_two_at_a_time() {
    race(2, 60, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_gateways_admit_two_hundred_at_a_time() {
    race(200, 2_000, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_that_was_seen_without_a_commit_does_not_go_back() {
    let server = Server::start(Durable::Never);
    let clock = Arc::new(ManualClock::default());
    let open = || {
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        RedisStore::with_clock(&settings(RedisServers::Single(server.url())), Some(clock)).unwrap()
    };
    let (one, two) = (open(), open());
    let join = |who| vec![Join::of(visitor(who))];
    one.create(definition("drop", 1).check().unwrap(), [1; 32]).await.unwrap();
    one.join(&sale(), join(1)).await.unwrap();
    clock.advance(10_000);
    let seen = clock.now();
    // It is on record already: there is nothing to commit.
    one.join(&sale(), join(1)).await.unwrap();
    clock.step_back(10_000);
    two.join(&sale(), join(2)).await.unwrap();
    assert!(one.view(&sale()).await.unwrap().as_of >= seen, "the sale's time went back");
}
