//! The sale as it runs: who does what in which step, and what the queue must answer.

use std::collections::HashMap;

use ropeline_queue::draw::{Permutation, Shuffle};
use ropeline_queue::flow::EtaRange;
use ropeline_queue::{
    AdmissionRecord, Arrival, ClaimRefusal, Command, Core, JoinOptions, JoinRecord, JoinRefusal, LeaseEvent,
    PauseReason, Phase, Place, Position, Promise, Queue, SaleDefinition, SaleView, Source, TickInput,
    UnixMillis,
};

use super::crowd::{self, Dice, Intent};
use super::ledger::Ledger;
use super::report::{self, EtaSample, Memory, Report};
use super::shop::Shop;
use super::{LAST_MS, OPEN_MS, START, STEP_MS, Scenario, Violation, must};

/// The operator pauses here, after the start, …
const PAUSE_MS: u64 = OPEN_MS + 900_000;
/// … and resumes here.
const RESUME_MS: u64 = PAUSE_MS + 300_000;
/// The process is restarted from what it has stored: before the draw, in the run, and while paused.
const RESTARTS_MS: [u64; 3] = [OPEN_MS - 120_000, OPEN_MS + 500_000, PAUSE_MS + 60_000];
/// Waiting visitors are asked for their ETA this often, …
const SAMPLE_MS: u64 = 10_000;
/// … so many of them.
const SAMPLES: u64 = 50;
/// A sold-out sale goes on this long, so that everybody hears of it.
const AFTERMATH_MS: u64 = 60_000;

const NOBODY: u32 = u32::MAX;

/// Something a visitor does later.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Claim,
    Leave,
    Hold,
    Pay,
    LetGo,
    GiveUp,
    /// The lease has run out; nobody says so.
    Expire,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Waiting,
    Admitted,
    Done,
    Gone,
}

#[derive(Debug, Clone, Copy)]
struct Visitor {
    arrival: u32,
    status: Status,
}

/// What a store would hold.
#[derive(Debug)]
struct Kept {
    core: Core,
    joins: Vec<JoinRecord>,
    admissions: HashMap<Arrival, AdmissionRecord>,
    left: Vec<Arrival>,
}

pub(super) struct World {
    scenario: Scenario,
    definition: SaleDefinition,
    queue: Queue,
    kept: Kept,
    ledger: Ledger,
    shop: Shop,
    dice: Dice,
    at_ms: u64,
    visitors: Vec<Visitor>,
    /// Who holds an arrival.
    holders: Vec<u32>,
    places: Option<Permutation>,
    /// Arrivals by place, for those drawn.
    arrivals: Vec<u32>,
    agenda: Vec<Vec<(u32, Deed)>>,
    /// When each place was called, in ms after the start.
    called_ms: Vec<u64>,
    samples: Vec<EtaSample>,
    unknown: u64,
    claims: u64,
    recalls: u64,
    rejoins: u64,
    refused_joins: u64,
    limit: u32,
    memory: Memory,
    last_eta: Option<EtaRange>,
}

impl World {
    pub(super) fn new(scenario: Scenario) -> Result<Self, Violation> {
        let definition = scenario.definition().map_err(|error| Violation(error.to_string()))?;
        let mut dice = Dice::new(scenario.seed);
        let mut secret = [0; 32];
        secret.fill_with(|| dice.roll().to_le_bytes()[0]);
        let queue = Queue::create(definition.clone(), secret, START);
        Ok(Self {
            scenario,
            kept: Kept {
                core: queue.core().clone(),
                joins: Vec::new(),
                admissions: HashMap::new(),
                left: Vec::new(),
            },
            queue,
            ledger: Ledger::new(&scenario, definition.max_active),
            shop: Shop::new(scenario.units(), definition.max_active),
            definition,
            dice,
            at_ms: 0,
            visitors: Vec::new(),
            holders: Vec::new(),
            places: None,
            arrivals: Vec::new(),
            agenda: Vec::new(),
            called_ms: Vec::new(),
            samples: Vec::new(),
            unknown: 0,
            claims: 0,
            recalls: 0,
            rejoins: 0,
            refused_joins: 0,
            limit: 0,
            memory: Memory::default(),
            last_eta: None,
        })
    }

