//! How many visitors time has earned, in integers.

use serde::{Deserialize, Serialize};

use crate::definition::Pace;
use crate::types::UnixMillis;

/// Credit of one call, so that compensated calls can cost a part of it.
pub(crate) const ONE_CALL: u64 = 1_000_000;

/// A token bucket.
///
/// Smooth: within any span of time no more is spent than rate × span + burst. Batch: within each interval no
/// more than one batch; what is left of it can be spent until the next interval starts and is then gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pacer {
    /// Unspent, in millionths of a call.
    credit: u64,
    /// Up to when time has been turned into credit.
    settled_at: UnixMillis,
    /// What the last division left over: 1 / per_ms of a millionth.
    rest: u64,
}

impl Pacer {
    /// A full bucket.
    pub(crate) fn full(pace: Pace, now: UnixMillis) -> Self {
        Self { credit: cap(pace), settled_at: now, rest: 0 }
    }

    /// The bucket as it stands at `now`.
    #[must_use]
    pub(crate) fn at(mut self, pace: Pace, now: UnixMillis) -> Self {
        let elapsed = now.since(self.settled_at);
        match pace {
            Pace::Batch { admit, every_ms } => {
                let intervals = elapsed / every_ms.max(1);
                if intervals > 0 {
                    self.credit = credit_of(admit);
                    self.settled_at = self.settled_at.plus(intervals.saturating_mul(every_ms));
                }
            }
            Pace::Smooth { admit, per_ms, .. } => {
                let per_ms = u128::from(per_ms.max(1));
                let earned = u128::from(elapsed) * u128::from(credit_of(admit)) + u128::from(self.rest);
                let whole = u64::try_from(earned / per_ms).unwrap_or(u64::MAX);
                self.credit = self.credit.saturating_add(whole);
                self.rest = u64::try_from(earned % per_ms).unwrap_or(0);
                self.settled_at = self.settled_at.plus(elapsed);
            }
        }
        if self.credit >= cap(pace) {
            self.credit = cap(pace);
            self.rest = 0;
        }
        self
    }

    /// Calls that can be paid for when each costs `cost`.
    pub(crate) fn calls(&self, cost: u64) -> u64 {
        self.credit / cost.max(1)
    }

    /// Pays for calls.
    pub(crate) fn spend(&mut self, calls: u64, cost: u64) {
        self.credit = self.credit.saturating_sub(calls.saturating_mul(cost));
    }

    /// Goes on under another pace with what was earned under the old one.
    #[must_use]
    pub(crate) fn repaced(self, old: Pace, new: Pace, now: UnixMillis) -> Self {
        let credit = self.at(old, now).credit.min(cap(new));
        Self { credit, settled_at: now, rest: 0 }
    }
}

fn credit_of(calls: u32) -> u64 {
    u64::from(calls) * ONE_CALL
}

fn cap(pace: Pace) -> u64 {
    match pace {
        Pace::Batch { admit, .. } => credit_of(admit),
        Pace::Smooth { burst, .. } => credit_of(burst),
    }
}

/// The measured part of called visitors who claim, over the last one or two thousand calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRatio {
    called: u64,
    claimed: u64,
}

impl ClaimRatio {
    /// Fewer calls than this say nothing.
    const MEANINGFUL: u64 = 50;
    /// Above this older calls lose weight.
    const MEMORY: u64 = 2_000;

    /// Takes in calls whose claim window is over.
    pub(crate) fn observe(&mut self, called: u64, claimed: u64) {
        self.called = self.called.saturating_add(called);
        self.claimed = self.claimed.saturating_add(claimed);
        while self.called >= Self::MEMORY {
            self.called /= 2;
            self.claimed /= 2;
        }
    }

    /// In millionths; none while too little is known.
    pub fn measured(&self) -> Option<u64> {
        (self.called >= Self::MEANINGFUL)
            .then(|| self.claimed.saturating_mul(ONE_CALL) / self.called)
            .map(|ratio| ratio.min(ONE_CALL))
    }

    /// What one call costs when no-shows are made up for: never less than half, so that the pace at most doubles.
    pub(crate) fn cost(&self) -> u64 {
        self.measured().unwrap_or(ONE_CALL).clamp(ONE_CALL / 2, ONE_CALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMOOTH: Pace = Pace::Smooth { admit: 3, per_ms: 7, burst: 4 };
    const BATCH: Pace = Pace::Batch { admit: 500, every_ms: 5_000 };

    #[test]
    fn smooth_credit_loses_nothing_to_division() {
        let mut pacer = Pacer::full(SMOOTH, UnixMillis(0));
        pacer.spend(4, ONE_CALL);
        for millis in 1..=7 {
            pacer = pacer.at(SMOOTH, UnixMillis(millis));
        }
        assert_eq!(pacer.calls(ONE_CALL), 3);
    }

    #[test]
    fn a_jump_of_the_clock_earns_no_more_than_the_cap() {
        for (pace, cap) in [(SMOOTH, 4), (BATCH, 500)] {
            let mut pacer = Pacer::full(pace, UnixMillis(0));
            pacer.spend(cap, ONE_CALL);
            assert_eq!(pacer.at(pace, UnixMillis(u64::MAX)).calls(ONE_CALL), cap);
        }
    }

    #[test]
    fn what_is_left_of_a_batch_is_not_carried_over() {
        let mut pacer = Pacer::full(BATCH, UnixMillis(0));
        pacer.spend(100, ONE_CALL);
        assert_eq!(pacer.at(BATCH, UnixMillis(4_999)).calls(ONE_CALL), 400);
        assert_eq!(pacer.at(BATCH, UnixMillis(5_000)).calls(ONE_CALL), 500);
    }

    #[test]
    fn a_new_pace_gives_no_new_credit() {
        let mut pacer = Pacer::full(BATCH, UnixMillis(0));
        pacer.spend(500, ONE_CALL);
        let faster = Pace::Batch { admit: 1_000, every_ms: 1_000 };
        let pacer = pacer.repaced(BATCH, faster, UnixMillis(10));
        assert_eq!(pacer.calls(ONE_CALL), 0);
        assert_eq!(pacer.at(faster, UnixMillis(1_010)).calls(ONE_CALL), 1_000);
    }

    #[test]
    fn claim_ratio_is_clamped_and_needs_a_sample() {
        let mut ratio = ClaimRatio::default();
        ratio.observe(49, 0);
        assert_eq!((ratio.measured(), ratio.cost()), (None, ONE_CALL));
        ratio.observe(51, 70);
        assert_eq!((ratio.measured(), ratio.cost()), (Some(700_000), 700_000));
        ratio.observe(1_000, 0);
        assert_eq!(ratio.cost(), 500_000);
        ratio.observe(u64::MAX, u64::MAX);
        assert!(ratio.measured().unwrap() <= ONE_CALL);
    }
}
