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
            // Who was entitled to the lane still is.
            (None, Some(held)) => Ok(held.arrival.lane()),
            (None, None) => self.definition().open_lane().ok_or(JoinRefusal::InvitationNeeded),
        }
    }

    /// The invitation to keep with the new number: the one shown or, in the same lane again, the one of the number before.
    pub(super) fn invitation_of(
        &self,
        visitor: &VisitorKey,
        lane: Lane,
        held: Option<JoinRecord>,
        invited: Option<Invited>,
    ) -> Result<Option<VisitorKey>, JoinRefusal> {
        let Some(once) = invited.and_then(|invited| invited.once) else {
            let before = held.filter(|held| held.arrival.lane() == lane);
            return Ok(before.and_then(|held| self.invitation(held.arrival)));
        };
        let user = self.lines[lane].invitations.get(&once).map(|used| {
            let arrival = Arrival(Arrival(lane.base()).0 + used.arrival.number());
            self.holder(arrival).is_some_and(|holder| holder.visitor == *visitor)
        });
        if user == Some(false) { Err(JoinRefusal::InvitationUsed) } else { Ok(Some(once)) }
    }

    /// The invitation that a number was given for.
    pub(super) fn invitation(&self, arrival: Arrival) -> Option<VisitorKey> {
        self.holder(arrival.invitation()).map(|record| record.visitor)
    }

    /// Remembers what has been used, under the number it gave.
    pub(super) fn keep_invitation(&mut self, record: JoinRecord) {
        let line = &mut self.core.lines[record.arrival.lane()];
        line.invited = true;
        // One that is in use by a newer number stays with it.
        if self.enter(record).is_ok() {
            self.pending.invitations.push(record);
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
