//! A part of a sale that is lost while the rest is known.

use std::ops::Range;

use crate::queue::Queue;
use crate::queue::loss::SHOW_UP_MS;
use crate::types::{Arrival, UnixMillis};

impl Queue {
    /// Passes over numbers of one lane that were given and whose visitors are not known any more, though all else of the sale
    /// is. Whoever of them is on record stays; the others get their number back when they show up with it.
    pub fn miss(&mut self, arrivals: Range<Arrival>, now: UnixMillis) {
        self.core.last_now = self.core.last_now.max(now);
        let lane = arrivals.start.lane();
        let Some(line) = self.core.lines.get(lane) else { return };
        let given = arrivals.start.0..arrivals.end.0.min(line.next_arrival);
        let mut missing: Vec<Range<u64>> = Vec::new();
        for arrival in given.filter(|arrival| !self.was_skipped(Arrival(*arrival))) {
            match missing.last_mut() {
                Some(range) if range.end == arrival => range.end += 1,
                _ => missing.push(arrival..arrival + 1),
            }
        }
        self.core.lines[lane].skipped.extend(missing.iter().cloned());
        self.core.losses += 1;
        if !missing.is_empty() {
            // They have had no time to show up.
            let until = self.core.last_now.plus(SHOW_UP_MS);
            self.core.awaiting_until = self.core.awaiting_until.max(Some(until));
        }
        for range in missing {
            self.add_absent_places(range);
        }
        self.pending.core = true;
        self.advanced_to = None;
    }

    /// A loss has passed over one of these numbers of one lane, and nobody has shown up with it.
    pub fn misses_any(&self, arrivals: &Range<Arrival>) -> bool {
        let Some(line) = self.core.lines.get(arrivals.start.lane()) else { return false };
        let of_these = |range: &Range<u64>| range.start.max(arrivals.start.0)..range.end.min(arrivals.end.0);
        line.skipped.iter().flat_map(of_these).any(|arrival| self.is_absent(Arrival(arrival)))
    }
}
