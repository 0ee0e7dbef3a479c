//! The same verdict on every edge: the vectors of conformance, on everything that can run an edge.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "whatever goes wrong in here is a failure of the test, which says what it found"
)]

use std::sync::LazyLock;

use ropeline_edge::{Field, Request};
use ropeline_tests::conformance::vectors::{Case, Vectors};
use ropeline_tests::conformance::{WRITTEN_AT, generate};

mod envoy;
mod envoy_jwt;
mod fastly;
mod gateway_asked;
mod gateway_module;
mod javascript;
mod jose;
mod lists;
mod native;
mod renewal;
mod rotation;
mod traefik;
mod traffic;
mod wasmtime;
mod wasmtime_serve;

/// The vectors that are kept, which are written anew when the generator changes.
static VECTORS: LazyLock<Vectors> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../conformance/vectors.json")).expect("vectors"));

/// Calls `ask` with the request of a case.
fn with_request<T>(case: &Case, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    let fields = case.fields();
    let headers: Vec<Field<'_>> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    ask(&Request { method: &case.method, host: &case.host, target: &case.target, headers: &headers })
}

#[test]
fn the_vectors_that_are_kept_are_those_that_are_made() {
    let (kept, made) = (VECTORS.to_text(), generate(WRITTEN_AT).to_text());
    let differs = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "first: {differs:?}\nif that is meant: cargo run -p ropeline-tests --example vectors \
         >tests/conformance/vectors.json"
    );
}
