//! Servers that lose what they were told: whatever is lost, no number is given to two visitors, whoever was given one keeps
//! it, and nobody who was called is uncalled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ropeline_queue::{
    Arrival, ClaimRefusal, Command, DrawDefinition, LeaseEvent, PauseReason, Phase, Position, Stock,
    TickInput,
};
use ropeline_test_redis::{Durable, Reply, Server, eventually};

use super::fixture::settings;
use super::racing::{sale, visitor};
use super::scene::{CAP, Scene, patiently};
use crate::contract::{ManualClock, definition};
use crate::redis::{RedisCheckpoint, RedisServers, RedisSettings, RedisStore, keys};
use crate::{Clock, Join, QueueStore, StoreError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_was_lost_is_put_back_by_who_knows_it() {
    let mut scene = Scene::new(Durable::Always).await;
    let store = scene.gateway();
    scene.join(&store, 0..100).await;
    scene.tick(&store).await;
    scene.claim(&store, 0..5).await;
    let kept = scene.server.written();
    scene.join(&store, 100..300).await;
    scene.claim(&store, 5..10).await;
    scene.tick(&store).await;
    scene.server.kill();
    scene.server.cut(kept);
    scene.server.again();
    scene.join(&store, 0..300).await;
    scene.everybody_comes_back(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_was_lost_with_its_gateways_is_passed_over() {
    let mut scene = Scene::new(Durable::Always).await;
    let store = scene.gateway();
    scene.join(&store, 0..100).await;
    scene.tick(&store).await;
    let kept = scene.server.written();
    scene.join(&store, 100..300).await;
    scene.claim(&store, 0..20).await;
    drop(store);
    scene.server.kill();
    scene.server.cut(kept);
    scene.server.again();
    let store = scene.gateway();
    // Strangers first: they must not get what the others hold.
    scene.join(&store, 500_000..500_100).await;
    scene.everybody_comes_back(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_server_is_filled_by_a_gateway() {
    let mut scene = Scene::new(Durable::Never).await;
    let (store, other) = (scene.gateway(), scene.gateway());
    scene.join(&store, 0..5_000).await;
    scene.tick(&store).await;
    scene.claim(&other, 0..20).await;
    scene.join(&other, 5_000..6_000).await;
    scene.server.again_empty();
    // Both at once, each with what it knows.
    let joins = |from| vec![Join::of(visitor(from))];
    let (one, two) = tokio::join!(
        patiently(async || store.join(&sale(), joins(7)).await),
        patiently(async || other.join(&sale(), joins(5_007)).await),
    );
    let asked = Instant::now();
    scene.history.joined(asked, visitor(7), one[0].unwrap());
    scene.history.joined(asked, visitor(5_007), two[0].unwrap());
    assert_eq!(patiently(async || other.sales().await).await, [sale()]);
    scene.join(&store, 0..6_000).await;
    scene.claim(&other, 0..20).await;
    scene.everybody_comes_back(&other).await;
}

/// What one gateway has done is lost before the other has heard of it, and that one puts back what it knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_checkpoint_whoever_knows_less_comes_first_and_gives_no_number_twice() {
    let mut scene = Scene::new(Durable::Never).await;
    scene.settings.checkpoint = None;
    scene.server.again_empty();
    let (knows, behind) = (scene.gateway(), scene.gateway());
    let mut raw = definition("drop", CAP);
    raw.claim_window_ms = 60_000;
    knows.create(raw.clone().check().unwrap(), [1; 32]).await.unwrap();
    scene.join(&knows, 0..100).await;
    for round in 0..5 {
        let first = 100 + round * 100;
        scene.tick(&knows).await;
        scene.tick(&behind).await;
        scene.join(&knows, first..first + 50).await;
        let epoch = scene.tick(&knows).await.epoch;
        knows.command(&sale(), Command::Revoke).await.unwrap().unwrap();
        scene.claim(&knows, round * 4..round * 4 + 4).await;
        scene.server.ask(&["FLUSHALL"]);
        // It would give them all again.
        scene.join(&behind, first + 50..first + 100).await;
        scene.join(&knows, 0..first + 50).await;
        let view = scene.tick(&behind).await;
        assert!(view.epoch > epoch, "a revocation was forgotten: {:?}", view.epoch);
    }
    knows.command(&sale(), Command::Close).await.unwrap().unwrap();
    scene.server.ask(&["FLUSHALL"]);
    scene.tick(&behind).await;
    scene.tick(&knows).await;
    assert_eq!(scene.tick(&behind).await.phase, Phase::Closed, "an order was forgotten");
    scene.history.check();
    scene.history.check_cap(u64::from(CAP));
}

/// What the one that comes first did not know was ordered outlives whatever it has counted since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_checkpoint_no_order_is_undone_by_what_happened_right_after_the_loss() {
    let mut scene = Scene::new(Durable::Never).await;
    scene.settings.checkpoint = None;
    scene.server.again_empty();
    let (knows, behind) = (scene.gateway(), scene.gateway());
    knows.create(definition("drop", CAP).check().unwrap(), [1; 32]).await.unwrap();
    scene.join(&knows, 0..10).await;
    scene.tick(&behind).await;
    let epoch = scene.tick(&knows).await.epoch;
    for round in 1..=2 {
        knows.command(&sale(), Command::Revoke).await.unwrap().unwrap();
        let text = format!("round {round}");
        let reason = PauseReason { text, translations: BTreeMap::new() };
        if round == 2 {
            knows.command(&sale(), Command::Close).await.unwrap().unwrap();
        }
        scene.server.ask(&["FLUSHALL"]);
        for available in [0, 1, 0, 1, 0, 1] {
            behind.stock(&sale(), Stock { available, held: Some(0) }).await.unwrap();
        }
        behind.command(&sale(), Command::Revoke).await.unwrap().unwrap();
        behind.command(&sale(), Command::Pause { reason: reason.clone() }).await.unwrap().unwrap();
        scene.tick(&knows).await;
        for store in [&knows, &behind] {
            let view = scene.tick(store).await;
            // Both revocations, one after the other.
            assert_eq!(view.epoch.0, epoch.0 + 2 * round, "round {round}");
            let phase = if round == 2 { Phase::Closed } else { Phase::Paused };
            assert_eq!(view.phase, phase, "round {round}");
            if round == 1 {
                assert_eq!(view.paused_reason.as_ref(), Some(&reason));
            }
        }
    }
}

/// A fault in the rules, while the sale is put back by the only one who knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_while_a_sale_is_put_back_costs_an_answer_and_not_what_is_known_of_the_sale() {
    let mut scene = Scene::new(Durable::Never).await;
    scene.settings.checkpoint = None;
    scene.server.again_empty();
    let store = scene.gateway();
    store.create(definition("drop", CAP).check().unwrap(), [1; 32]).await.unwrap();
    scene.join(&store, 0..10).await;
    // Losses are counted, and this is one too many.
    let head = keys::head(&sale());
    let core = scene.server.ask(&["HGET", &head, "core"]).text().unwrap();
    let spoilt = core.replacen('{', &format!(r#"{{"losses":{},"#, u64::MAX), 1);
    scene.server.ask(&["HSET", &head, "core", &spoilt]);
    let other = scene.gateway();
    other.view(&sale()).await.unwrap();
    scene.server.ask(&["FLUSHALL"]);
    for why in ["a fault in Ropeline", "tried again soon"] {
        let error = other.view(&sale()).await.unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable { reason } if reason.contains(why)), "{error:?}");
    }
    drop(store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_does_not_fit_leaves_nothing_behind_and_is_put_back_once_it_does() {
    let mut scene = Scene::new(Durable::Never).await;
    let store = scene.gateway();
    for first in (0..80_000).step_by(4_000) {
        scene.join(&store, first..first + 4_000).await;
    }
    // A group is full, and is moved: whatever is copied after the loss is not what is looked for here.
    let head = keys::head(&sale());
    while scene.server.ask(&["HGET", &head, "spread"]) == Reply::Text("{}".to_owned()) {
        scene.tick(&store).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    scene.server.again_empty();
    let used: u64 = scene.server.info("memory", "used_memory").unwrap();
    // Less than the sale needs.
    scene.server.ask(&["CONFIG", "SET", "maxmemory", &(used + 1_000_000).to_string()]);
    let mut refused = 0;
    while refused < 3 {
        let error = store.view(&sale()).await.unwrap_err().to_string();
        refused += u32::from(error.contains("give it more memory"));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The gateway tells of itself whatever becomes of its sales.
    let left = scene.server.ask(&["KEYS", "{rl:drop*"]);
    assert_eq!(left, Reply::List(Vec::new()), "something is left of a sale that is not there");
    scene.server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    scene.join(&store, 0..1_000).await;
    scene.join(&scene.gateway(), 79_000..80_000).await;
    scene.history.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_and_its_gateways_gone_leave_the_checkpoint() {
    let mut scene = Scene::new(Durable::Never).await;
    let store = scene.gateway();
    scene.join(&store, 0..300).await;
    let before = scene.tick(&store).await;
    scene.claim(&store, 0..10).await;
    drop(store);
    scene.server.again_empty();
    let store = scene.gateway();
    assert_eq!(patiently(async || store.sales().await).await, [sale()], "nobody would protect it");
    let again = definition("drop", CAP).check().unwrap();
    assert_eq!(store.create(again, [2; 32]).await, Err(StoreError::SaleExists(sale())));
    let after = scene.tick(&store).await;
    assert!(after.serving >= before.serving, "who was called is uncalled");
    assert_eq!(after.definition, before.definition);
    scene.join(&store, 500_000..500_100).await;
    scene.everybody_comes_back(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lacks_the_end_takes_over() {
    let mut scene = Scene::new(Durable::Always).await;
    let mut replica = Server::start(Durable::Always);
    let (store, other) = (scene.gateway(), scene.gateway());
    let master = scene.server.port().to_string();
    replica.ask(&["REPLICAOF", "127.0.0.1", &master]);
    scene.join(&store, 0..100).await;
    scene.tick(&other).await;
    eventually("the replica to follow", || {
        replica.info("replication", "slave_repl_offset")
            >= scene.server.info("replication", "master_repl_offset")
            && replica.info("replication", "master_link_status").is_none()
            && replica.ask(&["EXISTS", "{rl:drop}:head"]) == Reply::Number(1)
    });
    // Its link is cut: the master it looks for is not there.
    replica.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    scene.join(&store, 100..300).await;
    scene.claim(&store, 0..20).await;
    scene.server.kill();
    replica.ask(&["REPLICAOF", "NO", "ONE"]);
    replica.move_to(scene.server.port());
    // The one that knows less is the first to go on.
    scene.join(&other, 500_000..500_100).await;
    scene.join(&store, 0..300).await;
    scene.claim(&store, 0..20).await;
    scene.everybody_comes_back(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_knows_more_puts_it_back_after_another_went_on() {
    let mut scene = Scene::new(Durable::Always).await;
    let (less, more) = (scene.gateway(), scene.gateway());
    scene.join(&less, 0..50).await;
    scene.tick(&less).await;
    let kept = scene.server.written();
    scene.join(&more, 50..250).await;
    scene.tick(&more).await;
    scene.claim(&more, 0..20).await;
    scene.server.kill();
    scene.server.cut(kept);
    scene.server.again();
    scene.join(&less, 500_000..500_100).await;
    scene.tick(&less).await;
    // Without any ticket being shown.
    scene.join(&more, 50..250).await;
    scene.claim(&more, 0..20).await;
    scene.history.check();
    scene.history.check_cap(u64::from(CAP));
    scene.everybody_comes_back(&less).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_knows_nothing_of_a_lost_sale_lets_those_who_know_it_put_it_back() {
    let mut scene = Scene::new(Durable::Never).await;
    let knowing = scene.gateway();
    scene.join(&knowing, 0..300).await;
    let before = scene.tick(&knowing).await;
    scene.claim(&knowing, 0..10).await;
    knowing.leave_mark(&sale()).await.unwrap();
    scene.server.again_empty();
    let fresh = scene.gateway();
    for _ in 0..3 {
        let waits = fresh.view(&sale()).await;
        assert!(matches!(waits, Err(StoreError::Unavailable { .. })), "{waits:?}");
    }
    scene.tick(&knowing).await;
    let after = scene.tick(&fresh).await;
    assert_eq!((after.active, after.waiting, after.serving), (10, before.waiting, before.serving));
    // Without any ticket being shown.
    scene.join(&fresh, 0..300).await;
    scene.claim(&fresh, 0..10).await;
    scene.history.check();
    scene.history.check_admissions(u64::from(CAP));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_know_a_lost_sale_are_not_waited_for_for_ever() {
    let mut scene = Scene::new(Durable::Never).await;
    let knowing = scene.gateway();
    scene.join(&knowing, 0..300).await;
    knowing.leave_mark(&sale()).await.unwrap();
    drop(knowing);
    scene.server.again_empty();
    let fresh = scene.gateway();
    assert_eq!(scene.tick(&fresh).await.losses, 1);
    scene.everybody_comes_back(&fresh).await;
}

/// The sale is large enough to be put back in parts, and there is no sign of anybody who would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_knows_all_puts_it_back_after_one_that_knew_nothing_went_on() {
    let mut scene = Scene::new(Durable::Never).await;
    let knowing = scene.gateway();
    for first in (0..70_000).step_by(3_500) {
        scene.join(&knowing, first..first + 3_500).await;
    }
    scene.tick(&knowing).await;
    scene.claim(&knowing, 0..10).await;
    knowing.lease(&sale(), Arrival(3), LeaseEvent::Ended).await.unwrap();
    let before = scene.tick(&knowing).await;
    scene.server.again_empty();
    let fresh = scene.gateway();
    let lost = scene.tick(&fresh).await;
    assert_eq!((lost.active, lost.losses), (0, 1));
    let head = |field: &str| scene.server.ask(&["HGET", "{rl:drop}:head", field]);
    assert_eq!(head("spread"), Reply::Text("{}".into()), "copies were made of nobody's joins");
    // Without any ticket being shown.
    scene.join(&knowing, 69_990..70_000).await;
    let after = scene.tick(&fresh).await;
    assert_eq!((after.active, after.unclaimed), (before.active, before.unclaimed));
    let Reply::Text(base) = scene.server.ask(&["HGET", "{rl:drop}:head", "base"]) else { unreachable!() };
    let bucket = format!("{{rl:drop}}:{base}:admissions:100");
    assert_eq!(scene.server.ask(&["EXISTS", &bucket]), Reply::Number(0), "joins are kept one by one");
    let position = Position { arrival: Arrival(3), ..after.position(Arrival(3)) };
    assert_eq!(fresh.claim(&sale(), position).await.unwrap(), Err(ClaimRefusal::Ended));
    scene.join(&fresh, 0..1_000).await;
    scene.join(&scene.gateway(), 64_000..68_000).await;
    scene.history.check();
    scene.history.check_admissions(u64::from(CAP));
}

/// What was published of a draw stays true, where nobody but the checkpoint remembers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draw_that_was_lost_is_the_same_draw() {
    let (mut server, folder, clock) =
        (Server::start(Durable::Always), tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let checkpoint = Some(RedisCheckpoint::Folder(folder.path().to_path_buf()));
    let settings = RedisSettings { checkpoint, ..settings(RedisServers::Single(server.url())) };
    let open = || {
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        RedisStore::with_clock(&settings, Some(clock)).unwrap()
    };
    let mut raw = definition("drop", CAP);
    raw.draw = Some(DrawDefinition { closes_at: clock.now().plus(10_000), beacon: None });
    raw.opens_at = Some(clock.now().plus(20_000));
    let store = open();
    store.create(raw.check().unwrap(), [1; 32]).await.unwrap();
    let joins = |who: std::ops::Range<u64>| who.map(|who| Join::of(visitor(who))).collect();
    store.join(&sale(), joins(0..10)).await.unwrap();
    let kept = server.written();
    store.join(&sale(), joins(10..40)).await.unwrap();
    for millis in [10_000, 1_000] {
        clock.advance(millis);
        store.tick(&sale(), TickInput::default()).await.unwrap();
        store.join(&sale(), joins(100..100 + millis / 1_000)).await.unwrap();
    }
    let before = store.view(&sale()).await.unwrap();
    assert_eq!(before.draw.as_ref().and_then(|draw| draw.state.size()), Some(40));
    drop(store);
    server.kill();
    server.cut(kept);
    server.again();
    let after = patiently(async || open().tick(&sale(), TickInput::default()).await).await;
    assert_eq!(after.draw, before.draw);
    assert!(after.next_arrival >= before.next_arrival);
}

/// Nobody joins any more, so nothing but the order itself is new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_was_closed_stays_closed() {
    let mut scene = Scene::new(Durable::Never).await;
    let store = scene.gateway();
    scene.join(&store, 0..10).await;
    scene.tick(&store).await;
    store.command(&sale(), Command::Revoke).await.unwrap().unwrap();
    store.command(&sale(), Command::Close).await.unwrap().unwrap();
    let before = store.view(&sale()).await.unwrap();
    drop(store);
    scene.server.again_empty();
    let store = scene.gateway();
    let after = patiently(async || store.view(&sale()).await).await;
    assert_eq!((after.phase, after.epoch), (Phase::Closed, before.epoch));
}

/// Redis remembers the sale as it was before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_ordered_last_holds_where_the_end_is_lost_with_its_gateways() {
    let reason = PauseReason { text: "A moment".into(), translations: BTreeMap::new() };
    let orders = [
        (Some(Command::Close), Phase::Closed),
        (Some(Command::SoldOut), Phase::SoldOut),
        (Some(Command::Pause { reason }), Phase::Paused),
        (None, Phase::SoldOut),
    ];
    for (order, phase) in orders {
        let mut scene = Scene::new(Durable::Always).await;
        let store = scene.gateway();
        scene.join(&store, 0..50).await;
        scene.tick(&store).await;
        let kept = scene.server.written();
        let mut raw = definition("drop", CAP);
        raw.title = "Changed".to_owned();
        raw.protect.routes.push("/changed".to_owned());
        store.change(raw.check().unwrap(), None).await.unwrap().unwrap();
        store.command(&sale(), Command::Revoke).await.unwrap().unwrap();
        match &order {
            Some(order) => drop(store.command(&sale(), order.clone()).await.unwrap().unwrap()),
            None => store.stock(&sale(), Stock { available: 0, held: Some(0) }).await.unwrap(),
        }
        let before = store.view(&sale()).await.unwrap();
        assert_eq!(before.phase, phase);
        drop(store);
        scene.server.kill();
        scene.server.cut(kept);
        scene.server.again();
        let (store, other) = (scene.gateway(), scene.gateway());
        for store in [&store, &other] {
            let after = patiently(async || store.view(&sale()).await).await;
            assert_eq!((after.phase, after.epoch), (phase, before.epoch), "after {order:?}");
            assert_eq!(after.definition, before.definition, "after {order:?}");
        }
        // What is ordered after that holds against it.
        let next = match phase {
            Phase::SoldOut => Command::Restock,
            Phase::Paused => Command::Resume,
            _ => continue,
        };
        store.command(&sale(), next).await.unwrap().unwrap();
        for store in [&store, &other] {
            assert_eq!(store.tick(&sale(), TickInput::default()).await.unwrap().phase, Phase::Open);
        }
    }
}

/// The caller was told that it came to nothing, or nothing at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_commit_failed_takes_effect_neither_later_nor_after_a_loss() {
    let mut raw = definition("drop", CAP);
    raw.title = "Changed".to_owned();
    let changed = raw.check().unwrap();
    for at_once in [true, false] {
        for change in [true, false] {
            let mut scene = Scene::new(Durable::Always).await;
            let (store, other) = (scene.gateway(), scene.gateway());
            scene.join(&store, 0..50).await;
            scene.join(&other, 50..60).await;
            let before = scene.tick(&store).await;
            // It writes down in the checkpoint what it is about to commit, and cannot commit it.
            scene.server.ask(&["ACL", "SETUSER", "default", "-hset"]);
            let failed = match change {
                true => store.change(changed.clone(), None).await.map(drop),
                false => store.command(&sale(), Command::Close).await.map(drop),
            };
            assert!(failed.is_err(), "it was committed");
            scene.server.ask(&["ACL", "SETUSER", "default", "+hset"]);
            let Some(RedisCheckpoint::Folder(folder)) = scene.settings.checkpoint.clone() else {
                unreachable!()
            };
            if at_once {
                // Whoever ordered it is gone, and somebody else goes on.
                drop(store);
                scene.join(&other, 60..70).await;
            } else {
                for _ in 0..3 {
                    scene.tick(&store).await;
                }
                // No commit asks for more than it needs any longer.
                let away = folder.with_extension("away");
                std::fs::rename(&folder, &away).unwrap();
                store.join(&sale(), vec![Join::of(visitor(60))]).await.unwrap()[0].unwrap();
                std::fs::rename(&away, &folder).unwrap();
                drop(store);
            }
            scene.server.kill();
            scene.server.again();
            let third = scene.gateway();
            for store in [&other, &third] {
                let after = patiently(async || store.view(&sale()).await).await;
                assert_eq!((after.phase, &after.definition), (Phase::Open, &before.definition));
            }
            // What is ordered from now on holds.
            other.command(&sale(), Command::Close).await.unwrap().unwrap();
            drop((other, third));
            scene.server.again_empty();
            let last = scene.gateway();
            let after = patiently(async || last.view(&sale()).await).await;
            assert_eq!((after.phase, &after.definition), (Phase::Closed, &before.definition));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_knows_is_put_back_after_two_losses() {
    let mut scene = Scene::new(Durable::Always).await;
    let (less, more) = (scene.gateway(), scene.gateway());
    scene.join(&less, 0..50).await;
    scene.join(&more, 50..60).await;
    let first = scene.server.written();
    scene.join(&more, 60..250).await;
    scene.server.kill();
    scene.server.cut(first);
    scene.server.again();
    scene.join(&less, 500_000..500_010).await;
    let second = scene.server.written();
    scene.join(&less, 500_010..500_100).await;
    // It has heard of the first loss, and cannot put anything back before the second.
    let Some(RedisCheckpoint::Folder(folder)) = scene.settings.checkpoint.clone() else { unreachable!() };
    let away = folder.with_extension("away");
    std::fs::rename(&folder, &away).unwrap();
    while !matches!(more.view(&sale()).await, Err(StoreError::Io { .. })) {}
    std::fs::rename(&away, &folder).unwrap();
    drop(less);
    scene.server.kill();
    scene.server.cut(second);
    scene.server.again();
    let third = scene.gateway();
    scene.join(&third, 600_000..600_010).await;
    // Without any ticket being shown.
    scene.join(&more, 60..250).await;
    scene.history.check();
}
