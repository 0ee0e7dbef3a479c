//! Who is called, and how many at most.

use crate::calls::CallBatch;
use crate::outcome::AdmissionState;
use crate::pacer::ONE_CALL;
use crate::queue::Queue;
use crate::types::{Place, UnixMillis};

impl Queue {
    /// Calls as many as time has earned and every limit allows.
    pub(super) fn call_earned(&mut self) {
        let Some(health) = self.health else { return };
        if !self.is_open_stage() || self.core.halted_since().is_some() || !self.is_anybody_waiting() {
            return;
        }
        let pace = self.definition.pace;
        let cost = if self.definition.compensate_no_shows { self.core.ratio.cost() } else { ONE_CALL };
        let mut pacer = self.core.pacer.at(pace, self.core.last_now);
        let mut limit = pacer.calls(cost);
        if limit == 0 {
            return;
        }
        if let Some(healthy) = health.health_limit {
            limit = limit.min(u64::from(healthy).saturating_sub(self.busy()));
        }
        let called = self.call(limit, None);
        if called > 0 {
            pacer.spend(called, cost);
            self.core.pacer = pacer;
        }
    }

    fn is_anybody_waiting(&self) -> bool {
        self.core.serving.0 < self.core.next_arrival || !self.recalls.is_empty()
    }

    fn busy(&self) -> u64 {
        self.active().saturating_add(self.unclaimed())
    }

    /// What `max_active` and the stock leave room for.
    fn room(&self) -> u64 {
        let busy = self.busy();
        let free = u64::from(self.definition.max_active).saturating_sub(busy);
        let Some(stock) = self.core.stock else { return free };
        let allowed = u128::from(stock.available) * u128::from(self.definition.overcommit_percent) / 100;
        let competing = busy.saturating_sub(self.holding);
        free.min(u64::try_from(allowed).unwrap_or(u64::MAX).saturating_sub(competing))
    }

    /// Calls up to `limit` within the room there is: first those to be recalled, by place, then the uncalled.
    pub(super) fn call(&mut self, limit: u64, lease_ms: Option<u64>) -> u64 {
        let limit = limit.min(self.room());
        let until = self.core.claim_clock().plus(self.definition.claim_window_ms);
        let recalled = self.recall(limit, lease_ms, until);
        let called = self.call_uncalled(limit - recalled, lease_ms, until);
        self.core.totals.recalled += recalled;
        self.core.totals.called += called;
        recalled + called
    }

    fn recall(&mut self, limit: u64, lease_ms: Option<u64>, until: UnixMillis) -> u64 {
        let mut recalled = 0;
        while recalled < limit
            && let Some((place, arrival)) = self.recalls.pop_first()
        {
            let lease_ms =
                lease_ms.or(match self.admissions.get(&arrival).map(|admission| admission.state) {
                    Some(AdmissionState::RecallPending { lease_ms }) => lease_ms,
                    _ => None,
                });
            self.set(arrival, place, AdmissionState::Recalled { until, lease_ms });
            self.pending.core = true;
            recalled += 1;
        }
        recalled
    }

    fn call_uncalled(&mut self, limit: u64, lease_ms: Option<u64>, until: UnixMillis) -> u64 {
        let from = self.core.serving;
        let (to, gone) = self.reach(limit);
        let called = to.0 - from.0 - gone;
        if to == from {
            return 0;
        }
        self.core.serving = to;
        self.left_places = self.left_places.split_off(&to);
        self.pending.core = true;
        if called > 0 {
            let called_at = self.core.last_now;
            let batch = CallBatch { from, to, called_at, until, claimed: 0, gone, lapsed: false, lease_ms };
            let reach_ms = self.definition.claim_window_ms.saturating_add(self.definition.recall_grace_ms);
            self.core.calls.push(batch, reach_ms);
        }
        called
    }

    /// How far calling `limit` visitors gets, and how many places on the way were left and are passed over.
    fn reach(&self, limit: u64) -> (Place, u64) {
        let end = self.core.next_arrival;
        let (mut at, mut wanted, mut gone) = (self.core.serving.0, limit, 0);
        if wanted == 0 {
            return (Place(at), 0);
        }
        for left in &self.left_places {
            let present = left.0 - at;
            if present >= wanted {
                break;
            }
            wanted -= present;
            at = left.0 + 1;
            gone += 1;
        }
        (Place(at.saturating_add(wanted).min(end)), gone)
    }
}
