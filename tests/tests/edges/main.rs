//! The same verdict on every edge: the vectors of conformance, on everything that can run an edge.

#![allow(clippy::expect_used, clippy::panic, reason = "whatever goes wrong in here is a failure of the test")]

mod fastly;
mod gateway_module;
mod javascript;
mod native;
mod rotation;
mod wasmtime_serve;
