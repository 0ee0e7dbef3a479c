//! The shop behind the queue: its stock, its health, and the two times it fails.

use ropeline_queue::health::{Health, HealthTarget, HealthWindow};
use ropeline_queue::{SaleView, Stock};

use super::{OPEN_MS, STEP_MS};

/// The shop answers nothing from here on, after the start, …
const DOWN_FROM_MS: u64 = OPEN_MS + 300_000;
/// … until here.
const DOWN_TO_MS: u64 = DOWN_FROM_MS + 120_000;

#[derive(Debug)]
pub(super) struct Shop {
    pub(super) available: u64,
    pub(super) held: u64,
    pub(super) sold: u64,
    health: Health,
    /// Visitors at once beyond which it gets slow.
    comfortable: u64,
}

impl Shop {
    pub(super) fn new(units: u64, max_active: u32) -> Self {
        let target = HealthTarget {
            max: max_active,
            floor: (max_active / 100).max(1),
            latency_ms: 500,
            errors_permille: 50,
        };
        let comfortable = u64::from(max_active) * 3 / 4;
        Self { available: units, held: 0, sold: 0, health: Health::new(target), comfortable }
    }

    pub(super) const fn stock(&self) -> Stock {
        Stock { available: self.available, held: Some(self.held) }
    }

    /// One look a second at what forwarded requests met.
    pub(super) fn health_limit(&mut self, at_ms: u64, view: &SaleView) -> u32 {
        if !(at_ms / STEP_MS).is_multiple_of(1_000 / STEP_MS) {
            return self.health.limit();
        }
        let requests = view.active / 10;
        let down = (DOWN_FROM_MS..DOWN_TO_MS).contains(&at_ms);
        let slow = view.active > self.comfortable;
        self.health.observe(HealthWindow {
            ok: if down { 0 } else { requests },
            errors: if down { requests } else { 0 },
            latency_ms: if slow { 900 } else { 80 },
            active: u32::try_from(view.active + view.unclaimed).unwrap_or(u32::MAX),
            load_percent: 0,
        })
    }

    pub(super) const fn hold(&mut self) -> bool {
        if self.available == 0 {
            return false;
        }
        self.available -= 1;
        self.held += 1;
        true
    }

    pub(super) const fn sell(&mut self) {
        self.held -= 1;
        self.sold += 1;
    }

    pub(super) const fn release(&mut self) {
        self.held -= 1;
        self.available += 1;
    }
}