    pub(super) fn play(mut self) -> Result<Report, Violation> {
        let mut sold_out_ms = None;
        while self.at_ms < LAST_MS {
            self.step()?;
            let phase = self.queue.view(self.now()).phase;
            if phase == Phase::SoldOut {
                let since = *sold_out_ms.get_or_insert(self.at_ms);
                if self.at_ms >= since + AFTERMATH_MS {
                    return self.finish(since);
                }
            }
            self.at_ms += STEP_MS;
        }
        Err(Violation(format!("not sold out in time: {} of {}", self.shop.sold, self.scenario.units())))
    }

    const fn now(&self) -> UnixMillis {
        START.plus(self.at_ms)
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.arrive()?;
        let slot = self.slot(self.at_ms);
        for (visitor, deed) in self.agenda.get_mut(slot).map(std::mem::take).unwrap_or_default() {
            self.act(visitor, deed)?;
        }
        self.operate()?;
        self.queue.stock(self.shop.stock(), self.now());

        let before = self.queue.view(self.now());
        let limit = self.shop.health_limit(self.at_ms, &before);
        let input = TickInput { health_limit: Some(limit) };
        self.queue.tick(input, self.now());
        let view = self.queue.view(self.now());
        if view.serving != before.serving {
            self.ledger.check_stock(&view, self.definition.overcommit_percent)?;
            must(view.active + view.unclaimed <= u64::from(limit), || {
                format!("called past a health limit of {limit}")
            })?;
        }
        self.queue.tick(input, self.now());
        must(self.queue.view(self.now()) == view, || "a tick repeated changed something".to_owned())?;

        let shut = limit == 0 && self.limit == 0;
        self.limit = limit;
        self.ledger.close_step(self.at_ms, &view, shut)?;
        self.note_draw(&view)?;
        self.note_calls(&view)?;
        self.ask_around(&view)?;
        self.keep(&view)
    }

    fn slot(&self, at_ms: u64) -> usize {
        usize::try_from(at_ms.div_ceil(STEP_MS)).unwrap_or(usize::MAX)
    }

    fn later(&mut self, visitor: u32, deed: Deed, after_ms: u64) {
        let slot = self.slot(self.at_ms + after_ms.max(STEP_MS));
        if self.agenda.len() <= slot {
            self.agenda.resize_with(slot + 1, Vec::new);
        }
        self.agenda[slot].push((visitor, deed));
    }

    // === joining ===

    fn arrive(&mut self) -> Result<(), Violation> {
        let come = crowd::arrived(self.scenario.visitors, self.at_ms) as usize;
        while self.visitors.len() < come {
            let visitor = u32::try_from(self.visitors.len()).unwrap_or(NOBODY);
            self.visitors.push(Visitor { arrival: NOBODY, status: Status::Gone });
            self.join(visitor, false)?;
            let character = crowd::character(self.scenario.seed, visitor);
            if character.joins_twice {
                self.join_from_another_tab(visitor)?;
            }
            if character.intent == Intent::Leave {
                let after = self.dice.about(600_000);
                self.later(visitor, Deed::Leave, after);
            }
        }
        Ok(())
    }

    /// A first join, or one for a new ticket at the back.
    fn join(&mut self, visitor: u32, again: bool) -> Result<(), Violation> {
        let key = crowd::key(&self.definition.id, visitor);
        let phase = self.queue.view(self.now()).phase;
        let joined = match self.queue.join(key, JoinOptions { again, ..JoinOptions::default() }, self.now()) {
            Ok(joined) => joined,
            Err(JoinRefusal::SoldOut) if phase == Phase::SoldOut => {
                self.refused_joins += 1;
                return Ok(());
            }
            Err(refusal) => {
                return Err(Violation(format!("join refused while {}: {refusal}", phase.as_str())));
            }
        };
        let next = self.holders.len() as u64;
        must(joined.new && joined.arrival.0 == next, || format!("{joined:?} given for number {next}"))?;
        self.holders.push(visitor);
        self.visitors[visitor as usize] =
            Visitor { arrival: u32::try_from(next).unwrap_or(NOBODY), status: Status::Waiting };
        Ok(())
    }

