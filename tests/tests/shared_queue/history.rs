//! What every client was told, and whether all of it can be true of one queue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An answer, and when it was asked for and given.
#[derive(Clone, Debug)]
pub(crate) struct Told<T> {
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
    pub(crate) what: T,
}

/// One visitor's way through the sale.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// Arrival and ticket, each time it was told.
    pub(crate) joins: Vec<Told<(u64, String)>>,
    /// Places, where known.
    pub(crate) places: Vec<Told<u64>>,
    /// Claims that came before the call.
    pub(crate) refused: Vec<Told<()>>,
    /// Admission tokens.
    pub(crate) claims: Vec<Told<String>>,
    /// Asked to be let go.
    pub(crate) left: Option<Instant>,
}

/// Everything that was answered.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) ways: Vec<Way>,
    /// How far the queue had come, by each gateway's snapshot.
    pub(crate) servings: Vec<Vec<Told<u64>>>,
}

/// What the sale promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promises {
    pub(crate) max_active: u64,
    pub(crate) rate_per_s: f64,
    pub(crate) burst: f64,
    /// How long an admission lasts.
    pub(crate) lease: Duration,
}

// === impl Way ===

impl Way {
    fn arrival(&self) -> Option<u64> {
        self.joins.first().map(|told| told.what.0)
    }

    /// The place that the visitor was told, the same each time.
    fn place(&self) -> Option<u64> {
        let first = self.places.first()?.what;
        for told in &self.places {
            assert_eq!(told.what, first, "a place changed: {self:?}");
        }
        Some(first)
    }

    fn last_refusal(&self) -> Option<&Told<()>> {
        self.refused.iter().max_by_key(|told| told.asked)
    }

    fn first_claim(&self) -> Option<&Told<String>> {
        self.claims.iter().min_by_key(|told| told.answered)
    }
}

// === impl History ===

impl History {
    /// # Panics
    /// When no single queue that keeps its promises can have said all this.
    pub(crate) fn check(&self, promises: Promises) {
        self.one_number_each();
        self.in_order();
        self.one_admission_each();
        self.within_the_cap(promises);
        self.within_the_pace(promises);
        self.servings.iter().for_each(|told| never_back(told));
    }

    pub(crate) fn claimed(&self) -> usize {
        self.ways.iter().filter(|way| !way.claims.is_empty()).count()
    }

    fn one_number_each(&self) {
        let mut holders: BTreeMap<u64, usize> = BTreeMap::new();
        let mut places: BTreeMap<u64, usize> = BTreeMap::new();
        for (visitor, way) in self.ways.iter().enumerate() {
            let Some(first) = way.joins.first() else { continue };
            for told in &way.joins {
                assert_eq!(told.what, first.what, "visitor {visitor} was given two tickets");
            }
            if let Some(other) = holders.insert(first.what.0, visitor) {
                panic!("arrival {} was given to visitors {other} and {visitor}", first.what.0);
            }
            if let Some(place) = way.place()
                && let Some(other) = places.insert(place, visitor)
            {
                panic!("place {place} was given to visitors {other} and {visitor}");
            }
        }
    }

    /// Whoever is refused after somebody behind was let in has been passed over.
    fn in_order(&self) {
        let mut called: Vec<(Instant, u64)> =
            self.ways.iter().filter_map(|way| Some((way.first_claim()?.answered, way.place()?))).collect();
        called.sort_unstable();
        let mut waits: Vec<(Instant, u64)> =
            self.ways.iter().filter_map(|way| Some((way.last_refusal()?.asked, way.place()?))).collect();
        waits.sort_unstable();
        let (mut known, mut furthest) = (0, None);
        for (asked, place) in waits {
            while let Some((answered, called)) = called.get(known)
                && *answered < asked
            {
                furthest = furthest.max(Some(*called));
                known += 1;
            }
            assert!(furthest < Some(place), "{place} was refused after {furthest:?} had been let in");
        }
    }

    fn one_admission_each(&self) {
        for way in &self.ways {
            if let Some(first) = way.claims.first() {
                for told in &way.claims {
                    assert_eq!(told.what, first.what, "{:?} was admitted twice", way.arrival());
                }
            }
        }
    }

    /// Counts who is inside for certain: from the answer to the claim until asking to leave.
    fn within_the_cap(&self, promises: Promises) {
        let mut edges: Vec<(Instant, i64)> = Vec::new();
        for way in &self.ways {
            let Some(claim) = way.claims.first() else { continue };
            // What is over by the clock of the queue at the earliest.
            let over = claim.asked + promises.lease;
            let until = way.left.map_or(over, |left| left.min(over));
            if until > claim.answered {
                edges.extend([(claim.answered, 1), (until, -1)]);
            }
        }
        // At one instant, ends come before beginnings.
        edges.sort_unstable();
        let mut inside = 0;
        for (_, step) in edges {
            inside += step;
            let cap = i64::try_from(promises.max_active).unwrap();
            assert!(inside <= cap, "{inside} were inside, where {cap} may be");
        }
    }

    /// Who was refused at one instant and let in by another was called between them.
    fn within_the_pace(&self, promises: Promises) {
        let between: Vec<(Instant, Instant)> = self
            .ways
            .iter()
            .filter_map(|way| Some((way.last_refusal()?.asked, way.first_claim()?.answered)))
            .collect();
        let mut begins: Vec<Instant> = between.iter().map(|(from, _)| *from).collect();
        begins.sort_unstable();
        // From every eighth beginning: all pairs would be too many.
        for from in begins.into_iter().step_by(8) {
            let mut calls: Vec<Instant> =
                between.iter().filter(|(after, _)| *after >= from).map(|(_, by)| *by).collect();
            calls.sort_unstable();
            for (before, by) in calls.into_iter().enumerate() {
                let earned = (by - from).as_secs_f64() * promises.rate_per_s + promises.burst;
                #[allow(clippy::cast_precision_loss, reason = "some thousands")]
                let called = (before + 1) as f64;
                assert!(called <= earned + 1.0, "{called} were called in {:?}, earned {earned}", by - from);
            }
        }
    }
}

/// What was told before something else was asked is not more than that is told.
fn never_back(told: &[Told<u64>]) {
    let mut by_answer: Vec<_> = told.iter().collect();
    by_answer.sort_unstable_by_key(|told| told.answered);
    let mut by_question = by_answer.clone();
    by_question.sort_unstable_by_key(|told| told.asked);
    let (mut known, mut most) = (0, 0);
    for told in by_question {
        while let Some(before) = by_answer.get(known)
            && before.answered < told.asked
        {
            most = most.max(before.what);
            known += 1;
        }
        assert!(told.what >= most, "serving went back from {most} to {}", told.what);
    }
}
