//! How fast a queue moves, measured, and what that means for a wait.
//!
//! The flow is kept as the last few *segments*: from one call to a later one, the time that passed while
//! somebody waited, and how many places were called. A segment ends at a call, so a batch counts for the time
//! that earned it and the rhythm of batches is no noise. Time while the sale is paused, or while
//! nobody waits, says nothing about speed and is left out.
//!
//! From the segments follow a mean and its dispersion, hence the range in which the middle half of
//! outcomes falls. Until there are enough segments the sale's pace says what it can be at most, and at that it is
//! taken to be half as fast at least; where even that is not to be had, through a long silence, and while the
//! measurements are too wide to help anybody, it is unknown. What is shown moves by a quarter per segment at most, so
//! that an estimate never leaps.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize, Serializer};

use crate::definition::Pace;
use crate::state::cadence_ms;
use crate::types::UnixMillis;

#[cfg(test)]
mod tests;

/// Segments that are remembered: the last 160 s of a sale that calls every few seconds.
const SEGMENTS: usize = 32;

/// Fewer segments than this are an anecdote.
const FEWEST: usize = 3;

/// A segment is at least this long.
const SHORTEST_MS: u64 = 5_000;

/// Silence up to this is part of the flow.
const PATIENCE_MS: u64 = 30_000;

/// Places called a minute: the middle half of what the measurements allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// The 25th percentile.
    pub low: PerMinute,
    /// The 75th percentile.
    pub high: PerMinute,
}

/// A number of places a minute, in thousandths: sales that let in one visitor at a time are slower than one.
/// Serialised as a decimal number a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerMinute(NonZeroU64);

impl PerMinute {
    /// Thousandths of a place a minute.
    #[must_use]
    pub const fn thousandths(self) -> u64 {
        self.0.get()
    }

    /// Places a minute.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        self.0.get() as f64 / 1_000.0
    }
}

impl Serialize for PerMinute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

/// How long a ticket will still wait: the middle half of what the measurements allow, or what the pace lets expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EtaRange {
    /// The 25th percentile, in seconds.
    pub low_s: u64,
    /// The 75th percentile, in seconds.
    pub high_s: u64,
}

impl EtaRange {
    /// The wait of a ticket with `ahead` places before it, where calls come every `cadence_ms`. The room computes the
    /// same from the snapshot: `room/testdata/eta.json` holds both to it.
    #[must_use]
    pub fn new(ahead: u64, rate: Rate, cadence_ms: u64) -> Self {
        Self {
            low_s: ahead.saturating_mul(60_000) / rate.high.0,
            high_s: (ahead.saturating_add(1).saturating_mul(60_000).div_ceil(rate.low.thousandths()))
                .saturating_add(cadence_ms.div_ceil(1_000)),
        }
    }
}

/// What a queue was like since it was observed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// Somebody waits to be called, after what was called just now.
    Waiting,
    /// Everybody has been called.
    Empty,
    /// Calling is stopped on purpose: paused, not open, sold out.
    Stopped,
}

/// The measured flow of one sale. Its size does not depend on the crowd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// What lies between two batches in the sale's pace.
    period_ms: u64,
    observed_at: UnixMillis,
    segments: VecDeque<Segment>,
    open: Option<Open>,
    /// Time waited since the last call.
    silence_ms: u64,
    /// A silence outlasted all patience and no whole segment has followed it.
    interrupted: bool,
    stopped: bool,
    shown: Option<Band>,
    /// What the pace allows to expect before anything is measured.
    #[serde(default)]
    expected: Option<Band>,
    /// The measurements are too far apart to say anything.
    vague: bool,
}

/// Time waited in ms, places called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Segment(NonZeroU32, u32);

/// The segment that has begun at a call and not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    waited_ms: u64,
    called: u64,
}

/// Thousandths of places a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Band {
    low: u64,
    high: u64,
}

// === impl Flow ===

impl Flow {
    /// Nothing measured yet, for a sale whose pace calls every `period_ms` (0 where it calls all the time).
    /// A change of pace makes a new one: what was measured does not hold any more.
    #[must_use]
    pub const fn new(period_ms: u64) -> Self {
        Self {
            period_ms,
            observed_at: UnixMillis(0),
            segments: VecDeque::new(),
            open: None,
            silence_ms: 0,
            interrupted: false,
            stopped: true,
            shown: None,
            expected: None,
            vague: false,
        }
    }

    /// Nothing measured yet, for a sale of this pace. With `compensates` the pace may double. A lane gets `share` percent of
    /// it at least, and all of it while nobody waits in the others.
    #[must_use]
    pub fn expecting(pace: Pace, compensates: bool, share: u8) -> Self {
        let (admit, in_ms) = match pace {
            Pace::Batch { admit, every_ms } => (admit, every_ms),
            Pace::Smooth { admit, per_ms, .. } => (admit, per_ms),
        };
        let paced = (u64::from(admit).saturating_mul(60_000_000) / in_ms.max(1)).max(1);
        let high = if compensates { paced.saturating_mul(2) } else { paced };
        let least = paced.saturating_mul(u64::from(share)) / 100;
        let expected = Some(Band { low: (least / 2).max(1), high });
        Self { expected, ..Self::new(cadence_ms(pace, share)) }
    }