    fn join_from_another_tab(&mut self, visitor: u32) -> Result<(), Violation> {
        let Visitor { arrival, status } = self.visitors[visitor as usize];
        if status == Status::Gone {
            return Ok(());
        }
        let key = crowd::key(&self.definition.id, visitor);
        let again = self.dice.percent(50);
        let joined = self.queue.join(key, JoinOptions { again, ..JoinOptions::default() }, self.now());
        let same = joined.is_ok_and(|joined| !joined.new && joined.arrival.0 == u64::from(arrival));
        must(same, || format!("visitor {visitor} with arrival {arrival} joined twice: {joined:?}"))
    }

    // === what visitors do ===

    fn act(&mut self, visitor: u32, deed: Deed) -> Result<(), Violation> {
        let Visitor { arrival, status } = self.visitors[visitor as usize];
        let arrival = Arrival(u64::from(arrival));
        match (deed, status) {
            (Deed::Claim, Status::Waiting) => self.claim(visitor),
            (Deed::Leave, Status::Waiting) => self.leave(visitor),
            (Deed::Hold, Status::Admitted) => {
                if self.shop.hold() {
                    self.queue.lease(arrival, LeaseEvent::Holding, self.now());
                    let pays = self.dice.percent(95);
                    let after = self.dice.about(40_000);
                    self.later(visitor, if pays { Deed::Pay } else { Deed::LetGo }, after);
                    Ok(())
                } else {
                    self.end(visitor)
                }
            }
            (Deed::Pay, Status::Admitted) => {
                self.shop.sell();
                self.end(visitor)
            }
            (Deed::LetGo, Status::Admitted) => {
                self.shop.release();
                self.end(visitor)
            }
            (Deed::GiveUp, Status::Admitted) => {
                self.end(visitor)?;
                // Some think better of it, at the back.
                if self.dice.percent(5) { self.join_again(visitor) } else { Ok(()) }
            }
            (Deed::Expire, Status::Admitted) => {
                self.visitors[visitor as usize].status = Status::Done;
                self.ledger.active -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn position(&self, arrival: u32) -> Position {
        let arrival = Arrival(u64::from(arrival));
        Position { arrival, place: self.places.as_ref().map(|places| places.place(arrival)) }
    }

    fn claim(&mut self, visitor: u32) -> Result<(), Violation> {
        let arrival = self.visitors[visitor as usize].arrival;
        let position = self.position(arrival);
        let late = crowd::character(self.scenario.seed, visitor).intent == Intent::ComeLate;
        let claimed = match self.queue.claim(position, self.now()) {
            Ok(claimed) => claimed,
            Err(ClaimRefusal::SoldOut) if self.queue.view(self.now()).phase == Phase::SoldOut => {
                return Ok(());
            }
            Err(ClaimRefusal::RecallPending) if late => {
                self.later(visitor, Deed::Claim, 5_000);
                return Ok(());
            }
            // The recall itself lapsed, or the grace was over.
            Err(ClaimRefusal::Lapsed) if late => return Ok(()),
            Err(refusal) => {
                return Err(Violation(format!("{position:?} called and not admitted: {refusal}")));
            }
        };
        must(Some(claimed.place) == position.place, || format!("{position:?} admitted as {claimed:?}"))?;
        let again = self.queue.claim(position, self.now());
        must(again == Ok(claimed), || format!("{claimed:?}, the second time {again:?}"))?;
        self.visitors[visitor as usize].status = Status::Admitted;
        self.ledger.active += 1;
        self.claims += 1;
        self.recalls += u64::from(late);

        let (deed, after) = match self.dice.below(10) {
            0..7 => (Deed::Hold, self.dice.about(20_000)),
            7..9 => (Deed::GiveUp, self.dice.about(30_000)),
            _ => (Deed::Expire, 0),
        };
        let lease_ms = claimed.expires_at.since(self.now());
        self.later(visitor, deed, if matches!(deed, Deed::Expire) { lease_ms } else { after });
        Ok(())
    }

    fn end(&mut self, visitor: u32) -> Result<(), Violation> {
        let arrival = self.visitors[visitor as usize].arrival;
        self.queue.lease(Arrival(u64::from(arrival)), LeaseEvent::Ended, self.now());
        self.visitors[visitor as usize].status = Status::Done;
        self.ledger.active -= 1;
        let again = self.queue.claim(self.position(arrival), self.now());
        must(again == Err(ClaimRefusal::Ended), || format!("arrival {arrival} admitted twice: {again:?}"))
    }

    fn join_again(&mut self, visitor: u32) -> Result<(), Violation> {
        self.rejoins += 1;
        self.join(visitor, true)
    }

    fn leave(&mut self, visitor: u32) -> Result<(), Violation> {
        let position = self.position(self.visitors[visitor as usize].arrival);
        let left = self.queue.leave(position, self.now());
        must(left.is_ok(), || format!("{position:?} could not leave: {left:?}"))?;
        self.visitors[visitor as usize].status = Status::Gone;
        let claimed = self.queue.claim(position, self.now());
        must(claimed == Err(ClaimRefusal::Left), || format!("{position:?} left and claimed: {claimed:?}"))
    }

    fn operate(&mut self) -> Result<(), Violation> {
        let reason = PauseReason { text: "The shop needs a moment.".to_owned(), ..PauseReason::default() };
        let command = match self.at_ms {
            PAUSE_MS => Command::Pause { reason },
            RESUME_MS => Command::Resume,
            _ => return Ok(()),
        };
        let done = self.queue.command(&command, self.now());
        must(done.is_ok(), || format!("{command:?}: {done:?}"))
    }

    // === what is seen ===

    fn note_draw(&mut self, view: &SaleView) -> Result<(), Violation> {
        if self.places.is_some() {
            return Ok(());
        }
        let Some(draw) = view.draw.as_ref() else { return Ok(()) };
        let (Some(size), Some(seed), Some(Source::Secret(secret))) =
            (draw.state.size(), draw.state.seed(), &draw.source)
        else {
            return Ok(());
        };
        // As anybody can: from the published manifest, number and secret.
        let recomputed = ropeline_queue::draw::seed(draw.manifest.canonical().as_bytes(), size, secret);
        must(recomputed == seed, || "the seed does not follow from what was published".to_owned())?;
        let commitment = ropeline_queue::draw::commitment(secret);
        must(draw.manifest.randomness == Promise::Secret { commitment }, || "another secret".to_owned())?;
        let places = Shuffle::new(seed, size).places();
        self.arrivals = vec![NOBODY; size as usize];
        for (arrival, place) in (0..).zip(places.as_slice()) {
            self.arrivals[*place as usize] = arrival;
        }
        must(!self.arrivals.contains(&NOBODY), || "the draw is no permutation".to_owned())?;
        self.places = Some(places);
        self.memory = Memory::of(&self.queue);
        Ok(())
    }

    fn arrival_at(&self, place: Place) -> Option<u32> {
        let place = usize::try_from(place.0).ok()?;
        self.arrivals.get(place).copied().or_else(|| u32::try_from(place).ok())
    }

    fn note_calls(&mut self, view: &SaleView) -> Result<(), Violation> {
        while (self.called_ms.len() as u64) < view.serving.0 {
            let place = Place(self.called_ms.len() as u64);
            self.called_ms.push(self.at_ms);
            let Some(arrival) = self.arrival_at(place) else { continue };
            let visitor = self.holders[arrival as usize];
            let Visitor { arrival: held, status } = self.visitors[visitor as usize];
            if held != arrival || status != Status::Waiting {
                continue;
            }
            let after = match crowd::character(self.scenario.seed, visitor).intent {
                Intent::Shop | Intent::Leave => 1_000 + self.dice.about(15_000),
                Intent::ComeLate => 125_000 + self.dice.below(150_000),
                Intent::StayAway => continue,
            };
            self.later(visitor, Deed::Claim, after);
        }
        let any = self.dice.below(view.next_arrival.0.max(1));
        let position = self.position(u32::try_from(any).unwrap_or(NOBODY));
        let asked = view.position(position.arrival);
        must(self.places.is_none() || asked == position, || format!("{asked:?}, should be {position:?}"))
    }

    /// A few at random: nobody uncalled gets in, everybody keeps their number, and the ETA is remembered.
    fn ask_around(&mut self, view: &SaleView) -> Result<(), Violation> {
        let all = view.next_arrival.0;
        let waiting = all - view.serving.0;
        if waiting == 0 {
            return Ok(());
        }
        for _ in 0..3 {
            let place = Place(view.serving.0 + self.dice.below(waiting));
            let Some(arrival) = self.arrival_at(place) else {
                continue;
            };
            let visitor = self.holders[arrival as usize];
            if self.visitors[visitor as usize].status != Status::Waiting {
                continue;
            }
            self.join_from_another_tab(visitor)?;
            let claimed = self.queue.claim(self.position(arrival), self.now());
            let refused = matches!(claimed, Err(ClaimRefusal::NotCalled | ClaimRefusal::SoldOut));
            must(refused, || format!("arrival {arrival} jumped the queue: {claimed:?}"))?;
        }
        let eta = |place: Place| report::eta(view, place);
        if let (Some(before), Some(now)) = (self.last_eta, report::eta_of(view, 100_000)) {
            let leapt = now.high_s * 3 > before.high_s * 4 + 6 || before.low_s * 3 > now.low_s * 4 + 6;
            must(!leapt, || format!("the ETA leapt from {before:?} to {now:?}"))?;
        }
        self.last_eta = report::eta_of(view, 100_000).or(self.last_eta);
        if view.phase == Phase::Open && self.at_ms.is_multiple_of(SAMPLE_MS) {
            for _ in 0..SAMPLES {
                let place = Place(view.serving.0 + self.dice.below(waiting));
                match eta(place) {
                    Some(range) => self.samples.push(EtaSample { place, at_ms: self.at_ms, range }),
                    None => self.unknown += 1,
                }
            }
        }
        Ok(())
    }

    // === the store ===

    fn keep(&mut self, view: &SaleView) -> Result<(), Violation> {
        let changes = self.queue.take_changes();
        if changes.core {
            self.kept.core.clone_from(self.queue.core());
        }
        self.kept.joins.extend(changes.joins);
        self.kept.admissions.extend(changes.admissions.into_iter().map(|record| (record.arrival, record)));
        self.kept.left.extend(changes.left);
        if RESTARTS_MS.contains(&self.at_ms) { self.restart(view) } else { Ok(()) }
    }

    fn restart(&mut self, view: &SaleView) -> Result<(), Violation> {
        let restored =
            serde_json::to_vec(&self.kept.core).and_then(|core| serde_json::from_slice::<Core>(&core));
        let core = restored.map_err(|error| Violation(error.to_string()))?;
        let admissions = self.kept.admissions.values().copied();
        let joins = self.kept.joins.iter().copied();
        let left = self.kept.left.iter().copied();
        self.queue = Queue::restore(self.definition.clone(), core, joins, admissions, left);
        let after = self.queue.view(self.now());
        must(after == *view, || format!("a restart changed the sale: {view:?} is now {after:?}"))
    }

    fn finish(mut self, sold_out_ms: u64) -> Result<Report, Violation> {
        let view = self.queue.view(self.now());
        let units = self.scenario.units();
        must(self.shop.sold == units, || format!("{} sold of {units}", self.shop.sold))?;
        must(self.shop.held == 0 && self.shop.available == 0, || "units are left".to_owned())?;
        must(view.totals.claimed == self.claims, || {
            format!("{} claims, should be {}", view.totals.claimed, self.claims)
        })?;
        for visitor in 0..u32::try_from(self.visitors.len()).unwrap_or(NOBODY) {
            let Visitor { arrival, status } = self.visitors[visitor as usize];
            let held = self.queue.held(&crowd::key(&self.definition.id, visitor));
            let expected = (status != Status::Gone).then_some(Arrival(u64::from(arrival)));
            let held = held.map(|record| record.arrival);
            must(held == expected, || format!("visitor {visitor} holds {held:?}, should hold {expected:?}"))?;
        }
        let places = self.places.take().ok_or_else(|| Violation("no draw was made".to_owned()))?;
        report::write(&report::Facts {
            view: &view,
            places: &places,
            called_ms: &self.called_ms,
            samples: &self.samples,
            unknown: self.unknown,
            recalls: self.recalls,
            rejoins: self.rejoins,
            refused_joins: self.refused_joins,
            busiest: self.ledger.busiest,
            max_active: self.definition.max_active,
            sold_out_after_s: (sold_out_ms - OPEN_MS) / 1_000,
            at_draw: self.memory,
            at_end: Memory::of(&self.queue),
        })
    }
}
