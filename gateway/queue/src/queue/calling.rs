//! Who is called, and how many at most.

use crate::calls::CallBatch;
use crate::flow::{Backlog, Rate};
use crate::outcome::AdmissionState;
use crate::pacer::ONE_CALL;
use crate::queue::Queue;
use crate::state::Stage;
use crate::types::{Place, UnixMillis};

impl Queue {
    /// Calls as many as time has earned and every limit allows.
    pub(super) fn call_earned(&mut self) {
        let called = self.call_paced();
        self.watch_flow(called);
    }

    fn call_paced(&mut self) -> u64 {
        if self.health.is_none() {
            return 0;
        }
        if self.present_backlog() != Backlog::Waiting {
            return 0;
        }
        let pace = self.definition.pace;
        let cost = if self.definition.compensate_no_shows { self.core.ratio.cost() } else { ONE_CALL };
        let mut pacer = self.core.pacer.at(pace, self.core.last_now);
        let mut limit = pacer.calls(cost);
        if limit == 0 {
            return 0;
        }
        if let Some(healthy) = self.healthy() {
            limit = limit.min(u64::from(healthy).saturating_sub(self.busy()));
        }
        let called = self.call(limit, None);
        if called > 0 {
            pacer.spend(called, cost);
            self.core.pacer = pacer;
        }
        called
    }

    /// What the queue is like for the measurement of its flow.
    pub(super) fn present_backlog(&self) -> Backlog {
        if !matches!(self.core.stage, Stage::Open(_)) || self.core.halted_since().is_some() {
            Backlog::Stopped
        } else if self.core.serving.0 < self.core.next_arrival || !self.recalls.is_empty() {
            Backlog::Waiting
        } else {
            Backlog::Empty
        }
    }

    /// Tells the flow of calls and of a change in what the queue is like. In between there is nothing to tell:
    /// time adds up when it is told next, so an idle tick leaves the state as it is.
    pub(super) fn watch_flow(&mut self, called: u64) {
        let (before, present) = (self.backlog, self.present_backlog());
        if called == 0 && before == present {
            return;
        }
        let now = self.core.last_now;
        if before != present {
            self.core.flow.observe(now, 0, before);
        }
        self.core.flow.observe(now, called, present);
        self.backlog = present;
        self.pending.core = true;
    }

    /// The flow as of `now`: measured, or before that what the pace lets expect, with the place up to which nothing
    /// but the pace is in the way.
    pub(super) fn rate(&self, now: UnixMillis) -> (Option<Rate>, Option<Place>) {
        let mut flow = self.core.flow.clone();
        flow.observe(self.core.last_now.max(now), 0, self.backlog);
        if let Some(measured) = flow.rate() {
            return (Some(measured), None);
        }
        // Who is past the room there is waits for others to be done, and how long that takes nobody knows yet.
        let free = self.healthy().map_or(u64::MAX, |healthy| u64::from(healthy).saturating_sub(self.busy()));
        let reach = self.room().min(free).saturating_sub(self.recalls.len() as u64);
        match flow.forecast() {
            Some(forecast) if reach > 0 => {
                (Some(forecast), Some(Place(self.core.serving.0.saturating_add(reach))))
            }
            _ => (None, None),
        }
    }

    fn busy(&self) -> u64 {
        self.active().saturating_add(self.unclaimed())
    }

    /// What `max_active` and the stock leave room for.
    ///
    /// Stock is heard of in what the shop answers to those inside. With nobody inside, one is called while anything
    /// may come back, however little is left: else a sale would stand still for ever on old news.
    fn room(&self) -> u64 {
        let busy = self.busy();
        let free = u64::from(self.definition.max_active).saturating_sub(busy);
        let Some(stock) = self.core.stock else { return free };
        let allowed = u128::from(stock.available) * u128::from(self.definition.overcommit_percent) / 100;
        let competing = busy.saturating_sub(self.holding);
        let left = u64::try_from(allowed).unwrap_or(u64::MAX).saturating_sub(competing);
        let news = u64::from(busy == 0 && !stock.is_gone());
        free.min(left.max(news))
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
        self.drop_left_places(to);
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
