//! Who is called, and how many at most.

use crate::calls::CallBatch;
use crate::flow::{Backlog, Rate};
use crate::lane::{Lane, Lines};
use crate::outcome::AdmissionState;
use crate::pacer::ONE_CALL;
use crate::queue::Queue;
use crate::state::Stage;
use crate::types::{Place, UnixMillis};

impl Queue {
    /// Calls as many as time has earned and every limit allows.
    pub(super) fn call_earned(&mut self) {
        let called = self.call_paced();
        self.watch_flow(&called);
    }

    fn call_paced(&mut self) -> Vec<u64> {
        let nobody = Vec::new();
        if self.health.is_none() {
            return nobody;
        }
        if self.core.lines.lanes().all(|lane| self.present_backlog(lane) != Backlog::Waiting) {
            return nobody;
        }
        let pace = self.definition.pace;
        let cost = if self.definition.compensate_no_shows { self.core.ratio.cost() } else { ONE_CALL };
        let mut pacer = self.core.pacer.at(pace, self.core.last_now);
        let mut limit = pacer.calls(cost);
        if limit == 0 {
            return nobody;
        }
        if let Some(healthy) = self.healthy() {
            limit = limit.min(u64::from(healthy).saturating_sub(self.busy()));
        }
        let called = self.call(limit, None);
        let calls: u64 = called.iter().sum();
        if calls > 0 {
            pacer.spend(calls, cost);
            self.core.pacer = pacer;
        }
        called
    }

    /// What a line is like for the measurement of its flow.
    fn present_backlog(&self, lane: Lane) -> Backlog {
        let core = &self.core.lines[lane];
        if !matches!(self.core.stage, Stage::Open(_)) || self.core.halted_since().is_some() {
            Backlog::Stopped
        } else if self.waiting(lane) > 0
            || !self.lines[lane].recalls.is_empty()
            // Those who left behind the last who waits are passed over with nobody called; those who are missing are not.
            || (core.skipped.is_empty() && core.serving.0 < core.next_arrival)
        {
            Backlog::Waiting
        } else {
            Backlog::Empty
        }
    }

    /// Takes the lines for what they are, with nothing to tell of it.
    pub(super) fn settle_backlogs(&mut self) {
        self.backlogs = Lines::new(self.core.lines.count(), |lane| self.present_backlog(lane));
    }

    /// Tells each flow of its calls and of a change in what its line is like. In between there is nothing to tell:
    /// time adds up when it is told next, so an idle tick leaves the state as it is.
    pub(super) fn watch_flow(&mut self, called: &[u64]) {
        for lane in self.core.lines.lanes() {
            let called = called.get(lane.index()).copied().unwrap_or(0);
            let (before, present) = (self.backlogs[lane], self.present_backlog(lane));
            if called == 0 && before == present {
                continue;
            }
            let (now, flow) = (self.core.last_now, &mut self.core.lines[lane].flow);
            if before != present {
                flow.observe(now, 0, before);
            }
            flow.observe(now, called, present);
            self.backlogs[lane] = present;
            self.pending.core = true;
        }
    }

    /// A line's flow as of `now`: measured, or before that what the pace lets expect, with the place up to which nothing
    /// but the pace is in the way.
    pub(super) fn rate(&self, lane: Lane, now: UnixMillis) -> (Option<Rate>, Option<Place>) {
        let core = &self.core.lines[lane];
        let mut flow = core.flow.clone();
        flow.observe(self.core.last_now.max(now), 0, self.backlogs[lane]);
        if let Some(measured) = flow.rate() {
            return (Some(measured), None);
        }
        // Who is past the room there is waits for others to be done, and how long that takes nobody knows yet.
        let free = self.healthy().map_or(u64::MAX, |healthy| u64::from(healthy).saturating_sub(self.busy()));
        // With every lane waiting, so much of it is this lane's.
        let share = u64::from(self.definition.share(lane));
        let room = u128::from(self.room().min(free)) * u128::from(share) / 100;
        let room = u64::try_from(room).unwrap_or(u64::MAX);
        let reach = room.saturating_sub(self.lines[lane].recalls.len() as u64);
        match flow.forecast() {
            Some(forecast) if reach > 0 => {
                (Some(forecast), Some(Place(core.serving.0.saturating_add(reach))))
            }
            _ => (None, None),
        }
    }

