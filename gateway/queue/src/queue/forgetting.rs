//! Who is over is forgotten in the end.

use std::ops::Range;

use crate::lane::Lane;
use crate::outcome::AdmissionState;
use crate::queue::Queue;
use crate::types::{Arrival, Place};

/// Most arrivals that one event forgets: a tick must not hold the sale up.
const AT_ONCE: u64 = 1_024;

impl Queue {
    /// The same of its [`Core`](crate::Core::forgotten).
    pub fn forgotten(&self) -> Vec<Range<Arrival>> {
        self.core.forgotten()
    }

    /// The number has been forgotten.
    pub(super) fn is_forgotten(&self, arrival: Arrival) -> bool {
        let line = self.core.lines.get(arrival.lane());
        line.is_some_and(|line| {
            let Range { start, end } = line.forgotten();
            (start.number()..end.number()).contains(&arrival.number())
        })
    }

    /// Forgets, in order of arrival, those whose day is over. It waits for a lease that is still running and for a recall
    /// that is still due.
    pub(super) fn forget_bygone(&mut self) {
        for lane in self.core.lines.lanes() {
            self.forget_bygone_of(lane);
        }
    }

    fn forget_bygone_of(&mut self, lane: Lane) {
        let core = &self.core.lines[lane];
        let due = core.bygone.due(self.core.last_now);
        if due <= core.bygone.forgotten() {
            return;
        }
        let from = core.forgotten().end.0;
        let to = due.0.min(from.saturating_add(AT_ONCE));
        let mut at = from;
        // Past the draw, place and arrival are one number.
        while at < to {
            let arrival = Arrival(at);
            match self.admissions.get(&arrival).map(|admission| admission.state) {
                Some(
                    AdmissionState::Claimed { .. }
                    | AdmissionState::RecallPending { .. }
                    | AdmissionState::Recalled { .. },
                ) => break,
                Some(AdmissionState::Ended | AdmissionState::Lapsed | AdmissionState::Left) | None => {}
            }
            self.forget(arrival);
            at += 1;
        }
        let bygone = &mut self.core.lines[lane].bygone;
        if Place(at) > bygone.forgotten() {
            bygone.forget(Place(at));
            self.pending.core = true;
            self.pending.forgotten = true;
        }
    }
}
