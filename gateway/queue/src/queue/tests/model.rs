//! Random lives of a sale, each step checked against a ledger kept beside it and against what a store kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proptest::prelude::*;

use super::replica::{Comparable, Gateway};
use super::*;
use crate::beacon::{Beacon, BeaconOutput};
use crate::definition::{DrawBeacon, LONGEST_TICK_MS, LaneDefinition};
use crate::outcome::{ChangeRefusal, Invited};

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    StepBack(u64),
    Tick(Option<u32>),
    Join {
        who: u64,
        again: bool,
        /// A lane, and an invitation that is good for one; 0: it is for this visitor.
        invited: Option<(usize, u8)>,
    },
    Claim(usize),
    Leave(usize),
    Lease(usize, LeaseEvent),
    Stock(u64, Option<u64>),
    Order(Command),
    /// The beacon's round that is waited for comes in, if it is out.
    Round,
    Change(Settings),
    Restart,
    /// What another gateway was faster than: it happens and is taken back.
    Undone(Vec<Event>),
    /// The next events come through another gateway, which first hears of what it has missed.
    OtherGateway,
}

/// What differs between the sales that are tried, and what changes while they run.
#[derive(Clone, Debug)]
struct Settings {
    pace: Pace,
    max_active: u32,
    claim_window_ms: u64,
    recall_grace_ms: u64,
    lease_ms: u64,
    overcommit_percent: u32,
    compensate: bool,
}

fn paces() -> impl Strategy<Value = Pace> {
    prop_oneof![
        (1..6u32, 500..6_000u64).prop_map(|(admit, every_ms)| Pace::Batch { admit, every_ms }),
        (1..6u32, 1..3_000u64, 1..6u32).prop_map(|(admit, per_ms, burst)| smooth(admit, per_ms, burst)),
    ]
}

/// With this burst, or the least that such a pace may have.
pub(super) fn smooth(admit: u32, per_ms: u64, burst: u32) -> Pace {
    let least = (u64::from(admit) * LONGEST_TICK_MS).div_ceil(per_ms);
    Pace::Smooth { admit, per_ms, burst: burst.max(u32::try_from(least).unwrap()) }
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        paces(),
        prop_oneof![Just(1), Just(2), 3..8u32, Just(200), Just(100_000)],
        1_000..20_000u64,
        0..20_000u64,
        1_000..40_000u64,
        100..300u32,
        any::<bool>(),
    )
        .prop_map(
            |(
                pace,
                max_active,
                claim_window_ms,
                recall_grace_ms,
                lease_ms,
                overcommit_percent,
                compensate,
            )| Settings {
                pace,
                max_active,
                claim_window_ms,
                recall_grace_ms,
                lease_ms,
                overcommit_percent,
                compensate,
            },
        )
}

fn orders() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => Just(Command::Open),
        2 => Just(Command::Pause { reason: PauseReason::default() }),
        4 => Just(Command::Resume),
        1 => Just(Command::SoldOut),
        2 => Just(Command::Restock),
        1 => Just(Command::Revoke),
        1 => Just(Command::DrawBySecret { reason: String::new() }),
        2 => (1..5u32, prop::option::of(1_000..30_000u64))
            .prop_map(|(batch_size, lease_ms)| Command::Admit { batch_size, lease_ms }),
    ]
}

fn lease_events() -> impl Strategy<Value = LeaseEvent> {
    prop_oneof![Just(LeaseEvent::Holding), Just(LeaseEvent::Released), Just(LeaseEvent::Ended)]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        16 => single_events(),
        1 => prop::collection::vec(single_events(), 1..12).prop_map(Event::Undone),
        2 => Just(Event::OtherGateway),
    ]
}

fn single_events() -> impl Strategy<Value = Event> {
    let ticket = 0..64usize;
    prop_oneof![
        18 => prop_oneof![8 => 0..3_000u64, 4 => 3_000..20_000u64, 1 => Just(3_600_000), 1 => Just(90_000_000)]
            .prop_map(Event::Pass),
        1 => prop_oneof![1..5_000u64, Just(3_600_000)].prop_map(Event::StepBack),
        8 => prop::option::weighted(0.2, 0..6u32).prop_map(Event::Tick),
        18 => (0..12u64, any::<bool>(), prop::option::of((0..3usize, 0..6u8)))
            .prop_map(|(who, again, invited)| Event::Join { who, again, invited }),
        24 => ticket.clone().prop_map(Event::Claim),
        5 => ticket.clone().prop_map(Event::Leave),
        6 => (ticket, lease_events())
            .prop_map(|(ticket, event)| Event::Lease(ticket, event)),
        4 => (0..12u64, prop::option::of(0..3u64)).prop_map(|(left, held)| Event::Stock(left, held)),
        6 => orders().prop_map(Event::Order),
        4 => Just(Event::Round),
        2 => settings().prop_map(Event::Change),
        2 => Just(Event::Restart),
    ]
}

