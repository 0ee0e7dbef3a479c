//! A disk that fails at every single write in turn, and loses its power right after.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::Database;
use ropeline_queue::{Arrival, Claimed, JoinOptions, SaleId, TickInput, VisitorKey};

use super::platter::{Fault, Platter, Survives};
use crate::contract::{ManualClock, definition};
use crate::embedded::file::Source;
use crate::embedded::{EmbeddedStore, disk};
use crate::{Join, QueueStore, StoreError};

/// What the script was answered.
#[derive(Default)]
struct Answered {
    created: bool,
    arrivals: BTreeMap<u8, Arrival>,
    claims: BTreeMap<u64, Claimed>,
    serving: u64,
}

pub(super) fn formatted() -> Platter {
    let platter = Platter::default();
    let database = Database::builder().create_with_backend(platter.clone()).unwrap();
    disk::format(&database).unwrap();
    drop(database);
    platter
}

pub(super) fn start(platter: &Platter, clock: &Arc<ManualClock>) -> Result<EmbeddedStore, StoreError> {
    let platter = platter.clone();
    let source = Source {
        path: "platter".into(),
        retry: Duration::ZERO,
        open: Box::new(move |builder| builder.create_with_backend(platter.clone())),
    };
    EmbeddedStore::start(source, clock.clone())
}

fn join(who: u8) -> Join {
    Join::of(VisitorKey([who; 16]))
}

/// Joins, ticks and claims one after the other, and keeps what it was answered.
async fn script(store: &EmbeddedStore, sale: &SaleId, answered: &mut Answered) -> Result<(), StoreError> {
    if !answered.created {
        store.create(definition("drop", 100).check().unwrap(), [1; 32]).await?;
        answered.created = true;
    }
    for step in 0..5u8 {
        let who: Vec<u8> = (step * 8..step * 8 + 12).collect();
        let joined = store.join(sale, who.iter().copied().map(join).collect()).await?;
        for (who, joined) in who.into_iter().zip(joined) {
            let arrival = joined.unwrap().arrival;
            let known = *answered.arrivals.entry(who).or_insert(arrival);
            assert_eq!(known, arrival, "visitor {who} was given another number");
        }
        let view = store.tick(sale, TickInput::default()).await?;
        assert!(view.serving.0 >= answered.serving, "serving went back");
        answered.serving = view.serving.0;
        let arrival = u64::from(step);
        let claimed = store.claim(sale, view.position(Arrival(arrival))).await?.unwrap();
        answered.claims.insert(arrival, claimed);
    }
    Ok(())
}

/// Everything that was answered is still so, and no number is given to a second visitor.
async fn check(store: &EmbeddedStore, sale: &SaleId, answered: &Answered, late: u8, case: &str) {
    if !answered.created {
        return;
    }
    let view = store.view(sale).await.unwrap();
    assert!(view.serving.0 >= answered.serving, "{case}: serving went back");
    let known: Vec<Join> = answered.arrivals.keys().copied().map(join).collect();
    let again = store.join(sale, known).await.unwrap();
    for ((who, arrival), joined) in answered.arrivals.iter().zip(again) {
        let joined = joined.unwrap();
        assert_eq!((joined.arrival, joined.new), (*arrival, false), "{case}: visitor {who}");
    }
    for (arrival, claimed) in &answered.claims {
        let again = store.claim(sale, view.position(Arrival(*arrival))).await.unwrap();
        assert_eq!(again, Ok(*claimed), "{case}: the admission of arrival {arrival}");
    }
    let late = store.join(sale, vec![join(late)]).await.unwrap().remove(0).unwrap();
    assert!(late.new);
    assert!(
        answered.arrivals.values().all(|arrival| *arrival < late.arrival),
        "{case}: a number was given twice"
    );
}

/// The writes, resizes and syncs that the script takes on a disk that works.
async fn ops_of_the_script(sale: &SaleId) -> u64 {
    let platter = formatted();
    let store = start(&platter, &Arc::default()).unwrap();
    let before = platter.ops();
    script(&store, sale, &mut Answered::default()).await.unwrap();
    platter.ops() - before
}

#[tokio::test]
async fn nothing_answered_is_lost_when_the_disk_dies_at_any_write() {
    let sale: SaleId = "drop".parse().unwrap();
    let ops = ops_of_the_script(&sale).await;
    assert!(ops > 40, "{ops} writes: the script does not reach the disk");
    for nth in 0..ops {
        for survives in [Survives::None, Survives::EverySecond, Survives::All] {
            let case = format!("write {nth} of {ops}, {survives:?} of the unsynced survives");
            let platter = formatted();
            let clock = Arc::default();
            let store = start(&platter, &clock).unwrap();
            platter.fail_at(nth, Fault::Broken);
            let mut answered = Answered::default();
            let error = script(&store, &sale, &mut answered).await.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { .. }), "{case}: {error}");
            let later = store.join(&sale, vec![join(1)]).await.unwrap_err();
            assert!(later.to_string().contains("restart"), "{case}: {later}");
            drop(store);
            platter.mend();
            platter.lose_power(survives);
            let store = start(&platter, &clock).unwrap();
            check(&store, &sale, &answered, 200, &case).await;
        }
    }
}

#[tokio::test]
async fn a_panic_in_one_call_leaves_no_half_of_it() {
    let sale: SaleId = "drop".parse().unwrap();
    let store = start(&formatted(), &Arc::default()).unwrap();
    store.create(definition("drop", 100).check().unwrap(), [1; 32]).await.unwrap();
    store.join(&sale, vec![join(1)]).await.unwrap();
    let fault = store
        .on_sale(&sale, |queue, now| -> () {
            queue.join(VisitorKey([2; 16]), JoinOptions::default(), now).unwrap();
            panic!("a fault in the queue");
        })
        .await;
    assert!(matches!(fault, Err(StoreError::Unavailable { .. })));
    let joined = store.join(&sale, vec![join(1), join(3)]).await.unwrap();
    let arrivals: Vec<_> = joined.into_iter().map(|joined| joined.unwrap().arrival.0).collect();
    assert_eq!(arrivals, [0, 1], "the call that failed had an effect");
}

#[tokio::test]
async fn a_full_disk_refuses_the_batch_and_the_store_goes_on() {
    let sale: SaleId = "drop".parse().unwrap();
    let ops = ops_of_the_script(&sale).await;
    for nth in 0..ops {
        let case = format!("no room at write {nth} of {ops}");
        let platter = formatted();
        let clock = Arc::default();
        let store = start(&platter, &clock).unwrap();
        platter.fail_at(nth, Fault::NoRoom);
        let mut answered = Answered::default();
        // Each call that fails may be repeated, as a gateway would.
        let patience = Instant::now() + Duration::from_secs(30);
        let mut failures = 0;
        loop {
            match script(&store, &sale, &mut answered).await {
                Ok(()) => break,
                Err(StoreError::SaleExists(_)) => answered.created = true,
                Err(error) => {
                    failures += 1;
                    assert!(Instant::now() < patience, "{case}: {error}");
                    tokio::task::yield_now().await;
                }
            }
        }
        assert!(failures > 0, "{case}: nobody was told");
        check(&store, &sale, &answered, 200, &case).await;
        drop(store);
        platter.lose_power(Survives::None);
        let store = start(&platter, &clock).unwrap();
        check(&store, &sale, &answered, 201, &case).await;
    }
}
