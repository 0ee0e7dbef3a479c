//! What another replica knows, and this one lacks since a loss, is put back on record.

use std::ops::Range;

use crate::lane::Lane;
use crate::outcome::{AdmissionRecord, AdmissionState, JoinRecord};
use crate::queue::Queue;
use crate::queue::loss::SHOW_UP_MS;
use crate::types::{Arrival, Place, UnixMillis};

/// What was put back at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Visitors, under their numbers.
    pub visitors: u64,
    /// What became of the called.
    pub admissions: u64,
    /// The number to go on from; none, if that was all.
    pub next: Option<Arrival>,
}

/// The first `most` by number, ascending, and the number after them, if there are more.
fn first<T>(mut all: Vec<T>, most: usize, arrival: impl Fn(&T) -> Arrival) -> (Vec<T>, Option<Arrival>) {
    let mut next = None;
    if most < all.len() {
        let (_, after, _) = all.select_nth_unstable_by_key(most, &arrival);
        next = Some(arrival(after));
        all.truncate(most);
    }
    all.sort_unstable_by_key(arrival);
    (all, next)
}

impl Queue {
    /// Puts back on record what another replica knows and this one lacks since a loss: visitors under their numbers, and what
    /// became of the called, so that nobody is admitted twice. Of the numbers from `from` on, about `most` that have something
    /// to put back; the next call goes on from where this one ends.
    pub fn reenter_from(&mut self, other: &Self, from: Arrival, most: usize, now: UnixMillis) -> PutBack {
        self.advance(now);
        let gone = self.gone_in(other, from);
        let tickets: Vec<JoinRecord> =
            self.lacked_tickets(other, from).take(most.saturating_add(1)).collect();
        let admissions: Vec<AdmissionRecord> = other
            .admissions()
            .filter(|admission| admission.arrival >= from && admission.state != AdmissionState::Left)
            .collect();
        let (gone, end) = first(gone, most, |arrival| *arrival);
        let (tickets, before) = first(tickets, most, |ticket| ticket.arrival);
        let end = end.into_iter().chain(before).min();
        let (admissions, before) = first(admissions, most, |admission| admission.arrival);
        let next = end.into_iter().chain(before).min();
        let is_due = |arrival: Arrival| next.is_none_or(|next| arrival < next);

        let mut back = PutBack { next, ..PutBack::default() };
        for arrival in gone.into_iter().take_while(|arrival| is_due(*arrival)) {
            // A number that is not known here needs no leaving.
            let _ = self.take_out(arrival);
        }
        for ticket in tickets.into_iter().take_while(|ticket| is_due(ticket.arrival)) {
            if self.enter_again(ticket, other.is_used_up(ticket.arrival)) {
                back.visitors += 1;
                self.call_as_in(other, ticket.arrival);
            }
        }
        self.invitations_from(other, |arrival| arrival >= from && is_due(arrival));
        for record in admissions.into_iter().take_while(|record| is_due(record.arrival)) {
            back.admissions += u64::from(self.admit_as_in(record));
        }
        if next.is_none() {
            self.await_nobody_known_to(other);
            self.call_earned();
        } else {
            // Nobody is called past those who are yet to be put back.
            let until = self.core.last_now.plus(SHOW_UP_MS);
            self.core.awaiting_until = self.core.awaiting_until.max(Some(until));
            self.pending.core = true;
        }
        back
    }

    /// Who has left another replica and not this one.
    fn gone_in(&self, other: &Self, from: Arrival) -> Vec<Arrival> {
        let called = other.admissions().filter(|admission| admission.state == AdmissionState::Left);
        let gone = called.map(|admission| admission.arrival).chain(other.left());
        let is_here = |arrival: &Arrival| {
            *arrival >= from
                && !self.left.contains(arrival)
                && self.admissions.get(arrival).is_none_or(|here| here.state != AdmissionState::Left)
        };
        gone.filter(is_here).collect()
    }

    /// Tickets of numbers that nobody has here since a loss, ascending.
    fn lacked_tickets(&self, other: &Self, from: Arrival) -> impl Iterator<Item = JoinRecord> {
        let mut skipped: Vec<Range<u64>> =
            self.core.lines.iter().flat_map(|line| line.skipped.iter().cloned()).collect();
        skipped.sort_unstable_by_key(|range| range.start);
        let arrivals = skipped.into_iter().flat_map(move |range| range.start.max(from.0)..range.end);
        arrivals
            .filter_map(|arrival| other.holder(Arrival(arrival)).filter(|held| self.is_lacking(held.arrival)))
    }

    /// What a visitor is, who was put back and of whom another replica keeps no state: called or not, as there.
    fn call_as_in(&mut self, other: &Self, arrival: Arrival) {
        let Some(place) = self.place(arrival).filter(|place| self.is_called(*place)) else { return };
        if self.admissions.contains_key(&arrival) || other.admissions.contains_key(&arrival) {
            return;
        }
        let ours = self.core.lines[place.lane()].calls.find(place).map(|batch| batch.lapsed);
        let state = if other.is_called(place) {
            match (other.core.lines[place.lane()].calls.find(place), ours) {
                // The grace is over there, and not yet here.
                (None, Some(_)) => AdmissionState::Lapsed,
                (Some(batch), None | Some(true)) if !batch.lapsed => {
                    AdmissionState::RecallPending { lease_ms: batch.lease_ms }
                }
                // They may claim, or come back, as there.
                (None, None) | (Some(_), _) => return,
            }
        } else {
            // Called by nobody but the loss.
            AdmissionState::RecallPending { lease_ms: None }
        };
        self.set(arrival, place, state);
    }