/// The lanes of a sale: none, two, three, or two that both want an invitation.
fn lanes() -> impl Strategy<Value = Vec<LaneDefinition>> {
    let lane = |name: &str, share, invitation| LaneDefinition {
        name: name.parse().unwrap(),
        title: String::new(),
        share,
        invitation,
    };
    prop_oneof![
        2 => Just(Vec::new()),
        2 => Just(vec![lane("everybody", 40, false), lane("members", 60, true)]),
        1 => Just(vec![lane("members", 70, true), lane("wheelchair", 5, true), lane("everybody", 25, false)]),
        1 => Just(vec![lane("press", 50, true), lane("friends", 50, true)]),
    ]
}

/// Which life a sale has: always on, by the operator, drawn by a secret or a beacon; and whether it closes by itself.
fn definitions() -> impl Strategy<Value = RawDefinition> {
    let times = (0..4u8, 0..20_000u64, 0..20_000u64, prop::option::weighted(0.2, 60_000..400_000u64));
    (settings(), times, lanes()).prop_map(|(settings, times, lanes)| {
        let (kind, until_draw, until_open, until_close) = times;
        let mut raw = open_sale(1);
        if kind > 0 {
            raw.joins_open_at = Some(START);
        }
        if kind > 1 {
            let closes_at = START.plus(until_draw);
            raw.draw = Some(DrawDefinition::by_secret(closes_at));
            raw.opens_at = Some(closes_at.plus(until_open));
        }
        if kind > 2 {
            let beacon = DrawBeacon { name: BEACON, round: None, fallback: until_open % 2 == 0 };
            raw.draw = raw.draw.map(|draw| DrawDefinition { beacon: Some(beacon), ..draw });
            // Before the sale closes by itself, at the earliest.
            raw.opens_at = raw.draw.and_then(|draw| Some(draw.round_at()?.plus(until_open % 6_000)));
        }
        raw.closes_at = until_close.map(|millis| START.plus(millis));
        raw.lanes = lanes;
        settings.applied(raw)
    })
}

const BEACON: Beacon = Beacon::DrandQuicknet;
const START: UnixMillis = BEACON.round_at(1_000);

impl Settings {
    fn applied(&self, mut raw: RawDefinition) -> RawDefinition {
        raw.pace = self.pace;
        raw.max_active = self.max_active;
        raw.claim_window_ms = self.claim_window_ms;
        raw.recall_grace_ms = self.recall_grace_ms;
        raw.lease_ms = self.lease_ms;
        raw.overcommit_percent = self.overcommit_percent;
        raw.compensate_no_shows = self.compensate;
        raw
    }
}

fn invitation((lane, once): (usize, u8)) -> Invited {
    let once = (once > 0).then_some(VisitorKey([once; 16]));
    Invited { lane: Lane::at(lane).unwrap(), once }
}

/// What a store has on disk.
struct Kept {
    definition: String,
    core: String,
    joins: Vec<JoinRecord>,
    admissions: BTreeMap<Arrival, AdmissionRecord>,
    left: Vec<Arrival>,
}

impl Kept {
    fn restore(&self) -> Queue {
        Queue::restore(
            serde_json::from_str(&self.definition).unwrap(),
            serde_json::from_str(&self.core).unwrap(),
            self.joins.iter().copied(),
            self.admissions.values().copied(),
            self.left.iter().copied(),
        )
    }
}

/// What visitors have been told, kept without looking into the queue.
#[derive(Default)]
struct Ledger {
    /// Who was given which number, for which invitation.
    holders: BTreeMap<Arrival, (u64, Option<u8>)>,
    /// The last number of each visitor.
    tickets: HashMap<u64, Arrival>,
    places: HashMap<Arrival, Place>,
    claims: HashMap<Arrival, Claimed>,
    /// Those the shop said have a hold and did not say have lost it.
    holding: HashSet<Arrival>,
    /// Tickets that must never be admitted (again).
    dead: HashSet<Arrival>,
    /// Calls that the pace has allowed since the opening, in calls.
    allowance: Option<f64>,
}

