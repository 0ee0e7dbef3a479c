//! Conformance: every edge does the same with the same request.
//!
//! [`generate`] makes the vectors and knows by how it made them what must come of each; [`native`] asks this very build
//! for its plans; [`run`] sends the requests to a real host and compares what the shopper gets, and what gateway and
//! shop behind it receive.

mod generate;
mod judge;
mod raw_form;
mod run;
mod tokens;
mod upstream;
pub mod vectors;

pub use generate::{SEED, WRITTEN_AT, generate};
pub use raw_form::RawForm;
pub use run::{EdgeUnderTest, HostTraits, Report, Running, run};
pub use upstream::{CASE, Upstream};
