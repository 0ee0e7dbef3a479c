//! What a run shows: fairness, how well waits were foretold, memory.

use std::fmt;

use ropeline_queue::draw::Permutation;
use ropeline_queue::flow::EtaRange;
use ropeline_queue::visitors::VisitorMap;
use ropeline_queue::{Arrival, Lane, Place, Position, Queue, SaleView, Standing};

use super::{Violation, must};

/// What a waiting visitor was told.
#[derive(Debug, Clone, Copy)]
pub(super) struct EtaSample {
    pub(super) place: Place,
    pub(super) at_ms: u64,
    pub(super) range: EtaRange,
}

/// What the state takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Visitors in the map.
    pub(crate) visitors: usize,
    /// Bytes of the map.
    pub(crate) map_bytes: usize,
    /// Bytes of the core as a store writes it.
    pub(crate) core_bytes: usize,
}

impl Memory {
    pub(super) fn of(queue: &Queue) -> Self {
        let visitors = queue.visitors(Lane::FIRST);
        Self {
            visitors: visitors.map_or(0, VisitorMap::len),
            map_bytes: visitors.map_or(0, VisitorMap::resident_bytes),
            core_bytes: serde_json::to_vec(queue.core()).map_or(0, |core| core.len()),
        }
    }
}

/// A tenth of the foretold waits, by length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decile {
    /// Median of what was foretold, in seconds: low and high end.
    pub(crate) foretold_s: (u64, u64),
    /// Median of what came, in seconds.
    pub(crate) actual_s: u64,
    /// Median difference between the middle of the range and what came, in percent of what came.
    pub(crate) error_percent: u64,
    /// How many came inside the range, in percent.
    pub(crate) inside_percent: u64,
}

pub(super) struct Facts<'a> {
    pub(super) view: &'a SaleView,
    pub(super) places: &'a Permutation,
    pub(super) called_ms: &'a [u64],
    pub(super) samples: &'a [EtaSample],
    pub(super) unknown: u64,
    pub(super) recalls: u64,
    pub(super) rejoins: u64,
    pub(super) refused_joins: u64,
    pub(super) busiest: u64,
    pub(super) max_active: u32,
    pub(super) sold_out_after_s: u64,
    pub(super) at_draw: Memory,
    pub(super) at_end: Memory,
}

/// The figures of one run that broke nothing.
#[derive(Debug)]
pub(crate) struct Report {
    /// Numbers given.
    pub(crate) arrivals: u64,
    /// Numbers drawn.
    pub(crate) drawn: usize,
    /// Rank correlation of arrival and place within the draw.
    pub(crate) correlation: f64,
    /// The same is beyond chance from here on.
    pub(crate) chance: f64,
    /// Called places past the draw.
    pub(crate) late_called: u64,
    /// Waits foretold that came true or did not.
    pub(crate) foretold: usize,
    /// Waits that were unknown when asked for, in percent.
    pub(crate) unknown_percent: u64,
    /// Their quality.
    pub(crate) deciles: Vec<Decile>,
    /// The state when the draw was made, and at the end.
    pub(crate) memory: [Memory; 2],
    /// Everything else, in words.
    pub(crate) summary: String,
}

pub(super) fn eta(view: &SaleView, place: Place) -> Option<EtaRange> {
    let position = Position { arrival: Arrival(place.0), place: Some(place) };
    match view.standing(position, view.as_of) {
        Standing::Waiting { eta, .. } => eta,
        _ => None,
    }
}

/// The ETA of somebody with so many ahead.
pub(super) fn eta_of(view: &SaleView, ahead: u64) -> Option<EtaRange> {
    eta(view, Place(view.serving.0 + ahead))
}

