//! After a loss of the store: numbers that may have been given, places that may have been called, and who comes back.
//!
//! What was lost is not known, but how far it can have gone at most is. The numbers up to there are passed over: they are
//! nobody's, cost no call, and whoever shows up with one of them gets it back. The places up to there have been called; a
//! visitor among them who shows up is called again before anybody new.

use std::ops::Range;

use crate::calls::CallBatch;
use crate::definition::SaleDefinition;
use crate::lane::Lane;
use crate::outcome::{AdmissionState, JoinRecord};
use crate::pacer::ONE_CALL;
use crate::poll::LONGEST_MS;
use crate::queue::journal::Step;
use crate::queue::{Admission, Queue};
use crate::reach::Reach;
use crate::state::{Core, Stage, Unseen};
use crate::types::{Arrival, MAX_ARRIVALS, Place, UnixMillis};
use crate::vacant::Vacant;

/// Until everybody has asked once more, however slow the network is.
pub(super) const SHOW_UP_MS: u64 = LONGEST_MS + 15_000;

impl Queue {
    /// The sale as far as it is known without its visitors: each of them has to show up again, from now on.
    pub fn without_visitors(definition: SaleDefinition, mut core: Core, now: UnixMillis) -> Self {
        let as_of = core.last_now;
        core.last_now = as_of.max(now);
        // Of those who were forgotten nothing is left to lose; those of a draw never are.
        for line in core.lines.iter_mut() {
            let known = [line.drawn(), line.forgotten().end.0..line.next_arrival];
            line.skipped = known.into_iter().filter(|range| !range.is_empty()).collect();
        }
        // Every lease that ran, and every second call, is known by its number alone.
        let inside = core.totals.claimed.saturating_sub(core.totals.ended);
        let unseen = core.unseen.filter(|unseen| as_of < unseen.until);
        let count = inside
            .saturating_add(std::mem::take(&mut core.recalled))
            .saturating_add(unseen.map_or(0, |unseen| unseen.count));
        core.totals.ended = core.totals.claimed;
        core.unseen = Some(Unseen { count, as_of, until: core.last_now.plus(definition.lease_ms) });
        core.awaiting_until = Some(core.last_now.plus(SHOW_UP_MS));
        Self::restore(definition, core, [], [], [])
    }

    /// Passes over what may have been given and called and is not known of, up to `reach`. Whoever may be inside and is not
    /// on record is waited for as for one who was called just now, for a whole lease, so that `max_active` holds. A draw that
    /// has come further than is known of here stays as it was frozen or made.
    pub fn skip(&mut self, reach: &Reach, now: UnixMillis) {
        let before = self.core.last_now;
        self.core.last_now = before.max(now);
        self.core.losses += 1;
        // What was to be waited for when the sale was last heard of is waited for from now on.
        let (now, lease_ms) = (self.core.last_now, self.definition.lease_ms);
        if let Some(until) = self.core.awaiting_until.as_mut().filter(|until| before < **until) {
            *until = now.plus(SHOW_UP_MS);
        }
        // Whoever may have been called a second time and is not known to have been may be inside.
        let recalled = reach.recalled.saturating_sub(self.core.totals.recalled);
        let unseen = self.core.unseen.filter(|unseen| before < unseen.until);
        if unseen.is_some() || recalled > 0 {
            let Unseen { count, as_of, .. } = unseen.unwrap_or_default();
            let count = count.saturating_add(recalled);
            self.core.unseen = Some(Unseen { count, as_of, until: now.plus(lease_ms) });
            self.core.totals.recalled += recalled;
        }
        let window_ms = self.definition.claim_window_ms;
        self.core.unsettled_until = Some(now.plus(window_ms.max(lease_ms)));
        let clock = self.core.claim_clock();
        self.move_recalls(|until, lease| until.max(clock.plus(window_ms.max(lease.unwrap_or(lease_ms)))));
        let known: Vec<u64> = self.core.lines.iter().map(|line| line.next_arrival).collect();
        for (line, reach) in self.core.lines.iter_mut().zip(reach.lines.iter()) {
            line.calls.hold(clock, self.definition.claim_window_ms, self.definition.lease_ms);
            let last = line.lane().base() + MAX_ARRIVALS;
            let (known, next) = (line.next_arrival, reach.next_arrival.0.max(reach.serving.0).min(last));
            if next > known {
                line.next_arrival = next;
                line.skipped.push(known..next);
            }
        }
        let draw = &reach.draw;
        if draw.is_ahead_of(&self.core.draw()) {
            for (line, state) in self.core.lines.iter_mut().zip(draw.states()) {
                line.draw = state;
            }
            self.core.beacon.clone_from(&draw.beacon);
            self.shuffle();
            if matches!(self.core.stage, Stage::Scheduled | Stage::PreQueue) {
                self.core.stage = Stage::Drawing;
                self.ordered();
            }
            self.find_left_places();
        }
        let called = reach.called;
        for reach in reach.lines.iter() {
            if !self.is_called(reach.serving) && self.core.lines.get(reach.serving.lane()).is_some() {
                self.call_unknown(reach.serving, called);
            }
        }
        for (lane, known) in self.core.lines.lanes().zip(known) {
            self.add_absent_places(known..self.core.lines[lane].next_arrival);
        }
        self.pending.core = true;
        self.advanced_to = None;
    }

