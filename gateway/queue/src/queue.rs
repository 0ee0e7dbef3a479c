//! The whole machine of one sale.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::calls::CallBatch;
use crate::definition::SaleDefinition;
use crate::draw::{Prepared, Shuffle};
use crate::flow::Backlog;
use crate::lane::{Lane, Lines};
use crate::outcome::{
    AdmissionRecord, AdmissionState, Changes, ClaimRefusal, Claimed, JoinOptions, JoinRecord, JoinRefusal,
    Joined, LeaseEvent, LeaveRefusal, TickInput,
};
use crate::state::{Core, cadence_ms};
use crate::types::{Arrival, MAX_ARRIVALS, Phase, Place, Position, Stock, UnixMillis, VisitorKey};
use crate::vacant::Stretches;
use crate::view::{DrawView, LineView, SaleView};
use crate::visitors::{InsertError, VisitorMap};

use self::journal::{Journal, Step};
pub use self::putting_back::PutBack;

mod calling;
mod clock;
mod forgetting;
mod journal;
mod lanes;
mod loss;
mod missing;
mod operator;
mod putting_back;
mod replica;
mod shared_health;
#[cfg(test)]
mod tests;

/// One sale's queue in memory.
///
/// Every event carries `now`. A clock that steps back is held at the latest time seen, so a store should hand
/// in a clock that follows the monotonic one. Each event first does what the clock has made due and last calls
/// whoever may be called; what a store has to keep is collected until [`Queue::take_changes`].
#[derive(Debug)]
pub struct Queue {
    definition: Arc<SaleDefinition>,
    core: Core,
    lines: Lines<Line>,
    admissions: HashMap<Arrival, Admission>,
    /// Everybody who left before being called.
    left: HashSet<Arrival>,
    leases: BTreeSet<(UnixMillis, Arrival)>,
    recall_windows: BTreeSet<(UnixMillis, Arrival)>,
    /// Admissions with a unit on hold.
    holding: u64,
    /// The last tick's; none until the first tick, and until then nobody is called.
    health: Option<TickInput>,
    /// What each line's flow was last told; a function of the state, kept to notice when it changes.
    backlogs: Lines<Backlog>,
    /// What the clock made due is done up to here.
    advanced_to: Option<UnixMillis>,
    pending: Pending,
    /// What to take back on [`Queue::undo`]; none outside of a batch that may be undone.
    journal: Option<Box<Journal>>,
}

/// One order of visitors: the sale's, or a lane's.
#[derive(Debug)]
struct Line {
    visitors: VisitorMap,
    /// Invitations that are good for one, under the number that each has given.
    invitations: VisitorMap,
    /// Places of those who left, as far as they are known and not yet called.
    left_places: BTreeSet<Place>,
    /// Those of them past the draw that a loss has passed over.
    vacant: Stretches,
    recalls: BTreeMap<Place, Arrival>,
    /// The draw's, once made: kept, because its pivots are half the work of a place.
    shuffle: Option<Prepared>,
}

