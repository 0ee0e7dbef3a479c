//! The names of everything a sale keeps, under one hash tag: one slot of a cluster, so that a script has all of it. Joins
//! of long ago have gone to slots of their own.

use std::ops::Range;

use ropeline_queue::{Arrival, SaleId};

use crate::StoreError;

/// How a sale is kept, in Redis and in the checkpoint. The number is raised with whatever gateways of the one before would
/// not understand, or would lose when they write on. A sale without a number is of the first.
pub(super) const FORMAT: u64 = 1;

/// Where a number may stand that is not known.
pub(super) const IN_REDIS: &str = "the sale in redis";
pub(super) const IN_CHECKPOINT: &str = "the checkpoint of the sale";

/// The refusal to touch what has a number that is not [`FORMAT`]: nobody has written a lower one.
pub(super) fn newer(place: &'static str, found: &str) -> StoreError {
    StoreError::Newer { place, found: found.to_owned(), known: FORMAT }
}

/// The set of all sales.
pub(super) const SALES: &str = "rl:sales";

/// What the gateways that were here lately sign with, and the name of their checkpoint. Their hash tag is no sale's.
pub(super) const GATEWAYS: &str = "{rl:}:gateways";
pub(super) const CHECKPOINT: &str = "{rl:}:checkpoint";

/// Arrivals in one string of joins.
pub(super) const CHUNK: u64 = 4_096;

/// Chunks that go to a slot of their own together.
pub(super) const GROUP: u64 = 16;

/// Begins the name of a join that is kept beside the admissions.
pub(super) const LATE: &str = "j";

/// Arrivals in one hash of admissions: few enough that the server keeps it packed.
pub(super) const BUCKET: u64 = 128;

/// The sale's state: version, core, definition, …
pub(super) fn head(sale: &SaleId) -> String {
    format!("{{rl:{sale}}}:head")
}

/// The latest commits.
pub(super) fn log(sale: &SaleId) -> String {
    format!("{{rl:{sale}}}:log")
}

/// The joins of [`CHUNK`] arrivals, 20 bytes each; zeros where nobody joined.
pub(super) fn joins(sale: &SaleId, base: &str, chunk: u64) -> String {
    format!("{{rl:{sale}}}:{base}:joins:{chunk}")
}

/// Where a chunk is kept once its group has a slot of its own.
pub(super) fn away(sale: &SaleId, base: &str, chunk: u64) -> String {
    format!("{{rl:{sale}:{}}}:{base}:joins:{chunk}", chunk / GROUP)
}

/// The group that an arrival belongs to.
pub(super) const fn group(arrival: Arrival) -> u64 {
    arrival.0 / (CHUNK * GROUP)
}

/// It is the last number of a group.
pub(super) const fn ends_group(arrival: Arrival) -> bool {
    (arrival.0 + 1).is_multiple_of(CHUNK * GROUP)
}

/// The chunks of a group.
pub(super) const fn chunks(group: u64) -> Range<u64> {
    group * GROUP..(group + 1) * GROUP
}

/// The arrivals of a group.
pub(super) const fn arrivals(group: u64) -> Range<Arrival> {
    Arrival(group * GROUP * CHUNK)..Arrival((group + 1) * GROUP * CHUNK)
}

/// Which chunk an arrival belongs to, and where in it.
pub(super) const fn chunk(arrival: Arrival) -> (u64, u64) {
    (arrival.0 / CHUNK, arrival.0 % CHUNK)
}

/// The strings or hashes of so many arrivals each that a range of them lies in.
pub(super) const fn parts(range: &Range<Arrival>, size: u64) -> Range<u64> {
    range.start.0 / size..range.end.0.div_ceil(size)
}

/// The same parts without those that are forgotten altogether, which may be most of them.
pub(super) fn kept(
    range: &Range<Arrival>,
    size: u64,
    forgotten: &[Range<Arrival>],
) -> impl Iterator<Item = u64> + use<> {
    let all = parts(range, size);
    let whole = forgotten.iter().map(|range| range.start.0.div_ceil(size)..range.end.0 / size);
    // Each lane has numbers of its own, of which one range is forgotten.
    let gone = whole.into_iter().find(|gone| gone.start.max(all.start) < gone.end.min(all.end));
    let gone = gone.unwrap_or(all.end..all.end);
    (all.start..gone.start.max(all.start)).chain(gone.end..all.end)
}

/// What became of [`BUCKET`] arrivals, by arrival; and, by arrival with [`LATE`] before it, who joined under it, or nobody,
/// where that is not what the copy of its chunk says.
pub(super) fn admissions(sale: &SaleId, base: &str, bucket: u64) -> String {
    format!("{{rl:{sale}}}:{base}:admissions:{bucket}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_forgotten_altogether_is_left_out_and_nothing_else(
            ends in (0u64..400, 0u64..400), gone in (0u64..400, 0u64..400), size in 1u64..40,
        ) {
            let range = |(a, b): (u64, u64)| Arrival(a.min(b))..Arrival(a.max(b));
            let (all, gone) = (range(ends), range(gone));
            let left = |part: &u64| part * size < gone.start.0 || gone.end.0 < (part + 1) * size;
            let naive: Vec<u64> = parts(&all, size).filter(left).collect();
            let elsewhere = Arrival(1 << 40)..Arrival(1 << 41);
            prop_assert_eq!(kept(&all, size, &[elsewhere, gone]).collect::<Vec<_>>(), naive);
        }
    }

    #[test]
    fn what_is_forgotten_costs_nothing() {
        let (all, gone) = (Arrival(0)..Arrival(1 << 50), Arrival(300)..Arrival((1 << 50) - 300));
        assert_eq!(kept(&all, 128, &[gone]).count(), 6);
    }
}
