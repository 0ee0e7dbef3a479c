//! One visitor, one arrival, whatever the network does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ropeline_queue::{Arrival, ClaimRefusal, Command, JoinRefusal, LeaseEvent};

use super::{Fixture, Scene, definition, joins, visitor};
use crate::{Clock, Join};

/// Coming back from any tab, at any time, shows the same number.
pub async fn a_visitor_has_one_arrival<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 10)).await;
    let first = scene.join([1, 2, 3]).await;
    assert_eq!(first.iter().map(|joined| joined.arrival.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(first.iter().all(|joined| joined.new));
    assert!(first.iter().all(|joined| joined.joined_at == scene.now().seconds()));

    scene.advance(90_000);
    let again = scene.join([3, 1, 2]).await;
    assert_eq!(again.iter().map(|joined| joined.arrival.0).collect::<Vec<_>>(), [2, 0, 1]);
    for joined in &again {
        assert!(!joined.new);
        let before = first.iter().find(|before| before.arrival == joined.arrival).unwrap();
        assert_eq!((joined.joined_at, joined.epoch), (before.joined_at, before.epoch));
    }
    assert_eq!(scene.view().await.next_arrival, Arrival(3));
}

/// A batch that names a visitor twice gives one number, and says "new" once.
pub async fn twice_in_one_batch_is_one_arrival<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 10)).await;
    let joined = scene.join([5, 6, 5, 5, 6, 7]).await;
    assert_eq!(joined.iter().map(|joined| joined.arrival.0).collect::<Vec<_>>(), [0, 1, 0, 0, 1, 2]);
    assert_eq!(
        joined.iter().map(|joined| joined.new).collect::<Vec<_>>(),
        [true, true, false, false, false, true]
    );
}

/// One person in forty tabs, served by four gateways at the same instant.
pub async fn forty_tabs_on_four_gateways_are_one_arrival<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 10)).await;
    let mut tabs = Vec::new();
    for _ in 0..4 {
        let gateway = scene.fixture.connect().await;
        for _ in 0..10 {
            let (gateway, sale) = (Arc::clone(&gateway), scene.sale.clone());
            tabs.push(tokio::spawn(async move {
                gateway.join(&sale, joins([42])).await.unwrap().remove(0).unwrap()
            }));
        }
    }
    let mut new = 0;
    for tab in tabs {
        let joined = tab.await.unwrap();
        assert_eq!(joined.arrival, Arrival(0));
        new += u32::from(joined.new);
    }
    assert_eq!(new, 1, "exactly one tab is told that its ticket is new");
    assert_eq!(scene.view().await.next_arrival, Arrival(1));
}

/// Batches of several gateways name each other's visitors; the numbers are dense all the same.
pub async fn overlapping_batches_number_every_visitor_once<F: Fixture>(fixture: F) {
    const VISITORS: u64 = 300;
    let scene = Scene::new(fixture, definition("drop", 10)).await;
    let mut batches = Vec::new();
    for gateway_index in 0..4u64 {
        let gateway = scene.fixture.connect().await;
        for start in (0..VISITORS).step_by(20) {
            let (gateway, sale) = (Arc::clone(&gateway), scene.sale.clone());
            batches.push(tokio::spawn(async move {
                let who: Vec<u64> =
                    (0..40).map(|step| (start + step * (gateway_index + 1)) % VISITORS).collect();
                let answers = gateway.join(&sale, joins(who.clone())).await.unwrap();
                who.into_iter().zip(answers.into_iter().map(Result::unwrap)).collect::<Vec<_>>()
            }));
        }
    }
    let mut arrivals = BTreeMap::new();
    let mut new = 0;
    for batch in batches {
        for (who, joined) in batch.await.unwrap() {
            let known = *arrivals.entry(who).or_insert(joined.arrival);
            assert_eq!(known, joined.arrival, "visitor {who} was given two numbers");
            new += u64::from(joined.new);
        }
    }
    let numbers: BTreeSet<u64> = arrivals.values().map(|arrival| arrival.0).collect();
    assert_eq!(numbers, (0..VISITORS).collect(), "a number was given twice or left out");
    assert_eq!(new, VISITORS);
}