struct World {
    queue: Queue,
    other: Gateway,
    now: UnixMillis,
    kept: Kept,
    ledger: Ledger,
    health: Option<Option<u32>>,
    /// Calls have cost less than one at some time.
    compensated: bool,
}

impl World {
    fn new(raw: RawDefinition) -> Self {
        let kept = Kept {
            definition: String::new(),
            core: String::new(),
            joins: Vec::new(),
            admissions: BTreeMap::new(),
            left: Vec::new(),
        };
        let queue = Queue::create(raw.clone().check().unwrap(), [9; 32], START);
        // The second gateway hears everything from the first, but needs something to hear it with.
        let other = Gateway::new(Queue::create(raw.check().unwrap(), [9; 32], START));
        let compensated = queue.definition().compensate_no_shows;
        let ledger = Ledger::default();
        let mut world = Self { queue, other, now: START, kept, ledger, health: None, compensated };
        world.keep();
        world
    }

    fn keep(&mut self) {
        let changes = self.queue.take_changes();
        self.other.miss(&changes, &self.queue);
        if changes.core {
            self.kept.core = serde_json::to_string(self.queue.core()).unwrap();
        }
        if changes.definition {
            self.kept.definition = serde_json::to_string(&**self.queue.definition()).unwrap();
        }
        self.kept.joins.extend(changes.joins);
        self.kept.left.extend(changes.left);
        self.kept.admissions.extend(changes.admissions.into_iter().map(|record| (record.arrival, record)));
        for forgotten in changes.forgotten {
            self.kept.joins.retain(|join| !forgotten.contains(&join.arrival));
            self.kept.left.retain(|arrival| !forgotten.contains(arrival));
            self.kept.admissions.retain(|arrival, _| !forgotten.contains(arrival));
        }
    }

    /// A ticket that exists, mostly.
    fn ticket(&self, index: usize) -> Arrival {
        let tickets = self.ledger.holders.len();
        let ticket = self.ledger.holders.keys().nth(index % (tickets + 1)).copied();
        ticket.unwrap_or(Arrival(self.queue.core.lines.first.next_arrival))
    }

    fn position(&self, arrival: Arrival) -> Position {
        match self.ledger.places.get(&arrival) {
            Some(place) => Position { arrival, place: Some(*place) },
            None => self.queue.view(self.now).position(arrival),
        }
    }

    fn step(&mut self, event: &Event) {
        let before = self.queue.view(self.queue.core.last_now);
        let definition = Arc::clone(self.queue.definition());
        match event {
            Event::Pass(millis) => self.now = self.now.plus(*millis),
            Event::StepBack(millis) => self.now = UnixMillis(self.now.0 - millis),
            Event::Tick(limit) => {
                let input = TickInput { health_limit: *limit };
                self.health = Some(*limit);
                self.queue.tick(input, self.now);
            }
            Event::Join { who, again, invited } => self.join(*who, *again, *invited),
            Event::Claim(index) => self.claim(self.ticket(*index)),
            Event::Leave(index) => self.leave(self.ticket(*index)),
            Event::Lease(index, event) => {
                let arrival = self.ticket(*index);
                self.queue.lease(arrival, *event, self.now);
                if self.ledger.claims.contains_key(&arrival) {
                    match event {
                        LeaseEvent::Holding => drop(self.ledger.holding.insert(arrival)),
                        LeaseEvent::Released => drop(self.ledger.holding.remove(&arrival)),
                        LeaseEvent::Ended => drop(self.ledger.dead.insert(arrival)),
                    }
                }
            }
            Event::Stock(available, held) => {
                self.queue.stock(Stock { available: *available, held: *held }, self.now);
            }
            Event::Order(command) => {
                let _ = self.queue.command(command, self.now);
            }
            Event::Round => self.bring_round(self.now),
            Event::Change(settings) => {
                let raw = settings.applied(RawDefinition::clone(&definition));
                let refused = self.queue.change(raw.check().unwrap(), None, self.now);
                assert!(matches!(refused, Ok(()) | Err(ChangeRefusal::Closed)), "{refused:?}");
            }
            Event::Restart => {
                self.queue = self.kept.restore();
                self.health = None;
            }
            Event::Undone(events) => self.undone(events),
            Event::OtherGateway => self.other.take_over(&mut self.queue, &mut self.health),
        }
        self.compensated |= self.queue.definition().compensate_no_shows;
        self.keep();
        self.settle_ledger(&before, &definition);
        self.check_limits(&before, event);
        self.check_ledger();
        self.check_store();
        if let Event::Tick(health_limit) = event {
            self.check_idempotence(*health_limit);
        }
    }

