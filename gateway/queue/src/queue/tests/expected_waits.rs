//! The wait that is told before anything has been measured.

use proptest::prelude::*;

use super::model::smooth;
use super::*;
use crate::definition::LONGEST_TICK_MS;
use crate::flow::EtaRange;
use crate::state::cadence_ms;

/// A sale in which nobody claims, so that nothing but the pace and the caps decides.
fn sale(pace: Pace, max_active: u32) -> RawDefinition {
    let mut raw = open_sale(max_active);
    raw.pace = pace;
    raw.claim_window_ms = 24 * 3_600_000;
    raw
}

fn eta(rig: &Rig, arrival: Arrival) -> Option<EtaRange> {
    match rig.standing(arrival) {
        Standing::Waiting { eta, .. } => eta,
        _ => None,
    }
}

#[test]
fn a_wait_is_known_from_the_opening_on_as_far_as_the_pace_alone_decides() {
    let mut rig = Rig::new(sale(Pace::Batch { admit: 10, every_ms: 5_000 }, 100));
    let crowd = rig.crowd(200);
    rig.pass(250);
    // Ten were called at once: 90 rooms are free.
    assert_eq!(eta(&rig, crowd[99]), Some(EtaRange { low_s: 44, high_s: 95 }));
    assert_eq!(eta(&rig, crowd[100]), None, "how long others stay is not known");
    let snapshot = rig.queue.view(rig.now).snapshot();
    assert_eq!(snapshot.rate_below, Some(Place(100)));

    rig.stock(30, None);
    assert_eq!(
        (eta(&rig, crowd[29]).is_some(), eta(&rig, crowd[30])),
        (true, None),
        "the stock is a cap, too"
    );
    rig.queue.tick(TickInput { health_limit: Some(25) }, rig.now);
    assert_eq!(
        (eta(&rig, crowd[24]).is_some(), eta(&rig, crowd[25])),
        (true, None),
        "and so is the shop's health"
    );
    rig.queue.tick(TickInput { health_limit: Some(10) }, rig.now);
    assert_eq!(
        (eta(&rig, crowd[10]), rig.queue.view(rig.now).rate),
        (None, None),
        "nobody can be called now"
    );
}

#[test]
fn who_is_told_what_is_only_expected_looks_again_as_soon_as_who_is_told_nothing() {
    let mut rig = Rig::new(sale(Pace::Batch { admit: 1, every_ms: 3_600_000 }, 3));
    let crowd = rig.crowd(5);
    rig.pass(250);
    let view = rig.queue.view(rig.now);
    for arrival in &crowd[1..] {
        let standing = rig.standing(*arrival);
        let after_ms = view.poll_after_ms(standing, rig.now, arrival.0);
        assert!(after_ms < 3_000, "{standing:?}: {after_ms} ms, and the operator may call by hand meanwhile");
    }
    assert!(eta(&rig, crowd[2]).is_some() && eta(&rig, crowd[3]).is_none());
}

#[test]
fn a_change_of_pace_is_told_at_once() {
    let mut rig = Rig::new(sale(Pace::Batch { admit: 10, every_ms: 5_000 }, 1_000));
    let crowd = rig.crowd(1_000);
    for _ in 0..200 {
        rig.pass(250);
    }
    assert!(rig.queue.view(rig.now).rate_below.is_none(), "measured by now");
    let faster = sale(Pace::Batch { admit: 100, every_ms: 5_000 }, 1_000).check().unwrap();
    rig.queue.change(faster, None, rig.now).unwrap();
    rig.pass(250);
    let range = eta(&rig, crowd[999]).unwrap();
    assert!((40..=45).contains(&range.low_s) && range.high_s <= 100, "{range:?}");
}

/// How often the sales below are moved on, in milliseconds.
const TICK_MS: u64 = LONGEST_TICK_MS;

fn paces() -> impl Strategy<Value = Pace> {
    prop_oneof![
        (1..40u32, 500..8_000u64).prop_map(|(admit, every_ms)| Pace::Batch { admit, every_ms }),
        (1..40u32, 500..8_000u64, 1..20u32).prop_map(|(admit, per_ms, burst)| smooth(admit, per_ms, burst)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_the_pace_lets_expect_comes_true(pace in paces(), max_active in 1..100u32, crowd in 1..150u64) {
        let mut rig = Rig::new(sale(pace, max_active));
        let crowd = rig.crowd(crowd);
        let mut told: Vec<(Arrival, UnixMillis, EtaRange)> = Vec::new();
        let mut called_at: Vec<UnixMillis> = Vec::new();
        let last = u64::from(max_active).min(crowd.len() as u64);
        for tick in 0.. {
            rig.pass(TICK_MS);
            called_at.resize(usize::try_from(rig.queue.core.lines.first.serving.0).unwrap(), rig.now);
            if rig.queue.core.lines.first.serving.0 >= last {
                break;
            }
            // Not on a multiple of anything that the paces have.
            if tick % 17 == 0 {
                let view = rig.queue.view(rig.now);
                for arrival in view.rate_below.map_or(&[][..], |_| &crowd) {
                    if let Standing::Waiting { eta: Some(eta), .. } = view.standing(view.position(*arrival), rig.now) {
                        told.push((*arrival, rig.now, eta));
                    }
                }
            }
        }
        for (arrival, at, eta) in told {
            let called_at = called_at.get(usize::try_from(arrival.0).unwrap());
            prop_assert!(called_at.is_some(), "{:?} was told {:?} and never called", arrival, eta);
            let waited_ms = called_at.unwrap().since(at);
            // A batch is called whole: the last of it come as much sooner than an even stream as the time between two.
            prop_assert!(
                waited_ms + cadence_ms(pace, 100) + TICK_MS >= eta.low_s * 1_000 && waited_ms <= eta.high_s * 1_000,
                "{:?} after {} ms, told {:?}", arrival, waited_ms, eta
            );
        }
    }
}