    /// Takes note that all places up to there have been called, nobody knows exactly when, with no more than `calls` made
    /// since the sale began: so many of those who have not left may be inside.
    fn call_unknown(&mut self, to: Place, calls: u64) {
        let lane = to.lane();
        let (from, now) = (self.core.lines[lane].serving, self.core.last_now);
        if to <= from {
            return;
        }
        let here =
            |arrival: &&Arrival| self.place(**arrival).is_some_and(|place| (from..to).contains(&place));
        let gone = u64::try_from(self.left.iter().filter(here).count()).unwrap_or(0);
        let called = (to.0 - from.0).saturating_sub(gone).min(calls.saturating_sub(self.core.totals.called));
        let gone = to.0 - from.0 - called;
        let window_ms = self.definition.claim_window_ms;
        let until = self.core.claim_clock().plus(window_ms.max(self.definition.lease_ms));
        let batch =
            CallBatch { from, to, called_at: now, until, claimed: 0, gone, lapsed: false, lease_ms: None };
        let line = &mut self.core.lines[lane];
        line.calls.push(batch, window_ms.saturating_add(self.definition.recall_grace_ms));
        line.serving = to;
        self.drop_left_places(to);
        self.core.totals.called += called;
        // They were paid for; of that, too, less is known.
        self.core.pacer = self.core.pacer.at(self.definition.pace, now);
        self.core.pacer.spend(called, ONE_CALL);
        let calls: Vec<u64> =
            (self.core.lines.lanes()).map(|at| if at == lane { called } else { 0 }).collect();
        self.watch_flow(&calls);
    }

    /// Puts a visitor back on record who holds a number that a loss has passed over, and says whether that was done. A
    /// newer number that the visitor took meanwhile is given up for it, unless it was called.
    pub fn reenter(&mut self, ticket: JoinRecord, now: UnixMillis) -> bool {
        self.advance(now);
        let arrival = ticket.arrival;
        let state = self.admissions.get(&arrival).map(|admission| admission.state);
        let over = matches!(state, Some(AdmissionState::Ended | AdmissionState::Lapsed));
        if !self.enter_again(ticket, over) {
            return false;
        }
        // Who has claimed before showing up has a state already.
        if let Some(place) = self.place(arrival).filter(|place| state.is_none() && self.is_called(*place)) {
            self.set(arrival, place, AdmissionState::RecallPending { lease_ms: None });
        }
        self.call_earned();
        true
    }

    /// A loss has passed over the number, and whose it is may be put back on record.
    pub(super) fn is_lacking(&self, arrival: Arrival) -> bool {
        let state = self.admissions.get(&arrival).map(|admission| admission.state);
        self.was_skipped(arrival)
            && self.holder(arrival).is_none()
            && !self.left.contains(&arrival)
            && !self.is_forgotten(arrival)
            && state != Some(AdmissionState::Left)
    }

    /// The visitor has the number again, unless a newer one is worth more: because it was called, or the old one is `over`.
    pub(super) fn enter_again(&mut self, ticket: JoinRecord, over: bool) -> bool {
        let JoinRecord { arrival, visitor, .. } = ticket;
        if !self.is_lacking(arrival) {
            return false;
        }
        if let Some(held) = self.held(&visitor) {
            let uncalled = self.place(held.arrival).is_none_or(|place| !self.is_called(place));
            let (lane, open) = (held.arrival.lane(), self.definition().open_lane());
            // Nobody goes back to the lane that takes everybody.
            let stays = if lane == arrival.lane() { held.arrival < arrival } else { Some(lane) != open };
            if stays || !uncalled || over {
                return false;
            }
            self.leave_uncalled(held.arrival);
            self.vacate(held.arrival);
        }
        if self.enter(ticket).is_err() {
            return false;
        }
        self.pending.joins.push(ticket);
        if let Some(place) = self.place(arrival).filter(|place| !self.is_called(*place)) {
            self.drop_left_place(place);
        }
        self.pending.core = true;
        true
    }

