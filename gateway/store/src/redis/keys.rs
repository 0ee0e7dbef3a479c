//! The names of everything a sale keeps, under one hash tag: one slot of a cluster, so that a script has all of it.

use std::ops::Range;

use ropeline_queue::{Arrival, SaleId};

/// The set of all sales.
pub(super) const SALES: &str = "rl:sales";

/// Arrivals in one string of joins.
pub(super) const CHUNK: u64 = 4_096;

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

/// Which chunk an arrival belongs to, and where in it.
pub(super) const fn chunk(arrival: Arrival) -> (u64, u64) {
    (arrival.0 / CHUNK, arrival.0 % CHUNK)
}

/// The strings or hashes of so many arrivals each that a range of them lies in.
pub(super) const fn parts(range: &Range<Arrival>, size: u64) -> Range<u64> {
    range.start.0 / size..range.end.0.div_ceil(size)
}

/// What became of [`BUCKET`] arrivals, by arrival.
pub(super) fn admissions(sale: &SaleId, base: &str, bucket: u64) -> String {
    format!("{{rl:{sale}}}:{base}:admissions:{bucket}")
}
