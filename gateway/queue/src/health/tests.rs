use proptest::prelude::*;

use super::*;

const TARGET: HealthTarget = HealthTarget { max: 1_000, floor: 10, latency_ms: 500, errors_permille: 50 };

fn well(active: u32) -> HealthWindow {
    HealthWindow { ok: 100, errors: 0, latency_ms: 80, active, load_percent: 60 }
}

fn strained(active: u32) -> HealthWindow {
    HealthWindow { ok: 80, errors: 20, latency_ms: 80, active, load_percent: 60 }
}

fn dead(active: u32) -> HealthWindow {
    HealthWindow { ok: 0, errors: 50, latency_ms: 0, active, load_percent: 0 }
}

const SILENT: HealthWindow = HealthWindow { ok: 0, errors: 0, latency_ms: 0, active: 0, load_percent: 0 };

#[test]
fn a_healthy_shop_is_never_held_back() {
    let mut health = Health::new(TARGET);
    assert!((0..100).all(|n| health.observe(well(n * 10)) == 1_000));
}

#[test]
fn errors_and_latency_each_cut_the_limit() {
    let slow = HealthWindow { latency_ms: 501, ..well(1_000) };
    for window in [strained(1_000), slow] {
        assert_eq!(Health::new(TARGET).observe(window), 700);
    }
    let on_target = HealthWindow { ok: 95, errors: 5, latency_ms: 500, active: 1_000, load_percent: 99 };
    assert_eq!(Health::new(TARGET).observe(on_target), 1_000);
}

#[test]
fn one_answer_of_a_shop_that_says_it_is_full_cuts_the_limit_and_below_that_none_does() {
    let full = HealthWindow { ok: 1, load_percent: 100, ..well(1_000) };
    let mut health = Health::new(TARGET);
    assert_eq!(health.observe(full), 700);
    assert_eq!(health.observe(HealthWindow { active: 700, ..full }), 490, "it is still full");
    assert!(health.observe(well(490)) > 490, "what it wants to have may be had");
    assert_eq!(Health::new(TARGET).observe(HealthWindow { load_percent: 99, ..full }), 1_000);
    let dead = HealthWindow { load_percent: 100, ..dead(1_000) };
    assert_eq!(Health::new(TARGET).observe(dead), 0, "a word on load hid that nothing is answered");
}

#[test]
fn a_cut_bites_below_what_is_in_use() {
    assert_eq!(
        Health::new(TARGET).observe(strained(200)),
        140,
        "a limit far above the crowd was cut in vain"
    );
}

#[test]
fn one_bad_spell_is_cut_for_once_until_the_cut_has_taken_effect() {
    let mut health = Health::new(TARGET);
    assert!((0..10).all(|_| health.observe(strained(1_000)) == 700));
    assert!(health.observe(strained(700)) < 700, "no further cut although the shop still suffers");
    assert_eq!(health.observe(strained(700)), 490);
}

#[test]
fn total_failure_closes_at_once_and_answers_reopen_gently() {
    let mut health = Health::new(TARGET);
    assert_eq!(health.observe(dead(1_000)), 0);
    assert_eq!(health.observe(strained(900)), 0, "a shop that still fails was opened");
    assert_eq!(health.observe(well(800)), 10);
    assert_eq!(health.observe(well(800)), 30);
    let mut last = 30;
    for _ in 0..60 {
        let limit = health.observe(well(last));
        assert!(limit >= last && limit - last <= 20);
        last = limit;
    }
    assert_eq!(last, 1_000);
}

#[test]
fn three_failures_in_a_row_close_a_small_sale() {
    let mut health = Health::new(HealthTarget { max: 1, floor: 1, ..TARGET });
    let failure = HealthWindow { errors: 1, active: 1, ..SILENT };
    assert_eq!([0; 3].map(|_| health.observe(failure)), [1, 1, 0]);
}

#[test]
fn a_silent_closed_shop_is_tried_again_ever_less_often() {
    let mut health = Health::new(TARGET);
    let mut waits = Vec::new();
    for _ in 0..6 {
        assert_eq!(health.observe(dead(10)), 0);
        waits.push((1..).find(|_| health.observe(SILENT) > 0).unwrap());
        assert_eq!(health.limit(), 10);
    }
    assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
}

#[test]
fn an_idle_shop_does_not_earn_trust() {
    let mut health = Health::new(TARGET);
    health.observe(strained(1_000));
    assert!((0..100).all(|_| health.observe(well(10)) == 700));
    assert!((0..100).all(|_| health.observe(SILENT) == 700));
    assert_eq!(health.observe(well(350)), 720);
}

#[test]
fn a_new_maximum_holds_at_once() {
    let mut health = Health::new(TARGET);
    health.retarget(HealthTarget { max: 5_000, ..TARGET });
    assert_eq!(health.limit(), 5_000);
    health.observe(strained(5_000));
    health.retarget(HealthTarget { max: 100, ..TARGET });
    assert_eq!(health.limit(), 100);
}

fn any_window() -> impl Strategy<Value = HealthWindow> {
    let count = prop_oneof![Just(0u64), 0u64..20, 0u64..5_000, Just(u64::MAX)];
    (count.clone(), count, any::<u32>(), any::<u32>(), 0u32..200).prop_map(
        |(ok, errors, latency_ms, active, load_percent)| HealthWindow {
            ok,
            errors,
            latency_ms,
            active,
            load_percent,
        },
    )
}

fn any_target() -> impl Strategy<Value = HealthTarget> {
    (any::<u32>(), any::<u32>(), any::<u32>(), 0u16..1_000).prop_map(
        |(max, floor, latency_ms, errors_permille)| HealthTarget { max, floor, latency_ms, errors_permille },
    )
}

proptest! {
    #[test]
    fn the_limit_stays_between_floor_and_maximum_or_is_closed_and_recovers(
        target in any_target(), windows in proptest::collection::vec(any_window(), 0..200),
    ) {
        let mut health = Health::new(target);
        let HealthTarget { max, floor, latency_ms, .. } = target.sane();
        for window in windows {
            let limit = health.observe(window);
            prop_assert!(limit == 0 || (floor..=max).contains(&limit));
            let restored: Health = serde_json::from_str(&serde_json::to_string(&health).unwrap()).unwrap();
            prop_assert_eq!(&restored, &health);
        }
        // Well again and in use: everything comes back, in steps.
        let healthy = |active| HealthWindow { ok: 1_000, errors: 0, latency_ms: latency_ms.min(1), active, load_percent: 99 };
        health.observe(healthy(health.limit()));
        let mut last = health.limit();
        for _ in 0..130 {
            let limit = health.observe(healthy(last));
            prop_assert!(limit >= last, "{} after {}", limit, last);
            last = limit;
        }
        prop_assert_eq!(last, max);
    }

    #[test]
    fn a_closed_door_always_opens_again(windows in proptest::collection::vec(any_window(), 0..100)) {
        let mut health = Health::new(TARGET);
        for window in windows {
            health.observe(window);
        }
        let opened = (0..=LAST_RETRY + ENOUGH_WINDOWS).any(|_| health.observe(SILENT) > 0);
        prop_assert!(opened);
    }
}
