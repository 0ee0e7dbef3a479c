//! Who is let in, when, and never more than there is room for.

use std::sync::Arc;

use ropeline_queue::{
    Arrival, ClaimRefusal, Command, JoinRefusal, LeaseEvent, Pace, Phase, Place, Stock, TickInput,
};

use super::{Fixture, Scene, definition};

/// Sixteen tickers on four gateways and everybody claiming at once, through three generations of
/// leases: never more inside than `cap`.
async fn cap_holds<F: Fixture>(fixture: F, cap: u32) {
    const ROUNDS: u64 = 6;
    let mut raw = definition("drop", cap);
    raw.lease_ms = 10_000;
    raw.claim_window_ms = 5_000;
    let scene = Scene::new(fixture, raw).await;
    let crowd = u64::from(cap) * 4 + 10;
    scene.join(0..crowd).await;
    let gateways = [
        scene.fixture.connect().await,
        scene.fixture.connect().await,
        scene.fixture.connect().await,
        scene.fixture.connect().await,
    ];
    // Ends of the leases that visitors have in their hands.
    let mut leases = Vec::new();
    for _ in 0..ROUNDS {
        let mut tickers = Vec::new();
        for gateway in gateways.iter().cycle().take(16) {
            let (gateway, sale) = (Arc::clone(gateway), scene.sale.clone());
            tickers.push(tokio::spawn(async move {
                let view = gateway.tick(&sale, TickInput::default()).await.unwrap();
                (view.active, view.unclaimed)
            }));
        }
        for ticker in tickers {
            let (active, called) = ticker.await.unwrap();
            assert!(active + called <= u64::from(cap), "{active} active and {called} called, cap {cap}");
        }
        let serving = scene.view().await.serving;
        let mut claims = Vec::new();
        for arrival in 0..serving.0 {
            let (gateway, sale) =
                (Arc::clone(&gateways[usize::try_from(arrival % 4).unwrap()]), scene.sale.clone());
            let position = scene.position(arrival).await;
            claims.push(tokio::spawn(async move { gateway.claim(&sale, position).await.unwrap() }));
        }
        leases.clear();
        for claim in claims {
            match claim.await.unwrap() {
                Ok(claimed) => leases.push(claimed.expires_at),
                Err(refusal) => assert_eq!(refusal, ClaimRefusal::Ended),
            }
        }
        let inside = leases.iter().filter(|end| **end > scene.now()).count();
        assert!(inside <= usize::try_from(cap).unwrap(), "{inside} hold an admission, cap {cap}");
        assert_eq!(inside, usize::try_from(cap).unwrap(), "there was room that nobody was given");
        scene.advance(5_000);
    }
}

/// `max_active = 1`.
pub async fn cap_of_one_holds_under_many_tickers<F: Fixture>(fixture: F) {
    cap_holds(fixture, 1).await;
}

/// `max_active = 2`.
pub async fn cap_of_two_holds_under_many_tickers<F: Fixture>(fixture: F) {
    cap_holds(fixture, 2).await;
}

/// `max_active = 200`.
pub async fn cap_of_two_hundred_holds_under_many_tickers<F: Fixture>(fixture: F) {
    cap_holds(fixture, 200).await;
}

/// Together they call one batch each time a batch is due, and nobody in between.
pub async fn many_tickers_call_what_time_has_earned_and_no_more<F: Fixture>(fixture: F) {
    let mut raw = definition("drop", 10_000);
    raw.pace = Pace::Batch { admit: 10, every_ms: 1_000 };
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..500).await;
    let gateways = [scene.fixture.connect().await, scene.fixture.connect().await];
    let start = scene.tick().await.serving.0;
    assert!(start <= 10, "more than a batch was called at once");
    for step in 1..=40u64 {
        scene.advance(250);
        let mut tickers = Vec::new();
        for gateway in gateways.iter().cycle().take(8) {
            let (gateway, sale) = (Arc::clone(gateway), scene.sale.clone());
            tickers
                .push(tokio::spawn(async move { gateway.tick(&sale, TickInput::default()).await.unwrap() }));
        }
        for ticker in tickers {
            ticker.await.unwrap();
        }
        let serving = scene.view().await.serving.0;
        assert_eq!(serving, start + step / 4 * 10, "after {} ms", step * 250);
    }
}

/// A tick repeated without time passing is the same tick.
pub async fn ticking_again_at_one_instant_changes_nothing<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 3)).await;
    scene.join(0..20).await;
    let first = scene.tick().await;
    for _ in 0..10 {
        let again = scene.tick().await;
        assert_eq!(
            (first.serving, first.active, first.unclaimed, first.phase),
            (again.serving, again.active, again.unclaimed, again.phase)
        );
    }
}