impl Line {
    fn new(lane: Lane) -> Self {
        let base = Arrival(lane.base());
        Self {
            visitors: VisitorMap::from(base.0),
            invitations: VisitorMap::from(base.invitation().0),
            left_places: BTreeSet::new(),
            vacant: Stretches::default(),
            recalls: BTreeMap::new(),
            shuffle: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Admission {
    place: Place,
    state: AdmissionState,
}

/// What has changed and was not yet taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pending {
    core: bool,
    definition: bool,
    joins: Vec<JoinRecord>,
    invitations: Vec<JoinRecord>,
    admissions: BTreeSet<Arrival>,
    left: Vec<Arrival>,
    vacated: Vec<Arrival>,
    forgotten: bool,
}

// === impl Queue ===

impl Queue {
    /// A new sale. `draw_secret` is 32 random bytes that only the operator's machines know until the draw.
    pub fn create(definition: SaleDefinition, draw_secret: [u8; 32], now: UnixMillis) -> Self {
        let core = Core::new(&definition, draw_secret, now);
        let mut queue = Self::empty(definition, core);
        queue.pending.core = true;
        queue.pending.definition = true;
        queue.advance(now);
        queue
    }

    /// The sale as a store kept it: each collection is what [`Changes`] have added up to, joins by ascending
    /// arrival. Joins that were forgotten may be among them still. Records that contradict each other are passed over
    /// in favour of the earlier visitor of a number.
    pub fn restore(
        definition: SaleDefinition,
        core: Core,
        joins: impl IntoIterator<Item = JoinRecord>,
        admissions: impl IntoIterator<Item = AdmissionRecord>,
        left: impl IntoIterator<Item = Arrival>,
    ) -> Self {
        let mut queue = Self::empty(definition, core);
        queue.absorb(joins, admissions, left);
        queue.find_left_places();
        queue.settle_backlogs();
        queue
    }

    fn empty(definition: SaleDefinition, core: Core) -> Self {
        let lanes = core.lines.count();
        let mut queue = Self {
            definition: Arc::new(definition),
            core,
            lines: Lines::new(lanes, Line::new),
            admissions: HashMap::new(),
            left: HashSet::new(),
            leases: BTreeSet::new(),
            recall_windows: BTreeSet::new(),
            holding: 0,
            health: None,
            backlogs: Lines::new(lanes, |_| Backlog::Stopped),
            advanced_to: None,
            pending: Pending::default(),
            journal: None,
        };
        queue.shuffle();
        queue
    }

    /// Makes ready what gives the places of a draw that was made.
    fn shuffle(&mut self) {
        for (line, core) in self.lines.iter_mut().zip(self.core.lines.iter()) {
            line.shuffle = core.draw.shuffle().map(Shuffle::prepare);
        }
    }

    /// As many lines as the sale has lanes: they change before anybody has joined.
    fn fit_lines(&mut self) {
        let lanes = self.core.lines.count();
        if self.lines.count() != lanes {
            self.lines = Lines::new(lanes, Line::new);
            self.backlogs = Lines::new(lanes, |_| Backlog::Stopped);
        }
    }

    /// The definition in force.
    pub const fn definition(&self) -> &Arc<SaleDefinition> {
        &self.definition
    }

    /// What a store writes when [`Changes::core`] is set.
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// The joins of the visitors who hold a ticket, and the invitations that are good for one, each under its number;
    /// ascending.
    pub fn joins(&self) -> impl Iterator<Item = JoinRecord> {
        let visitors = self.lines.iter().flat_map(|line| line.visitors.iter());
        visitors.chain(self.lines.iter().flat_map(|line| line.invitations.iter()))
    }

    /// The visitors who hold a ticket of a lane, if there is such a lane.
    pub fn visitors(&self, lane: Lane) -> Option<&VisitorMap> {
        self.lines.get(lane).map(|line| &line.visitors)
    }

    /// The ticket of a visitor.
    pub fn held(&self, visitor: &VisitorKey) -> Option<JoinRecord> {
        self.lines.iter().find_map(|line| line.visitors.get(visitor))
    }

    /// The visitor who holds a number.
    pub fn holder(&self, arrival: Arrival) -> Option<JoinRecord> {
        self.map(arrival)?.at(arrival)
    }

    /// Where a number is looked up.
    fn map(&self, arrival: Arrival) -> Option<&VisitorMap> {
        let line = self.lines.get(arrival.lane())?;
        Some(if arrival.is_invitation() { &line.invitations } else { &line.visitors })
    }

    fn map_mut(&mut self, arrival: Arrival) -> Option<&mut VisitorMap> {
        let line = self.lines.get_mut(arrival.lane())?;
        Some(if arrival.is_invitation() { &mut line.invitations } else { &mut line.visitors })
    }

    /// The called tickets that have claimed, come back or left, in no order.
    pub fn admissions(&self) -> impl Iterator<Item = AdmissionRecord> {
        let record = |(arrival, admission): (&Arrival, &Admission)| AdmissionRecord {
            arrival: *arrival,
            place: admission.place,
            state: admission.state,
        };
        self.admissions.iter().map(record)
    }

    /// Those who left before they were called, in no order.
    pub fn left(&self) -> impl Iterator<Item = Arrival> {
        self.left.iter().copied()
    }

    /// Takes what has changed since the last time.
    pub fn take_changes(&mut self) -> Changes {
        let Pending { core, definition, mut joins, mut invitations, admissions, left, vacated, forgotten } =
            std::mem::take(&mut self.pending);
        joins.append(&mut invitations);
        let record = |arrival| {
            let admission = self.admissions.get(&arrival)?;
            Some(AdmissionRecord { arrival, place: admission.place, state: admission.state })
        };
        Changes {
            core,
            definition,
            joins,
            admissions: admissions.into_iter().filter_map(record).collect(),
            left,
            vacated,
            forgotten: if forgotten { self.forgotten() } else { Vec::new() },
        }
    }

    /// Gives a visitor a number, or the one they have. With `again`, a visitor whose ticket is used up gets a
    /// new one at the back of its lane; a ticket that can still be called or claimed is never exchanged. But whoever waits
    /// in the lane that takes everybody, and shows an invitation, goes over to the back of the lane it is for. With
    /// `known_only`, nobody gets a first number; whoever could have had one is told so.
    ///
    /// # Errors
    /// When a new number would be needed and cannot be given.
    pub fn join(
        &mut self,
        visitor: VisitorKey,
        options: JoinOptions,
        now: UnixMillis,
    ) -> Result<Joined, JoinRefusal> {
        self.advance(now);
        let held = self.held(&visitor);
        let exchanged = held.is_none_or(|held| {
            (options.again && self.is_used_up(held.arrival)) || self.goes_over(held.arrival, options.invited)
        });
        if let (Some(held), false) = (held, exchanged) {
            return Ok(self.joined(held, false));
        }
        match (self.core.phase(), held) {
            (Phase::Scheduled, _) => return Err(JoinRefusal::NotYetOpen),
            // Who waits has nothing to go over for.
            (Phase::Closed | Phase::SoldOut, Some(held)) if !options.again => {
                return Ok(self.joined(held, false));
            }
            (Phase::Closed, _) => return Err(JoinRefusal::Closed),
            (Phase::SoldOut, _) => return Err(JoinRefusal::SoldOut),
            (Phase::PreQueue | Phase::Drawing | Phase::Open | Phase::Paused, _) => {}
        }
        let lane = self.lane_to_join(held, options.invited)?;
        let once = self.invitation_of(lane, held, options.invited)?;
        if options.known_only && held.is_none() {
            return Err(JoinRefusal::NotKnown);
        }
        let next = Arrival(self.core.lines[lane].next_arrival);
        if next.number() >= MAX_ARRIVALS {
            return Err(JoinRefusal::Full);
        }
        let joined_at = u32::try_from(self.core.last_now.seconds()).unwrap_or(u32::MAX);
        let record = JoinRecord { arrival: next, visitor, joined_at };
        // The number is new and the newest, so only its being past the last can be refused.
        self.enter(record).map_err(|_| JoinRefusal::Full)?;
        match held {
            Some(held) if held.arrival.lane() != lane => self.give_up_elsewhere(held.arrival),
            Some(held) => {
                self.pending.vacated.push(held.arrival);
                self.give_up(held.arrival);
            }
            None => {}
        }
        if let Some(once) = once {
            self.keep_invitation(JoinRecord { arrival: next.invitation(), visitor: once, joined_at });
        }
        self.core.lines[lane].next_arrival += 1;
        self.pending.core = true;
        self.pending.joins.push(record);
        self.call_earned();
        Ok(self.joined(record, true))
    }

    fn joined(&self, record: JoinRecord, new: bool) -> Joined {
        let JoinRecord { arrival, joined_at, .. } = record;
        Joined { arrival, joined_at: u64::from(joined_at), epoch: self.core.epoch, new }
    }

    /// The ticket was called and can never be claimed (again) unless it is recalled.
    fn is_used_up(&self, arrival: Arrival) -> bool {
        match self.admissions.get(&arrival).map(|admission| admission.state) {
            Some(AdmissionState::Ended | AdmissionState::Lapsed | AdmissionState::Left) => true,
            Some(
                AdmissionState::Claimed { .. }
                | AdmissionState::RecallPending { .. }
                | AdmissionState::Recalled { .. },
            ) => false,
            None => match self.place(arrival) {
                Some(place) if self.is_called(place) => {
                    self.core.lines[place.lane()].calls.find(place).is_none_or(|batch| batch.lapsed)
                }
                _ => false,
            },
        }
    }

    /// The place of an arrival, as soon as there is one.
    fn place(&self, arrival: Arrival) -> Option<Place> {
        match &self.lines.get(arrival.lane())?.shuffle {
            Some(shuffle) => Some(shuffle.place(arrival)),
            None => self.core.lines[arrival.lane()].draw.place(arrival),
        }
    }

    /// The place, which is one of this sale's, has been called.
    fn is_called(&self, place: Place) -> bool {
        self.core.lines.get(place.lane()).is_some_and(|line| place < line.serving)
    }

    /// The call that a place belongs to.
    fn call_of(&mut self, place: Place) -> Option<&mut CallBatch> {
        self.core.lines.get_mut(place.lane())?.calls.find_mut(place)
    }

    /// A visitor who takes a new number cannot be recalled on the old one. The old one is left, if it was drawn: its join
    /// stays on record, and must not be taken for the visitor's once the newer one is forgotten.
    fn give_up(&mut self, arrival: Arrival) {
        let Some(place) = self.place(arrival) else { return };
        if arrival.0 < self.core.lines[arrival.lane()].drawn().end {
            self.set(arrival, place, AdmissionState::Left);
        } else if !self.admissions.contains_key(&arrival) {
            self.set(arrival, place, AdmissionState::Lapsed);
        }
    }

    /// Admits a called ticket. The same answer is given until the lease ends, through pause, sold out and close.
    ///
    /// The place a caller gives is only believed when it says "not yet": a claim that would change something
    /// computes it anew. A lapsed ticket that comes within the grace is recalled, at once if there is room.
    ///
    /// # Errors
    /// When the ticket is not admitted; [`ClaimRefusal::RecallPending`] and [`ClaimRefusal::NotCalled`] can
    /// change by themselves.
    pub fn claim(&mut self, position: Position, now: UnixMillis) -> Result<Claimed, ClaimRefusal> {
        self.advance(now);
        self.call_earned();
        let arrival = position.arrival;
        if self.core.lane_of(arrival).is_none() {
            return Err(ClaimRefusal::Unknown);
        }
        if self.left.contains(&arrival) {
            return Err(ClaimRefusal::Left);
        }
        if let Some(admission) = self.admissions.get(&arrival).copied() {
            return self.claim_again(arrival, admission);
        }
        self.refuse_when_over()?;
        let Some(place) = position.place.filter(|place| self.is_called(*place)) else {
            return Err(ClaimRefusal::NotCalled);
        };
        if self.place(arrival) != Some(place) {
            return Err(ClaimRefusal::Unknown);
        }
        if self.is_absent(arrival) {
            return match self.recall_absent(arrival, place) {
                Some(admission) => self.claim_again(arrival, admission),
                None => Err(ClaimRefusal::RecallPending),
            };
        }
        let too_many = self.has_called_too_many();
        let (lease_ms, at_once) = match self.call_of(place) {
            None => return Err(ClaimRefusal::Lapsed),
            Some(batch) if batch.lapsed => (batch.lease_ms, false),
            Some(batch) => {
                // Whether or not there is room for them: they are not among those who may be inside unseen.
                batch.claimed += 1;
                (batch.lease_ms, !too_many)
            }
        };
        if at_once {
            return Ok(self.admit(arrival, place, lease_ms));
        }
        self.set(arrival, place, AdmissionState::RecallPending { lease_ms });
        self.call_earned();
        match self.admissions.get(&arrival).copied() {
            Some(admission @ Admission { state: AdmissionState::Recalled { .. }, .. }) => {
                self.claim_again(arrival, admission)
            }
            _ => Err(ClaimRefusal::RecallPending),
        }
    }

    /// A loss can take with it that calls have lapsed, in whose place others were called: more may come then than there is
    /// room for, and are called again when there is.
    fn has_called_too_many(&self) -> bool {
        self.core.unsettled_until.is_some_and(|until| self.core.last_now < until)
            && self.busy() > u64::from(self.definition.max_active)
    }

    fn claim_again(&mut self, arrival: Arrival, admission: Admission) -> Result<Claimed, ClaimRefusal> {
        match admission.state {
            AdmissionState::Claimed { claimed_at, expires_at, .. } => {
                Ok(Claimed { place: admission.place, claimed_at, expires_at, epoch: self.core.epoch })
            }
            AdmissionState::Ended => Err(ClaimRefusal::Ended),
            AdmissionState::Lapsed => Err(ClaimRefusal::Lapsed),
            AdmissionState::Left => Err(ClaimRefusal::Left),
            AdmissionState::RecallPending { .. } => {
                self.refuse_when_over()?;
                Err(ClaimRefusal::RecallPending)
            }
            AdmissionState::Recalled { lease_ms, .. } => {
                self.refuse_when_over()?;
                if self.has_called_too_many() {
                    self.set(arrival, admission.place, AdmissionState::RecallPending { lease_ms });
                    return Err(ClaimRefusal::RecallPending);
                }
                Ok(self.admit(arrival, admission.place, lease_ms))
            }
        }
    }

    fn refuse_when_over(&self) -> Result<(), ClaimRefusal> {
        match self.core.phase() {
            Phase::SoldOut => Err(ClaimRefusal::SoldOut),
            Phase::Closed => Err(ClaimRefusal::Closed),
            Phase::Scheduled | Phase::PreQueue | Phase::Drawing | Phase::Open | Phase::Paused => Ok(()),
        }
    }

    fn admit(&mut self, arrival: Arrival, place: Place, lease_ms: Option<u64>) -> Claimed {
        let claimed_at = self.core.last_now;
        let expires_at = claimed_at.plus(lease_ms.unwrap_or(self.definition.lease_ms));
        self.set(arrival, place, AdmissionState::Claimed { claimed_at, expires_at, holding: false });
        self.core.totals.claimed += 1;
        self.pending.core = true;
        Claimed { place, claimed_at, expires_at, epoch: self.core.epoch }
    }

    /// Takes a visitor out: frees the place, the call or the lease. Leaving twice is leaving once. Who leaves
    /// and joins again is a new arrival.
    ///
    /// # Errors
    /// When the queue never gave the ticket.
    pub fn leave(&mut self, position: Position, now: UnixMillis) -> Result<(), LeaveRefusal> {
        self.advance(now);
        self.take_out(position.arrival)?;
        self.call_earned();
        Ok(())
    }

    fn take_out(&mut self, arrival: Arrival) -> Result<(), LeaveRefusal> {
        if self.core.lane_of(arrival).is_none() {
            return Err(LeaveRefusal::Unknown);
        }
        if self.left.contains(&arrival) || self.is_forgotten(arrival) {
            return Ok(());
        }
        match self.admissions.get(&arrival).copied() {
            Some(Admission { state: AdmissionState::Left, .. }) => return Ok(()),
            Some(Admission { place, state }) => {
                if matches!(state, AdmissionState::Claimed { .. }) {
                    self.core.totals.ended += 1;
                }
                self.set(arrival, place, AdmissionState::Left);
            }
            None => self.leave_unclaimed(arrival),
        }
        self.vacate(arrival);
        self.core.totals.left += 1;
        self.pending.core = true;
        Ok(())
    }

    /// For a ticket that nothing is on record of but its number.
    fn leave_unclaimed(&mut self, arrival: Arrival) {
        match self.place(arrival) {
            Some(place) if self.is_called(place) => {
                // Of those that a loss has passed over, the calls count none.
                if !self.is_absent(arrival)
                    && let Some(batch) = self.call_of(place).filter(|batch| !batch.lapsed)
                {
                    batch.gone += 1;
                }
                self.set(arrival, place, AdmissionState::Left);
            }
            _ => self.leave_uncalled(arrival),
        }
    }

    /// The invitation that gave the number is good again.
    fn leave_uncalled(&mut self, arrival: Arrival) {
        if let Some(place) = self.place(arrival) {
            self.add_left_place(place);
        }
        self.add_left(arrival);
        self.pending.left.push(arrival);
        self.vacate(arrival.invitation());
    }

    /// Takes in what the shop says about an admitted visitor; a ticket without a running lease is passed over.
    pub fn lease(&mut self, arrival: Arrival, event: LeaseEvent, now: UnixMillis) {
        self.advance(now);
        let Some(admission) = self.admissions.get(&arrival).copied() else { return };
        let AdmissionState::Claimed { claimed_at, expires_at, holding } = admission.state else { return };
        match event {
            LeaseEvent::Holding | LeaseEvent::Released => {
                let holds = event == LeaseEvent::Holding;
                if holds == holding {
                    return;
                }
                let state = AdmissionState::Claimed { claimed_at, expires_at, holding: holds };
                self.set(arrival, admission.place, state);
            }
            LeaseEvent::Ended => self.end_lease(arrival, admission.place),
        }
        self.call_earned();
    }

    fn end_lease(&mut self, arrival: Arrival, place: Place) {
        self.set(arrival, place, AdmissionState::Ended);
        self.core.totals.ended += 1;
        self.pending.core = true;
    }

    /// Takes in what the shop says is left. Nothing left means sold out, until there is something again.
    pub fn stock(&mut self, stock: Stock, now: UnixMillis) {
        self.advance(now);
        if self.core.stock != Some(stock) {
            self.core.stock = Some(stock);
            self.pending.core = true;
            self.settle_stock();
        }
        self.call_earned();
    }

    /// Does what time has made due. Ticking again at the same time with the same input changes nothing, so any
    /// number of gateways may tick.
    pub fn tick(&mut self, input: TickInput, now: UnixMillis) {
        self.health = Some(input);
        self.advance(now);
        self.call_earned();
    }

    /// The sale as everybody else may know it.
    pub fn view(&self, now: UnixMillis) -> SaleView {
        let core = &self.core;
        let draw = core.manifest(&self.definition).map(|manifest| DrawView {
            manifest,
            state: core.lines.first.draw,
            lanes: core.lines.rest.iter().map(|line| line.draw).collect(),
            frozen_at: core.beacon.frozen_at,
            source: core.draw_source(),
        });
        SaleView {
            definition: Arc::clone(&self.definition),
            phase: core.phase(),
            epoch: core.epoch,
            lines: Lines::new(core.lines.count(), |lane| self.line_view(lane, now)),
            halted_since: core.halted_since(),
            draw,
            stock: core.stock,
            paused_reason: core.paused_reason().cloned(),
            active: self.active(),
            holding: self.holding,
            unclaimed: self.unclaimed(),
            recalls: self.lines.iter().map(|line| line.recalls.len() as u64).sum(),
            waiting: self.core.lines.lanes().map(|lane| self.waiting(lane)).sum(),
            claim_ratio: core.ratio.measured(),
            passed_over: core.lines.iter().flat_map(|line| line.skipped.iter().cloned()).collect(),
            losses: core.losses,
            totals: core.totals,
            as_of: core.last_now.max(now),
        }
    }

    fn line_view(&self, lane: Lane, now: UnixMillis) -> LineView {
        let core = &self.core.lines[lane];
        let (rate, rate_below) = self.rate(lane, now);
        LineView {
            next_arrival: Arrival(core.next_arrival),
            serving: core.serving,
            calls: core.calls.clone(),
            waiting: self.waiting(lane),
            vacant: self.vacant(lane),
            rate,
            rate_below,
            cadence_ms: cadence_ms(self.definition.pace, self.definition.share(lane)),
        }
    }

    /// Not yet called, and not left.
    fn waiting(&self, lane: Lane) -> u64 {
        let core = &self.core.lines[lane];
        let left = self.lines[lane].left_places.len() as u64;
        (core.next_arrival - core.serving.0).saturating_sub(left)
    }

    /// The one way an event changes a called ticket's state: it keeps the indexes true and the change recorded.
    fn set(&mut self, arrival: Arrival, place: Place, state: AdmissionState) {
        self.put_admission(arrival, Admission { place, state });
        self.pending.admissions.insert(arrival);
    }

    fn put_admission(&mut self, arrival: Arrival, admission: Admission) {
        let before = self.unindex(arrival);
        self.note(|| Step::Admission(arrival, before));
        self.index(arrival, admission);
    }

    fn drop_admission(&mut self, arrival: Arrival) {
        if let Some(before) = self.unindex(arrival) {
            self.note(|| Step::Admission(arrival, Some(before)));
        }
    }

    fn add_left(&mut self, arrival: Arrival) {
        if self.left.insert(arrival) {
            self.settle_vacant(Place(arrival.0));
            self.note(|| Step::Left(arrival));
        }
    }

    fn drop_left(&mut self, arrival: Arrival) {
        if self.left.remove(&arrival) {
            self.settle_vacant(Place(arrival.0));
            self.note(|| Step::NotLeft(arrival));
        }
    }

    fn add_left_place(&mut self, place: Place) {
        if self.lines[place.lane()].left_places.insert(place) {
            self.settle_vacant(place);
            self.note(|| Step::LeftPlace(place));
        }
    }

    /// Those below have been called.
    fn drop_left_places(&mut self, below: Place) {
        let line = &mut self.lines[below.lane()];
        let kept = line.left_places.split_off(&below);
        let gone = std::mem::replace(&mut line.left_places, kept);
        line.vacant.drop_below(below);
        if !gone.is_empty() {
            self.note(|| Step::LeftPlacesCalled(below.lane(), gone));
        }
    }

    /// Puts a visitor on record, who may give up an older number for this one.
    fn enter(&mut self, record: JoinRecord) -> Result<(), InsertError> {
        // Looked up only for the journal.
        let journaled = self.journal.is_some();
        let past = InsertError::PastTheLast(record.arrival);
        let map = self.map_mut(record.arrival).ok_or(past)?;
        let held = journaled.then(|| map.get(&record.visitor)).flatten();
        map.insert(record)?;
        if held != Some(record) {
            self.note(|| Step::Entered(record, held));
        }
        Ok(())
    }

    fn forget_visitor(&mut self, arrival: Arrival) {
        let Some(map) = self.map_mut(arrival) else { return };
        if let Some(record) = map.at(arrival) {
            map.remove(&record.visitor);
            self.note(|| Step::Forgotten(record));
        }
    }

    /// The number is its visitor's no more.
    fn vacate(&mut self, arrival: Arrival) {
        if self.holder(arrival).is_some() {
            self.forget_visitor(arrival);
            self.pending.vacated.push(arrival);
        }
    }

    /// Takes an arrival off every record.
    fn forget(&mut self, arrival: Arrival) {
        self.drop_admission(arrival);
        self.drop_left(arrival);
        self.forget_visitor(arrival);
        self.forget_visitor(arrival.invitation());
    }

    fn index(&mut self, arrival: Arrival, admission: Admission) {
        match admission.state {
            AdmissionState::Claimed { expires_at, holding, .. } => {
                self.leases.insert((expires_at, arrival));
                self.holding += u64::from(holding);
            }
            AdmissionState::RecallPending { .. } => {
                self.lines[arrival.lane()].recalls.insert(admission.place, arrival);
            }
            AdmissionState::Recalled { until, .. } => {
                self.recall_windows.insert((until, arrival));
                self.core.recalled = self.recall_windows.len() as u64;
            }
            AdmissionState::Ended | AdmissionState::Lapsed | AdmissionState::Left => {}
        }
        self.admissions.insert(arrival, admission);
    }

    fn unindex(&mut self, arrival: Arrival) -> Option<Admission> {
        let admission = self.admissions.remove(&arrival)?;
        match admission.state {
            AdmissionState::Claimed { expires_at, holding, .. } => {
                self.leases.remove(&(expires_at, arrival));
                self.holding -= u64::from(holding);
            }
            AdmissionState::RecallPending { .. } => {
                self.lines[arrival.lane()].recalls.remove(&admission.place);
            }
            AdmissionState::Recalled { until, .. } => {
                self.recall_windows.remove(&(until, arrival));
                self.core.recalled = self.recall_windows.len() as u64;
            }
            AdmissionState::Ended | AdmissionState::Lapsed | AdmissionState::Left => {}
        }
        Some(admission)
    }

    /// Admissions whose lease runs.
    fn active(&self) -> u64 {
        self.leases.len() as u64
    }

    /// Called, by a first or a second call, and not yet claimed.
    fn unclaimed(&self) -> u64 {
        let called: u64 = self.core.lines.iter().map(|line| line.calls.unclaimed()).sum();
        called.saturating_add(self.recall_windows.len() as u64)
    }
}
