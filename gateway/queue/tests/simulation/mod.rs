//! A whole sale in simulated time: a crowd and a shop drive the real [`Queue`], every invariant is checked as it
//! goes, and a run is the same again for the same seed.
//!
//! The same code runs in full as the example `simulate` and scaled down as a test.

mod crowd;
mod ledger;
mod report;
mod shop;
mod world;

use std::fmt;

use ropeline_queue::{DefinitionErrors, DrawDefinition, Pace, RawDefinition, SaleDefinition, UnixMillis};

pub(crate) use report::Report;

/// Simulated time moves in such steps; each gateway would tick about as often.
const STEP_MS: u64 = 250;
/// When joining opens.
const START: UnixMillis = UnixMillis(1_800_000_000_000);
/// When the draw's arrivals are frozen, after the start.
const DRAW_MS: u64 = 30 * 60_000;
/// When calling begins.
const OPEN_MS: u64 = 31 * 60_000;
/// When everybody has come.
const LAST_JOIN_MS: u64 = 60 * 60_000;
/// Nothing takes this long.
const LAST_MS: u64 = 4 * 3_600_000;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    /// How many come; everything else is scaled to it.
    pub(crate) visitors: u32,
    /// Decides everything that is left to chance.
    pub(crate) seed: u64,
}

impl Scenario {
    /// Batches of a size that calls everybody in about an hour.
    const fn batch(&self) -> u32 {
        self.visitors.div_ceil(800)
    }

    /// Units to sell: not nearly enough.
    fn units(&self) -> u64 {
        u64::from(self.visitors) * 33 / 100
    }

    fn definition(&self) -> Result<SaleDefinition, DefinitionErrors> {
        let Ok(id) = "drop".parse() else { return Err(DefinitionErrors(Vec::new())) };
        RawDefinition {
            joins_open_at: Some(START),
            opens_at: Some(START.plus(OPEN_MS)),
            draw: Some(DrawDefinition::by_secret(START.plus(DRAW_MS))),
            pace: Pace::Batch { admit: self.batch(), every_ms: 5_000 },
            claim_window_ms: 120_000,
            recall_grace_ms: 300_000,
            lease_ms: 300_000,
            overcommit_percent: 150,
            compensate_no_shows: true,
            ..RawDefinition::new(id, self.visitors.div_ceil(25))
        }
        .check()
    }
}

/// What the queue must never do, and did.
#[derive(Debug)]
pub(crate) struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An invariant; what broke it is worded only when it is broken.
fn must(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(otherwise())) }
}

/// Plays the sale from the first join to the last unit and beyond.
pub(crate) fn run(scenario: Scenario) -> Result<Report, Violation> {
    world::World::new(scenario)?.play()
}
