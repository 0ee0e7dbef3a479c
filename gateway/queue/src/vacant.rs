//! Stretches of places that nobody holds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::types::Place;

/// Most stretches that are told.
const MOST: usize = 32;

/// Places not yet called that nobody holds, and that calls pass over. The longest stretches of them, by place; whatever is
/// vacant beside them counts as if somebody held it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Vacant(Vec<Range<u64>>);

// === impl Vacant ===

impl Vacant {
    /// Counted from 0 in their lane, as those of a snapshot are.
    pub(crate) fn within_lane(&self) -> Self {
        let within = |place: u64| Place(place).number();
        Self(self.0.iter().map(|stretch| within(stretch.start)..within(stretch.end)).collect())
    }

    /// How many are called before a place, where all below `serving` have been. The room computes the same from the
    /// snapshot: `room/testdata/ahead.json` holds both to it.
    #[must_use]
    pub fn ahead(&self, serving: Place, place: Place) -> u64 {
        let before = |stretch: &Range<u64>| stretch.end.min(place.0).saturating_sub(stretch.start);
        place.0.saturating_sub(serving.0).saturating_sub(self.0.iter().map(before).sum())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Vacant places, as the stretches that they make: kept so that telling the longest costs the same however many there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretches {
    /// The end of each, by its start.
    ends: BTreeMap<u64, u64>,
    /// The longest first, and of those as long the first.
    longest: BTreeSet<(Reverse<u64>, u64)>,
}

// === impl Stretches ===

impl Stretches {
    /// The longest stretches.
    pub(crate) fn told(&self) -> Vacant {
        let longest = self.longest.iter().take(MOST).map(|(Reverse(length), start)| *start..start + length);
        let mut told: Vec<Range<u64>> = longest.collect();
        told.sort_unstable_by_key(|stretch| stretch.start);
        Vacant(told)
    }

    /// The place is vacant.
    pub(crate) fn insert(&mut self, Place(place): Place) {
        let before = self.around(place);
        if before.as_ref().is_some_and(|before| place < before.end) {
            return;
        }
        let (mut start, mut end) = (place, place + 1);
        if let Some(before) = before.filter(|before| before.end == place) {
            start = before.start;
            self.cut(&before);
        }
        if let Some(after) = self.ends.get(&end).copied() {
            self.cut(&(end..after));
            end = after;
        }
        self.put(start..end);
    }

    /// The place is not vacant.
    pub(crate) fn remove(&mut self, Place(place): Place) {
        if let Some(held) = self.around(place).filter(|held| place < held.end) {
            self.cut(&held);
            self.put(held.start..place);
            self.put(place + 1..held.end);
        }
    }

    /// Those below are vacant no more.
    pub(crate) fn drop_below(&mut self, Place(below): Place) {
        while let Some((start, end)) = self.ends.first_key_value().map(|(start, end)| (*start, *end))
            && start < below
        {
            self.cut(&(start..end));
            self.put(below..end);
        }
    }

    /// The last stretch that does not begin after the place.
    fn around(&self, place: u64) -> Option<Range<u64>> {
        self.ends.range(..=place).next_back().map(|(start, end)| *start..*end)
    }

    fn cut(&mut self, stretch: &Range<u64>) {
        self.ends.remove(&stretch.start);
        self.longest.remove(&(Reverse(stretch.end - stretch.start), stretch.start));
    }

    fn put(&mut self, stretch: Range<u64>) {
        if !stretch.is_empty() {
            self.ends.insert(stretch.start, stretch.end);
            self.longest.insert((Reverse(stretch.end - stretch.start), stretch.start));
        }
    }
}

impl FromIterator<Place> for Stretches {
    /// Of places in ascending order at no more than a stretch costs.
    fn from_iter<I: IntoIterator<Item = Place>>(places: I) -> Self {
        let (mut stretches, mut last) = (Self::default(), 0..0);
        for Place(place) in places {
            if last.end == place && !last.is_empty() {
                last.end += 1;
            } else {
                stretches.put(std::mem::replace(&mut last, place..place + 1));
            }
        }
        stretches.put(last);
        stretches
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(places: impl Iterator<Item = u64>) -> Vacant {
        places.map(Place).collect::<Stretches>().told()
    }

    proptest! {
        #[test]
        fn stretches_are_those_of_the_places_that_are_in_them(
            steps in prop::collection::vec((0..6_u8, 0..200_u64), 0..400),
        ) {
            let (mut stretches, mut places) = (Stretches::default(), BTreeSet::new());
            for (step, place) in steps {
                match step {
                    0 => {
                        stretches.drop_below(Place(place / 4));
                        places = places.split_off(&(place / 4));
                    }
                    1 | 2 => {
                        stretches.remove(Place(place));
                        places.remove(&place);
                    }
                    _ => {
                        stretches.insert(Place(place));
                        places.insert(place);
                    }
                }
                prop_assert_eq!(&stretches, &places.iter().copied().map(Place).collect::<Stretches>());
                let held: Vec<u64> = stretches.ends.iter().flat_map(|(start, end)| *start..*end).collect();
                prop_assert_eq!(held, places.iter().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn those_ahead_are_counted_as_the_room_counts_them() {
        let table: serde_json::Value =
            serde_json::from_str(include_str!("../../room/testdata/ahead.json")).unwrap();
        for case in table["cases"].as_array().unwrap() {
            let number = |name: &str| case[name].as_u64().unwrap();
            let vacant: Vacant = serde_json::from_value(case["vacant"].clone()).unwrap();
            let ahead = vacant.ahead(Place(number("serving")), Place(number("place")));
            assert_eq!(ahead, number("ahead"), "{case}");
        }
    }

    #[test]
    fn of_many_stretches_the_longest_are_told() {
        // Forty stretches of 1 to 40 places, the longest first.
        let places = (0..40).flat_map(|at| at * 1_000..at * 1_000 + 40 - at);
        let Vacant(told) = of(places);
        assert_eq!((told.len(), &told[0], &told[31]), (32, &(0..40), &(31_000..31_009)));
        // Of those as long, the first.
        let Vacant(told) = of((0..40).map(|at| at * 2));
        assert_eq!((told.len(), &told[31]), (32, &(62..63)));
    }

    #[test]
    fn a_lane_s_stretches_are_told_as_its_places_are() {
        let base = 3 << 32;
        let lane = of(base + 10..base + 80);
        assert_eq!(lane.within_lane(), of(10..80));
        assert_eq!(lane.ahead(Place(base), Place(base + 100)), 30);
    }
}
