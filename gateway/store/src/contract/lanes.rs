//! Sales with lanes: an order, a share and invitations for each.

use std::collections::BTreeSet;
use std::sync::Arc;

use ropeline_queue::{
    Arrival, ClaimRefusal, Invited, JoinRefusal, Joined, Lane, LaneDefinition, Pace, RawDefinition,
    VisitorKey,
};

use super::{Fixture, Scene, definition, visitor};
use crate::Join;

/// Everybody's lane with a fifth of the pace, and one for members with the rest.
fn two_lanes(max_active: u32) -> RawDefinition {
    let mut raw = definition("drop", max_active);
    let lane = |name: &str, share, invitation| LaneDefinition {
        name: name.parse().unwrap(),
        title: String::new(),
        share,
        invitation,
    };
    raw.lanes = vec![lane("everybody", 20, false), lane("members", 80, true)];
    raw
}

fn members() -> Lane {
    Lane::at(1).unwrap()
}

/// An invitation; with a number it is good for one alone.
fn invitation(once: Option<u64>) -> Invited {
    Invited { lane: members(), once: once.map(|once| VisitorKey((u128::from(once) << 64 | 7).to_le_bytes())) }
}

fn invited(number: u64, once: Option<u64>) -> Join {
    Join { invited: Some(invitation(once)), ..Join::of(visitor(number)) }
}

impl<F: Fixture> Scene<F> {
    async fn invite(&self, joins: Vec<Join>) -> Vec<Result<Joined, JoinRefusal>> {
        self.store.join(&self.sale, joins).await.unwrap()
    }

    /// How many of each lane have been called.
    async fn called(&self) -> [u64; 2] {
        let view = self.view().await;
        [Lane::FIRST, members()].map(|lane| view.lines[lane].serving.number())
    }
}

/// Eight tickers on two gateways call what time has earned, divided by the lanes' shares; who is called may claim, and
/// the next of the same lane may not.
pub async fn lanes_share_the_pace_and_keep_their_own_order<F: Fixture>(fixture: F) {
    let mut raw = two_lanes(10_000);
    raw.pace = Pace::Batch { admit: 5, every_ms: 1_000 };
    let scene = Scene::new(fixture, raw).await;
    scene.join(0..200).await;
    let joined = scene.invite((1_000..1_200).map(|number| invited(number, None)).collect()).await;
    for (number, joined) in (0..).zip(joined) {
        let arrival = joined.unwrap().arrival;
        assert_eq!((arrival.lane(), arrival.number()), (members(), number));
    }
    let gateways = [scene.fixture.connect().await, scene.fixture.connect().await];
    let [everybody, preferred] = scene.called().await;
    for step in 1..=20u64 {
        scene.advance(1_000);
        let mut tickers = Vec::new();
        for gateway in gateways.iter().cycle().take(8) {
            let (gateway, sale) = (Arc::clone(gateway), scene.sale.clone());
            tickers.push(tokio::spawn(async move { gateway.tick(&sale, Default::default()).await.unwrap() }));
        }
        for ticker in tickers {
            ticker.await.unwrap();
        }
        let [now, preferred_now] = scene.called().await;
        assert_eq!(now + preferred_now, everybody + preferred + step * 5, "not what the pace has earned");
        assert!((now - everybody).abs_diff(step) <= 1, "{} of {} calls", now - everybody, step * 5);
    }
    for (lane, called) in [Lane::FIRST, members()].into_iter().zip(scene.called().await) {
        let arrivals = scene.view().await.lines[lane].next_arrival.0 - 200;
        assert!(scene.claim(arrivals + called - 1).await.is_ok());
        assert_eq!(scene.claim(arrivals + called).await, Err(ClaimRefusal::NotCalled));
    }
}

/// Forty people show one code at the same instant, on four gateways.
pub async fn an_invitation_for_one_gives_one_number_from_all_gateways<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, two_lanes(10)).await;
    let mut gateways = Vec::new();
    for _ in 0..4 {
        gateways.push(scene.fixture.connect().await);
    }
    let mut joining = Vec::new();
    for number in 0..40u64 {
        let gateway = Arc::clone(&gateways[usize::try_from(number % 4).unwrap()]);
        let sale = scene.sale.clone();
        joining.push(tokio::spawn(async move {
            gateway.join(&sale, vec![invited(number, Some(1))]).await.unwrap().remove(0)
        }));
    }
    let mut given = 0;
    for join in joining {
        match join.await.unwrap() {
            Ok(joined) => {
                assert!(joined.new);
                given += 1;
            }
            Err(refusal) => assert_eq!(refusal, JoinRefusal::InvitationUsed),
        }
    }
    assert_eq!(given, 1, "one code gave several numbers, or none");
    // Those without one still get into the lane that takes everybody, each once.
    let others: BTreeSet<Arrival> = scene
        .join(0..40)
        .await
        .iter()
        .map(|joined| joined.arrival)
        .filter(|at| at.lane() == Lane::FIRST)
        .collect();
    assert_eq!(others.len(), 39);
}

