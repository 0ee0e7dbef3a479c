//! Random losses of the store: whatever is lost, numbers, places and admissions that visitors know stay good.

use std::collections::HashMap;

use proptest::prelude::*;

use super::replica::add;
use super::*;
use crate::definition::LaneDefinition;
use crate::manifest::DrawState;
use crate::outcome::{Invited, Update};
use crate::reach::LineReach;
use crate::state::{Halts, Stage};

const START: UnixMillis = UnixMillis(1_000_000_000);
const CAP: u32 = 8;
const LEASE_MS: u64 = 8_000;
/// Numbers written down ahead.
const BLOCK: u64 = 3;

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Join(u64),
    Claim(usize),
    Leave(usize),
    /// The store goes back by so many commits, or loses everything. Numbers written down ahead are passed over, and some
    /// visitors show up: by their tickets, or because a gateway still knew of them.
    Lose {
        commits: Option<usize>,
        tickets: Vec<usize>,
        gateway: bool,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let commits = prop::option::weighted(0.7, 0..12usize);
    let lose = (commits, prop::collection::vec(0..64usize, 0..20), any::<bool>());
    prop_oneof![
        10 => (0..4_000u64).prop_map(Event::Pass),
        20 => (0..40u64).prop_map(Event::Join),
        12 => (0..64usize).prop_map(Event::Claim),
        2 => (0..64usize).prop_map(Event::Leave),
        3 => lose.prop_map(|(commits, tickets, gateway)| Event::Lose { commits, tickets, gateway }),
    ]
}

struct World {
    queue: Queue,
    now: UnixMillis,
    /// How many different visitors there are.
    crowd: u64,
    /// Every commit since the beginning that is not lost.
    kept: Vec<Update>,
    /// The checkpoint: how far the sale may go, and what it was when that was last written.
    reach: Reach,
    written: Core,
    holders: BTreeMap<Arrival, JoinRecord>,
    arrivals: HashMap<u64, Arrival>,
    left: BTreeSet<Arrival>,
    /// When the leases end that visitors have in their hands.
    inside: BTreeMap<Arrival, UnixMillis>,
    serving: Vec<Place>,
}

fn sale(drawn: bool, laned: bool) -> SaleDefinition {
    let mut raw = open_sale(CAP);
    raw.pace = Pace::Smooth { admit: 3, per_ms: 1_000, burst: 3 };
    raw.claim_window_ms = 5_000;
    raw.recall_grace_ms = 5_000;
    raw.lease_ms = LEASE_MS;
    if drawn {
        raw.draw = Some(DrawDefinition { closes_at: START.plus(10_000), beacon: None });
        raw.opens_at = Some(START.plus(12_000));
    }
    if laned {
        let lane = |name: &str, share, invitation| LaneDefinition {
            name: name.parse().unwrap(),
            title: String::new(),
            share,
            invitation,
        };
        raw.lanes = vec![lane("everybody", 70, false), lane("members", 30, true)];
    }
    raw.check().unwrap()
}

/// Every third visitor is invited where there are lanes, each by an invitation of their own.
fn invitation(queue: &Queue, who: u64) -> Option<Invited> {
    let lane = Lane::at(1).filter(|lane| who.is_multiple_of(3) && queue.lines.get(*lane).is_some());
    lane.map(|lane| Invited { lane, once: Some(visitor(1_000 + who)) })
}

impl World {
    fn new(drawn: bool, laned: bool, crowd: u64) -> Self {
        let queue = Queue::create(sale(drawn, laned), [9; 32], START);
        let mut world = Self {
            crowd,
            reach: Reach::default(),
            written: queue.core.clone(),
            queue,
            now: START,
            kept: Vec::new(),
            holders: BTreeMap::new(),
            arrivals: HashMap::new(),
            left: BTreeSet::new(),
            inside: BTreeMap::new(),
            serving: Vec::new(),
        };
        world.keep();
        world
    }

    fn keep(&mut self) {
        let changes = self.queue.take_changes();
        if !self.reach.covers(&self.queue.core) {
            self.reach = self.reach.extended(&self.queue.core, BLOCK);
            self.written = self.queue.core.clone();
        }
        let mut update = Update::default();
        add(&mut update, &changes, &self.queue);
        self.kept.push(update);
    }