    fn join(&mut self, who: u64, again: bool, invited: Option<(usize, u8)>) {
        let held = self.ledger.tickets.get(&who).copied();
        let called =
            |arrival| self.ledger.places.get(&arrival).is_some_and(|place| self.queue.is_called(*place));
        let waits = held.is_some_and(|held| !called(held));
        let options = JoinOptions { again, invited: invited.map(invitation), ..JoinOptions::default() };
        let Ok(joined) = self.queue.join(visitor(who), options, self.now) else { return };
        self.ledger.tickets.insert(who, joined.arrival);
        if !joined.new {
            assert_eq!(Some(joined.arrival), held, "a ticket changed its number");
            return;
        }
        let lane = joined.arrival.lane();
        let given = self.ledger.holders.keys().filter(|arrival| arrival.lane() == lane).count();
        assert_eq!(joined.arrival.number(), given as u64, "a number was given twice or left out");
        let left = |arrival: &Arrival| {
            let kept = self.kept.admissions.get(arrival);
            self.kept.left.contains(arrival) || kept.is_some_and(|kept| kept.state == AdmissionState::Left)
        };
        let open = self.queue.definition().open_lane();
        if let Some(old) = held {
            let forgotten = self.queue.is_forgotten(old);
            let goes_over = waits && Some(old.lane()) == open && Some(lane) != open && invited.is_some();
            assert!(again || left(&old) || forgotten || goes_over, "a visitor was silently put at the back");
            self.ledger.dead.insert(old);
        }
        let entitled = Some(lane) == open
            || held.is_some_and(|held| held.lane() == lane)
            || invited.is_some_and(|(invited, _)| invited == lane.index());
        assert!(entitled, "somebody uninvited joined a lane");
        let once = invited.map(|(_, once)| once).filter(|once| *once > 0);
        if let Some(once) = once {
            for (arrival, (holder, used)) in &self.ledger.holders {
                let same = arrival.lane() == lane && *used == Some(once) && *holder != who;
                let free = self.kept.left.contains(arrival) || self.queue.is_forgotten(*arrival);
                assert!(!same || free, "{arrival:?} and {:?} were given for one invitation", joined.arrival);
            }
        }
        self.ledger.holders.insert(joined.arrival, (who, once));
    }

    fn claim(&mut self, arrival: Arrival) {
        let position = self.position(arrival);
        let Ok(claimed) = self.queue.claim(position, self.now) else { return };
        assert!(!self.ledger.dead.contains(&arrival), "{arrival:?} was admitted after it had ended");
        assert!(!self.queue.is_forgotten(arrival), "{arrival:?} was admitted after it was forgotten");
        assert_eq!(Some(claimed.place), position.place);
        let serving = self.queue.core.lines[arrival.lane()].serving;
        assert!(claimed.place < serving, "admitted before it was called");
        let first = *self.ledger.claims.entry(arrival).or_insert(claimed);
        assert_eq!(Claimed { epoch: first.epoch, ..claimed }, first, "one ticket, two admissions");
    }

    fn leave(&mut self, arrival: Arrival) {
        let position = self.position(arrival);
        if self.queue.leave(position, self.now).is_ok() {
            self.ledger.dead.insert(arrival);
        }
    }

    fn bring_round(&mut self, now: UnixMillis) {
        let draw = self.queue.view(now).draw;
        let awaited = draw.as_ref().and_then(DrawView::awaited);
        let Some(round) = awaited.filter(|round| round.due_at <= now) else { return };
        let signature = "5a".repeat(48).parse().unwrap();
        let output = BeaconOutput { beacon: round.beacon, round: round.round, signature };
        let _ = self.queue.command(&Command::Beacon(output), now);
    }

