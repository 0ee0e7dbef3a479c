//! What was answered is true after every process is gone.

use ropeline_queue::{
    Arrival, ClaimRefusal, Command, LeaseEvent, Pace, PauseReason, Phase, Place, Stock, TickInput,
};

use super::{Fixture, Scene, definition};
use crate::Clock;

/// Tickets, admissions, who left, phase, stock, pace: all as before.
pub async fn a_restart_forgets_nothing<F: Fixture>(fixture: F) {
    let mut raw = definition("drop", 5);
    raw.title = "Autumn drop".into();
    let scene = Scene::new(fixture, raw).await;
    let tickets = scene.join(0..40).await;
    scene.store.stock(&scene.sale, Stock { available: 30, held: Some(1) }).await.unwrap();
    assert_eq!(scene.tick().await.serving, Place(5));
    let claimed = scene.claim(0).await.unwrap();
    scene.claim(1).await.unwrap();
    scene.store.lease(&scene.sale, Arrival(1), LeaseEvent::Ended).await.unwrap();
    for arrival in [2, 20] {
        let position = scene.position(arrival).await;
        scene.store.leave(&scene.sale, position).await.unwrap().unwrap();
    }
    scene.command(Command::Revoke).await;
    let reason = PauseReason { text: "Back soon".into(), translations: [].into() };
    scene.command(Command::Pause { reason: reason.clone() }).await;
    let before = scene.tick().await;

    let scene = scene.restart().await;
    let after = scene.view().await;
    assert_eq!(after.definition, before.definition);
    assert_eq!(
        (after.phase, after.epoch, after.next_arrival, after.serving),
        (before.phase, before.epoch, before.next_arrival, before.serving)
    );
    assert_eq!(
        (after.active, after.unclaimed, after.stock, &after.paused_reason),
        (before.active, before.unclaimed, before.stock, &Some(reason))
    );
    // Visitors who leave are forgotten; the others are known by their tickets.
    let staying: Vec<u64> = (0..40).filter(|number| ![2, 20].contains(number)).collect();
    for (number, again) in staying.iter().zip(scene.join(staying.clone()).await) {
        let ticket = tickets[usize::try_from(*number).unwrap()];
        assert_eq!((ticket.arrival, ticket.joined_at), (again.arrival, again.joined_at));
        assert!(!again.new);
    }
    assert_eq!(scene.claim(0).await.map(|claimed| claimed.expires_at), Ok(claimed.expires_at));
    assert_eq!(scene.claim(1).await, Err(ClaimRefusal::Ended));
    assert_eq!(scene.claim(2).await, Err(ClaimRefusal::Left));
    scene.command(Command::Resume).await;
    for _ in 0..20 {
        scene.tick().await;
        let serving = scene.view().await.serving.0;
        for arrival in 0..serving {
            if scene.claim(arrival).await.is_ok() {
                scene.store.lease(&scene.sale, Arrival(arrival), LeaseEvent::Ended).await.unwrap();
            }
        }
    }
    assert_eq!(scene.claim(20).await, Err(ClaimRefusal::Left), "who left was called after a restart");
}

/// Numbers go on where they stopped, over many restarts, and a visitor who joined again keeps the
/// newer number.
pub async fn a_restart_repeats_no_arrival<F: Fixture>(fixture: F) {
    let mut scene = Scene::new(fixture, definition("drop", 1)).await;
    scene.join([0]).await;
    scene.tick().await;
    scene.claim(0).await.unwrap();
    scene.store.lease(&scene.sale, Arrival(0), LeaseEvent::Ended).await.unwrap();
    let again = scene.try_join(0, true).await.unwrap();
    assert_eq!(again.arrival, Arrival(1));
    let mut next = 2;
    for round in 1..6u64 {
        scene = scene.restart().await;
        let kept = scene.try_join(0, false).await.unwrap();
        assert_eq!((kept.arrival, kept.new), (Arrival(1), false));
        let fresh = scene.join(round * 100..round * 100 + round).await;
        for joined in fresh {
            assert_eq!((joined.arrival, joined.new), (Arrival(next), true));
            next += 1;
        }
    }
}

/// Leases end, calls lapse and credit is earned while nothing runs, and never twice.
pub async fn time_goes_on_over_a_restart<F: Fixture>(fixture: F) {
    let mut raw = definition("drop", 100);
    raw.pace = Pace::Batch { admit: 3, every_ms: 10_000 };
    raw.lease_ms = 30_000;
    raw.closes_at = Some(fixture.clock().now().plus(3_600_000));
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..50).await;
    let start = scene.tick().await.serving.0;
    scene.advance(10_000);
    assert_eq!(scene.tick().await.serving, Place(start + 3));
    scene.claim(0).await.unwrap();

    let scene = scene.restart().await;
    assert_eq!(scene.tick().await.serving, Place(start + 3), "a restart earned credit");
    scene.advance(29_999);
    assert_eq!(scene.tick().await.active, 1);
    let scene = scene.restart().await;
    scene.advance(1);
    let view = scene.store.tick(&scene.sale, TickInput::default()).await.unwrap();
    assert_eq!(view.active, 0, "a lease outlived its end over a restart");
    assert_eq!(scene.claim(0).await, Err(ClaimRefusal::Ended));

    let scene = scene.restart().await;
    scene.advance(3_600_000);
    assert_eq!(scene.tick().await.phase, Phase::Closed);
}

/// A day after nothing can come of a ticket any more, its visitor is nobody: before and after a restart.
pub async fn who_is_long_over_is_forgotten_and_never_admitted_again<F: Fixture>(fixture: F) {
    const DAY: u64 = 24 * 3_600_000;
    let mut scene = Scene::new(fixture, definition("drop", 100)).await;
    scene.join(0..10).await;
    scene.tick().await;
    for arrival in 0..5 {
        scene.claim(arrival).await.unwrap();
    }
    // Of those who come later, some in one commit with the first, nobody is forgotten with them.
    for _ in 0..3 {
        scene.advance(DAY);
        scene.tick().await;
    }
    assert_eq!(scene.join(10..12).await[0].arrival, Arrival(10));
    for restarted in [false, true] {
        if restarted {
            scene = scene.restart().await;
        }
        for arrival in 0..10 {
            assert_eq!(scene.claim(arrival).await, Err(ClaimRefusal::Lapsed), "{arrival}");
        }
        assert_eq!(scene.join([10]).await[0].arrival, Arrival(10), "it came only now");
        let back = scene.join([u64::from(restarted)]).await[0];
        assert_eq!((back.arrival, back.new), (Arrival(12 + u64::from(restarted)), true));
    }
}
