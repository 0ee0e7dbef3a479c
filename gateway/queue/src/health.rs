//! How many visitors the shop can take at the moment, learnt from how it answers them.
//!
//! Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989): the limit falls by
//! three tenths when errors or latency pass their target, or when the shop says of itself that it has enough to do, and
//! climbs by a fiftieth of the maximum while all is well. A shop that fails altogether closes the door; once it answers again, or after a growing wait when
//! there is nobody inside to tell, a few are let in first.
//!
//! The limit only stops new visitors. Those inside stay, so a cut takes effect as they finish: no second cut
//! is made before that, and none is ever undone by an idle shop.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Requests before a verdict: fewer are added to the next window's.
const ENOUGH_REQUESTS: u64 = 10;
/// Windows after which few requests have to do.
const ENOUGH_WINDOWS: u16 = 10;
/// The load, in percent, at which a shop has as much as it wants.
const FULL_LOAD: u32 = 100;
/// Failures in a row that are no accident.
const FATAL_ERRORS: u64 = 3;
/// Windows that a cut is given to take effect.
const SETTLE_WINDOWS: u16 = 10;
/// Silent windows before the first try to reopen, and before the later ones.
const FIRST_RETRY: u16 = 5;
const LAST_RETRY: u16 = 60;

/// What the operator asks of the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthTarget {
    /// Most visitors at once, healthy or not.
    pub max: u32,
    /// Fewest visitors at once while the door is open, and as many as are let in first after it was closed.
    pub floor: u32,
    /// Latency above this, in ms, is too much; of the percentile that the windows carry.
    pub latency_ms: u32,
    /// More failed requests in a thousand than this are too many.
    pub errors_permille: u16,
}

/// What forwarded requests met within one window, usually a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HealthWindow {
    /// Answered.
    pub ok: u64,
    /// Failed: no answer, timed out, or a 5xx status.
    pub errors: u64,
    /// A percentile of the answers' latency in ms.
    pub latency_ms: u32,
    /// Visitors admitted at the moment.
    pub active: u32,
    /// The greatest load that the shop told of itself, in percent of what it wants to have at once; 0 where it told none.
    pub load_percent: u32,
}

/// The adaptive limit of one sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    target: HealthTarget,
    /// Of visitors at once; kept while the door is closed.
    limit: u32,
    door: Door,
    seen: Seen,
    /// Silent windows before the next try to reopen.
    retry: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Door {
    /// With windows that the last cut still has to take effect.
    Open { settling: u16 },
    /// With silent windows until a few are let in to see.
    Closed { retry_in: u16 },
}

/// Windows that have not led to a verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    ok: u64,
    errors: u64,
    /// Latency times requests.
    latency: u64,
    windows: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Well,
    Strained,
    Dead,
}

// === impl Health ===

impl Health {
    /// A shop that is taken to be well until it shows otherwise.
    #[must_use]
    pub fn new(target: HealthTarget) -> Self {
        let target = target.sane();
        Self {
            target,
            limit: target.max,
            door: Door::Open { settling: 0 },
            seen: Seen::default(),
            retry: FIRST_RETRY,
        }
    }

    /// Changes what is asked of the shop and keeps what has been learnt.
    pub fn retarget(&mut self, target: HealthTarget) {
        let untouched = self.limit == self.target.max;
        self.target = target.sane();
        self.limit = if untouched { self.target.max } else { self.within(self.limit) };
    }

    /// Most visitors at once; 0 while the door is closed.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        match self.door {
            Door::Open { .. } => self.limit,
            Door::Closed { .. } => 0,
        }
    }

    /// Takes one window into account and answers with the limit that follows.
    pub fn observe(&mut self, window: HealthWindow) -> u32 {
        let silent = window.ok == 0 && window.errors == 0;
        match (self.verdict(window), self.door) {
            (Some(Verdict::Dead), _) => self.close(),
            (Some(Verdict::Well), Door::Closed { .. }) => {
                self.retry = FIRST_RETRY;
                self.open_a_little();
            }
            (Some(Verdict::Strained), Door::Closed { .. }) => self.close(),
            (Some(Verdict::Well), Door::Open { .. }) => {
                self.retry = FIRST_RETRY;
                self.door = Door::Open { settling: 0 };
                self.climb(window.active);
            }
            (Some(Verdict::Strained), Door::Open { settling }) => self.cut(window.active, settling),
            (None, Door::Closed { retry_in }) if silent => {
                if retry_in > 1 {
                    self.door = Door::Closed { retry_in: retry_in - 1 };
                } else {
                    self.retry = (self.retry * 2).min(LAST_RETRY);
                    self.open_a_little();
                }
            }
            (None, _) => {}
        }
        self.limit()
    }

    fn verdict(&mut self, window: HealthWindow) -> Option<Verdict> {
        let seen = &mut self.seen;
        seen.ok = seen.ok.saturating_add(window.ok);
        seen.errors = seen.errors.saturating_add(window.errors);
        let requests = window.ok.saturating_add(window.errors);
        seen.latency = seen.latency.saturating_add(u64::from(window.latency_ms).saturating_mul(requests));
        seen.windows = seen.windows.saturating_add(1);

        let requests = seen.ok.saturating_add(seen.errors);
        let dead = seen.errors >= FATAL_ERRORS && seen.errors / 10 >= seen.ok;
        // What the shop says of itself is no sample: one word is enough.
        let full = window.load_percent >= FULL_LOAD;
        let enough = full || requests >= ENOUGH_REQUESTS || seen.windows >= ENOUGH_WINDOWS;
        if !dead && !enough {
            return None;
        }
        let Seen { errors, latency, .. } = std::mem::take(seen);
        if requests == 0 {
            return None;
        }
        let failing = errors.saturating_mul(1_000) / requests > u64::from(self.target.errors_permille);
        let slow = latency / requests > u64::from(self.target.latency_ms);
        Some(match (dead, failing || slow || full) {
            (true, _) => Verdict::Dead,
            (false, true) => Verdict::Strained,
            (false, false) => Verdict::Well,
        })
    }

    const fn close(&mut self) {
        self.limit = self.target.floor;
        self.door = Door::Closed { retry_in: self.retry };
    }

    fn open_a_little(&mut self) {
        self.seen = Seen::default();
        self.limit = self.target.floor;
        self.door = Door::Open { settling: 0 };
    }

    /// A limit that is not made use of has not been tried, and is left where it is.
    fn climb(&mut self, active: u32) {
        if active >= self.limit / 2 {
            self.limit = self.within(self.limit.saturating_add((self.target.max / 50).max(1)));
        }
    }

    fn cut(&mut self, active: u32, settling: u16) {
        if active > self.limit && settling > 0 {
            self.door = Door::Open { settling: settling - 1 };
            return;
        }
        let in_use = self.limit.min(active.max(self.target.floor));
        self.limit = self.within(in_use - (in_use / 10 * 3).max(1));
        self.door = Door::Open { settling: SETTLE_WINDOWS };
    }

    fn within(&self, limit: u32) -> u32 {
        limit.clamp(self.target.floor, self.target.max)
    }
}

impl HealthTarget {
    /// At least one visitor, and a floor that is none above the ceiling.
    fn sane(self) -> Self {
        let max = self.max.max(1);
        Self { max, floor: self.floor.clamp(1, max), ..self }
    }
}