/// Who waits with everybody and then shows an invitation has one ticket, and it is the new one on every gateway.
pub async fn who_goes_over_to_a_lane_has_one_ticket<F: Fixture>(fixture: F) {
    let scene = Scene::new(fixture, two_lanes(1)).await;
    let before = scene.join(0..3).await;
    let over = scene.invite(vec![invited(2, None)]).await.remove(0).unwrap();
    assert_eq!((over.arrival.lane(), over.new), (members(), true));
    let elsewhere = scene.fixture.connect().await;
    let known = elsewhere.join(&scene.sale, vec![Join::of(visitor(2))]).await.unwrap().remove(0).unwrap();
    assert_eq!((known.arrival, known.new), (over.arrival, false));
    scene.tick().await;
    assert_eq!(scene.claim(before[2].arrival.0).await, Err(ClaimRefusal::Left));
}

/// Numbers, places, calls, shares and used invitations are the same after a restart.
pub async fn a_restart_forgets_no_lane<F: Fixture>(fixture: F) {
    let mut raw = two_lanes(10_000);
    raw.pace = Pace::Batch { admit: 5, every_ms: 1_000 };
    let scene = Scene::new(fixture, raw).await;
    let everybody = scene.join(0..20).await;
    let preferred = scene.invite((100..120).map(|number| invited(number, Some(number))).collect()).await;
    scene.advance(2_000);
    scene.tick().await;
    let over = scene.invite(vec![invited(19, Some(19))]).await.remove(0).unwrap();
    let last = preferred[19].unwrap();
    let position = scene.position(last.arrival.0).await;
    scene.store.leave(&scene.sale, position).await.unwrap().unwrap();
    let (before, called) = (scene.view().await, scene.called().await);
    assert!(called[0] > 0 && called[1] > 0);

    let scene = scene.restart().await;
    let view = scene.view().await;
    assert_eq!((&view.lines, view.waiting), (&before.lines, before.waiting));
    for (number, joined) in (0..19).zip(&everybody) {
        assert_eq!(scene.join([number]).await[0], Joined { new: false, ..*joined });
    }
    assert_eq!(scene.join([19]).await[0], Joined { new: false, ..over });
    for (number, joined) in (100..119).zip(&preferred) {
        let again = scene.invite(vec![invited(number, Some(number))]).await.remove(0);
        assert_eq!(again, Ok(Joined { new: false, ..joined.unwrap() }));
        let stolen = scene.invite(vec![invited(500, Some(number))]).await.remove(0);
        assert_eq!(stolen, Err(JoinRefusal::InvitationUsed));
    }
    // The invitation of one who left before being called is good again.
    let next = scene.invite(vec![invited(500, Some(119))]).await.remove(0).unwrap();
    assert_eq!((next.new, next.arrival.number()), (true, 21));
}

/// A day after its call a lane's past is forgotten, and nothing of the other's.
pub async fn a_lane_that_is_long_over_is_forgotten_alone<F: Fixture>(fixture: F) {
    const DAY_MS: u64 = 24 * 3_600 * 1_000;
    let scene = Scene::new(fixture, two_lanes(100)).await;
    let called = scene.invite((0..5).map(|number| invited(number, Some(number))).collect()).await;
    scene.tick().await;
    for joined in &called {
        scene.claim(joined.unwrap().arrival.0).await.unwrap();
    }
    // The calls lapse, no recall reaches them any more, and then a day goes by.
    for _ in 0..3 {
        scene.advance(DAY_MS);
        scene.tick().await;
    }
    let everybody = scene.join(100..105).await;
    scene.tick().await;
    let anew = scene.invite(vec![invited(0, Some(0))]).await.remove(0).unwrap();
    assert_eq!((anew.new, anew.arrival.number()), (true, 5), "a number was given twice, or never forgotten");
    let scene = scene.restart().await;
    assert_eq!(scene.join([0]).await[0], Joined { new: false, ..anew });
    for (number, joined) in (100..105).zip(everybody) {
        assert_eq!(scene.join([number]).await[0], Joined { new: false, ..joined });
        assert!(scene.claim(joined.arrival.0).await.is_ok());
    }
}
