//! What each client was told, and whether all of it can be true of one queue.

use std::collections::BTreeMap;
use std::time::Instant;

use ropeline_queue::{Arrival, Claimed, JoinRecord, Joined, SaleView, VisitorKey};

/// An answer, and when it was asked for and given.
#[derive(Clone, Copy, Debug)]
struct Told<T> {
    asked: Instant,
    answered: Instant,
    what: T,
}

/// Everything that was answered.
#[derive(Debug, Default)]
pub(super) struct History {
    joins: Vec<Told<(VisitorKey, Joined)>>,
    claims: Vec<Told<(Arrival, Claimed)>>,
    /// Numbers given, places called, active and called.
    views: Vec<Told<(u64, u64, u64)>>,
}

// === impl History ===

impl History {
    pub(super) fn joined(&mut self, asked: Instant, visitor: VisitorKey, joined: Joined) {
        self.joins.push(Told { asked, answered: Instant::now(), what: (visitor, joined) });
    }

    pub(super) fn claimed(&mut self, asked: Instant, arrival: Arrival, claimed: Claimed) {
        self.claims.push(Told { asked, answered: Instant::now(), what: (arrival, claimed) });
    }

    pub(super) fn saw(&mut self, asked: Instant, view: &SaleView) {
        let what = (view.next_arrival.0, view.serving.0, view.active + view.unclaimed);
        self.views.push(Told { asked, answered: Instant::now(), what });
    }

    pub(super) fn add(&mut self, other: Self) {
        self.joins.extend(other.joins);
        self.claims.extend(other.claims);
        self.views.extend(other.views);
    }

    pub(super) fn claims(&self) -> usize {
        self.claims.len()
    }

    /// The tickets that visitors hold, each once.
    pub(super) fn tickets(&self) -> Vec<JoinRecord> {
        let by_arrival: BTreeMap<Arrival, JoinRecord> = self
            .joins
            .iter()
            .map(|told| {
                let (visitor, Joined { arrival, joined_at, .. }) = told.what;
                (arrival, JoinRecord { arrival, visitor, joined_at: u32::try_from(joined_at).unwrap() })
            })
            .collect();
        by_arrival.into_values().collect()
    }

    /// One number a visitor, one visitor a number; what was answered before something else was asked holds for it.
    pub(super) fn check(&self) {
        let (mut arrivals, mut visitors) = (BTreeMap::new(), BTreeMap::new());
        for told in &self.joins {
            let (visitor, joined) = told.what;
            let arrival = *arrivals.entry(visitor).or_insert(joined.arrival);
            assert_eq!(arrival, joined.arrival, "a visitor was given two numbers");
            let holder = *visitors.entry(joined.arrival).or_insert(visitor);
            assert_eq!(holder, visitor, "{:?} was given to two visitors", joined.arrival);
        }
        let new = self.joins.iter().filter(|told| told.what.1.new);
        never_back(new.map(|told| (told.asked, told.answered, told.what.1.arrival.0)), "arrivals");
        never_back(self.views.iter().map(|told| (told.asked, told.answered, told.what.0)), "numbers given");
        never_back(self.views.iter().map(|told| (told.asked, told.answered, told.what.1)), "serving");
    }

    /// No ticket was admitted twice, and never were more inside than `cap`.
    pub(super) fn check_admissions(&self, cap: u64) {
        let mut admissions = BTreeMap::new();
        for told in &self.claims {
            let (arrival, claimed) = told.what;
            let first = *admissions.entry(arrival).or_insert(claimed);
            assert_eq!(first, claimed, "{arrival:?} was admitted twice");
        }
        self.check_cap(cap);
    }

    /// Never were more inside than `cap`, whoever they were.
    pub(super) fn check_cap(&self, cap: u64) {
        // Of one ticket, the longest: after a loss it may have been admitted again.
        let mut inside: BTreeMap<Arrival, (u64, u64)> = BTreeMap::new();
        for told in &self.claims {
            let (arrival, claimed) = told.what;
            let span = (claimed.claimed_at.0, claimed.expires_at.0);
            let held = inside.entry(arrival).or_insert(span);
            *held = (held.0.min(span.0), held.1.max(span.1));
        }
        // At one instant, ends come before beginnings.
        let ends = inside.values().map(|(_, to)| (*to, false));
        let mut edges: Vec<(u64, bool)> =
            inside.values().map(|(from, _)| (*from, true)).chain(ends).collect();
        edges.sort_unstable();
        let mut now = 0;
        for (at, comes) in edges {
            now = if comes { now + 1 } else { now - 1 };
            assert!(now <= cap, "{now} inside at {at}, cap {cap}");
        }
        for told in &self.views {
            assert!(told.what.2 <= cap, "{} active or called, cap {cap}", told.what.2);
        }
    }
}

/// What was told before something else was asked is not more than that is told.
fn never_back(told: impl Iterator<Item = (Instant, Instant, u64)>, what: &str) {
    let told: Vec<(Instant, Instant, u64)> = told.collect();
    let mut by_answer = told.clone();
    by_answer.sort_unstable_by_key(|(_, answered, _)| *answered);
    let mut by_question = told;
    by_question.sort_unstable_by_key(|(asked, ..)| *asked);
    let (mut known, mut most) = (0, 0);
    for (asked, _, value) in by_question {
        while let Some((_, answered, before)) = by_answer.get(known)
            && *answered < asked
        {
            most = most.max(*before);
            known += 1;
        }
        assert!(value >= most, "{what} went back from {most} to {value}");
    }
}