    /// What the store's commits add up to.
    fn restored(&self) -> Queue {
        let (mut core, mut definition) = (None, None);
        let (mut joins, mut admissions, mut left) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for update in &self.kept {
            core = update.core.clone().or(core);
            definition = update.definition.clone().or(definition);
            joins.extend(update.joins.iter().map(|join| (join.arrival, *join)));
            admissions.extend(update.admissions.iter().map(|record| (record.arrival, *record)));
            left.extend(&update.left);
            for arrival in &update.vacated {
                joins.remove(arrival);
            }
        }
        Queue::restore(
            definition.unwrap(),
            core.unwrap(),
            joins.into_values(),
            admissions.into_values(),
            left,
        )
    }

    fn ticket(&self, index: usize) -> Option<JoinRecord> {
        self.holders.values().nth(index % self.holders.len().max(1)).copied()
    }

    fn step(&mut self, event: &Event) {
        match event {
            Event::Pass(millis) => self.now = self.now.plus(*millis),
            Event::Join(who) => self.join(*who % self.crowd),
            Event::Claim(index) => {
                if let Some(ticket) = self.ticket(*index) {
                    let position = self.queue.view(self.now).position(ticket.arrival);
                    if let Ok(claimed) = self.queue.claim(position, self.now) {
                        self.inside.insert(ticket.arrival, claimed.expires_at);
                    }
                }
            }
            Event::Leave(index) => {
                if let Some(ticket) = self.ticket(*index) {
                    let position = self.queue.view(self.now).position(ticket.arrival);
                    self.queue.leave(position, self.now).unwrap();
                    self.left.insert(ticket.arrival);
                    self.inside.remove(&ticket.arrival);
                    self.arrivals.retain(|_, arrival| *arrival != ticket.arrival);
                    self.holders.remove(&ticket.arrival);
                }
            }
            Event::Lose { commits, tickets, gateway } => self.lose(*commits, tickets, *gateway),
        }
        self.queue.tick(TickInput::default(), self.now);
        self.keep();
        let now = self.queue.core.last_now;
        let inside = self.inside.values().filter(|end| **end > now).count() as u64;
        let known = self.queue.busy();
        assert!(inside <= known, "{inside} are inside, {known} are known of");
        assert!(inside <= CAP.into(), "{inside} are inside");
        let view = self.queue.view(self.now);
        let serving: Vec<Place> = view.lines.iter().map(|line| line.serving).collect();
        let before = self.serving.iter().zip(&serving);
        assert!(before.into_iter().all(|(before, now)| now >= before), "who was called is uncalled");
        self.serving = serving;
        let (restored, live) = (self.restored(), &self.queue);
        assert_eq!(restored.left, live.left);
        assert_eq!(restored.admissions, live.admissions);
        assert!(restored.joins().eq(live.joins()));
        for (restored, live) in restored.lines.iter().zip(live.lines.iter()) {
            assert_eq!(restored.left_places, live.left_places);
        }
    }

    fn join(&mut self, who: u64) {
        let options =
            JoinOptions { again: false, invited: invitation(&self.queue, who), ..JoinOptions::default() };
        let Ok(joined) = self.queue.join(visitor(who), options, self.now) else { return };
        let joined_at = u32::try_from(joined.joined_at).unwrap();
        let record = JoinRecord { arrival: joined.arrival, visitor: visitor(who), joined_at };
        if joined.new {
            // Of two numbers, after a loss without a ticket, both are the visitor's.
            assert_eq!(self.holders.insert(joined.arrival, record), None, "a number was given twice");
            assert!(!self.left.contains(&joined.arrival), "a number was given twice");
        } else {
            // That it was left may have been lost.
            let known = self.left.remove(&joined.arrival) || self.holders.contains_key(&joined.arrival);
            let held = *self.holders.entry(joined.arrival).or_insert(record);
            assert!(known && held == record, "{record:?} is {held:?}");
        }
        self.arrivals.insert(who, joined.arrival);
    }

