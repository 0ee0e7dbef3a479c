//! What others have done to the same sale.

use std::collections::HashSet;

use crate::lane::Lane;
use crate::outcome::{AdmissionRecord, AdmissionState, JoinRecord, Update};
use crate::queue::{Admission, Queue};
use crate::types::Arrival;

impl Queue {
    /// Takes in what another replica has committed since this one was last the same. The health last heard of is this
    /// replica's own and stays.
    pub fn apply(&mut self, update: Update) {
        let Update { core, definition, mut joins, admissions, left, vacated } = update;
        let draw = self.core.draw();
        let before: Vec<(Arrival, usize)> =
            self.core.lines.iter().map(|line| (line.forgotten().end, line.skipped.len())).collect();
        if let Some(definition) = definition {
            self.definition = definition.into();
        }
        if let Some(core) = core {
            // An idle tick is not worth a commit, but the time it has seen does not go back.
            let seen = self.core.last_now;
            self.core = core;
            self.core.last_now = self.core.last_now.max(seen);
            self.fit_lines();
        }
        let drawn = draw != self.core.draw();
        if drawn {
            self.shuffle();
        }
        for arrival in &vacated {
            self.forget_visitor(*arrival);
        }
        let vacated: HashSet<Arrival> = vacated.into_iter().collect();
        joins.retain(|join| !vacated.contains(&join.arrival));
        let back: Vec<Arrival> =
            joins.iter().map(|join| join.arrival).filter(|arrival| self.was_skipped(*arrival)).collect();
        self.absorb(joins, admissions, left.iter().copied());
        let nothing = |lane: Lane| (Arrival(lane.base()), 0);
        let before: Vec<(Lane, Arrival, usize)> = (self.core.lines.lanes())
            .map(|lane| (lane, before.get(lane.index()).copied().unwrap_or_else(|| nothing(lane))))
            .map(|(lane, (forgotten, skipped))| (lane, forgotten, skipped))
            .collect();
        for (lane, forgotten, _) in &before {
            let range = self.core.lines[*lane].forgotten();
            for arrival in range.start.max(*forgotten).0..range.end.0 {
                self.forget(Arrival(arrival));
            }
        }
        if drawn {
            self.find_left_places();
        } else {
            for place in left.into_iter().filter_map(|arrival| self.place(arrival)).collect::<Vec<_>>() {
                self.add_left_place(place);
            }
            for (lane, _, skipped) in before {
                for range in self.core.lines[lane].skipped.get(skipped..).unwrap_or_default().to_vec() {
                    self.add_absent_places(range);
                }
            }
            for arrival in back {
                if let Some(place) = self.place(arrival).filter(|_| !self.left.contains(&arrival)) {
                    self.drop_left_place(place);
                }
            }
            for lane in self.core.lines.lanes() {
                self.drop_left_places(self.core.lines[lane].serving);
            }
        }
        self.settle_backlogs();
        self.advanced_to = None;
    }

    /// Takes in what was kept, of several changes at once, too. Where the places of those who left are, is found after it.
    pub(super) fn absorb(
        &mut self,
        joins: impl IntoIterator<Item = JoinRecord>,
        admissions: impl IntoIterator<Item = AdmissionRecord>,
        left: impl IntoIterator<Item = Arrival>,
    ) {
        for join in joins {
            let lane = join.arrival.lane();
            if self.core.lines.get(lane).is_none() {
                continue;
            }
            let line = &mut self.core.lines[lane];
            if join.arrival.is_invitation() {
                line.invited = true;
            } else {
                // A number once given stays taken, whatever else was written.
                line.next_arrival = line.next_arrival.max(join.arrival.0.saturating_add(1));
            }
            if !self.is_forgotten(join.arrival) {
                // Of two records that contradict each other the earlier visitor of a number stays.
                let _ = self.enter(join);
            }
        }
        for AdmissionRecord { arrival, place, state } in admissions {
            if self.is_forgotten(arrival) || self.lines.get(arrival.lane()).is_none() {
                continue;
            }
            if state == AdmissionState::Left {
                self.forget_visitor(arrival);
            }
            self.put_admission(arrival, Admission { place, state });
        }
        for arrival in left {
            if !self.is_forgotten(arrival) {
                self.forget_visitor(arrival);
                self.forget_visitor(arrival.invitation());
                self.add_left(arrival);
            }
        }
    }
}
