//! What went wrong for users of other waiting rooms.

use super::*;

#[test]
fn coming_back_from_another_device_shows_the_same_place() {
    let mut rig = Rig::new(open_sale(1));
    rig.crowd(5);
    let phone = rig.join_as(1, false).unwrap();
    let place = rig.position(phone.arrival);
    rig.crowd(5);
    rig.pass(30_000);
    let laptop = rig.join_as(1, false).unwrap();
    assert_eq!(laptop, Joined { new: false, ..phone });
    assert_eq!(rig.position(laptop.arrival), place);
    rig.order(&Command::SoldOut);
    assert_eq!(rig.join_as(1, false).unwrap().arrival, phone.arrival);
}

#[test]
fn the_wait_is_known_from_the_opening_on_and_never_leaps() {
    let mut raw = open_sale(1_000_000);
    raw.pace = Pace::Batch { admit: 50, every_ms: 5_000 };
    let mut rig = Rig::new(raw);
    let last = *rig.crowd(10_000).last().unwrap();
    let wait = |rig: &Rig| match rig.standing(last) {
        Standing::Waiting { eta, .. } => eta,
        other => panic!("{other:?}"),
    };
    assert!(wait(&rig).is_some());
    let mut shown: Option<u64> = None;
    let mut known = 0;
    for second in 0..600 {
        rig.pass(1_000);
        // Shoppers are as unsteady as the shop: for a while hardly anybody is called.
        let limit = (300..330).contains(&second).then_some(0);
        rig.queue.tick(TickInput { health_limit: limit }, rig.now);
        let Some(eta) = wait(&rig) else { continue };
        known += 1;
        let ahead = 10_000 - rig.queue.view(rig.now).serving.0 - 1;
        let honest = ahead / 10;
        assert!(eta.low_s <= honest && eta.high_s >= honest / 2, "{second} s: {eta:?}, truly {honest}");
        if let Some(before) = shown {
            assert!(eta.high_s <= before * 2 && eta.high_s >= before / 2, "{second} s: {before} -> {eta:?}");
        }
        shown = Some(eta.high_s);
    }
    assert!(known > 400, "known in {known} of 600 seconds only");
}

#[test]
fn an_idle_hour_says_nothing_about_the_speed_of_a_busy_one() {
    let mut raw = open_sale(1_000_000);
    raw.pace = Pace::Smooth { admit: 10, per_ms: 1_000, burst: 2 };
    let mut rig = Rig::new(raw);
    for _ in 0..60 {
        rig.crowd(1);
        rig.pass(60_000);
    }
    let rate = rig.queue.view(rig.now).rate.unwrap();
    assert_eq!(rate.high.as_f64(), 600.0, "one visitor a minute is not the pace");
    let last = *rig.crowd(2_000).last().unwrap();
    for _ in 0..300 {
        rig.pass(100);
    }
    let rate = rig.queue.view(rig.now).rate.unwrap();
    assert!(rate.low.as_f64() <= 600.0 && 600.0 <= rate.high.as_f64(), "{rate:?}");
    assert!(matches!(rig.standing(last), Standing::Waiting { eta: Some(_), .. }));
}

#[test]
fn the_queue_moves_on_when_the_people_in_front_have_gone() {
    let mut rig = Rig::new(open_sale(10));
    let arrivals = rig.crowd(100);
    // Ten are called and never come, twenty more leave: nobody asks anything, only time passes.
    for arrival in &arrivals[10..30] {
        rig.leave(*arrival);
    }
    assert_eq!(rig.queue.view(rig.now).serving, Place(10));
    rig.pass(59_999);
    assert_eq!(rig.queue.view(rig.now).serving, Place(10));
    rig.pass(1);
    assert_eq!(rig.queue.view(rig.now).serving, Place(40));
    assert_eq!(rig.busy(), 10);
    assert!(rig.claim(arrivals[39]).is_ok());
}

#[test]
fn a_lease_frees_its_capacity_at_the_next_tick_with_no_request() {
    let mut rig = Rig::new(open_sale(1));
    let arrivals = rig.crowd(2);
    rig.claim(arrivals[0]).unwrap();
    rig.pass(299_999);
    assert_eq!(rig.queue.view(rig.now).active, 1);
    rig.pass(1);
    assert_eq!(rig.queue.view(rig.now).active, 0);
    assert!(rig.claim(arrivals[1]).is_ok());
}

