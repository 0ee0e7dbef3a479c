//! How many first numbers a network was given lately.
//!
//! Each is a bucket that leaks at an even pace, kept as the time at which it is empty (the "theoretical arrival time" of the
//! generic cell rate algorithm, ITU-T I.371 Annex A). Times are microseconds of one clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a network has free: `burst` at once, and one more every `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) burst: u64,
    /// In microseconds; at least 1.
    pub(super) interval: u64,
}

/// One network's buckets.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Of the numbers that cost nothing. What is given for proofs does not go in here, so that at most an interval passes until
    /// the next one is free again, whatever others prove.
    free: AtomicU64,
    /// Of the numbers that were given for proofs.
    dear: AtomicU64,
}

// === impl Meter ===

impl Meter {
    /// Takes a free number.
    ///
    /// # Errors
    /// Microseconds until there is one.
    pub(super) fn take_free(&self, allowance: Allowance, now: u64) -> Result<(), u64> {
        let room = allowance.interval.saturating_mul(allowance.burst.saturating_sub(1));
        let mut took = Ok(());
        let _ = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |empty_at| {
            let fill = level(empty_at, allowance, allowance.burst, now);
            took = if fill <= room { Ok(()) } else { Err(fill - room) };
            let more = if took.is_ok() { allowance.interval } else { 0 };
            Some(now.saturating_add(fill).saturating_add(more))
        });
        took
    }

    /// Microseconds until there is a free number.
    pub(super) fn free_in(&self, allowance: Allowance, now: u64) -> u64 {
        let room = allowance.interval.saturating_mul(allowance.burst.saturating_sub(1));
        settled(&self.free, allowance, allowance.burst, now).saturating_sub(room)
    }

    /// A free number that was taken is not needed.
    pub(super) fn return_free(&self, allowance: Allowance) {
        give_back(&self.free, allowance);
    }

    /// How many were given for proofs beyond what has leaked since; at most `most`.
    pub(super) fn dear(&self, allowance: Allowance, most: u64, now: u64) -> u64 {
        settled(&self.dear, allowance, most, now).div_ceil(allowance.interval)
    }

    /// One is given for a proof. More than `most` are not kept in mind: it would take too long to be forgotten.
    pub(super) fn add_dear(&self, allowance: Allowance, most: u64, now: u64) {
        let _ = self.dear.fetch_update(Ordering::AcqRel, Ordering::Acquire, |empty_at| {
            let fill = level(empty_at, allowance, most, now).saturating_add(allowance.interval);
            Some(now.saturating_add(fill.min(allowance.interval.saturating_mul(most))))
        });
    }

    /// One was not given after all.
    pub(super) fn return_dear(&self, allowance: Allowance) {
        give_back(&self.dear, allowance);
    }
}

/// How long a bucket takes to leak empty. What would be more than `most` is forgotten by this.
fn settled(bucket: &AtomicU64, allowance: Allowance, most: u64, now: u64) -> u64 {
    let mut fill = 0;
    let _ = bucket.fetch_update(Ordering::AcqRel, Ordering::Acquire, |empty_at| {
        fill = level(empty_at, allowance, most, now);
        Some(now.saturating_add(fill))
    });
    fill
}

/// The same, from when it is empty. Never more than one that holds `most` takes: a clock that was set back must not lock
/// anybody out.
fn level(empty_at: u64, allowance: Allowance, most: u64, now: u64) -> u64 {
    empty_at.saturating_sub(now).min(allowance.interval.saturating_mul(most))
}

fn give_back(bucket: &AtomicU64, allowance: Allowance) {
    let _ = bucket.fetch_update(Ordering::AcqRel, Ordering::Acquire, |empty_at| {
        Some(empty_at.saturating_sub(allowance.interval))
    });
}