    fn undone(&mut self, events: &[Event]) {
        let before = format!("{:?}", Comparable::of(&self.queue));
        let mut now = self.now;
        self.queue.begin();
        for event in events {
            match event {
                Event::Pass(millis) => now = now.plus(*millis),
                Event::Tick(limit) => self.queue.tick(TickInput { health_limit: *limit }, now),
                Event::Join { who, again, invited } => {
                    let options = JoinOptions {
                        again: *again,
                        invited: invited.map(invitation),
                        ..JoinOptions::default()
                    };
                    let _ = self.queue.join(visitor(*who), options, now);
                }
                Event::Claim(index) => {
                    let position = self.queue.view(now).position(self.ticket(*index));
                    let _ = self.queue.claim(position, now);
                }
                Event::Leave(index) => {
                    let position = self.queue.view(now).position(self.ticket(*index));
                    let _ = self.queue.leave(position, now);
                }
                Event::Lease(index, event) => self.queue.lease(self.ticket(*index), *event, now),
                Event::Stock(available, held) => {
                    self.queue.stock(Stock { available: *available, held: *held }, now);
                }
                Event::Order(command) => drop(self.queue.command(command, now)),
                Event::Round => self.bring_round(now),
                Event::Change(settings) => {
                    let raw = settings.applied(RawDefinition::clone(self.queue.definition()));
                    let _ = self.queue.change(raw.check().unwrap(), None, now);
                }
                // As a store does when it tries to commit.
                Event::StepBack(_) | Event::Restart => drop(self.queue.take_changes()),
                Event::Undone(_) | Event::OtherGateway => {}
            }
        }
        self.queue.undo();
        assert_eq!(format!("{:?}", Comparable::of(&self.queue)), before, "something was not taken back");
    }

    /// Learns places and ended leases, and what the pace has allowed meanwhile.
    fn settle_ledger(&mut self, before: &SaleView, definition: &SaleDefinition) {
        let now = self.queue.core.last_now;
        let over = |claimed: &Claimed| claimed.expires_at <= now;
        let ended =
            self.ledger.claims.iter().filter(|(_, claimed)| over(claimed)).map(|(arrival, _)| *arrival);
        self.ledger.dead.extend(ended);
        let view = self.queue.view(now);
        let drawn = view.draw.as_ref().is_none_or(|draw| draw.state.seed().is_some());
        if drawn {
            for arrival in self.ledger.holders.keys() {
                let place = || view.position(*arrival).place.unwrap();
                self.ledger.places.entry(*arrival).or_insert_with(place);
            }
        }
        let opened = matches!(view.phase, Phase::Open | Phase::Paused | Phase::SoldOut);
        match &mut self.ledger.allowance {
            Some(allowance) => *allowance += rate(definition.pace) * now.since(before.as_of) as f64,
            none => *none = opened.then(|| burst(self.queue.definition().pace)),
        }
    }

    fn check_limits(&self, before: &SaleView, event: &Event) {
        let after = self.queue.view(self.now);
        let definition = self.queue.definition();
        let (busy_before, busy) = (before.active + before.unclaimed, after.active + after.unclaimed);
        let calls = |view: &SaleView| view.totals.called + view.totals.recalled;
        let called = calls(&after) - calls(before);
        let by_hand = after.totals.by_hand - before.totals.by_hand;

        for (after, before) in after.lines.iter().zip(before.lines.iter()) {
            assert!(after.serving >= before.serving && after.next_arrival >= before.next_arrival);
        }
        assert!(busy <= busy_before.max(u64::from(definition.max_active)), "over max_active");
        if called > 0 {
            assert!(busy <= u64::from(definition.max_active), "called over max_active");
            if let Some(stock) = after.stock {
                let allowed = stock.available * u64::from(definition.overcommit_percent) / 100;
                let news = busy == 1 && !stock.is_gone();
                assert!(busy - after.holding <= allowed || news, "called more than the stock is good for");
            }
        }
        if called > by_hand {
            // A pause in the same step comes after the calls that had been earned.
            assert!(matches!(event, Event::Order(_)) || after.phase == Phase::Open, "called while halted");
            match self.health {
                None => panic!("called without knowing the shop's health"),
                Some(Some(limit)) if by_hand == 0 => {
                    assert!(busy <= u64::from(limit), "over the health limit");
                }
                Some(_) => {}
            }
        }
        for lane in after.lines.lanes() {
            if after.lines[lane].serving > before.lines[lane].serving && !matches!(event, Event::Claim(_)) {
                let due = &self.queue.lines[lane].recalls;
                assert!(due.is_empty(), "somebody uncalled was called before a recall");
            }
        }
        let paced = (calls(&after) - after.totals.by_hand) as f64;
        let cheapest = if self.compensated { 0.5 } else { 1.0 };
        let allowance = self.ledger.allowance.unwrap_or(0.0);
        assert!(paced * cheapest <= allowance + 1e-6, "{paced} calls at {cheapest}, {allowance} earned");
    }