    /// Who got an older number back has given up the newer one.
    fn give_up_newer(&mut self, ticket: &JoinRecord) {
        let newer = |held: &&JoinRecord| held.visitor == ticket.visitor && held.arrival > ticket.arrival;
        let newer: Vec<Arrival> = self.holders.values().filter(newer).map(|held| held.arrival).collect();
        for arrival in newer {
            self.holders.remove(&arrival);
            self.left.insert(arrival);
        }
    }

    fn lose(&mut self, commits: Option<usize>, tickets: &[usize], gateway: bool) {
        let after = match commits {
            Some(commits) => {
                self.kept.truncate(self.kept.len().saturating_sub(commits).max(1));
                self.restored()
            }
            None => {
                let definition = SaleDefinition::clone(self.queue.definition());
                let bare = Queue::without_visitors(definition, self.written.clone(), self.now);
                let all = Changes { core: true, definition: true, ..Changes::default() };
                let mut update = Update::default();
                add(&mut update, &all, &bare);
                self.kept = vec![update];
                bare
            }
        };
        let former = std::mem::replace(&mut self.queue, after);
        self.queue.follow(&self.reach, None);
        if self.reach.is_ahead_of(&self.queue.core) {
            self.queue.skip(&self.reach, self.now);
        }
        for ticket in tickets.iter().filter_map(|index| self.ticket(*index)).collect::<Vec<_>>() {
            if self.queue.reenter(ticket, self.now) {
                self.give_up_newer(&ticket);
            }
            assert!(self.queue.held(&ticket.visitor).is_some(), "{ticket:?} was not taken back");
        }
        if gateway {
            let mut from = Some(Arrival(0));
            while let Some(at) = from {
                from = self.queue.reenter_from(&former, at, 3, self.now).next;
            }
            let visitors = former.joins().filter(|record| !record.arrival.is_invitation());
            for (arrival, record) in visitors.map(|record| (record.arrival, record)) {
                let held = self.queue.held(&record.visitor).map(|held| held.arrival);
                let newer = held.filter(|held| *held > arrival).and_then(|held| self.queue.place(held));
                if former.is_used_up(arrival) || newer.is_some_and(|place| self.queue.is_called(place)) {
                    // Of no more worth than a newer one, or than one that was called.
                    assert!(held.is_some(), "{record:?}, whom a gateway knew, is not known");
                    continue;
                }
                self.give_up_newer(&record);
                // An older one, of an earlier loss, may have been shown.
                let back = held.is_some_and(|held| held <= arrival);
                assert!(back, "{record:?}, whom a gateway knew, is {held:?}");
            }
            let running = |queue: &Queue| -> BTreeSet<Arrival> {
                let claimed = |admission: &AdmissionRecord| match admission.state {
                    AdmissionState::Claimed { expires_at, .. } => expires_at > self.now,
                    _ => false,
                };
                queue.admissions().filter(claimed).map(|admission| admission.arrival).collect()
            };
            assert!(running(&self.queue).is_superset(&running(&former)), "an admission was not put back");
        }
    }
}

#[test]
fn numbers_that_a_loss_passed_over_take_no_room_after_the_next() {
    let mut rig = Rig::new(open_sale(12));
    let mut reach = Reach::of(&rig.queue.core);
    reach.lines.first.next_arrival = Arrival(1_000);
    rig.queue.skip(&reach, rig.now);
    let early = rig.queue.core.clone();
    rig.crowd(2);
    rig.pass(60_000);
    let serving = rig.queue.core.lines.first.serving;
    assert_eq!(serving, Place(1_002));
    let mut restored = Queue::without_visitors(open_sale(12).check().unwrap(), early, rig.now);
    restored.skip(&Reach::of(&rig.queue.core), rig.now);
    let view = restored.view(rig.now);
    assert_eq!((view.serving, view.unclaimed, view.totals.called), (serving, 2, 2));
}

