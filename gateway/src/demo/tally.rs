//! What the crowd lived through, counted as the shoppers themselves saw it.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a shopper's day ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Owns a unit.
    Bought,
    /// Joined and vanished.
    Vanished,
    /// Left the queue.
    Left,
    /// Missed the call for good.
    Missed,
    /// Looked at the product and left.
    Looked,
    /// The card was declined.
    Declined,
    /// The hold ran out.
    HoldRanOut,
    /// There was nothing left.
    SoldOut,
}

/// Faults that are kept word for word; of the rest only the number.
const KEPT_FAULTS: usize = 5;

/// Counts of everybody together.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Shoppers that hold a ticket.
    pub(super) joined: u64,
    /// Shoppers that hold an admission token.
    pub(super) admitted: u64,
    /// Shoppers who came back after their call had lapsed and were called again.
    pub(super) recalled: u64,
    /// Purchases that the shop confirmed, by their id.
    pub(super) purchases: HashSet<String>,
    /// Shoppers who wanted a second unit and were refused.
    pub(super) second_refused: u64,
    /// Shoppers whose two reservations of one instant were one.
    pub(super) double_clicks: u64,
    /// Payments that were declined.
    pub(super) declined: u64,
    /// How it ended, in the order of [`Ending`].
    pub(super) endings: [u64; 8],
    /// Answers that should not have been.
    pub(super) faults: Vec<String>,
    /// How many.
    pub(super) fault_count: u64,
    /// How long each look at the snapshot took.
    polls: Vec<Duration>,
}

// === impl Tally ===

impl Tally {
    /// The counts, to read or to add to.
    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shopper is through.
    pub(super) fn ended(&self, ending: anyhow::Result<Ending>) {
        let mut counts = self.counts();
        match ending {
            Ok(ending) => counts.endings[ending.index()] += 1,
            Err(error) => counts.fault(format!("{error:#}")),
        }
    }
}

// === impl Counts ===

impl Counts {
    /// Something was not as it should be.
    pub(super) fn fault(&mut self, what: String) {
        self.fault_count += 1;
        if self.faults.len() < KEPT_FAULTS {
            self.faults.push(what);
        }
    }

    /// A look at the snapshot took so long.
    pub(super) fn polled(&mut self, took: Duration) {
        self.polls.push(took);
    }

    /// Shoppers with this ending.
    #[must_use]
    pub(super) fn ended(&self, ending: Ending) -> u64 {
        self.endings[ending.index()]
    }

    /// How many looks at the snapshot, and the longest of the fastest 50, 90, 99 and 100 in a hundred.
    pub(super) fn polls(&mut self) -> (usize, [Duration; 4]) {
        self.polls.sort_unstable();
        let last = self.polls.len().saturating_sub(1);
        let at = |percent: usize| self.polls.get(last * percent / 100).copied().unwrap_or_default();
        (self.polls.len(), [50, 90, 99, 100].map(at))
    }
}

// === impl Ending ===

impl Ending {
    fn index(self) -> usize {
        match self {
            Self::Bought => 0,
            Self::Vanished => 1,
            Self::Left => 2,
            Self::Missed => 3,
            Self::Looked => 4,
            Self::Declined => 5,
            Self::HoldRanOut => 6,
            Self::SoldOut => 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_seen() {
        let mut counts = Counts::default();
        assert_eq!(counts.polls(), (0, [Duration::ZERO; 4]));
        for ms in (1..=100).rev() {
            counts.polled(Duration::from_millis(ms));
        }
        assert_eq!(counts.polls(), (100, [50, 90, 99, 100].map(Duration::from_millis)));
    }

    #[test]
    fn every_fault_counts_and_the_first_are_told() {
        let tally = Tally::default();
        for number in 0..20 {
            tally.ended(Err(anyhow::anyhow!("fault {number}")));
        }
        let counts = tally.counts();
        assert_eq!((counts.fault_count, counts.faults.len()), (20, KEPT_FAULTS));
    }
}