    fn check_ledger(&self) {
        let view = self.queue.view(self.now);
        let active: HashSet<_> =
            self.ledger.claims.keys().filter(|arrival| !self.ledger.dead.contains(arrival)).collect();
        assert_eq!(view.active, active.len() as u64, "leases that ended still count, or running ones do not");
        let holding = self.ledger.holding.iter().filter(|arrival| active.contains(arrival)).count();
        assert_eq!(
            view.holding, holding as u64,
            "holds that are no more still count, or running ones do not"
        );
        assert_eq!(view.totals.claimed, self.ledger.claims.len() as u64, "a claim was counted twice");
        if matches!(view.phase, Phase::Open | Phase::Paused) {
            let told = |arrival: &Arrival| view.standing(self.position(*arrival), self.queue.core.last_now);
            let open_calls = self.ledger.places.keys().filter(|arrival| {
                let used = self.ledger.dead.contains(arrival) || self.ledger.claims.contains_key(arrival);
                !used && matches!(told(arrival), Standing::Called { .. })
            });
            let unclaimed = open_calls.count() + self.queue.recall_windows.len();
            assert_eq!(view.unclaimed, unclaimed as u64, "calls that count as unclaimed and are not, or not");
        }
        let visitors: Vec<JoinRecord> =
            self.queue.joins().filter(|join| !join.arrival.is_invitation()).collect();
        let keys: HashSet<VisitorKey> = visitors.iter().map(|join| join.visitor).collect();
        assert_eq!(keys.len(), visitors.len(), "a visitor holds two tickets");
        let places: BTreeSet<_> = self.ledger.places.values().collect();
        assert_eq!(places.len(), self.ledger.places.len(), "two tickets with one place");
    }

    fn check_store(&self) {
        let mut restored = self.kept.restore();
        // An idle tick is not worth a commit; all that it changes is the latest time seen.
        restored.core.last_now = self.queue.core.last_now;
        let live = &self.queue;
        assert_eq!(restored.core, live.core);
        assert_eq!(restored.definition, live.definition);
        assert_eq!(restored.admissions, live.admissions);
        assert_eq!(restored.left, live.left);
        assert_eq!(restored.leases, live.leases);
        assert_eq!(restored.recall_windows, live.recall_windows);
        assert_eq!(restored.holding, live.holding);
        assert_eq!(restored.backlogs, live.backlogs);
        assert!(restored.joins().eq(live.joins()));
        for (restored, live) in restored.lines.iter().zip(live.lines.iter()) {
            assert_eq!(restored.left_places, live.left_places);
            assert_eq!(restored.recalls, live.recalls);
        }
    }

    fn check_idempotence(&mut self, health_limit: Option<u32>) {
        let core = self.queue.core.clone();
        self.queue.tick(TickInput { health_limit }, self.now);
        assert_eq!(self.queue.core, core, "a second tick at the same time did something");
        assert!(self.queue.take_changes().is_empty());
    }
}

fn rate(pace: Pace) -> f64 {
    match pace {
        Pace::Batch { admit, every_ms } => f64::from(admit) / every_ms as f64,
        Pace::Smooth { admit, per_ms, .. } => f64::from(admit) / per_ms as f64,
    }
}

fn burst(pace: Pace) -> f64 {
    match pace {
        Pace::Batch { admit, .. } => f64::from(admit),
        Pace::Smooth { burst, .. } => f64::from(burst),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_invariant_holds_after_every_step(
        raw in definitions(),
        life in prop::collection::vec(events(), 1..120),
    ) {
        let mut world = World::new(raw);
        for event in &life {
            world.step(event);
        }
        let view = world.queue.view(world.now);
        for (arrival, place) in &world.ledger.places {
            prop_assert_eq!(view.position(*arrival).place, Some(*place), "a place changed");
        }
    }
}