#[test]
fn after_a_loss_of_everything_the_first_to_show_up_is_not_called_before_those_ahead() {
    for drawn in [None, Some(DrawState::Drawn { size: 200, seed: [5; 32] })] {
        let mut rig = Rig::new(open_sale(3));
        let mut core = rig.queue.core.clone();
        core.lines.first.draw = drawn.unwrap_or(core.lines.first.draw);
        rig.queue = Queue::without_visitors(open_sale(3).check().unwrap(), core.clone(), rig.now);
        rig.queue.skip(&Reach { lines: Lines::new(1, |_| line(200)), ..Reach::of(&core) }, rig.now);
        let ticket = |queue: &Queue, at: u64| {
            let arrival = (0..200).map(Arrival).find(|arrival| queue.place(*arrival) == Some(Place(at)));
            JoinRecord { arrival: arrival.unwrap(), visitor: visitor(at), joined_at: 1_000 }
        };
        let by_place: Vec<JoinRecord> = (0..200).map(|at| ticket(&rig.queue, at)).collect();
        // Nobody has shown up, and nobody is passed over, however long that takes.
        rig.pass(250);
        assert_eq!(rig.queue.core.lines.first.serving, Place(0));
        // All but those at 1 and from 150 on show up, the last first.
        for at in (0..150).rev().filter(|at| *at != 1) {
            assert!(rig.queue.reenter(by_place[at], rig.now));
            rig.tick();
            assert!(rig.queue.core.lines.first.serving <= Place(1), "{at} was called too early");
        }
        assert_eq!(rig.queue.core.lines.first.serving, Place(1));
        // Then the sale goes on without whoever is missing.
        rig.pass(74_750);
        // By then the first call has lapsed.
        assert_eq!(rig.queue.core.lines.first.serving, Place(5));
        rig.queue.definition = open_sale(1_000).check().unwrap().into();
        rig.pass(250);
        assert_eq!(rig.queue.core.lines.first.serving, Place(150), "the missing behind all were passed over");
        let last = Position { arrival: by_place[150].arrival, place: Some(Place(150)) };
        let standing = rig.queue.view(rig.now).standing(last, rig.now);
        assert!(matches!(standing, Standing::Waiting { ahead: Some(0), .. }), "{standing:?}");
    }
}

#[test]
fn the_room_of_those_who_were_inside_when_everything_was_lost_is_kept_for_a_lease() {
    let mut rig = Rig::new(open_sale(3));
    let crowd = rig.crowd(8);
    rig.tick();
    for arrival in &crowd[..2] {
        rig.claim(*arrival).unwrap();
    }
    let core = rig.queue.core.clone();
    rig.queue = Queue::without_visitors(open_sale(3).check().unwrap(), core.clone(), rig.now);
    rig.queue.skip(&Reach { lines: Lines::new(1, |_| line(100)), ..Reach::of(&core) }, rig.now);
    for arrival in &crowd[3..] {
        let ticket = JoinRecord { arrival: *arrival, visitor: visitor(arrival.0), joined_at: 1_000 };
        assert!(rig.queue.reenter(ticket, rig.now));
    }
    let mut passed = 0;
    while passed < 299_000 {
        rig.pass(1_000);
        passed += 1_000;
        assert_eq!(
            rig.queue.core.lines.first.serving,
            Place(3),
            "{passed} ms after the loss somebody was called"
        );
    }
    rig.pass(1_000);
    assert_eq!(rig.queue.core.lines.first.serving, Place(6));
}

/// Three are inside after a second call, which is as many as may be, and two wait. None of them has been called first for long.
fn recalled() -> (Rig, Vec<Arrival>) {
    let mut raw = open_sale(3);
    raw.lease_ms = 600_000;
    let mut rig = Rig::new(raw);
    let crowd = rig.crowd(3);
    rig.pass(60_000);
    let written = Reach::default().extended(&rig.queue.core, BLOCK);
    assert!(written.covers(&rig.queue.core));
    rig.claim(crowd[0]).unwrap();
    assert!(!written.covers(&rig.queue.core), "a second call is made that is not written down");
    for arrival in &crowd[1..] {
        rig.claim(*arrival).unwrap();
    }
    rig.crowd(2);
    (rig, crowd)
}

