//! The invariants, kept by an account of their own that shares nothing with the queue's.

use ropeline_queue::{Phase, Place, SaleView};

use super::{Scenario, Violation, must};

/// A call's full price in the pacer's integers.
const ONE_CALL: u64 = 1_000_000;
const INTERVAL_MS: u64 = 5_000;

#[derive(Debug)]
pub(super) struct Ledger {
    batch: u64,
    max_active: u64,
    opened_ms: Option<u64>,
    interval: u64,
    spent: u64,
    spent_in_interval: u64,
    calls: u64,
    serving: Place,
    was_halted: bool,
    /// Most that were active or called at once.
    pub(super) busiest: u64,
    /// Admissions that the crowd knows to run.
    pub(super) active: u64,
}

impl Ledger {
    pub(super) fn new(scenario: &Scenario, max_active: u32) -> Self {
        Self {
            batch: u64::from(scenario.batch()),
            max_active: u64::from(max_active),
            opened_ms: None,
            interval: 0,
            spent: 0,
            spent_in_interval: 0,
            calls: 0,
            serving: Place(0),
            was_halted: true,
            busiest: 0,
            active: 0,
        }
    }

    /// Checks what must hold after each step. `shut`: the shop's health let nobody in, at this tick and the last.
    pub(super) fn close_step(&mut self, at_ms: u64, view: &SaleView, shut: bool) -> Result<(), Violation> {
        let serving = view.serving;
        must(serving >= self.serving, || format!("serving went back from {} to {serving}", self.serving))?;
        must(serving.0 <= view.next_arrival.0, || format!("{serving} called of {}", view.next_arrival))?;
        let halted = view.phase != Phase::Open;
        let moved = serving != self.serving;
        must(!(moved && halted && self.was_halted), || format!("calls while {}", view.phase.as_str()))?;
        must(!(moved && shut), || "calls while the shop was down".to_owned())?;
        self.serving = serving;
        self.was_halted = halted;

        let busy = view.active + view.unclaimed;
        must(busy <= self.max_active, || format!("{busy} busy of {} at most", self.max_active))?;
        must(view.active == self.active, || format!("{} active, should be {}", view.active, self.active))?;
        self.busiest = self.busiest.max(busy);
        self.charge(at_ms, view)
    }

    /// Calls never exceed rate × time + burst: one batch for each interval begun, each call at the price that
    /// the measured no-shows set.
    fn charge(&mut self, at_ms: u64, view: &SaleView) -> Result<(), Violation> {
        if self.opened_ms.is_none() && view.phase == Phase::Open {
            self.opened_ms = Some(at_ms);
        }
        let made = view.totals.called + view.totals.recalled;
        let calls = made - self.calls;
        self.calls = made;
        let Some(opened_ms) = self.opened_ms else {
            return must(calls == 0, || format!("{calls} calls before the opening"));
        };
        let interval = (at_ms - opened_ms) / INTERVAL_MS;
        if interval != self.interval {
            self.interval = interval;
            self.spent_in_interval = 0;
        }
        let cost = view.claim_ratio.unwrap_or(ONE_CALL).clamp(ONE_CALL / 2, ONE_CALL);
        self.spent += calls * cost;
        self.spent_in_interval += calls * cost;
        let earned = self.batch * ONE_CALL;
        must(self.spent_in_interval <= earned, || format!("more than a batch in interval {interval}"))?;
        must(self.spent <= earned * (interval + 1), || format!("{made} calls by interval {interval}"))
    }

    /// What the stock still allows bounds a tick's calls.
    pub(super) fn check_stock(&self, view: &SaleView, overcommit_percent: u32) -> Result<(), Violation> {
        let Some(stock) = view.stock else { return Ok(()) };
        let allowed = stock.available * u64::from(overcommit_percent) / 100;
        let competing = view.active + view.unclaimed - view.holding;
        // One alone is called to bring news of what may come back.
        let news = view.active + view.unclaimed == 1 && !stock.is_gone();
        must(competing <= allowed || news, || format!("{competing} compete for {} left", stock.available))
    }
}
