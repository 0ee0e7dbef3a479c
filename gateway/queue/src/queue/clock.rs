//! What happens because time has passed.

use std::collections::BTreeSet;

use crate::draw::{self, Shuffle};
use crate::lane::Lane;
use crate::manifest::DrawState;
use crate::outcome::AdmissionState;
use crate::pacer::Pacer;
use crate::queue::Queue;
use crate::queue::journal::Step;
use crate::state::{Halts, SoldOutBy, Stage};
use crate::types::{Arrival, Place, UnixMillis};

/// The frozen number of arrivals is public this long before the seed that it goes into, in milliseconds.
pub(super) const REVEAL_AFTER_MS: u64 = 1_000;

impl Queue {
    /// Does what is due at `now`, once.
    pub(super) fn advance(&mut self, now: UnixMillis) {
        self.core.last_now = self.core.last_now.max(now);
        if self.advanced_to != Some(self.core.last_now) {
            self.advance_again();
        }
    }

    /// The same after something other than the clock has changed.
    pub(super) fn advance_again(&mut self) {
        while let Some(stage) = self.next_stage() {
            self.core.stage = stage;
            self.ordered();
        }
        self.settle_stock();
        self.end_leases();
        self.lapse_calls();
        self.forget_bygone();
        self.watch_flow(&[]);
        self.advanced_to = Some(self.core.last_now);
    }

    /// The stage that the present one gives way to by now, if any; freezes and makes the draw on the way.
    fn next_stage(&mut self) -> Option<Stage> {
        let now = self.core.last_now;
        let due = |at: Option<UnixMillis>| at.is_some_and(|at| at <= now);
        if due(self.definition.closes_at) && self.core.stage != Stage::Closed {
            return Some(Stage::Closed);
        }
        let opens = self.core.open_ordered || self.definition.is_always_on() || due(self.definition.opens_at);
        match (&self.core.stage, self.core.lines.first.draw) {
            (Stage::Scheduled, _) => {
                let joins_open = self.definition.joins_open_at.is_none_or(|at| at <= now);
                (joins_open || self.core.open_ordered).then_some(Stage::PreQueue)
            }
            (Stage::PreQueue, DrawState::NotHeld) => opens.then(|| self.opened()),
            (Stage::PreQueue, _) => due(self.definition.draw.map(|draw| draw.closes_at)).then(|| {
                for line in self.core.lines.iter_mut() {
                    let size = u32::try_from(Arrival(line.next_arrival).number()).unwrap_or(u32::MAX);
                    line.draw = DrawState::Frozen { size, at: now };
                }
                self.core.beacon.frozen_at = self.rests_on_beacon().then_some(now);
                Stage::Drawing
            }),
            // A beacon's round comes from outside, as a command.
            (Stage::Drawing, DrawState::Frozen { at, .. })
                if at.plus(REVEAL_AFTER_MS) <= now && !self.rests_on_beacon() =>
            {
                let secret = self.core.draw_secret;
                self.draw(&secret);
                opens.then(|| self.opened())
            }
            (Stage::Drawing, DrawState::Drawn { .. }) => opens.then(|| self.opened()),
            (Stage::Drawing | Stage::Open(_) | Stage::Closed, _) => None,
        }
    }

    fn opened(&mut self) -> Stage {
        self.core.pacer = Pacer::full(self.definition.pace, self.core.last_now);
        Stage::Open(Halts::default())
    }

    fn rests_on_beacon(&self) -> bool {
        self.definition.draw.is_some_and(|draw| draw.beacon.is_some())
    }

    /// Makes the draw of every lane, from what was frozen.
    pub(super) fn draw(&mut self, randomness: &[u8; 32]) {
        let Some(manifest) = self.core.manifest(&self.definition) else { return };
        let manifest = manifest.canonical();
        for line in self.core.lines.iter_mut() {
            let size = line.draw.size().unwrap_or(0);
            let seed = draw::lane_seed(manifest.as_bytes(), line.lane(), size, randomness);
            line.draw = DrawState::Drawn { size, seed };
        }
        self.shuffle();
        self.pending.core = true;
        self.find_left_places();
    }