    /// Takes over what became of a called visitor, if it is more than what is known here, and says whether it was.
    pub(super) fn admit_as_in(&mut self, AdmissionRecord { arrival, place, state }: AdmissionRecord) -> bool {
        let held = self.admissions.get(&arrival).map(|held| held.state);
        if matches!(held, Some(AdmissionState::Claimed { .. } | AdmissionState::Ended | AdmissionState::Left))
            || !self.is_called(place)
            || self.place(arrival) != Some(place)
            || self.left.contains(&arrival)
            || self.is_forgotten(arrival)
        {
            return false;
        }
        let claimable = held.is_none() && self.call_of(place).is_some_and(|batch| !batch.lapsed);
        let back = match state {
            AdmissionState::Claimed { expires_at, .. } if expires_at <= self.core.last_now => {
                AdmissionState::Ended
            }
            AdmissionState::Claimed { .. } | AdmissionState::Ended => state,
            _ if matches!(held, Some(AdmissionState::Recalled { .. } | AdmissionState::Lapsed)) => {
                return false;
            }
            AdmissionState::Recalled { until, .. } if until <= self.core.claim_clock() => {
                AdmissionState::Lapsed
            }
            // Who has not been called a second time here has no need of it.
            AdmissionState::Recalled { .. } | AdmissionState::RecallPending { .. } if claimable => {
                return false;
            }
            // Others may have the room by now.
            AdmissionState::Recalled { lease_ms, .. } => AdmissionState::RecallPending { lease_ms },
            AdmissionState::RecallPending { .. } | AdmissionState::Lapsed => state,
            AdmissionState::Left => return false,
        };
        if held == Some(back) {
            return false;
        }
        match back {
            AdmissionState::Claimed { claimed_at, .. } => {
                self.count_claimed(place, claimed_at, held.is_none());
            }
            // Of those who are missing it is not known whether they have been counted.
            AdmissionState::Ended if !self.was_skipped(arrival) => {
                self.count_claimed(place, self.core.last_now, held.is_none());
                self.core.totals.ended += 1;
            }
            _ => {}
        }
        self.set(arrival, place, back);
        self.pending.core = true;
        true
    }

    /// Counts a claim, unless it was counted when everything was lost: then one fewer is inside whom nobody knows.
    fn count_claimed(&mut self, place: Place, claimed_at: UnixMillis, first: bool) {
        if let Some(unseen) = self.core.unseen.as_mut().filter(|unseen| claimed_at < unseen.as_of) {
            if unseen.count > 0 {
                unseen.count -= 1;
                self.core.totals.ended = self.core.totals.ended.saturating_sub(1);
            }
            return;
        }
        self.core.totals.claimed += 1;
        // The calls count whoever was not called a second time.
        if first && let Some(batch) = self.call_of(place).filter(|batch| !batch.lapsed) {
            batch.claimed += 1;
        }
    }

    /// Where another replica missed nobody, and all whom it knows are on record again, there is nobody to wait for.
    fn await_nobody_known_to(&mut self, other: &Self) {
        if (self.core.awaiting_until.is_none() && self.core.unseen.is_none()) || other.awaits_absent() {
            return;
        }
        // It had lost touch before: of who was called and is inside since then it knows nothing.
        if self.core.unseen.is_some_and(|unseen| other.core.last_now < unseen.as_of) {
            return;
        }
        let end = |lane: Lane| other.core.lines.get(lane).map_or(0, |line| line.next_arrival);
        let is_uncalled = |arrival: &Arrival| self.place(*arrival).is_none_or(|place| !self.is_called(place));
        let missing = self.core.lines.lanes().any(|lane| {
            self.absent(lane).take_while(|arrival| arrival.0 < end(lane)).any(|arrival| is_uncalled(&arrival))
        });
        if !missing {
            self.core.awaiting_until = None;
            // Nor of whom was called a second time.
            if other.core.totals.recalled >= self.core.totals.recalled {
                let unseen = other.core.unseen.filter(|unseen| other.core.last_now < unseen.until);
                let count = unseen.map_or(0, |unseen| unseen.count);
                self.core.unseen = self.core.unseen.filter(|_| count > 0);
                if let Some(unseen) = &mut self.core.unseen {
                    unseen.count = unseen.count.min(count);
                }
            }
            self.pending.core = true;
            self.advanced_to = None;
        }
    }

    /// Puts back on record which invitations another replica knows to be used: by whoever holds their number here, too, and
    /// by those who had been called and have given their number up.
    fn invitations_from(&mut self, other: &Self, is_due: impl Fn(Arrival) -> bool) {
        let used = other.lines.iter().flat_map(|line| line.invitations.iter());
        let used: Vec<JoinRecord> = used.filter(|record| is_due(record.arrival.invited())).collect();
        for record in used {
            let arrival = record.arrival.invited();
            let visitor = |queue: &Self| queue.holder(arrival).map(|held| held.visitor);
            let there = visitor(other);
            let known = self.core.lane_of(arrival).is_some()
                && !self.left.contains(&arrival)
                && !self.is_forgotten(arrival);
            if known && (there.is_none() || visitor(self) == there) && self.holder(record.arrival).is_none() {
                self.keep_invitation(record);
                self.pending.core = true;
            }
        }
    }
}
