//! Who comes when, and what they then do: a model of a crowd at a flash sale.

use ropeline_queue::{SaleId, VisitorKey};

use super::{DRAW_MS, LAST_JOIN_MS, OPEN_MS};

/// SplitMix64 (Steele, Lea and Flood, 2014): small, good enough for a crowd, the same everywhere.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from 0 up to and without `end`.
    pub(super) const fn below(&mut self, end: u64) -> u64 {
        ((self.roll() >> 32) * end) >> 32
    }

    pub(super) const fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// A skewed time with this mean and at most four times it: the product of two even ones.
    pub(super) const fn about(&mut self, mean: u64) -> u64 {
        let one = self.below(2 * mean);
        (one * self.below(2_000)) / 1_000
    }
}

/// What a visitor has in mind, fixed by who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Claims in good time.
    Shop,
    /// Claims after the call has lapsed.
    ComeLate,
    /// Never claims.
    StayAway,
    /// Leaves the queue some time after joining.
    Leave,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Character {
    pub(super) intent: Intent,
    /// Opens a second tab.
    pub(super) joins_twice: bool,
}

pub(super) fn character(seed: u64, visitor: u32) -> Character {
    let mut dice = Dice::new(seed ^ (u64::from(visitor) << 20));
    // 30 in a hundred do not claim in time: 3 of them come late.
    let intent = match dice.below(100) {
        0..3 => Intent::ComeLate,
        3..30 => Intent::StayAway,
        30..32 => Intent::Leave,
        _ => Intent::Shop,
    };
    Character { intent, joins_twice: dice.percent(5) }
}

pub(super) fn key(sale: &SaleId, visitor: u32) -> VisitorKey {
    VisitorKey::derive(sale, &visitor.to_string())
}

/// How many of all visitors have come by a time after the start.
pub(super) fn arrived(visitors: u32, at_ms: u64) -> u32 {
    // A rush when joining opens, a steeper one before the draw closes and again at the opening, then a tail.
    let curve = [
        (0, 0),
        (60_000, 200),
        (DRAW_MS - 300_000, 330),
        (DRAW_MS - 60_000, 420),
        (DRAW_MS, 600),
        (OPEN_MS, 680),
        (OPEN_MS + 40_000, 780),
        (OPEN_MS + 800_000, 920),
        (LAST_JOIN_MS, 1_000),
    ];
    let share = curve.windows(2).find(|leg| at_ms < leg[1].0).map_or(1_000_000, |leg| {
        leg[0].1 * 1_000 + (leg[1].1 - leg[0].1) * 1_000 * (at_ms - leg[0].0) / (leg[1].0 - leg[0].0)
    });
    u32::try_from(u64::from(visitors) * share / 1_000_000).unwrap_or(visitors)
}
