use super::*;
use crate::outcome::JoinRecord;

/// The sale as it is, but for who joined in a range of numbers.
fn without(queue: &Queue, lost: &[u64]) -> Queue {
    let joins: Vec<JoinRecord> = queue.joins().filter(|join| !lost.contains(&join.arrival.0)).collect();
    Queue::restore(
        SaleDefinition::clone(queue.definition()),
        queue.core().clone(),
        joins,
        queue.admissions().collect::<Vec<_>>(),
        queue.left().collect::<Vec<_>>(),
    )
}

#[test]
fn who_joined_in_a_part_that_is_lost_gets_the_number_back() {
    let mut rig = Rig::new(open_sale(2));
    rig.crowd(20);
    rig.tick();
    let claimed = rig.claim(Arrival(0)).unwrap();
    rig.leave(Arrival(7));
    let tickets: Vec<JoinRecord> = rig.queue.joins().collect();
    let ticket = |arrival| *tickets.iter().find(|ticket| ticket.arrival == Arrival(arrival)).unwrap();
    let left = JoinRecord { arrival: Arrival(7), ..ticket(8) };
    rig.queue = without(&rig.queue, &[0, 1, 2, 4, 5, 6, 8, 9]);
    for _ in 0..2 {
        rig.queue.miss(Arrival(0)..Arrival(10), rig.now);
        let skipped = &rig.queue.core.lines.first.skipped;
        assert_eq!((skipped.len(), &skipped[0]), (1, &(0..10)));
    }
    // Nobody else gets one of them, and whoever is inside stays there.
    assert_eq!(rig.join_as(77, false).unwrap().arrival, Arrival(20));
    assert_eq!(rig.claim(Arrival(0)).unwrap().expires_at, claimed.expires_at);
    for (ticket, back) in [(ticket(5), true), (ticket(5), false), (ticket(3), false), (left, false)] {
        assert_eq!(rig.queue.reenter(ticket, rig.now), back, "{ticket:?}");
    }
    assert_eq!(rig.queue.holder(Arrival(5)), Some(ticket(5)));
    // Nobody waits for those who do not show up.
    let waits = |rig: &Rig, arrival| matches!(rig.standing(Arrival(arrival)), Standing::Waiting { .. });
    assert!(waits(&rig, 3) && waits(&rig, 5));
    for _ in 0..6 {
        rig.pass(60_000);
    }
    assert!(!waits(&rig, 3) && !waits(&rig, 5) && waits(&rig, 19));
}

#[test]
fn a_part_of_a_lane_that_is_not_there_is_not_missed() {
    let mut rig = Rig::new(open_sale(2));
    rig.crowd(3);
    rig.queue.miss(Arrival(3)..Arrival(10), rig.now);
    rig.queue.miss(Arrival(5 << 32)..Arrival((5 << 32) + 10), rig.now);
    assert!(rig.queue.core.lines.first.skipped.is_empty());
}

#[test]
fn nobody_is_called_past_those_of_a_lost_part_before_they_could_show_up() {
    let mut rig = Rig::new(open_sale(4));
    rig.crowd(20);
    let tickets: Vec<JoinRecord> = rig.queue.joins().collect();
    rig.queue = without(&rig.queue, &[6, 7]);
    rig.queue.miss(Arrival(0)..Arrival(10), rig.now);
    assert!(rig.queue.misses_any(&(Arrival(7)..Arrival(100))));
    assert!(!rig.queue.misses_any(&(Arrival(8)..Arrival(100))));
    let serving = |rig: &Rig| rig.queue.core.lines.first.serving;
    rig.tick();
    assert_eq!(serving(&rig), Place(4));
    // The first window is over, and there is room for four more.
    rig.pass(60_000);
    assert_eq!(serving(&rig), Place(6), "somebody was called past who is missing");
    assert!(rig.queue.reenter(tickets[6], rig.now));
    rig.tick();
    assert_eq!(serving(&rig), Place(7));
    rig.pass(14_999);
    assert_eq!(serving(&rig), Place(7));
    rig.pass(1);
    assert_eq!(serving(&rig), Place(9));
}
