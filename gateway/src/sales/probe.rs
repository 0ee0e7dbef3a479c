//! How the shop is doing under one sale, measured on the requests that go forward.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ropeline_queue::SaleDefinition;
use ropeline_queue::health::{Health, HealthTarget, HealthWindow};

/// The span of one window.
const WINDOW: Duration = Duration::from_secs(1);
/// Latency that is too much, in ms, at the 90th percentile.
const LATENCY_MS: u32 = 2_000;
/// Failed requests of a thousand that are too many.
const ERRORS_PERMILLE: u16 = 100;
/// Latency is counted by powers of two: the last bucket begins at about 17 minutes.
const BUCKETS: usize = 22;

/// Counts what forwarded requests meet, and learns a limit from it once a second.
pub(super) struct Probe {
    latencies: [AtomicU64; BUCKETS],
    errors: AtomicU64,
    /// The greatest load that the shop told of itself.
    load_percent: AtomicU32,
    judge: Mutex<Judge>,
}

struct Judge {
    health: Health,
    window_began: Instant,
}

impl Probe {
    pub(super) fn new(definition: &SaleDefinition) -> Self {
        Self {
            latencies: std::array::from_fn(|_| AtomicU64::new(0)),
            errors: AtomicU64::new(0),
            load_percent: AtomicU32::new(0),
            judge: Mutex::new(Judge {
                health: Health::new(target(definition)),
                window_began: Instant::now(),
            }),
        }
    }

    pub(super) fn retarget(&self, definition: &SaleDefinition) {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).health.retarget(target(definition));
    }

    pub(super) fn observe(&self, ok: bool, latency_ms: u64) {
        if !ok {
            self.errors.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let bits = usize::try_from(u64::BITS - latency_ms.leading_zeros()).unwrap_or(BUCKETS);
        if let Some(bucket) = self.latencies.get(bits.min(BUCKETS - 1)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the shop says of itself, in percent of what it wants to have at once.
    pub(super) fn hear_load(&self, percent: u32) {
        self.load_percent.fetch_max(percent, Ordering::Relaxed);
    }

    /// Most visitors the shop can take now.
    pub(super) fn limit(&self, active: u64) -> u32 {
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        if judge.window_began.elapsed() >= WINDOW {
            judge.window_began = Instant::now();
            let window = self.take_window(active);
            judge.health.observe(window);
        }
        judge.health.limit()
    }

    fn take_window(&self, active: u64) -> HealthWindow {
        let counts: Vec<u64> =
            self.latencies.iter().map(|bucket| bucket.swap(0, Ordering::Relaxed)).collect();
        let ok: u64 = counts.iter().sum();
        let mut below = 0;
        let p90 = counts.iter().position(|count| {
            below += count;
            below * 10 >= ok * 9
        });
        HealthWindow {
            ok,
            errors: self.errors.swap(0, Ordering::Relaxed),
            // The bucket's lower end: a shop is not called slow for what it may not have been.
            latency_ms: match p90 {
                Some(bucket) if ok > 0 && bucket > 0 => 1 << (bucket - 1),
                _ => 0,
            },
            active: u32::try_from(active).unwrap_or(u32::MAX),
            load_percent: self.load_percent.swap(0, Ordering::Relaxed),
        }
    }
}

fn target(definition: &SaleDefinition) -> HealthTarget {
    HealthTarget {
        max: definition.max_active,
        floor: (definition.max_active / 20).max(1),
        latency_ms: LATENCY_MS,
        errors_permille: ERRORS_PERMILLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ropeline_queue::RawDefinition;

    fn probe(max_active: u32) -> Probe {
        let id = "drop".parse().unwrap();
        Probe::new(&RawDefinition::new(id, max_active).check().unwrap())
    }

    #[test]
    fn a_window_tells_what_was_met_and_starts_anew() {
        let probe = probe(100);
        for _ in 0..95 {
            probe.observe(true, 100);
        }
        for _ in 0..5 {
            probe.observe(true, 5_000);
        }
        probe.observe(false, 1);
        probe.hear_load(20);
        probe.hear_load(120);
        probe.hear_load(70);
        let window = probe.take_window(7);
        assert_eq!((window.ok, window.errors, window.latency_ms, window.active), (100, 1, 64, 7));
        assert_eq!(window.load_percent, 120);
        assert_eq!(probe.take_window(0), HealthWindow::default());
    }

    #[test]
    fn extreme_latencies_are_counted() {
        let probe = probe(1);
        probe.observe(true, 0);
        probe.observe(true, u64::MAX);
        assert_eq!(probe.take_window(0).ok, 2);
    }
}
