//! For how long a sale may be open without its store, on the whole.

use std::time::{Duration, Instant};

/// What has been used comes back so many times slower, while the store is there. One that comes and goes does not keep the
/// shop open for good.
pub(super) const SLOWER: u32 = 10;

/// The time that a sale has been without its store, less what has come back since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    used: Duration,
    /// When that was so.
    at: Instant,
    away: bool,
}

// === impl Budget ===

impl Budget {
    /// Nothing is used, and the store is there.
    pub(super) const fn new(now: Instant) -> Self {
        Self { used: Duration::ZERO, at: now, away: false }
    }

    /// Takes note that the store is away from now on, or is there. No more than `most` is ever used.
    pub(super) fn note(&mut self, away: bool, most: Duration, now: Instant) {
        if away != self.away {
            *self = Self { used: self.used(now).min(most), at: now, away };
        }
    }

    /// What is used by then.
    pub(super) fn used(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.at);
        if self.away { self.used + since } else { self.used.saturating_sub(since / SLOWER) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(240);

    #[test]
    fn a_store_that_comes_and_goes_uses_it_up_all_the_same() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut budget = Budget::new(began);
        for round in 0..20 {
            budget.note(true, MOST, at(round * 10));
            // Each further failure says nothing new.
            budget.note(true, MOST, at(round * 10 + 4));
            budget.note(false, MOST, at(round * 10 + 9));
        }
        let used = budget.used(at(200));
        assert!((Duration::from_secs(170)..=Duration::from_secs(180)).contains(&used), "{used:?}");
    }

    #[test]
    fn what_was_used_comes_back_slowly() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut budget = Budget::new(began);
        budget.note(true, MOST, at(0));
        budget.note(false, MOST, at(60));
        assert_eq!(budget.used(at(60)), Duration::from_secs(60));
        assert_eq!(budget.used(at(360)), Duration::from_secs(30));
        assert_eq!(budget.used(at(900)), Duration::ZERO);
        budget.note(true, MOST, at(900));
        assert_eq!(budget.used(at(910)), Duration::from_secs(10), "nothing is saved up");
        budget.note(false, MOST, at(9_000));
        assert_eq!(budget.used(at(9_000)), MOST, "nobody was let in for longer");
    }
}