/// A clock set back stops time; it neither calls, nor ends, nor breaks anything.
pub async fn a_clock_that_steps_back_calls_nobody<F: Fixture>(fixture: F) {
    let mut raw = definition("drop", 100);
    raw.pace = Pace::Batch { admit: 2, every_ms: 1_000 };
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..50).await;
    scene.advance(5_000);
    let before = scene.tick().await;
    let claimed = scene.claim(0).await.unwrap();
    scene.fixture.clock().step_back(4_000);
    for _ in 0..4 {
        let view = scene.tick().await;
        assert_eq!(view.serving, before.serving);
        assert!(view.as_of >= before.as_of, "the sale's own time went back");
    }
    assert_eq!(scene.claim(0).await, Ok(claimed));
    let late = scene.join([77]).await.remove(0);
    assert_eq!(late.arrival, Arrival(50));
    scene.advance(4_000);
    assert_eq!(scene.tick().await.serving, before.serving, "time was counted twice");
    scene.advance(1_000);
    assert_eq!(scene.tick().await.serving, Place(before.serving.0 + 2));
}

/// Nobody asks for anything: the clock passes the end, the next tick has the room and fills it.
pub async fn a_lease_ends_by_the_clock_alone<F: Fixture>(fixture: F) {
    let mut raw = definition("drop", 1);
    raw.lease_ms = 30_000;
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..2).await;
    scene.tick().await;
    let claimed = scene.claim(0).await.unwrap();
    assert_eq!(claimed.expires_at, scene.now().plus(30_000));
    scene.advance(29_999);
    let view = scene.tick().await;
    assert_eq!((view.active, view.serving), (1, Place(1)));
    scene.advance(1);
    let view = scene.tick().await;
    assert_eq!((view.active, view.serving), (0, Place(2)), "an ended lease still takes room");
    assert_eq!(scene.claim(0).await, Err(ClaimRefusal::Ended));
    assert!(scene.claim(1).await.is_ok());
}

/// One place, three visitors: the first did not claim, came back, and waits for the second to be
/// done; the third waits behind both.
async fn first_waits_to_be_recalled<F: Fixture>(fixture: F) -> Scene<F> {
    let mut raw = definition("drop", 1);
    raw.claim_window_ms = 10_000;
    raw.recall_grace_ms = 600_000;
    raw.lease_ms = 5_000;
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..3).await;
    assert_eq!(scene.tick().await.serving, Place(1));
    scene.advance(10_000);
    assert_eq!(scene.tick().await.serving, Place(2), "nobody was called when a call lapsed");
    assert_eq!(scene.claim(0).await, Err(ClaimRefusal::RecallPending));
    assert!(scene.claim(1).await.is_ok());
    scene.advance(5_000);
    assert_eq!(scene.tick().await.serving, Place(2), "somebody new was called before the recall");
    scene
}

/// A call that lapsed is made good once, before anybody new is called.
pub async fn a_lapsed_call_is_recalled_first<F: Fixture>(fixture: F) {
    let scene = first_waits_to_be_recalled(fixture).await;
    assert!(scene.claim(0).await.is_ok());
    scene.advance(5_000);
    assert_eq!(scene.tick().await.serving, Place(3));
}

/// Who lets the second call lapse, too, has had both.
pub async fn nobody_is_recalled_twice<F: Fixture>(fixture: F) {
    let scene = first_waits_to_be_recalled(fixture).await;
    scene.advance(10_000);
    assert_eq!(scene.tick().await.serving, Place(3));
    assert_eq!(scene.claim(0).await, Err(ClaimRefusal::Lapsed));
}

/// Asked from everywhere at once, an admission is one admission.
pub async fn a_claim_is_the_same_from_every_gateway<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 5)).await;
    scene.join(0..3).await;
    scene.tick().await;
    let position = scene.position(1).await;
    let mut claims = Vec::new();
    for _ in 0..12 {
        let (gateway, sale) = (scene.fixture.connect().await, scene.sale.clone());
        claims.push(tokio::spawn(async move { gateway.claim(&sale, position).await.unwrap().unwrap() }));
    }
    let mut answers = Vec::new();
    for claim in claims {
        answers.push(claim.await.unwrap());
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "two admissions for one ticket");
    scene.advance(60_000);
    assert_eq!(scene.claim(1).await, Ok(answers[0]));
    assert_eq!(scene.tick().await.active, 1);
}

/// No call, no admission; a number that was never given is unknown.
pub async fn nobody_claims_before_the_call<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 1)).await;
    scene.join(0..3).await;
    scene.tick().await;
    assert_eq!(scene.claim(1).await, Err(ClaimRefusal::NotCalled));
    assert_eq!(scene.claim(2).await, Err(ClaimRefusal::NotCalled));
    assert_eq!(scene.claim(3).await, Err(ClaimRefusal::Unknown));
    assert!(scene.claim(0).await.is_ok());
}