    pub(super) fn busy(&self) -> u64 {
        let unseen = self.core.unseen.filter(|unseen| self.core.last_now < unseen.until);
        let unseen = unseen.map_or(0, |unseen| unseen.count);
        self.active().saturating_add(self.unclaimed()).saturating_add(unseen)
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

    /// Calls up to `limit` within the room there is, in each lane its share: first those to be recalled, by place, then the
    /// uncalled. Answers with the calls of each lane.
    pub(super) fn call(&mut self, limit: u64, lease_ms: Option<u64>) -> Vec<u64> {
        let limit = limit.min(self.room());
        if limit == 0 {
            return Vec::new();
        }
        let until = self.core.claim_clock().plus(self.definition.claim_window_ms);
        let waiting = |lane: Lane| self.callable(lane) + self.lines[lane].recalls.len() as u64;
        let waiting: Vec<u64> = self.core.lines.lanes().map(waiting).collect();
        let given = self.core.turns.divide(limit, &waiting, &self.definition.shares());
        let called =
            self.core.lines.lanes().zip(waiting.iter().zip(given)).map(|(lane, (waiting, given))| {
                let recalled = self.recall(lane, given, lease_ms, until);
                // Whoever left behind the last who waits is passed over with them, and costs nobody a call.
                let called = self.call_uncalled(lane, given - recalled, given == *waiting, lease_ms, until);
                self.core.totals.recalled += recalled;
                self.core.totals.called += called;
                recalled + called
            });
        called.collect()
    }

    fn recall(&mut self, lane: Lane, limit: u64, lease_ms: Option<u64>, until: UnixMillis) -> u64 {
        let mut recalled = 0;
        while recalled < limit
            && let Some((place, arrival)) = self.lines[lane].recalls.pop_first()
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

    /// Those who may be called now: while those are waited for whom a loss has passed over, nobody behind one of them.
    fn callable(&self, lane: Lane) -> u64 {
        if !self.awaits_absent() {
            return self.waiting(lane);
        }
        let (to, gone) = self.reach(lane, u64::MAX, false);
        to.0 - self.core.lines[lane].serving.0 - gone
    }

    fn call_uncalled(
        &mut self,
        lane: Lane,
        limit: u64,
        all: bool,
        lease_ms: Option<u64>,
        until: UnixMillis,
    ) -> u64 {
        let from = self.core.lines[lane].serving;
        let (to, gone) = self.reach(lane, limit, all);
        let called = to.0 - from.0 - gone;
        if to == from {
            return 0;
        }
        self.core.lines[lane].serving = to;
        self.drop_left_places(to);
        self.pending.core = true;
        if called > 0 {
            let called_at = self.core.last_now;
            let batch = CallBatch { from, to, called_at, until, claimed: 0, gone, lapsed: false, lease_ms };
            let reach_ms = self.definition.claim_window_ms.saturating_add(self.definition.recall_grace_ms);
            self.core.lines[lane].calls.push(batch, reach_ms);
        }
        called
    }

    /// How far calling `limit` visitors gets, and how many places on the way were left and are passed over. `all`: those
    /// are all who wait, so whoever left behind the last of them is passed over, too. Nobody is who is missing since a loss.
    fn reach(&self, lane: Lane, limit: u64, all: bool) -> (Place, u64) {
        let core = &self.core.lines[lane];
        let (mut at, mut wanted, mut gone) = (core.serving.0, limit, 0);
        let awaits = self.awaits_absent();
        for left in &self.lines[lane].left_places {
            let present = left.0 - at;
            if present > wanted || (present == wanted && !all) {
                break;
            }
            if (awaits || present == wanted) && self.is_absent_at(*left) {
                return (Place(left.0), gone);
            }
            wanted -= present;
            at = left.0 + 1;
            gone += 1;
        }
        (Place(at.saturating_add(wanted).min(core.next_arrival)), gone)
    }
}