#[test]
fn the_room_of_those_who_were_called_a_second_time_is_kept_for_a_lease() {
    let (mut rig, crowd) = recalled();
    let definition = SaleDefinition::clone(rig.queue.definition());
    let reach = Reach::default().extended(&rig.queue.core, BLOCK);
    let late = rig.queue.core.clone();
    // One of them had not claimed by then.
    let mut early = late.clone();
    (early.recalled, early.totals.claimed) = (1, 2);
    // Or nobody had been called a second time.
    let mut earlier = late.clone();
    (earlier.totals.recalled, earlier.totals.claimed) = (0, 0);
    for core in [late, early, earlier] {
        rig.queue = Queue::without_visitors(definition.clone(), core, rig.now);
        rig.queue.skip(&reach, rig.now);
        assert_eq!(rig.queue.busy(), 3);
        rig.queue.skip(&reach, rig.now);
        assert_eq!(rig.queue.busy(), 3, "what was written down is counted once");
        let waits = JoinRecord { arrival: Arrival(3), visitor: visitor(3), joined_at: 1_000 };
        assert!(rig.queue.reenter(waits, rig.now));
        rig.pass(599_000);
        assert_eq!(rig.queue.core.lines.first.serving, Place(3), "{crowd:?} are inside");
        rig.pass(1_000);
        assert_eq!(rig.queue.core.lines.first.serving, Place(4));
    }
}

#[test]
fn a_second_call_that_was_claimed_in_a_lost_commit_takes_room_for_a_lease() {
    let (mut rig, crowd) = recalled();
    let mut admissions: Vec<AdmissionRecord> = rig.queue.admissions().collect();
    let until = rig.now.plus(60_000);
    admissions[0].state = AdmissionState::Recalled { until, lease_ms: None };
    let reach = Reach::default().extended(&rig.queue.core, BLOCK);
    let mut core = rig.queue.core.clone();
    core.totals.claimed -= 1;
    let definition = SaleDefinition::clone(rig.queue.definition());
    rig.queue = Queue::restore(definition, core, rig.queue.joins().collect::<Vec<_>>(), admissions, []);
    rig.queue.skip(&reach, rig.now);
    rig.pass(599_000);
    assert_eq!((rig.queue.busy(), crowd.len()), (3, 3));
    rig.pass(1_000);
    assert_eq!(rig.queue.core.lines.first.serving, Place(5));
}

#[test]
fn who_knows_of_fewer_second_calls_does_not_give_their_room_away() {
    let (mut rig, _) = recalled();
    let former = std::mem::replace(&mut rig.queue, Rig::new(open_sale(3)).queue);
    let definition = SaleDefinition::clone(former.definition());
    let mut reach = Reach::of(&former.core);
    reach.recalled += 1;
    let joins: Vec<JoinRecord> = former.joins().collect();
    let admissions: Vec<AdmissionRecord> = former.admissions().collect();
    rig.queue = Queue::restore(definition, former.core.clone(), joins, admissions, []);
    rig.queue.skip(&reach, rig.now);
    put_back(&mut rig, &former, usize::MAX);
    assert_eq!(rig.queue.busy(), 4);
    let mut later = former;
    later.core.totals.recalled += 1;
    put_back(&mut rig, &later, usize::MAX);
    assert_eq!(rig.queue.busy(), 3);
}

/// It has heard of all of them before the loss, and so before it is known that they may be inside.
#[test]
fn who_knows_all_second_calls_ends_the_wait_for_those_who_made_them() {
    let (mut rig, _) = recalled();
    let mut former = std::mem::replace(&mut rig.queue, Rig::new(open_sale(3)).queue);
    let definition = SaleDefinition::clone(former.definition());
    let (joins, admissions): (Vec<_>, Vec<_>) = (former.joins().collect(), former.admissions().collect());
    rig.queue = Queue::restore(definition, former.core.clone(), joins, admissions, []);
    former.core.totals.recalled += 1;
    rig.now = rig.now.plus(1_000);
    rig.queue.skip(&Reach::of(&former.core), rig.now);
    assert_eq!(rig.queue.busy(), 4);
    put_back(&mut rig, &former, usize::MAX);
    assert_eq!(rig.queue.busy(), 3, "somebody is waited for of whom it is known that nobody is inside");
}