    /// Finds the uncalled places of those who left before their place was known, or before a restart.
    pub(super) fn find_left_places(&mut self) {
        for lane in self.core.lines.lanes() {
            // One place alone costs about as much as a hundred in the list of all.
            let missing = self.missing(lane).count();
            let many = |shuffle: &Shuffle| missing > usize::try_from(shuffle.size()).unwrap_or(0) / 100;
            let core = &self.core.lines[lane];
            let mut found: BTreeSet<Place> = match core.draw.shuffle().filter(many) {
                Some(shuffle) => {
                    let places = shuffle.places();
                    self.missing(lane).map(|arrival| places.place(arrival)).collect()
                }
                None => self.missing(lane).filter_map(|arrival| self.place(arrival)).collect(),
            };
            let found = found.split_off(&core.serving);
            let before = std::mem::replace(&mut self.lines[lane].left_places, found);
            self.find_vacant(lane);
            self.note(|| Step::LeftPlacesFound(lane, before));
        }
    }

    /// Those of a lane who will not come when they are called.
    fn missing(&self, lane: Lane) -> impl Iterator<Item = Arrival> {
        let left = self.left.iter().copied().filter(move |arrival| arrival.lane() == lane);
        left.chain(self.absent(lane))
    }

    fn end_leases(&mut self) {
        while let Some((expires_at, arrival)) = self.leases.first().copied() {
            if expires_at > self.core.last_now {
                break;
            }
            match self.admissions.get(&arrival).copied() {
                Some(admission) => self.end_lease(arrival, admission.place),
                None => drop(self.leases.pop_first()),
            }
        }
    }

    fn lapse_calls(&mut self) {
        if self.core.halted_since().is_some() {
            return;
        }
        let now = self.core.last_now;
        for lane in self.core.lines.lanes() {
            let line = &mut self.core.lines[lane];
            let Some(over) = line.calls.lapse(self.definition.recall_grace_ms, now) else { continue };
            if let Some(below) = over.over_below {
                line.bygone.add(below, now);
            }
            self.core.ratio.observe(over.claimed.saturating_add(over.lapsed), over.claimed);
            self.core.totals.lapsed += over.lapsed;
            self.pending.core = true;
        }
        while let Some((until, arrival)) = self.recall_windows.first().copied() {
            if until > now {
                break;
            }
            let Some(admission) = self.admissions.get(&arrival).copied() else {
                self.recall_windows.pop_first();
                continue;
            };
            self.set(arrival, admission.place, AdmissionState::Lapsed);
            self.core.totals.lapsed += 1;
            self.pending.core = true;
        }
    }

    /// Lets the stock decide whether an open sale is sold out, unless the operator has.
    pub(super) fn settle_stock(&mut self) {
        let gone = self.core.stock.is_some_and(|stock| stock.is_gone());
        let Stage::Open(halts) = &mut self.core.stage else { return };
        let verdict = match halts.sold_out {
            Some(SoldOutBy::Operator) => Some(SoldOutBy::Operator),
            _ => gone.then_some(SoldOutBy::Stock),
        };
        if verdict != halts.sold_out {
            halts.sold_out = verdict;
            self.ordered();
        }
        self.settle_halt();
    }

    /// Stops the claim windows when a halt begins, and gives the time back when the last one ends.
    pub(super) fn settle_halt(&mut self) {
        let now = self.core.last_now;
        let Stage::Open(halts) = &mut self.core.stage else { return };
        let halted = halts.pause.is_some() || halts.sold_out.is_some();
        match halts.since {
            None if halted => halts.since = Some(now),
            Some(since) if !halted => {
                halts.since = None;
                let lost = now.since(since);
                self.core.lines.iter_mut().for_each(|line| line.calls.extend(lost));
                self.move_recalls(|until, _| until.plus(lost));
            }
            _ => return,
        }
        self.pending.core = true;
    }

    /// Has the windows of second calls end at another time, each told with its lease, if that is not the sale's.
    pub(super) fn move_recalls(&mut self, to: impl Fn(UnixMillis, Option<u64>) -> UnixMillis) {
        let recalled: Vec<(UnixMillis, Arrival)> = self.recall_windows.iter().copied().collect();
        for (until, arrival) in recalled {
            let Some(admission) = self.admissions.get(&arrival).copied() else { continue };
            if let AdmissionState::Recalled { lease_ms, .. } = admission.state {
                let state = AdmissionState::Recalled { until: to(until, lease_ms), lease_ms };
                self.set(arrival, admission.place, state);
            }
        }
    }
}
