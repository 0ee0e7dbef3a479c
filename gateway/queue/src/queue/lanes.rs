//! Which lane a visitor joins, and who goes over to another.

use crate::lane::Lane;
use crate::outcome::{AdmissionState, Invited, JoinRecord, JoinRefusal};
use crate::queue::Queue;
use crate::types::{Arrival, VisitorKey};

impl Queue {
    /// The holder of the number waits in the lane that takes everybody, and is invited to another.
    pub(super) fn goes_over(&self, arrival: Arrival, invited: Option<Invited>) -> bool {
        let open = self.definition().open_lane();
        invited.is_some_and(|invited| Some(arrival.lane()) == open && Some(invited.lane) != open)
            && !self.admissions.contains_key(&arrival)
            && self.place(arrival).is_none_or(|place| !self.is_called(place))
    }

    /// The lane of a new number.
    pub(super) fn lane_to_join(
        &self,
        held: Option<JoinRecord>,
        invited: Option<Invited>,
    ) -> Result<Lane, JoinRefusal> {
        match (invited, held) {
            (Some(Invited { lane, .. }), _) => {
                let takes = self.definition().lane(lane).is_some_and(|lane| lane.invitation);
                let there = takes && self.core.lines.get(lane).is_some();
                there.then_some(lane).ok_or(JoinRefusal::NoSuchLane)
            }
            // Who was entitled to the lane still is, but by an invitation for one only until it has let them in.
            (None, Some(held)) if !self.has_spent_invitation(held.arrival) => Ok(held.arrival.lane()),
            (None, Some(_)) => self.definition().open_lane().ok_or(JoinRefusal::InvitationUsed),
            (None, None) => self.definition().open_lane().ok_or(JoinRefusal::InvitationNeeded),
        }
    }

    /// What to keep with a new number: the invitation shown or, after a call that was not claimed, that the one of the
    /// number before is spent. It stays with the number that was called.
    pub(super) fn invitation_of(
        &self,
        lane: Lane,
        held: Option<JoinRecord>,
        invited: Option<Invited>,
    ) -> Result<Option<VisitorKey>, JoinRefusal> {
        let shown = invited.and_then(|invited| invited.once).map(fresh);
        let held = held.filter(|held| held.arrival.lane() == lane);
        let before = held.and_then(|held| self.invitation(held.arrival)).map(spent);
        if let Some(before) = before.filter(|before| shown.is_none_or(|shown| spent(shown) == *before)) {
            let over = held.is_some_and(|held| self.is_over(held.arrival));
            return if over { Err(JoinRefusal::InvitationUsed) } else { Ok(Some(before)) };
        }
        let kept = &self.lines[lane].invitations;
        let used = shown.is_some_and(|shown| [shown, spent(shown)].iter().any(|key| kept.get(key).is_some()));
        if used { Err(JoinRefusal::InvitationUsed) } else { Ok(shown) }
    }

    /// The number was given for an invitation that is good for one, and that one has been admitted.
    fn has_spent_invitation(&self, arrival: Arrival) -> bool {
        self.invitation(arrival).is_some() && self.is_over(arrival)
    }

    /// Its admission is over: it came to more than a call that lapsed.
    fn is_over(&self, arrival: Arrival) -> bool {
        let state = self.admissions.get(&arrival).map(|admission| admission.state);
        matches!(state, Some(AdmissionState::Ended | AdmissionState::Left))
    }

    /// The invitation that a number was given for.
    fn invitation(&self, arrival: Arrival) -> Option<VisitorKey> {
        self.holder(arrival.invitation()).map(|record| record.visitor)
    }

    /// Remembers what has been used, under the number it gave.
    pub(super) fn keep_invitation(&mut self, record: JoinRecord) {
        let lane = record.arrival.lane();
        let before = self.lines[lane].invitations.get(&record.visitor);
        // One that is in use by a newer number stays with it.
        if self.enter(record).is_ok() {
            self.core.lines[lane].invited = true;
            self.pending.invitations.push(record);
            let replaced = before.map(|before| before.arrival).filter(|before| *before != record.arrival);
            self.pending.vacated.extend(replaced);
        }
    }

    /// The visitor has a number in another lane now.
    pub(super) fn give_up_elsewhere(&mut self, arrival: Arrival) {
        match self.admissions.get(&arrival).map(|admission| admission.place) {
            Some(place) => self.set(arrival, place, AdmissionState::Left),
            None => self.leave_unclaimed(arrival),
        }
        self.vacate(arrival);
    }
}

/// Set in the last byte of an invitation's key under a number that followed one which was called for it.
const SPENT: u8 = 0x80;

/// An invitation's key under the number that it gave.
const fn fresh(VisitorKey(mut key): VisitorKey) -> VisitorKey {
    key[15] &= !SPENT;
    VisitorKey(key)
}

/// An invitation's key under the numbers that followed.
const fn spent(VisitorKey(mut key): VisitorKey) -> VisitorKey {
    key[15] |= SPENT;
    VisitorKey(key)
}
