//! Who is over is forgotten in the end.

use std::ops::Range;

use crate::outcome::AdmissionState;
use crate::queue::Queue;
use crate::types::{Arrival, Place};

/// Most arrivals that one event forgets: a tick must not hold the sale up.
const AT_ONCE: u64 = 1_024;

impl Queue {
    /// The arrivals that have been forgotten. Those of a draw are not: their number is fixed.
    pub fn forgotten(&self) -> Range<Arrival> {
        let drawn = self.core.draw.size().map_or(0, u64::from);
        Arrival(drawn)..Arrival(self.core.bygone.forgotten().0.max(drawn))
    }

    /// Forgets, in order of arrival, those whose day is over. It waits for a lease that is still running and for a recall
    /// that is still due.
    pub(super) fn forget_bygone(&mut self) {
        let due = self.core.bygone.due(self.core.last_now);
        if due <= self.core.bygone.forgotten() {
            return;
        }
        let from = self.forgotten().end.0;
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
        if Place(at) > self.core.bygone.forgotten() {
            self.core.bygone.forget(Place(at));
            self.pending.core = true;
            self.pending.forgotten = true;
        }
    }
}