#[test]
fn caps_hold_at_every_size_through_spikes_many_ticks_and_clock_jumps() {
    for cap in [1, 2, 200, 100_000] {
        let mut rig = Rig::new(open_sale(cap));
        let arrivals = rig.crowd(u64::from(cap) * 2 + 50);
        for _ in 0..10 {
            rig.tick();
        }
        assert_eq!(rig.busy(), u64::from(cap), "a spike");
        for arrival in &arrivals[..arrivals.len() / 4] {
            let _ = rig.claim(*arrival);
        }
        assert_eq!(rig.busy(), u64::from(cap), "claims");
        rig.now = UnixMillis(rig.now.0 - 600_000);
        rig.tick();
        assert_eq!(rig.busy(), u64::from(cap), "the clock stepped back");
        rig.now = rig.now.plus(2 * 3_600_000);
        rig.tick();
        rig.tick();
        assert_eq!(rig.busy(), u64::from(cap), "the clock jumped ahead");
    }
}

#[test]
fn a_pace_below_two_hundred_is_kept_to_the_visitor() {
    for pace in
        [Pace::Batch { admit: 3, every_ms: 1_000 }, Pace::Smooth { admit: 3, per_ms: 1_000, burst: 3 }]
    {
        let mut raw = open_sale(100_000);
        raw.pace = pace;
        let mut rig = Rig::new(raw);
        rig.crowd(100);
        for second in 0..10 {
            assert_eq!(rig.queue.view(rig.now).serving, Place(3 + 3 * second), "{pace:?}");
            for _ in 0..20 {
                rig.pass(50);
            }
        }
        // An hour's jump gives one burst, not an hour's worth.
        rig.pass(3_600_000);
        assert_eq!(rig.queue.view(rig.now).serving, Place(36), "{pace:?}");
    }
}

#[test]
fn sold_out_stops_the_queue_and_is_said_to_everybody_at_once() {
    let mut rig = Rig::new(open_sale(2));
    let arrivals = rig.crowd(5);
    let claimed = rig.claim(arrivals[0]).unwrap();
    rig.stock(0, Some(0));
    assert_eq!(rig.queue.view(rig.now).snapshot().phase, Phase::SoldOut);
    for arrival in &arrivals[1..] {
        assert_eq!(rig.standing(*arrival), Standing::SoldOut);
        assert_eq!(rig.claim(*arrival), Err(ClaimRefusal::SoldOut));
    }
    assert_eq!(rig.join_as(1, false), Err(JoinRefusal::SoldOut));
    assert_eq!(rig.claim(arrivals[0]), Ok(claimed), "who is at the till stays there");
    rig.pass(3_600_000);
    assert_eq!(rig.queue.view(rig.now).serving, Place(2));

    // A hold runs out: those called find their time where it stood.
    rig.stock(1, Some(0));
    assert_eq!(rig.phase(), Phase::Open);
    assert!(rig.claim(arrivals[1]).is_ok());
}

#[test]
fn sold_out_by_the_operator_outlasts_the_stock() {
    let mut rig = Rig::new(open_sale(2));
    rig.order(&Command::SoldOut);
    rig.stock(10, None);
    assert_eq!(rig.phase(), Phase::SoldOut);
    rig.order(&Command::Restock);
    assert_eq!(rig.phase(), Phase::Open);
    rig.stock(0, None);
    assert_eq!(rig.phase(), Phase::SoldOut, "the stock says so, too");
    rig.order(&Command::Restock);
    assert_eq!((rig.phase(), rig.queue.view(rig.now).stock), (Phase::Open, None));
    rig.stock(0, None);
    assert_eq!(rig.phase(), Phase::SoldOut, "the stock decides again");
}

#[test]
fn the_operator_gets_a_sale_going_that_stands_still_on_old_news() {
    let mut rig = Rig::new(open_sale(4));
    rig.stock(0, Some(0));
    rig.order(&Command::SoldOut);
    rig.pass(3_600_000);
    rig.order(&Command::Restock);
    rig.crowd(9);
    assert_eq!((rig.phase(), rig.busy()), (Phase::Open, 4));
}

