//! What this gateway's store has done, for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreReport;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) commands: Count,
    pub(super) commits: Count,
    pub(super) conflicts: Count,
    pub(super) recoveries: Count,
}

/// Only ever grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

// === impl Counts ===

impl Counts {
    pub(super) fn report(&self) -> StoreReport {
        StoreReport {
            commands: self.commands.get(),
            commits: self.commits.get(),
            conflicts: self.conflicts.get(),
            recoveries: self.recoveries.get(),
        }
    }
}

// === impl Count ===

impl Count {
    pub(super) fn one_more(&self) {
        self.more(1);
    }

    pub(super) fn more(&self, by: usize) {
        self.0.fetch_add(u64::try_from(by).unwrap_or(0), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