/// The same message once more, hours later and after others, moves nobody.
pub async fn a_redelivered_join_changes_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 2)).await;
    let first = scene.join(0..5).await;
    let before = scene.tick().await;
    scene.join(5..9).await;
    scene.advance(500);
    for _ in 0..3 {
        let again = scene.join(0..5).await;
        for (before, after) in first.iter().zip(&again) {
            assert_eq!((before.arrival, before.joined_at), (after.arrival, after.joined_at));
            assert!(!after.new);
        }
    }
    let after = scene.tick().await;
    assert_eq!((before.serving, after.next_arrival), (after.serving, Arrival(9)));
}

/// No number before joining opens or after the sale is over; a held one is still shown.
pub async fn joining_keeps_to_its_hours<F: Fixture>(fixture: F) {
    let now = fixture.clock().now();
    let mut raw = definition("drop", 10);
    raw.joins_open_at = Some(now.plus(10_000));
    raw.opens_at = Some(now.plus(20_000));
    raw.closes_at = Some(now.plus(90_000));
    let scene = Scene::new(fixture, raw).await;
    assert_eq!(scene.try_join(1, false).await, Err(JoinRefusal::NotYetOpen));
    scene.advance(9_999);
    assert_eq!(scene.try_join(1, false).await, Err(JoinRefusal::NotYetOpen));
    scene.advance(1);
    let joined = scene.try_join(1, false).await.unwrap();
    assert_eq!(joined.arrival, Arrival(0));
    scene.advance(80_000);
    scene.tick().await;
    assert_eq!(scene.try_join(2, false).await, Err(JoinRefusal::Closed));
    assert_eq!(scene.view().await.next_arrival, Arrival(1));
}

/// Who only asks for the number they have gets that one, from whichever gateway, and nobody new gets one by it.
pub async fn asking_for_a_number_that_is_held_gives_nobody_a_new_one<F: Fixture>(fixture: F) {
    let mut raw = definition("drop", 10);
    raw.joins_open_at = Some(fixture.clock().now().plus(10_000));
    let scene = Scene::new(fixture, raw).await;
    let asks = async |number| {
        let join = Join { known_only: true, ..Join::of(visitor(number)) };
        scene.store.join(&scene.sale, vec![join]).await.unwrap().remove(0)
    };
    assert_eq!(asks(1).await, Err(JoinRefusal::NotYetOpen));
    scene.advance(10_000);
    let joined = scene.try_join(1, false).await.unwrap();
    assert_eq!(asks(2).await, Err(JoinRefusal::NotKnown));
    let held = asks(1).await.unwrap();
    assert_eq!((held.arrival, held.joined_at, held.new), (joined.arrival, joined.joined_at, false));
    assert_eq!(scene.view().await.next_arrival, Arrival(1), "a number was given all the same");
    assert_eq!(scene.try_join(2, false).await.unwrap().arrival, Arrival(1));
}

/// A visitor whose turn is over gets a new number at the back only by asking for it.
pub async fn nobody_is_requeued_without_asking<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 10)).await;
    scene.join(0..3).await;
    scene.tick().await;
    scene.claim(1).await.unwrap();
    let running = scene.try_join(1, true).await.unwrap();
    assert_eq!((running.arrival, running.new), (Arrival(1), false), "a running admission was exchanged");
    scene.store.lease(&scene.sale, Arrival(1), LeaseEvent::Ended).await.unwrap();
    let same = scene.try_join(1, false).await.unwrap();
    assert_eq!((same.arrival, same.new), (Arrival(1), false));

    let fresh = scene.try_join(1, true).await.unwrap();
    assert_eq!((fresh.arrival, fresh.new), (Arrival(3), true));
    let kept = scene.try_join(1, true).await.unwrap();
    assert_eq!((kept.arrival, kept.new), (Arrival(3), false), "a live ticket was exchanged");
    scene.tick().await;
    assert_eq!(scene.claim(1).await, Err(ClaimRefusal::Ended), "the old ticket came back to life");
    assert!(scene.claim(3).await.is_ok());
}

/// The same visitor stands in two sales with two numbers.
pub async fn sales_do_not_share_visitors<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("one", 10)).await;
    let other = definition("two", 10).check().unwrap();
    let two = other.id.clone();
    scene.store.create(other, super::SECRET).await.unwrap();
    scene.join(0..5).await;
    let join = Join::of(visitor(4));
    let joined = scene.store.join(&two, vec![join]).await.unwrap().remove(0).unwrap();
    assert_eq!((joined.arrival, joined.new), (Arrival(0), true));
    scene.command(Command::Close).await;
    let view = scene.store.view(&two).await.unwrap();
    assert_eq!(view.phase, ropeline_queue::Phase::Open);
}