    /// The number was passed over by a loss, and nobody has shown up with it.
    pub(super) fn is_absent(&self, arrival: Arrival) -> bool {
        self.was_skipped(arrival)
            && self.holder(arrival).is_none()
            && !self.admissions.contains_key(&arrival)
            && !self.left.contains(&arrival)
            && !self.is_forgotten(arrival)
    }

    /// Until everybody has asked once more, nobody who is missing is passed over: they have had no time to show up.
    pub(super) fn awaits_absent(&self) -> bool {
        self.core.awaiting_until.is_some_and(|until| self.core.last_now < until)
    }

    /// The place, not yet called, is that of a number which was passed over by a loss and nobody has shown up with.
    pub(super) fn is_absent_at(&self, place: Place) -> bool {
        let line = &self.core.lines[place.lane()];
        let drawn = line.drawn();
        let possible = |range: &Range<u64>| {
            if drawn.contains(&place.0) { range.start < drawn.end } else { range.contains(&place.0) }
        };
        line.skipped.iter().any(possible) && {
            let arrival = line.draw.shuffle().map_or(Arrival(place.0), |shuffle| shuffle.arrival(place));
            self.is_absent(arrival)
        }
    }

    pub(super) fn was_skipped(&self, arrival: Arrival) -> bool {
        let line = self.core.lines.get(arrival.lane());
        line.is_some_and(|line| line.skipped.iter().any(|range| range.contains(&arrival.0)))
    }

    /// Numbers of a lane that nobody has shown up with.
    pub(super) fn absent(&self, lane: Lane) -> impl Iterator<Item = Arrival> {
        let skipped = self.core.lines[lane].skipped.iter().cloned().flatten();
        skipped.map(Arrival).filter(|arrival| self.is_absent(*arrival))
    }

    /// They are passed over by calls as those are who left.
    pub(super) fn add_absent_places(&mut self, range: Range<u64>) {
        for arrival in range.map(Arrival) {
            if let Some(place) = self.place(arrival).filter(|place| !self.is_called(*place))
                && self.is_absent(arrival)
            {
                self.add_left_place(place);
            }
        }
    }

    /// Uncalled places that nobody has come back for, once the time for that is over. Those of a draw count as ahead, since the
    /// missing are scattered over them; and so do those of visitors who left, who are scattered, too, and whose leaving must not
    /// push another stretch out. It costs nothing before there has been a loss.
    pub(super) fn vacant(&self, lane: Lane) -> Vacant {
        if self.awaits_absent() {
            return Vacant::default();
        }
        self.lines[lane].vacant.told()
    }

    /// The place is one of those that are told as vacant, once that is done.
    fn is_vacant(&self, place: Place) -> bool {
        let lane = place.lane();
        let (Some(core), Some(line)) = (self.core.lines.get(lane), self.lines.get(lane)) else {
            return false;
        };
        // Past the draw, place and arrival are one number.
        let arrival = Arrival(place.0);
        line.left_places.contains(&place)
            && core.drawn().end <= place.0
            && self.was_skipped(arrival)
            && !self.left.contains(&arrival)
    }

    /// Finds out anew whether the place is vacant.
    pub(super) fn settle_vacant(&mut self, place: Place) {
        let vacant = self.is_vacant(place);
        let Some(line) = self.lines.get_mut(place.lane()) else { return };
        if vacant {
            line.vacant.insert(place);
        } else {
            line.vacant.remove(place);
        }
    }

    /// The same of all places of a lane.
    pub(super) fn find_vacant(&mut self, lane: Lane) {
        let left = self.lines[lane].left_places.iter().copied();
        self.lines[lane].vacant = left.filter(|place| self.is_vacant(*place)).collect();
    }

    /// Nobody is missing at a place any more.
    pub(super) fn drop_left_place(&mut self, place: Place) {
        if self.lines[place.lane()].left_places.remove(&place) {
            self.settle_vacant(place);
            self.note(|| Step::NotLeftPlace(place));
        }
    }

    /// A ticket that was passed over asks to be admitted: it is recalled as soon as there is room.
    pub(super) fn recall_absent(&mut self, arrival: Arrival, place: Place) -> Option<Admission> {
        self.set(arrival, place, AdmissionState::RecallPending { lease_ms: None });
        self.pending.core = true;
        self.call_earned();
        self.admissions.get(&arrival).copied()
    }
}