/// Of twelve visitors two are inside, one has been, two have lapsed, and one of those waits for the second call. All is lost,
/// and a gateway that goes on with nothing meets one that knows them.
fn lost_and_known() -> (Rig, Queue, Vec<Arrival>) {
    let mut rig = Rig::new(open_sale(4));
    let crowd = rig.crowd(12);
    rig.tick();
    rig.claim(crowd[1]).unwrap();
    rig.queue.lease(crowd[1], LeaseEvent::Ended, rig.now);
    rig.pass(60_000);
    // The others of the first call have lapsed.
    assert_eq!(rig.claim(crowd[2]), Err(ClaimRefusal::RecallPending));
    rig.claim(crowd[5]).unwrap();
    rig.pass(1_000);
    let early = rig.queue.core.clone();
    rig.pass(1_000);
    rig.claim(crowd[6]).unwrap();
    let former = rig.queue;
    let reach = Reach { lines: Lines::new(1, |_| line(300)), ..Reach::of(&former.core) };
    rig.queue = Queue::without_visitors(SaleDefinition::clone(former.definition()), early, rig.now);
    rig.queue.skip(&reach, rig.now);
    rig.tick();
    (rig, former, crowd)
}

fn put_back(rig: &mut Rig, former: &Queue, most: usize) -> PutBack {
    let (mut sum, mut from) = (PutBack::default(), Some(Arrival(0)));
    while let Some(at) = from {
        let back = rig.queue.reenter_from(former, at, most, rig.now);
        sum.visitors += back.visitors;
        sum.admissions += back.admissions;
        from = back.next;
    }
    sum
}

#[test]
fn nobody_is_admitted_twice_where_a_gateway_that_knows_nothing_went_on_first() {
    for most in [1, 2, usize::MAX] {
        let (mut rig, former, crowd) = lost_and_known();
        let back = put_back(&mut rig, &former, most);
        assert_eq!(back.visitors, 12);
        assert!(rig.queue.joins().eq(former.joins()));
        assert_eq!(rig.claim(crowd[1]), Err(ClaimRefusal::Ended));
        for arrival in [2, 5, 6].map(|at| crowd[at]) {
            assert_eq!(rig.queue.admissions[&arrival], former.admissions[&arrival]);
        }
        // Nobody is called again whose call has lapsed, unless they had asked for that.
        assert_eq!(rig.queue.admissions.get(&crowd[0]), None);
        assert_eq!(former.admissions.get(&crowd[0]), None);
        assert_eq!(rig.queue.admissions.len(), former.admissions.len());
        let inside = |queue: &Queue| queue.core.totals.claimed - queue.core.totals.ended;
        assert_eq!(inside(&rig.queue), inside(&former));
    }
}

#[test]
fn who_is_inside_again_takes_the_room_of_one_where_all_are_known_again() {
    let (mut rig, former, crowd) = lost_and_known();
    let busy = former.busy();
    assert!(rig.queue.busy() >= busy);
    put_back(&mut rig, &former, 2);
    assert_eq!((rig.queue.busy(), rig.queue.awaits_absent()), (busy, false));
    // The sale goes on where it was.
    let mut former = former;
    for at in [5, 6] {
        rig.queue.lease(crowd[at], LeaseEvent::Ended, rig.now);
        former.lease(crowd[at], LeaseEvent::Ended, rig.now);
    }
    rig.tick();
    assert_eq!(rig.queue.core.lines.first.serving, Place(10));
    assert_eq!(former.core.lines.first.serving, Place(10));
    assert_eq!(rig.queue.admissions, former.admissions);
}

#[test]
fn nobody_is_called_past_those_who_are_yet_to_be_put_back() {
    let mut raw = open_sale(4);
    (raw.claim_window_ms, raw.lease_ms) = (10_000, 10_000);
    let mut rig = Rig::new(raw.clone());
    let early = rig.queue.core.clone();
    rig.crowd(12);
    rig.tick();
    let restored = Queue::restore(raw.check().unwrap(), early, [], [], []);
    let former = std::mem::replace(&mut rig.queue, restored);
    rig.queue.skip(&Reach::of(&former.core), rig.now);
    rig.join_as(77, false).unwrap();
    let next = rig.queue.reenter_from(&former, Arrival(0), 2, rig.now).next.unwrap();
    // The first call is over, and there is room.
    rig.pass(10_000);
    assert_eq!(rig.queue.core.lines.first.serving, Place(4));
    rig.queue.reenter_from(&former, next, usize::MAX, rig.now);
    rig.tick();
    // Two of the first call are called again.
    assert_eq!(rig.queue.core.lines.first.serving, Place(6));
}