/// Who leaves is passed over, waiting or called or admitted, and does not come back.
pub async fn leaving_frees_the_place_for_good<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 1)).await;
    scene.join(0..5).await;
    scene.tick().await;
    scene.claim(0).await.unwrap();
    for arrival in [1, 0] {
        let position = scene.position(arrival).await;
        for _ in 0..2 {
            scene.store.leave(&scene.sale, position).await.unwrap().unwrap();
        }
    }
    let view = scene.tick().await;
    assert_eq!(view.active, 0, "an admission that was given up still takes room");
    assert_eq!(scene.claim(1).await, Err(ClaimRefusal::Left));
    assert!(scene.claim(0).await.is_err());
    assert!(scene.claim(2).await.is_ok(), "the place of one who left was not passed on");
    let never = scene.position(99).await;
    assert!(scene.store.leave(&scene.sale, never).await.unwrap().is_err());
}

/// The shop says that the visitor is done.
pub async fn a_lease_that_the_shop_ends_frees_the_place<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 1)).await;
    scene.join(0..2).await;
    scene.tick().await;
    scene.claim(0).await.unwrap();
    scene.store.lease(&scene.sale, Arrival(0), LeaseEvent::Holding).await.unwrap();
    assert_eq!(scene.tick().await.serving, Place(1));
    for _ in 0..2 {
        scene.store.lease(&scene.sale, Arrival(0), LeaseEvent::Ended).await.unwrap();
    }
    scene.store.lease(&scene.sale, Arrival(1), LeaseEvent::Ended).await.unwrap();
    assert_eq!(scene.tick().await.serving, Place(2));
    assert_eq!(scene.claim(0).await, Err(ClaimRefusal::Ended));
    assert!(scene.claim(1).await.is_ok());
}

/// The shop says that a hold is no more.
pub async fn a_hold_that_was_given_back_competes_again<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 100)).await;
    scene.store.stock(&scene.sale, Stock { available: 2, held: Some(0) }).await.unwrap();
    scene.join(0..5).await;
    assert_eq!(scene.tick().await.serving, Place(2));
    scene.claim(0).await.unwrap();
    scene.store.stock(&scene.sale, Stock { available: 1, held: Some(1) }).await.unwrap();
    scene.store.lease(&scene.sale, Arrival(0), LeaseEvent::Holding).await.unwrap();
    assert_eq!(scene.tick().await.holding, 1);
    scene.store.lease(&scene.sale, Arrival(0), LeaseEvent::Released).await.unwrap();
    scene.store.stock(&scene.sale, Stock { available: 2, held: Some(0) }).await.unwrap();
    let view = scene.tick().await;
    assert_eq!((view.holding, view.serving), (0, Place(2)), "three were called for two units");
    assert!(scene.claim(0).await.is_ok(), "who gives a hold back is still inside");
}

/// Nobody is called for what is not there; when all is gone the sale says so, and takes it back
/// when units return.
pub async fn an_empty_stock_stops_the_queue<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 100)).await;
    scene.store.stock(&scene.sale, Stock { available: 2, held: Some(0) }).await.unwrap();
    scene.join(0..10).await;
    assert_eq!(scene.tick().await.serving, Place(2), "called for more units than there are");
    scene.store.stock(&scene.sale, Stock { available: 0, held: Some(2) }).await.unwrap();
    let view = scene.tick().await;
    assert_eq!((view.serving, view.phase), (Place(2), Phase::Open));
    scene.store.stock(&scene.sale, Stock { available: 0, held: Some(0) }).await.unwrap();
    let view = scene.tick().await;
    assert_eq!((view.serving, view.phase), (Place(2), Phase::SoldOut));
    assert_eq!(scene.try_join(50, false).await, Err(JoinRefusal::SoldOut));
    scene.store.stock(&scene.sale, Stock { available: 5, held: Some(0) }).await.unwrap();
    let view = scene.tick().await;
    assert_eq!(view.phase, Phase::Open);
    assert!(view.serving > Place(2));
}

/// What the shop's health allows is never exceeded by a pace; an operator's word is beside it.
pub async fn the_health_limit_is_kept<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, definition("drop", 100)).await;
    scene.join(0..50).await;
    let sick = TickInput { health_limit: Some(0) };
    assert_eq!(scene.store.tick(&scene.sale, sick).await.unwrap().serving, Place(0));
    let weak = TickInput { health_limit: Some(7) };
    assert_eq!(scene.store.tick(&scene.sale, weak).await.unwrap().serving, Place(7));
    scene.advance(1_000);
    assert_eq!(scene.store.tick(&scene.sale, weak).await.unwrap().serving, Place(7));
    let done = scene.command(Command::Admit { batch_size: 3, lease_ms: None }).await;
    assert_eq!(done.called, 3);
    assert_eq!(scene.view().await.serving, Place(10));
}
