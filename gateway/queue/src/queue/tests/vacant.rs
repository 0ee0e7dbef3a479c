//! What visitors are told of those ahead of them, when a loss has passed over numbers that nobody holds.

use proptest::prelude::*;

use super::replica::Comparable;
use super::*;
use crate::manifest::DrawState;

#[derive(Clone, Debug)]
enum Event {
    Join(u64),
    Pass(u64),
    Claim(usize),
    Leave(usize),
    /// One of those who are missing shows up.
    Return(usize),
    /// Everybody is lost, or nobody, and so many numbers beyond those that were given are passed over.
    Lose {
        everybody: bool,
        ahead: u64,
    },
    /// A part of those who joined is lost, while all else is known.
    Miss {
        from: u64,
        count: u64,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let lose = (any::<bool>(), 0..200u64);
    prop_oneof![
        8 => (1..8u64).prop_map(Event::Join),
        8 => (0..30_000u64).prop_map(Event::Pass),
        4 => (0..64usize).prop_map(Event::Claim),
        3 => any::<usize>().prop_map(Event::Leave),
        12 => any::<usize>().prop_map(Event::Return),
        1 => lose.prop_map(|(everybody, ahead)| Event::Lose { everybody, ahead }),
        1 => (0..100u64, 1..50u64).prop_map(|(from, count)| Event::Miss { from, count }),
    ]
}

struct World {
    rig: Rig,
    /// Of everybody who joined and has not left.
    tickets: BTreeMap<Arrival, JoinRecord>,
}

/// What is true of the uncalled, found without the queue's own indexes.
struct Truth {
    serving: u64,
    held: BTreeSet<u64>,
    left: BTreeSet<u64>,
    missing: BTreeSet<u64>,
    awaited: bool,
    told: BTreeMap<u64, u64>,
}

impl Truth {
    /// How many stretches the missing make.
    fn stretches(&self) -> usize {
        self.missing.iter().filter(|place| **place == 0 || !self.missing.contains(&(**place - 1))).count()
    }
}

impl World {
    fn new() -> Self {
        let mut raw = open_sale(10);
        (raw.claim_window_ms, raw.recall_grace_ms, raw.lease_ms) = (5_000, 5_000, 8_000);
        Self { rig: Rig::new(raw), tickets: BTreeMap::new() }
    }

    fn truth(&self) -> Truth {
        let Rig { queue, now, .. } = &self.rig;
        // Looks whether what is kept of vacant places is what they are.
        drop(Comparable::of(queue));
        let view = queue.view(*now);
        let uncalled = view.serving.0..view.next_arrival.0;
        let held: BTreeSet<u64> =
            queue.joins().map(|join| join.arrival.0).filter(|held| uncalled.contains(held)).collect();
        let left: BTreeSet<u64> =
            queue.left().map(|left| left.0).filter(|left| uncalled.contains(left)).collect();
        let missing = uncalled.filter(|place| !held.contains(place) && !left.contains(place)).collect();
        let told = held.iter().map(|held| {
            let standing = view.standing(view.position(Arrival(*held)), *now);
            let Standing::Waiting { ahead: Some(ahead), .. } = standing else { panic!("{standing:?}") };
            (*held, ahead)
        });
        let told = told.collect();
        Truth { serving: view.serving.0, held, left, missing, awaited: queue.awaits_absent(), told }
    }

