//! How soon a waiting client asks again: seldom while it is far off, often when its turn is near.

use crate::flow::EtaRange;

/// A client is never told to ask more often than this, jitter aside.
pub const SHORTEST_MS: u64 = 2_000;

/// No client waits longer than this before it asks again.
pub const LONGEST_MS: u64 = 60_000;

/// Most polls a second that a crowd waiting for the opening is allowed to make.
const OPENING_POLLS_PER_SECOND: u64 = 100_000;

/// How far a client is from the next thing that matters to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Its turn is that far off.
    Eta(EtaRange),
    /// So many places are before it and how fast they go is unknown.
    Ahead(u64),
    /// The sale opens in so many ms; so many wait for it.
    Opening {
        /// Milliseconds to the opening or the draw.
        in_ms: u64,
        /// Visitors who wait.
        waiting: u64,
    },
}

/// Milliseconds after which this client should ask again: a tenth of its wait, `bound_ms` at most, jittered by
/// ±20 % from `seed`, so that clients that were told the same do not come back together.
///
/// A wait is counted at its low end: being early costs a poll, being late a part of the claim window.
#[must_use]
pub fn after_ms(distance: Distance, bound_ms: u64, seed: u64) -> u64 {
    let (least, tenth) = match distance {
        Distance::Eta(eta) => (SHORTEST_MS, eta.low_s.saturating_mul(100)),
        // As if the usual hundred a second were called.
        Distance::Ahead(places) => (SHORTEST_MS, places),
        Distance::Opening { in_ms, waiting } => {
            let share = waiting.saturating_mul(1_000) / OPENING_POLLS_PER_SECOND;
            (share.clamp(SHORTEST_MS, LONGEST_MS), in_ms / 10)
        }
    };
    // The longest jittered answer is the bound itself.
    let most = bound_ms.min(LONGEST_MS) / 6 * 5;
    let base = tenth.clamp(least, LONGEST_MS).min(most);
    base * (800 + mix(seed) % 401) / 1_000
}

/// The bound for everybody: [`LONGEST_MS`], but half the time in which the stock can be gone, so that "sold
/// out" is news to nobody; [`SHORTEST_MS`] at the end.
///
/// `available` is what is left to sell where that is known, `most_per_minute` what the pace calls at most.
#[must_use]
pub const fn bound_ms(available: Option<u64>, most_per_minute: u64) -> u64 {
    let (Some(available), true) = (available, most_per_minute > 0) else { return LONGEST_MS };
    let half = available.saturating_mul(30_000) / most_per_minute;
    if half < SHORTEST_MS {
        SHORTEST_MS
    } else if half > LONGEST_MS {
        LONGEST_MS
    } else {
        half
    }
}

/// SplitMix64's output function: neighbouring seeds give unrelated numbers.
const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn eta(low_s: u64) -> Distance {
        Distance::Eta(EtaRange { low_s, high_s: low_s * 2 })
    }

    #[test]
    fn far_ones_ask_seldom_and_near_ones_often() {
        for (low_s, least, most) in [(0, 1_600, 2_400), (100, 8_000, 12_000), (86_400, 40_000, 60_000)] {
            for seed in 0..100 {
                let after = after_ms(eta(low_s), LONGEST_MS, seed);
                assert!((least..=most).contains(&after), "{low_s} s away: {after}");
            }
        }
    }

    #[test]
    fn clients_told_the_same_do_not_come_back_together() {
        let mut times: Vec<u64> = (0..1_000).map(|seed| after_ms(eta(300), LONGEST_MS, seed)).collect();
        times.sort_unstable();
        let quarter = |n: usize| times[n * 999 / 4];
        assert!(quarter(0) < 24_200 && quarter(4) > 35_800, "{} to {}", quarter(0), quarter(4));
        assert!((29_000..31_000).contains(&quarter(2)), "median {}", quarter(2));
    }

    #[test]
    fn everybody_hears_of_the_last_unit_in_two_seconds() {
        assert_eq!(bound_ms(Some(0), 6_000), SHORTEST_MS);
        assert_eq!(bound_ms(Some(3_000), 6_000), 15_000);
        assert_eq!(bound_ms(Some(1_000_000), 6_000), LONGEST_MS);
        assert_eq!(bound_ms(None, 6_000), LONGEST_MS);
        assert!((0..1_000).all(|seed| after_ms(eta(9_000), SHORTEST_MS, seed) <= SHORTEST_MS));
    }

    #[test]
    fn a_crowd_at_the_door_does_not_knock_at_once() {
        let door = |waiting| after_ms(Distance::Opening { in_ms: 0, waiting }, LONGEST_MS, 7);
        assert!(door(2_000_000) >= 16_000 && door(100) <= 2_400);
    }

    #[test]
    fn mix_is_splitmix64() {
        // First output for seed 1234567, as published with Vigna's splitmix64.c and checked by many ports.
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    proptest! {
        #[test]
        fn never_past_the_bound_and_never_hammering(
            low_s: u64, ahead: u64, in_ms: u64, bound in SHORTEST_MS..200_000, seed: u64,
        ) {
            let waits = [
                Distance::Eta(EtaRange { low_s, high_s: low_s }),
                Distance::Ahead(ahead),
                Distance::Opening { in_ms, waiting: ahead },
            ];
            for wait in waits {
                let after = after_ms(wait, bound, seed);
                prop_assert!(after <= bound.min(LONGEST_MS) && after >= 1_300, "{:?}: {}", wait, after);
            }
        }
    }
}
