//! The whole machine of one sale.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::definition::SaleDefinition;
use crate::draw::{Prepared, Shuffle};
use crate::flow::Backlog;
use crate::outcome::{
    AdmissionRecord, AdmissionState, Changes, ClaimRefusal, Claimed, JoinOptions, JoinRecord, JoinRefusal,
    Joined, LeaseEvent, LeaveRefusal, TickInput,
};
use crate::state::Core;
use crate::types::{Arrival, MAX_ARRIVALS, Phase, Place, Position, Stock, UnixMillis, VisitorKey};
use crate::view::{DrawView, SaleView};
use crate::visitors::{InsertError, VisitorMap};

use self::journal::{Journal, Step};

mod calling;
mod clock;
mod forgetting;
mod journal;
mod loss;
mod operator;
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
    visitors: VisitorMap,
    admissions: HashMap<Arrival, Admission>,
    /// Everybody who left before being called.
    left: HashSet<Arrival>,
    /// Their places, as far as they are known and not yet called.
    left_places: BTreeSet<Place>,
    leases: BTreeSet<(UnixMillis, Arrival)>,
    recall_windows: BTreeSet<(UnixMillis, Arrival)>,
    recalls: BTreeMap<Place, Arrival>,
    /// Admissions with a unit on hold.
    holding: u64,
    /// The draw's, once made: kept, because its pivots are half the work of a place.
    shuffle: Option<Prepared>,
    /// The last tick's; none until the first tick, and until then nobody is called.
    health: Option<TickInput>,
    /// What the flow was last told; a function of the state, kept to notice when it changes.
    backlog: Backlog,
    /// What the clock made due is done up to here.
    advanced_to: Option<UnixMillis>,
    pending: Pending,
    /// What to take back on [`Queue::undo`]; none outside of a batch that may be undone.
    journal: Option<Box<Journal>>,
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
        queue.backlog = queue.present_backlog();
        queue
    }

    fn empty(definition: SaleDefinition, core: Core) -> Self {
        Self {
            shuffle: core.draw.shuffle().map(Shuffle::prepare),
            definition: Arc::new(definition),
            core,
            visitors: VisitorMap::new(),
            admissions: HashMap::new(),
            left: HashSet::new(),
            left_places: BTreeSet::new(),
            leases: BTreeSet::new(),
            recall_windows: BTreeSet::new(),
            recalls: BTreeMap::new(),
            holding: 0,
            health: None,
            backlog: Backlog::Stopped,
            advanced_to: None,
            pending: Pending::default(),
            journal: None,
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

    /// The visitors who hold a ticket.
    pub const fn visitors(&self) -> &VisitorMap {
        &self.visitors
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
        let Pending { core, definition, joins, admissions, left, vacated, forgotten } =
            std::mem::take(&mut self.pending);
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
            forgotten: forgotten.then(|| self.forgotten()),
        }
    }

    /// Gives a visitor a number, or the one they have. With `again`, a visitor whose ticket is used up gets a
    /// new one at the back; a ticket that can still be called or claimed is never exchanged.
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
        let held = self.visitors.get(&visitor);
        if let Some(held) = held
            && !(options.again && self.is_used_up(held.arrival))
        {
            return Ok(self.joined(held, false));
        }
        match self.core.phase() {
            Phase::Scheduled => return Err(JoinRefusal::NotYetOpen),
            Phase::Closed => return Err(JoinRefusal::Closed),
            Phase::SoldOut => return Err(JoinRefusal::SoldOut),
            Phase::PreQueue | Phase::Drawing | Phase::Open | Phase::Paused => {}
        }
        if self.core.next_arrival >= MAX_ARRIVALS {
            return Err(JoinRefusal::Full);
        }
        let joined_at = u32::try_from(self.core.last_now.seconds()).unwrap_or(u32::MAX);
        let record = JoinRecord { arrival: Arrival(self.core.next_arrival), visitor, joined_at };
        // The number is new and the newest, so only its being past the last can be refused.
        self.enter(record).map_err(|_| JoinRefusal::Full)?;
        if let Some(held) = held {
            self.pending.vacated.push(held.arrival);
            self.give_up(held.arrival);
        }
        self.core.next_arrival += 1;
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
                Some(place) if place < self.core.serving => {
                    self.core.calls.find(place).is_none_or(|batch| batch.lapsed)
                }
                _ => false,
            },
        }
    }

    /// The place of an arrival, as soon as there is one.
    fn place(&self, arrival: Arrival) -> Option<Place> {
        match &self.shuffle {
            Some(shuffle) => Some(shuffle.place(arrival)),
            None => self.core.draw.place(arrival),
        }
    }

    /// A visitor who takes a new number cannot be recalled on the old one. The old one is left, if it was drawn: its join
    /// stays on record, and must not be taken for the visitor's once the newer one is forgotten.
    fn give_up(&mut self, arrival: Arrival) {
        let Some(place) = self.place(arrival) else { return };
        if arrival < self.forgotten().start {
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
        if arrival.0 >= self.core.next_arrival {
            return Err(ClaimRefusal::Unknown);
        }
        if self.left.contains(&arrival) {
            return Err(ClaimRefusal::Left);
        }
        if let Some(admission) = self.admissions.get(&arrival).copied() {
            return self.claim_again(arrival, admission);
        }
        self.refuse_when_over()?;
        let Some(place) = position.place.filter(|place| *place < self.core.serving) else {
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
        let lease_ms = match self.core.calls.find_mut(place) {
            None => return Err(ClaimRefusal::Lapsed),
            Some(batch) if batch.lapsed => {
                let lease_ms = batch.lease_ms;
                self.set(arrival, place, AdmissionState::RecallPending { lease_ms });
                self.call_earned();
                return match self.admissions.get(&arrival).copied() {
                    Some(admission) => self.claim_again(arrival, admission),
                    None => Err(ClaimRefusal::RecallPending),
                };
            }
            Some(batch) => {
                batch.claimed += 1;
                batch.lease_ms
            }
        };
        Ok(self.admit(arrival, place, lease_ms))
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
        let arrival = position.arrival;
        if arrival.0 >= self.core.next_arrival {
            return Err(LeaveRefusal::Unknown);
        }
        if self.left.contains(&arrival) || self.forgotten().contains(&arrival) {
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
            None => match self.place(arrival) {
                Some(place) if place < self.core.serving => {
                    // Of those that a loss has passed over, the calls count none.
                    if !self.is_absent(arrival)
                        && let Some(batch) = self.core.calls.find_mut(place).filter(|batch| !batch.lapsed)
                    {
                        batch.gone += 1;
                    }
                    self.set(arrival, place, AdmissionState::Left);
                }
                _ => self.leave_uncalled(arrival),
            },
        }
        self.vacate(arrival);
        self.core.totals.left += 1;
        self.pending.core = true;
        self.call_earned();
        Ok(())
    }

    fn leave_uncalled(&mut self, arrival: Arrival) {
        if let Some(place) = self.place(arrival) {
            self.add_left_place(place);
        }
        self.add_left(arrival);
        self.pending.left.push(arrival);
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
            state: core.draw,
            frozen_at: core.beacon.frozen_at,
            source: core.draw_source(),
        });
        let (rate, rate_below) = self.rate(now);
        SaleView {
            definition: Arc::clone(&self.definition),
            phase: core.phase(),
            epoch: core.epoch,
            next_arrival: Arrival(core.next_arrival),
            serving: core.serving,
            calls: core.calls.clone(),
            halted_since: core.halted_since(),
            draw,
            stock: core.stock,
            paused_reason: core.paused_reason().cloned(),
            active: self.active(),
            holding: self.holding,
            unclaimed: self.unclaimed(),
            recalls: self.recalls.len() as u64,
            waiting: self.waiting(),
            rate,
            rate_below,
            claim_ratio: core.ratio.measured(),
            passed_over: core.skipped.clone(),
            totals: core.totals,
            as_of: core.last_now.max(now),
        }
    }

    /// Not yet called, and not left.
    fn waiting(&self) -> u64 {
        (self.core.next_arrival - self.core.serving.0).saturating_sub(self.left_places.len() as u64)
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
            self.note(|| Step::Left(arrival));
        }
    }

    fn drop_left(&mut self, arrival: Arrival) {
        if self.left.remove(&arrival) {
            self.note(|| Step::NotLeft(arrival));
        }
    }

    fn add_left_place(&mut self, place: Place) {
        if self.left_places.insert(place) {
            self.note(|| Step::LeftPlace(place));
        }
    }

    /// Those below have been called.
    fn drop_left_places(&mut self, below: Place) {
        let kept = self.left_places.split_off(&below);
        let gone = std::mem::replace(&mut self.left_places, kept);
        if !gone.is_empty() {
            self.note(|| Step::LeftPlacesCalled(gone));
        }
    }

    /// Puts a visitor on record, who may give up an older number for this one.
    fn enter(&mut self, record: JoinRecord) -> Result<(), InsertError> {
        // Looked up only for the journal.
        let held = self.journal.as_ref().and_then(|_| self.visitors.get(&record.visitor));
        self.visitors.insert(record)?;
        if held != Some(record) {
            self.note(|| Step::Entered(record.visitor, held));
        }
        Ok(())
    }

    fn forget_visitor(&mut self, arrival: Arrival) {
        if let Some(record) = self.visitors.at(arrival) {
            self.visitors.remove(&record.visitor);
            self.note(|| Step::Forgotten(record));
        }
    }

    /// The number is its visitor's no more.
    fn vacate(&mut self, arrival: Arrival) {
        if self.visitors.at(arrival).is_some() {
            self.forget_visitor(arrival);
            self.pending.vacated.push(arrival);
        }
    }

    /// Takes an arrival off every record.
    fn forget(&mut self, arrival: Arrival) {
        self.drop_admission(arrival);
        self.drop_left(arrival);
        self.forget_visitor(arrival);
    }

    fn index(&mut self, arrival: Arrival, admission: Admission) {
        match admission.state {
            AdmissionState::Claimed { expires_at, holding, .. } => {
                self.leases.insert((expires_at, arrival));
                self.holding += u64::from(holding);
            }
            AdmissionState::RecallPending { .. } => {
                self.recalls.insert(admission.place, arrival);
            }
            AdmissionState::Recalled { until, .. } => {
                self.recall_windows.insert((until, arrival));
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
                self.recalls.remove(&admission.place);
            }
            AdmissionState::Recalled { until, .. } => {
                self.recall_windows.remove(&(until, arrival));
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
        self.core.calls.unclaimed().saturating_add(self.recall_windows.len() as u64)
    }
}
