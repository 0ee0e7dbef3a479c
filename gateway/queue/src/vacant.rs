//! Stretches of places that nobody holds.

use std::cmp::Reverse;
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
    /// The longest stretches of vacant places. Those that follow one another in the order given make one.
    pub(crate) fn of(places: impl Iterator<Item = Place>) -> Self {
        let mut stretches: Vec<Range<u64>> = Vec::new();
        for Place(place) in places {
            match stretches.last_mut() {
                Some(last) if last.end == place => last.end += 1,
                _ => stretches.push(place..place + 1),
            }
        }
        if stretches.len() > MOST {
            let longest = |stretch: &Range<u64>| (Reverse(stretch.end - stretch.start), stretch.start);
            stretches.select_nth_unstable_by_key(MOST, longest);
            stretches.truncate(MOST);
        }
        stretches.sort_unstable_by_key(|stretch| stretch.start);
        Self(stretches)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

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
        let Vacant(told) = Vacant::of(places.map(Place));
        assert_eq!((told.len(), &told[0], &told[31]), (32, &(0..40), &(31_000..31_009)));
        // Of those as long, the first.
        let Vacant(told) = Vacant::of((0..40).map(|at| Place(at * 2)));
        assert_eq!((told.len(), &told[31]), (32, &(62..63)));
    }

    #[test]
    fn a_lane_s_stretches_are_told_as_its_places_are() {
        let base = 3 << 32;
        let lane = Vacant::of((base + 10..base + 80).map(Place));
        assert_eq!(lane.within_lane(), Vacant::of((10..80).map(Place)));
        assert_eq!(lane.ahead(Place(base), Place(base + 100)), 30);
    }
}