    /// Takes note that `called` places were called at `now`, and of what the queue is like after that.
    ///
    /// To be told at each tick, calls or not. A clock that steps back adds no time.
    pub fn observe(&mut self, now: UnixMillis, called: u64, backlog: Backlog) {
        let was_waiting = self.open.is_some() || self.silence_ms > 0 || !self.stopped;
        let elapsed = now.since(self.observed_at);
        self.observed_at = self.observed_at.max(now);
        self.stopped = backlog == Backlog::Stopped;
        if backlog != Backlog::Waiting {
            // What the last ones were called for says how few they were, not how fast the sale is.
            self.open = None;
            self.silence_ms = 0;
            return;
        }
        if was_waiting {
            self.wait(elapsed);
        }
        if called > 0 {
            self.call(called);
        }
    }

    /// The flow in places a minute; unknown while it cannot honestly be told.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.shown.filter(|_| self.can_be_told())?.rate()
    }

    /// What the pace lets expect for as long as nothing has been measured, where nothing but the pace holds anybody
    /// back.
    #[must_use]
    pub fn forecast(&self) -> Option<Rate> {
        self.expected.filter(|_| self.shown.is_none() && self.can_be_told())?.rate()
    }

    fn can_be_told(&self) -> bool {
        let silent = self.interrupted || self.silence_ms > self.patience_ms();
        !silent && !self.stopped && !self.vague
    }

    fn wait(&mut self, elapsed: u64) {
        self.silence_ms = self.silence_ms.saturating_add(elapsed);
        if let Some(open) = &mut self.open {
            open.waited_ms = open.waited_ms.saturating_add(elapsed);
        }
    }

    fn call(&mut self, called: u64) {
        let patience = self.patience_ms();
        let silence = std::mem::take(&mut self.silence_ms);
        let overlong = silence.saturating_sub(patience);
        // The call that begins a segment was earned before it.
        let Some(open) = &mut self.open else {
            self.open = Some(Open::default());
            self.interrupted |= overlong > 0;
            return;
        };
        open.called = open.called.saturating_add(called);
        // Beyond all patience it was an outage, and the next one cannot be foretold from it.
        open.waited_ms -= overlong.min(open.waited_ms);
        if open.waited_ms < SHORTEST_MS.max(self.period_ms / 4 * 3) {
            self.interrupted |= overlong > 0;
            return;
        }
        let segment = Segment(
            u32::try_from(open.waited_ms).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX),
            u32::try_from(open.called).unwrap_or(u32::MAX),
        );
        self.open = Some(Open::default());
        self.interrupted = overlong > 0;
        while self.segments.len() >= SEGMENTS {
            self.segments.pop_front();
        }
        self.segments.push_back(segment);
        if !self.interrupted {
            self.show();
        }
    }

    /// How long a silence is taken for part of the flow: long gaps are, once they have been seen.
    fn patience_ms(&self) -> u64 {
        let longest = self.segments.iter().map(|segment| u64::from(segment.0.get())).max().unwrap_or(0);
        PATIENCE_MS.max(self.period_ms.saturating_mul(3)).max(longest * 2)
    }

    fn show(&mut self) {
        let measured = measure(&self.segments);
        self.vague = measured.is_none() && self.segments.len() >= FEWEST;
        let Some(to) = measured else { return };
        // Who was told what the pace lets expect must not see that leap either, as long as it came true.
        let from = self.shown.or(self.expected.filter(|expected| expected.meets(to)));
        self.shown =
            Some(from.map_or(to, |from| Band {
                low: approach(from.low, to.low),
                high: approach(from.high, to.high),
            }));
    }
}

impl Band {
    fn rate(self) -> Option<Rate> {
        Some(Rate {
            low: PerMinute(NonZeroU64::new(self.low)?),
            high: PerMinute(NonZeroU64::new(self.high)?),
        })
    }

    fn meets(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Moves towards a value by a quarter at most.
fn approach(from: u64, to: u64) -> u64 {
    to.clamp(from - from / 5, from.saturating_add((from / 4).max(1)))
}

/// The middle half of the rates that the segments allow; none if there are too few, or it is too wide.
///
/// Calls are taken for a renewal process: the number called in a time T varies by v·T, and v is measured as
/// the mean of (cᵢ − μ·sᵢ)² / sᵢ over segments of sᵢ ms with cᵢ calls. Over a wait as long as what
/// has been measured, the rate then has the variance 2·v / Σs: once for the wait to come, once for the
/// measurement. The quartiles of a normal distribution lie 0.6745 standard deviations off its mean.
fn measure(segments: &VecDeque<Segment>) -> Option<Band> {
    let freedom = u128::try_from(segments.len().checked_sub(1)?).ok()?;
    if segments.len() < FEWEST {
        return None;
    }
    let time: u128 = segments.iter().map(|segment| u128::from(segment.0.get())).sum();
    let called: u128 = segments.iter().map(|segment| u128::from(segment.1)).sum();
    let mean = called * 60_000_000 / time;
    let spread: u128 = segments
        .iter()
        .map(|Segment(waited, count)| {
            let (waited, count) = (u128::from(waited.get()), u128::from(*count));
            let off = (count * time).abs_diff(called * waited) * 1_000 / time;
            off * off / waited
        })
        .sum();
    let variance = spread / freedom * 2 * 60_000 * 60_000 / time;
    // Never narrower than a twentieth: that is as well as anybody can foretell a sale.
    let half = (variance.isqrt() * 6_745 / 10_000).max(mean / 20);
    if half * 2 > mean {
        return None;
    }
    Some(Band { low: u64::try_from(mean - half).ok()?, high: u64::try_from(mean + half).ok()? })
}
