//! The names of everything a sale keeps, under one hash tag: one slot of a cluster, so that a script has all of it. Joins
//! of long ago have gone to slots of their own.

use std::ops::Range;

use ropeline_queue::{Arrival, SaleId};

/// The set of all sales.
pub(super) const SALES: &str = "rl:sales";

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

/// What became of [`BUCKET`] arrivals, by arrival; and, by arrival with [`LATE`] before it, who joined under it, or nobody,
/// where that is not what the copy of its chunk says.
pub(super) fn admissions(sale: &SaleId, base: &str, bucket: u64) -> String {
    format!("{{rl:{sale}}}:{base}:admissions:{bucket}")
}