#[test]
fn who_knows_but_some_does_not_end_the_wait_for_the_others() {
    let (mut rig, former, _) = lost_and_known();
    let joins: Vec<JoinRecord> = former.joins().filter(|join| join.arrival.0 < 10).collect();
    let admissions: Vec<AdmissionRecord> = former.admissions().collect();
    let definition = SaleDefinition::clone(former.definition());
    let mut core = former.core.clone();
    // It, too, has once passed over somebody.
    core.lines.first.skipped.push(10..12);
    let some = Queue::restore(definition, core, joins, admissions, []);
    put_back(&mut rig, &some, usize::MAX);
    assert!(rig.queue.awaits_absent());
    put_back(&mut rig, &former, usize::MAX);
    assert!(!rig.queue.awaits_absent());
}

#[test]
fn who_has_heard_of_less_than_is_written_down_does_not_end_the_wait() {
    let (mut rig, mut former, _) = lost_and_known();
    former.core.last_now = UnixMillis(rig.queue.core.unseen.unwrap().as_of.0 - 1);
    put_back(&mut rig, &former, usize::MAX);
    assert!(rig.queue.awaits_absent() && rig.queue.core.unseen.is_some());
}

#[test]
fn who_came_in_after_an_older_loss_is_not_taken_for_one_of_the_unseen() {
    let (mut rig, mut former, crowd) = lost_and_known();
    rig.pass(5_000);
    former.claim(Position { arrival: crowd[7], place: Some(Place(7)) }, rig.now).unwrap();
    let unseen = |queue: &Queue| queue.core.unseen.unwrap().count;
    assert_eq!(unseen(&rig.queue), 1);
    for (at, left) in [(7, 1), (6, 1), (5, 0)] {
        let record = former.admissions().find(|record| record.arrival == crowd[at]).unwrap();
        assert!(rig.queue.admit_as_in(record));
        assert_eq!(unseen(&rig.queue), left, "{at}");
    }
}

/// Nothing beyond what is written down was lost.
#[test]
fn the_wait_after_a_loss_of_everything_begins_when_it_is_found_out() {
    let mut rig = Rig::new(open_sale(3));
    let crowd = rig.crowd(8);
    rig.tick();
    for arrival in &crowd[..2] {
        rig.claim(*arrival).unwrap();
    }
    let core = rig.queue.core.clone();
    rig.now = rig.now.plus(3_600_000);
    rig.queue = Queue::without_visitors(open_sale(3).check().unwrap(), core, rig.now);
    rig.pass(74_999);
    assert!(rig.queue.awaits_absent());
    rig.pass(1);
    assert!(!rig.queue.awaits_absent());
    assert_eq!(rig.queue.busy(), 2);
    rig.pass(225_000);
    assert_eq!(rig.queue.busy(), 0);
}

#[test]
fn a_second_loss_of_everything_is_told_as_another() {
    let rig = Rig::new(open_sale(12));
    let lose = |core: &Core| {
        let mut queue = Queue::without_visitors(open_sale(12).check().unwrap(), core.clone(), rig.now);
        queue.skip(&Reach { lines: Lines::new(1, |_| line(1_000)), ..Reach::of(core) }, rig.now);
        queue
    };
    let losses = |queue: &Queue| queue.view(rig.now).snapshot().losses;
    let first = lose(&rig.queue.core);
    let second = lose(&first.core);
    assert_eq!((losses(&rig.queue), losses(&first), losses(&second)), (0, 1, 2));
}