pub(super) fn write(facts: &Facts<'_>) -> Result<Report, Violation> {
    let drawn = facts.places.as_slice().len();
    let correlation = spearman(facts.places);
    // Five standard deviations of a random permutation's.
    let chance = 5.0 / (as_f64(drawn as u64) - 1.0).sqrt();
    must(correlation.abs() < chance, || format!("arrival and place correlate in the draw: {correlation}"))?;
    let late = facts.called_ms.get(drawn..).unwrap_or_default();
    must(facts.called_ms.is_sorted(), || "called out of order".to_owned())?;
    for arrival in [drawn as u64, facts.view.next_arrival.0 - 1] {
        let place = facts.places.place(Arrival(arrival));
        must(place.0 == arrival, || format!("late arrival {arrival} got place {place}"))?;
    }
    let deciles = deciles(facts);
    let totals = facts.view.totals;
    let asked = facts.samples.len() as u64 + facts.unknown;
    Ok(Report {
        arrivals: facts.view.next_arrival.0,
        drawn,
        correlation,
        chance,
        late_called: late.len() as u64,
        foretold: facts.samples.iter().filter(|sample| actual_s(facts, sample).is_some()).count(),
        unknown_percent: facts.unknown * 100 / asked.max(1),
        deciles,
        memory: [facts.at_draw, facts.at_end],
        summary: format!(
            "called {}, recalled {} ({} came late and got in), claimed {}, lapsed {}, left {}, joined again {}, \
             joins refused after sold out {}\nbusiest {} of {} at most; sold out {} s after opening; \
             claims measured at {} in a million",
            totals.called,
            totals.recalled,
            facts.recalls,
            totals.claimed,
            totals.lapsed,
            totals.left,
            facts.rejoins,
            facts.refused_joins,
            facts.busiest,
            facts.max_active,
            facts.sold_out_after_s,
            facts.view.claim_ratio.unwrap_or_default(),
        ),
    })
}

/// Spearman's rank correlation: 1 − 6·Σd² / (n·(n² − 1)).
fn spearman(places: &Permutation) -> f64 {
    let n = places.as_slice().len() as u64;
    let squares: u128 = (0u32..)
        .zip(places.as_slice())
        .map(|(arrival, place)| u128::from(arrival.abs_diff(*place)).pow(2))
        .sum();
    // To a part in a million million, so that both fit a float exactly enough.
    let whole = u128::from(n) * (u128::from(n).pow(2) - 1);
    let share = u64::try_from(6 * squares * 1_000_000_000_000 / whole).unwrap_or(u64::MAX);
    1.0 - as_f64(share) / 1e12
}

fn actual_s(facts: &Facts<'_>, sample: &EtaSample) -> Option<u64> {
    let called_ms = facts.called_ms.get(usize::try_from(sample.place.0).ok()?)?;
    Some(called_ms.saturating_sub(sample.at_ms) / 1_000)
}

fn deciles(facts: &Facts<'_>) -> Vec<Decile> {
    let mut waits: Vec<(EtaRange, u64)> =
        facts.samples.iter().filter_map(|sample| Some((sample.range, actual_s(facts, sample)?))).collect();
    waits.sort_by_key(|(range, actual)| (range.low_s + range.high_s, *actual));
    let size = waits.len().div_ceil(10).max(1);
    waits
        .chunks(size)
        .map(|decile| {
            let error = |(range, actual): &(EtaRange, u64)| {
                u64::midpoint(range.low_s, range.high_s).abs_diff(*actual) * 100 / (*actual).max(1)
            };
            let inside =
                decile.iter().filter(|(range, actual)| (range.low_s..=range.high_s).contains(actual));
            Decile {
                foretold_s: (
                    median(decile.iter().map(|(range, _)| range.low_s)),
                    median(decile.iter().map(|(range, _)| range.high_s)),
                ),
                actual_s: median(decile.iter().map(|(_, actual)| *actual)),
                error_percent: median(decile.iter().map(error)),
                inside_percent: inside.count() as u64 * 100 / decile.len() as u64,
            }
        })
        .collect()
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Exact below 2⁵³, far above anything counted here.
#[allow(clippy::cast_precision_loss)]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} arrivals, {} of them drawn", self.arrivals, self.drawn)?;
        writeln!(f, "{}", self.summary)?;
        writeln!(
            f,
            "fairness: rank correlation of arrival and place in the draw {:+.5} (chance: within {:.5}); \
             after it {} called strictly by arrival",
            self.correlation, self.chance, self.late_called
        )?;
        writeln!(
            f,
            "ETA: unknown {} % of the time; {} foretold, by decile:",
            self.unknown_percent, self.foretold
        )?;
        writeln!(f, "   foretold (s)    came (s)   error   inside the range")?;
        for decile in &self.deciles {
            let Decile { foretold_s: (low, high), actual_s, error_percent, inside_percent } = decile;
            writeln!(
                f,
                "  {low:>5} to {high:>5}  {actual_s:>9}  {error_percent:>4} %  {inside_percent:>10} %"
            )?;
        }
        for (when, memory) in ["at the draw", "at the end"].iter().zip(self.memory) {
            let each = as_f64(memory.map_bytes as u64) / as_f64(memory.visitors.max(1) as u64);
            writeln!(
                f,
                "memory {when}: {each:.1} bytes for each of {} visitors; core {} bytes",
                memory.visitors, memory.core_bytes
            )?;
        }
        Ok(())
    }
}