#[test]
fn units_on_hold_keep_the_sale_from_being_called_sold_out() {
    let mut rig = Rig::new(open_sale(2));
    rig.stock(0, Some(3));
    rig.crowd(5);
    let view = rig.queue.view(rig.now);
    assert_eq!((view.phase, view.unclaimed), (Phase::Open, 1));
    assert_eq!(view.snapshot().stock, Some(Stock { available: 0, held: Some(3) }));
}

#[test]
fn a_sale_whose_units_come_back_unseen_does_not_stand_still_for_ever() {
    let mut rig = Rig::new(open_sale(10));
    rig.stock(2, Some(0));
    let arrivals = rig.crowd(9);
    rig.stock(0, Some(2));
    for arrival in &arrivals[..2] {
        rig.claim(*arrival).unwrap();
        rig.queue.lease(*arrival, LeaseEvent::Holding, rig.now);
    }
    rig.pass(299_999);
    assert_eq!(rig.queue.view(rig.now).serving, Place(2), "those inside bring the news");
    // The holds and the leases run out and nobody says so: one at a time goes to look.
    rig.pass(1);
    assert_eq!((rig.busy(), rig.queue.view(rig.now).serving), (1, Place(3)));
    rig.pass(59_999);
    assert_eq!(rig.queue.view(rig.now).serving, Place(3));
    rig.pass(1);
    assert_eq!(
        (rig.busy(), rig.queue.view(rig.now).serving),
        (1, Place(4)),
        "one who did not come is no news"
    );
    rig.claim(arrivals[3]).unwrap();
    rig.stock(2, Some(0));
    assert_eq!((rig.busy(), rig.queue.view(rig.now).serving), (2, Place(5)));
}

#[test]
fn a_hold_that_was_given_back_leaves_nobody_competing_uncounted() {
    let mut rig = Rig::new(open_sale(10));
    rig.stock(2, Some(0));
    let arrivals = rig.crowd(9);
    rig.claim(arrivals[0]).unwrap();
    rig.stock(1, Some(1));
    rig.queue.lease(arrivals[0], LeaseEvent::Holding, rig.now);
    for _ in 0..2 {
        rig.queue.lease(arrivals[0], LeaseEvent::Released, rig.now);
    }
    rig.stock(2, Some(0));
    let view = rig.queue.view(rig.now);
    assert_eq!((view.holding, view.serving), (0, Place(2)), "three for two units");
    assert!(rig.claim(arrivals[0]).is_ok(), "the lease runs on");
    rig.queue.lease(arrivals[1], LeaseEvent::Released, rig.now);
    rig.queue.lease(arrivals[0], LeaseEvent::Ended, rig.now);
    assert_eq!((rig.busy(), rig.queue.view(rig.now).holding), (2, 0));
}

#[test]
fn nobody_goes_to_look_past_pause_health_or_word_that_all_is_gone() {
    let mut rig = Rig::new(open_sale(10));
    rig.order(&Command::Pause { reason: reason("A moment") });
    rig.stock(0, Some(1));
    rig.crowd(3);
    rig.tick();
    assert_eq!(rig.busy(), 0);
    rig.queue.tick(TickInput { health_limit: Some(0) }, rig.now);
    rig.order(&Command::Resume);
    assert_eq!(rig.busy(), 0);
    rig.stock(0, Some(0));
    rig.tick();
    assert_eq!((rig.phase(), rig.busy()), (Phase::SoldOut, 0));
}

#[test]
fn a_pause_says_why_in_the_visitors_language() {
    let mut rig = Rig::new(open_sale(2));
    rig.order(&Command::Pause { reason: reason("Back in a moment") });
    let snapshot = rig.queue.view(rig.now).snapshot();
    assert_eq!(snapshot.phase, Phase::Paused);
    assert_eq!(snapshot.paused_reason, Some(reason("Back in a moment")));
    rig.order(&Command::Resume);
    assert_eq!(rig.queue.view(rig.now).snapshot().paused_reason, None);
}
