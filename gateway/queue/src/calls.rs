//! The log of calls: who was called when, and until when they may claim.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::types::{Place, UnixMillis};

/// Calls close together share an entry, so that a log that spans claim window and grace has about this many.
const ENTRIES: u64 = 128;

/// Calls at least this close together share an entry, in milliseconds.
const GRANULE_MS: u64 = 1_000;

/// Places that were called together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallBatch {
    /// First place.
    pub from: Place,
    /// One past the last place.
    pub to: Place,
    /// When the first of them was called.
    pub called_at: UnixMillis,
    /// When the call lapses, unless the sale is halted before.
    pub until: UnixMillis,
    /// How many have claimed inside the window.
    pub claimed: u64,
    /// How many left, before or after the call.
    pub gone: u64,
    /// The window is over.
    pub lapsed: bool,
    /// Their lease, if not the sale's.
    pub lease_ms: Option<u64>,
}

impl CallBatch {
    /// Places that may still claim and have not.
    pub const fn unclaimed(&self) -> u64 {
        if self.lapsed {
            return 0;
        }
        let called = self.to.0.saturating_sub(self.from.0);
        called.saturating_sub(self.claimed).saturating_sub(self.gone)
    }
}

/// Entries by ascending place; those that no recall can reach any more are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallLog(VecDeque<CallBatch>);

/// Calls whose window is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lapse {
    pub(crate) claimed: u64,
    pub(crate) lapsed: u64,
    /// No recall reaches the places below any more; none where that has not changed.
    pub(crate) over_below: Option<Place>,
}

impl CallLog {
    /// The entries, first place first.
    pub fn iter(&self) -> impl Iterator<Item = &CallBatch> {
        self.0.iter()
    }

    /// The entry of a place.
    pub fn find(&self, place: Place) -> Option<&CallBatch> {
        self.index(place).and_then(|index| self.0.get(index))
    }

    pub(crate) fn find_mut(&mut self, place: Place) -> Option<&mut CallBatch> {
        self.index(place).and_then(|index| self.0.get_mut(index))
    }

    fn index(&self, place: Place) -> Option<usize> {
        let index = self.0.partition_point(|batch| batch.to <= place);
        self.0.get(index).is_some_and(|batch| batch.from <= place).then_some(index)
    }

    /// Called places that may still claim and have not.
    pub fn unclaimed(&self) -> u64 {
        self.0.iter().map(CallBatch::unclaimed).sum()
    }

    /// When somebody was called last.
    pub fn last_call(&self) -> Option<UnixMillis> {
        self.0.back().map(|batch| batch.called_at)
    }

    /// Adds calls. `reach_ms` is how long entries stay: claim window and grace.
    pub(crate) fn push(&mut self, batch: CallBatch, reach_ms: u64) {
        let granule = (reach_ms / ENTRIES).max(GRANULE_MS);
        if let Some(last) = self.0.back_mut() {
            let close = !last.lapsed && batch.called_at.since(last.called_at) < granule;
            if close && last.to == batch.from && last.lease_ms == batch.lease_ms {
                last.to = batch.to;
                // Those called first gain less than a granule; nobody's window gets shorter.
                last.until = last.until.max(batch.until);
                last.gone += batch.gone;
                return;
            }
        }
        self.0.push_back(batch);
    }

    /// Ends the windows that are over at `now`, and forgets entries out of reach of a recall.
    pub(crate) fn lapse(&mut self, grace_ms: u64, now: UnixMillis) -> Option<Lapse> {
        let mut over: Option<Lapse> = None;
        for batch in self.0.iter_mut().filter(|batch| !batch.lapsed && batch.until <= now) {
            let sum = over.get_or_insert_default();
            sum.claimed += batch.claimed;
            sum.lapsed += batch.unclaimed();
            batch.lapsed = true;
        }
        while self.0.front().is_some_and(|batch| batch.lapsed && batch.until.plus(grace_ms) <= now) {
            let gone = self.0.pop_front();
            over.get_or_insert_default().over_below = gone.map(|batch| batch.to);
        }
        over
    }

    /// Keeps every window that is open as long as the lease of one who claims now, and as a window that opens now.
    pub(crate) fn hold(&mut self, now: UnixMillis, window_ms: u64, lease_ms: u64) {
        for batch in self.0.iter_mut().filter(|batch| !batch.lapsed) {
            batch.until = batch.until.max(now.plus(window_ms.max(batch.lease_ms.unwrap_or(lease_ms))));
        }
    }

    /// Gives back time in which the sale was halted.
    pub(crate) fn extend(&mut self, millis: u64) {
        for batch in &mut self.0 {
            batch.until = batch.until.plus(millis);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(from: u64, to: u64, at: u64) -> CallBatch {
        let called_at = UnixMillis(at);
        CallBatch {
            from: Place(from),
            to: Place(to),
            called_at,
            until: called_at.plus(10_000),
            claimed: 0,
            gone: 0,
            lapsed: false,
            lease_ms: None,
        }
    }

    #[test]
    fn a_stream_of_single_calls_does_not_grow_the_log() {
        let (window, grace) = (120_000, 300_000);
        let mut log = CallLog::default();
        for second in 0..2_000u64 {
            for call in 0..10 {
                let (at, place) = (second * 1_000 + call * 100, second * 10 + call);
                let mut single = batch(place, place + 1, at);
                single.until = UnixMillis(at + window);
                log.push(single, window + grace);
                log.lapse(grace, UnixMillis(at));
            }
        }
        assert!(log.iter().count() <= 132, "{}", log.iter().count());
    }

    #[test]
    fn a_place_is_found_in_its_entry_and_not_between_entries() {
        let mut log = CallLog::default();
        log.push(batch(2, 5, 0), 0);
        log.push(batch(7, 9, 60_000), 0);
        for (place, from) in [(1, None), (2, Some(2)), (4, Some(2)), (5, None), (7, Some(7)), (9, None)] {
            assert_eq!(log.find(Place(place)).map(|found| found.from.0), from, "{place}");
        }
    }

    #[test]
    fn an_entry_lapses_on_the_clock_and_stays_for_the_grace() {
        let mut log = CallLog::default();
        log.push(batch(0, 5, 0), 0);
        log.find_mut(Place(0)).unwrap().claimed = 2;
        assert_eq!(log.lapse(100, UnixMillis(9_999)), None);
        assert_eq!(
            log.lapse(100, UnixMillis(10_000)),
            Some(Lapse { claimed: 2, lapsed: 3, over_below: None })
        );
        assert_eq!((log.unclaimed(), log.lapse(100, UnixMillis(10_099))), (0, None));
        let over = log.lapse(100, UnixMillis(10_100));
        assert_eq!(over, Some(Lapse { over_below: Some(Place(5)), ..Lapse::default() }));
        assert_eq!(log.iter().count(), 0);
    }
}
