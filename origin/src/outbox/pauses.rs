//! How long is waited after something went wrong.

use std::time::Duration;

/// After the first time; each pause is twice the one before.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest pause of one event.
pub(super) const OF_AN_EVENT: Duration = Duration::from_secs(3_600);
/// The longest pause of a sink that cannot be reached: what waits is to be on its way soon after it can.
pub(crate) const OF_A_SINK: Duration = Duration::from_secs(30);

/// The pause after it went wrong for the `times`th time in a row, up to `longest`; by up to a half shorter, at random, so
/// that what failed together is not tried again together.
#[must_use]
pub(crate) fn after(times: u32, longest: Duration) -> Duration {
    jittered(times, longest, fastrand::f64())
}

fn jittered(times: u32, longest: Duration, chance: f64) -> Duration {
    let full = SHORTEST.saturating_mul(1 << times.saturating_sub(1).min(20)).min(longest);
    full.mul_f64(1.0 - chance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let seconds = |chance| {
            [0, 1, 2, 3, 12, 13, 80, u32::MAX].map(|times| jittered(times, OF_AN_EVENT, chance).as_secs_f64())
        };
        assert_eq!(seconds(0.0), [1.0, 1.0, 2.0, 4.0, 2_048.0, 3_600.0, 3_600.0, 3_600.0]);
        assert_eq!(seconds(1.0), [0.5, 0.5, 1.0, 2.0, 1_024.0, 1_800.0, 1_800.0, 1_800.0]);
        let many: std::collections::BTreeSet<Duration> = (0..100).map(|_| after(10, OF_A_SINK)).collect();
        assert!(many.len() > 50 && many.iter().all(|pause| *pause <= OF_A_SINK));
    }
}