    fn step(&mut self, event: &Event) {
        let rig = &mut self.rig;
        match event {
            Event::Join(count) => {
                let joined = rig.crowd(*count);
                let records = joined.into_iter().filter_map(|arrival| rig.queue.holder(arrival));
                self.tickets.extend(records.map(|record| (record.arrival, record)));
            }
            Event::Pass(millis) => rig.pass(*millis),
            Event::Claim(index) => {
                let _ =
                    rig.claim(Arrival(rig.queue.core.lines.first.serving.0.saturating_sub(*index as u64)));
            }
            Event::Leave(index) => {
                if let Some(arrival) = nth(self.tickets.keys().copied(), *index) {
                    rig.leave(arrival);
                    self.tickets.remove(&arrival);
                }
            }
            Event::Return(index) => {
                let gone = self.tickets.values().filter(|ticket| rig.queue.holder(ticket.arrival).is_none());
                if let Some(ticket) = nth(gone.copied(), *index) {
                    rig.queue.reenter(ticket, rig.now);
                }
            }
            Event::Lose { everybody, ahead } => {
                let mut reach = Reach::of(&rig.queue.core);
                reach.lines.first.next_arrival.0 += ahead;
                if *everybody {
                    let definition = SaleDefinition::clone(rig.queue.definition());
                    rig.queue = Queue::without_visitors(definition, rig.queue.core.clone(), rig.now);
                }
                rig.queue.skip(&reach, rig.now);
            }
            Event::Miss { from, count } => {
                let lost = Arrival(*from)..Arrival(from + count);
                let queue = &rig.queue;
                let kept: Vec<_> = queue.joins().filter(|join| !lost.contains(&join.arrival)).collect();
                let admissions: Vec<_> = queue.admissions().collect();
                let (definition, core) = (SaleDefinition::clone(queue.definition()), queue.core.clone());
                rig.queue = Queue::restore(definition, core, kept, admissions, queue.left.clone());
                rig.queue.miss(lost, rig.now);
            }
        }
        // What was done and taken back leaves no trace.
        let before = format!("{:?}", Comparable::of(&rig.queue));
        let rig = &mut self.rig;
        rig.queue.begin();
        rig.queue.tick(TickInput::default(), rig.now.plus(60_000));
        for arrival in (0..200).step_by(7).map(Arrival) {
            let position = rig.position(arrival);
            let _ = rig.queue.leave(position, rig.now);
        }
        let ahead = Reach::beyond(&rig.queue.core, 50);
        rig.queue.skip(&ahead, rig.now);
        rig.queue.undo();
        assert_eq!(format!("{:?}", Comparable::of(&rig.queue)), before);
        rig.tick();
    }
}

fn nth<T>(all: impl Iterator<Item = T> + Clone, index: usize) -> Option<T> {
    let count = all.clone().count();
    all.into_iter().nth(index.checked_rem(count)?)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_told_of_fewer_ahead_than_there_are_nor_of_more_than_before(
        early in 0..150u64,
        life in prop::collection::vec(events(), 1..120),
    ) {
        let mut world = World::new();
        world.step(&Event::Join(early));
        let mut before = world.truth();
        for event in &life {
            world.step(event);
            let now = world.truth();
            let lost = matches!(event, Event::Lose { .. } | Event::Miss { .. });
            let is_back = |place: &&u64| **place >= now.serving && !now.missing.contains(place);
            let back = if now.awaited { 0 } else { before.missing.iter().filter(is_back).count() };
            let all_told = before.stretches() <= 32 && now.stretches() <= 32;
            for (place, ahead) in &now.told {
                let present = now.held.range(..place).count() as u64;
                prop_assert!(*ahead >= present, "{} is told of {} ahead, {} are", place, ahead, present);
                if !now.awaited && now.stretches() <= 32 {
                    prop_assert_eq!(*ahead, present + now.left.range(..place).count() as u64);
                }
                if let Some(earlier) = before.told.get(place).filter(|_| !lost && (back == 0 || all_told)) {
                    prop_assert!(*ahead <= earlier + back as u64, "{}: {} after {}", place, ahead, earlier);
                }
            }
            before = now;
        }
    }
}

fn ahead(rig: &Rig, arrival: Arrival) -> u64 {
    match rig.standing(arrival) {
        Standing::Waiting { ahead: Some(ahead), .. } => ahead,
        standing => panic!("{standing:?}"),
    }
}

/// Some of so many visitors are drawn. Everything is lost, with numbers up to 16,384 written down.
fn lost(drawn: Option<u32>, visitors: u64) -> (Rig, Vec<JoinRecord>) {
    let mut rig = Rig::new(open_sale(5));
    rig.crowd(visitors);
    let tickets = rig.queue.joins().collect();
    let mut core = rig.queue.core.clone();
    if let Some(size) = drawn {
        core.lines.first.draw = DrawState::Drawn { size, seed: [5; 32] };
    }
    let reach = Reach::default().extended(&core, 16_384 - visitors);
    rig.queue = Queue::without_visitors(open_sale(5).check().unwrap(), core, rig.now);
    rig.queue.skip(&reach, rig.now);
    (rig, tickets)
}

#[test]
fn numbers_that_nobody_holds_are_ahead_of_nobody_once_everybody_could_show_up() {
    let (mut rig, tickets) = lost(None, 100);
    for ticket in &tickets[10..] {
        assert!(rig.queue.reenter(*ticket, rig.now));
    }
    let new = rig.crowd(3);
    assert_eq!(new[0], Arrival(16_384));
    // All may still show up.
    rig.pass(74_999);
    let serving = rig.queue.core.lines.first.serving.0;
    assert_eq!(ahead(&rig, new[0]), 16_384 - serving);
    rig.pass(1);
    let serving = rig.queue.core.lines.first.serving.0;
    assert_eq!(serving, 5);
    assert_eq!([0, 2].map(|at| ahead(&rig, new[at])), [90, 92]);
    assert_eq!(ahead(&rig, tickets[99].arrival), 89);
    let snapshot = serde_json::to_value(rig.queue.view(rig.now).snapshot()).unwrap();
    let vacant = serde_json::json!([{ "start": 5, "end": 10 }, { "start": 100, "end": 16_384 }]);
    assert_eq!(snapshot["vacant"], vacant);
}

#[test]
fn a_snapshot_says_nothing_of_vacant_places_where_there_are_none() {
    let snapshot = serde_json::to_value(Rig::new(open_sale(5)).queue.view(UnixMillis(0)).snapshot()).unwrap();
    assert_eq!(snapshot.get("vacant"), None);
}

#[test]
fn places_of_a_draw_count_as_ahead_and_those_behind_it_do_not() {
    let (mut rig, tickets) = lost(Some(100), 120);
    assert!(rig.queue.reenter(tickets[119], rig.now));
    rig.pass(75_000);
    assert_eq!(rig.queue.core.lines.first.serving, Place(5));
    assert_eq!(ahead(&rig, Arrival(119)), 95);
}

#[test]
fn a_forecast_holds_for_those_who_are_called_soon_whatever_is_vacant_before_them() {
    let mut raw = open_sale(5);
    raw.pace = Pace::Smooth { admit: 1, per_ms: 60_000, burst: 1 };
    let mut rig = Rig::new(raw);
    rig.crowd(1);
    let mut reach = Reach::of(&rig.queue.core);
    reach.lines.first.next_arrival = Arrival(1_000);
    rig.queue.skip(&reach, rig.now);
    let new = rig.crowd(8);
    let view = rig.queue.view(rig.now);
    let known = |arrival: &&Arrival| {
        matches!(view.standing(view.position(**arrival), rig.now), Standing::Waiting { eta: Some(_), .. })
    };
    // One of five is called.
    assert_eq!(new.iter().filter(known).count(), 4, "{view:?}");
}
