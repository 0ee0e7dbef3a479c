//! What is over for good, and when it may be forgotten.
//!
//! A sale that is always on would otherwise grow with every visitor it ever had. Once no recall can reach a place any
//! more, the log of calls has let go of it, and no ticket of it can be admitted (again) whatever else is forgotten. The
//! visitor is remembered for a day longer, so that nobody who comes back meanwhile is put at the back unasked. What is
//! left of all of them then is one number.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::types::{Place, UnixMillis};

/// How long a visitor is remembered whose ticket is used up.
pub(crate) const REMEMBERED_MS: u64 = 24 * 60 * 60 * 1_000;

/// Places share an entry whose reach ended in the same hour.
const ENTRY_MS: u64 = 60 * 60 * 1_000;

/// The places that are over. Its size does not depend on the crowd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bygone {
    forgotten: Place,
    /// All places below were out of reach at that time; both ascend.
    over: VecDeque<(Place, UnixMillis)>,
}

// === impl Bygone ===

impl Bygone {
    /// Nothing is over yet of the places from here on.
    pub(crate) fn from(first: Place) -> Self {
        Self { forgotten: first, over: VecDeque::new() }
    }

    /// Everything below has been forgotten, the draw's places apart.
    pub(crate) const fn forgotten(&self) -> Place {
        self.forgotten
    }

    /// Takes note that no recall reaches the places below any more.
    pub(crate) fn add(&mut self, below: Place, now: UnixMillis) {
        match self.over.back_mut() {
            Some(last) if last.1.0 / ENTRY_MS == now.0 / ENTRY_MS => *last = (below, now),
            _ => self.over.push_back((below, now)),
        }
    }

    /// All places below may be forgotten.
    pub(crate) fn due(&self, now: UnixMillis) -> Place {
        let due = self.over.iter().rev().find(|(_, since)| since.plus(REMEMBERED_MS) <= now);
        due.map_or(self.forgotten, |(below, _)| *below)
    }

    /// Takes note that all places below have been forgotten.
    pub(crate) fn forget(&mut self, below: Place) {
        self.forgotten = below;
        while self.over.front().is_some_and(|(over, _)| *over <= below) {
            self.over.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = ENTRY_MS;

    #[test]
    fn a_day_of_calls_takes_an_entry_an_hour() {
        let mut bygone = Bygone::default();
        for minute in 0..3 * 24 * 60u64 {
            let now = UnixMillis(minute * 60_000);
            bygone.add(Place(minute * 1_000), now);
            bygone.forget(bygone.due(now));
            assert!(bygone.over.len() <= 26, "{}", bygone.over.len());
        }
        assert!(bygone.forgotten() >= Place((2 * 24 - 1) * 60 * 1_000), "{bygone:?}");
    }

    #[test]
    fn nothing_is_due_before_its_day_is_over() {
        let mut bygone = Bygone::default();
        bygone.add(Place(5), UnixMillis(0));
        bygone.add(Place(9), UnixMillis(HOUR / 2));
        bygone.add(Place(12), UnixMillis(HOUR));
        let due = |bygone: &Bygone, now| bygone.due(UnixMillis(now));
        assert_eq!(due(&bygone, REMEMBERED_MS), Place(0), "the last of the hour counts");
        assert_eq!(due(&bygone, REMEMBERED_MS + HOUR / 2), Place(9));
        assert_eq!(due(&bygone, REMEMBERED_MS + HOUR), Place(12));
        bygone.forget(Place(7));
        assert_eq!((bygone.forgotten(), due(&bygone, REMEMBERED_MS + HOUR / 2)), (Place(7), Place(9)));
        bygone.forget(Place(12));
        assert_eq!(due(&bygone, u64::MAX), Place(12));
        assert!(bygone.over.is_empty());
    }
}