/// A gateway of another version may have written down less than it knew.
#[test]
fn a_stage_that_was_reached_is_not_left_for_an_earlier_one_that_was_written_down() {
    let rig = Rig::new(open_sale(12));
    let stages =
        [Stage::Scheduled, Stage::PreQueue, Stage::Drawing, Stage::Open(Halts::default()), Stage::Closed];
    for (reached, mine) in stages.iter().enumerate() {
        for (ordered, told) in stages.iter().enumerate() {
            let mut queue =
                Queue::without_visitors(open_sale(12).check().unwrap(), rig.queue.core.clone(), rig.now);
            queue.core.stage = mine.clone();
            let mut reach = Reach::of(&queue.core);
            reach.orders.count += 1;
            reach.orders.stage = Some(told.clone());
            queue.follow(&reach, None);
            let after = stages.iter().position(|stage| *stage == queue.core.stage).unwrap();
            assert!(after >= reached.max(ordered), "{mine:?} and {told:?} make {:?}", queue.core.stage);
        }
    }
}

const fn line(next_arrival: u64) -> LineReach {
    LineReach { next_arrival: Arrival(next_arrival), serving: Place(0) }
}

#[test]
fn what_is_written_ahead_of_use_stops_at_the_last_number_of_a_lane() {
    let mut core = Rig::new(open_sale(12)).queue.core;
    core.lines.first.next_arrival = MAX_ARRIVALS - 5;
    let reach = Reach::default().extended(&core, 16_384);
    assert!(!reach.has_later_orders(&core));
    assert_eq!(reach.lines.first.next_arrival, Arrival(MAX_ARRIVALS));
    assert!(reach.covers(&core));
}

#[test]
fn whatever_was_lost_is_behind_what_is_written_down() {
    let mut core = Rig::new(open_sale(12)).queue.core;
    let mut reach = Reach::default().extended(&core, BLOCK);
    assert!(reach.covers(&core) && !reach.is_ahead_of(&core), "nobody has joined");
    for next_arrival in 1..20 {
        core.lines.first.next_arrival = next_arrival;
        if !reach.covers(&core) {
            reach = reach.extended(&core, BLOCK);
        }
        assert!(reach.covers(&core) && reach.is_ahead_of(&core), "{next_arrival}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_what_visitors_know_stays_good(
        drawn: bool,
        laned: bool,
        // Where they are few, nobody is called for the first time while others are recalled.
        crowd in 1..40u64,
        life in prop::collection::vec(events(), 1..80),
    ) {
        let mut world = World::new(drawn, laned, crowd);
        for event in &life {
            world.step(event);
        }
    }
}

/// The calls of those who had not come are known again, and so are the calls that were made in their place.
#[test]
fn where_a_loss_leaves_more_called_than_there_is_room_for_those_who_come_first_go_in_and_the_others_next() {
    let mut rig = Rig::new(RawDefinition { claim_window_ms: 5_000, ..open_sale(3) });
    rig.crowd(9);
    rig.tick();
    let before = rig.queue.core.clone();
    let joins: Vec<JoinRecord> = rig.queue.joins().collect();
    rig.pass(5_000);
    let reach = Reach::of(&rig.queue.core);
    assert_eq!((rig.queue.core.totals.called, rig.queue.core.totals.lapsed), (6, 3));
    let definition = SaleDefinition::clone(rig.queue.definition());
    rig.queue = Queue::restore(definition, before, joins, [], []);
    rig.queue.skip(&reach, rig.now);
    rig.tick();
    assert_eq!(rig.busy(), 6);
    let claim =
        |rig: &mut Rig, at: u64| rig.queue.claim(rig.queue.view(rig.now).position(Arrival(at)), rig.now);
    let answers: Vec<_> = (0..6).map(|at| claim(&mut rig, at).map(|claimed| claimed.place)).collect();
    let pending = Err(ClaimRefusal::RecallPending);
    assert_eq!(answers, [pending, pending, pending, Ok(Place(3)), Ok(Place(4)), Ok(Place(5))]);
    for (leaves, comes) in [(3, 0), (4, 1), (5, 2)] {
        assert_eq!(claim(&mut rig, comes).map(|_| ()), Err(ClaimRefusal::RecallPending));
        let position = rig.queue.view(rig.now).position(Arrival(leaves));
        rig.queue.leave(position, rig.now).unwrap();
        rig.tick();
        assert!(claim(&mut rig, comes).is_ok(), "{comes} waits although {leaves} has left");
    }
    assert_eq!(rig.queue.core.lines.first.serving, Place(6), "somebody was called before them");
}
