//! Support for the whole-system tests: the real binaries on free ports and in folders of their own, a client that
//! sends exact bytes, a shop that keeps every byte it is sent, and a real browser.
//!
//! What a test starts ends with the value that stands for it, and the log of a process is printed when the test
//! that started it fails. Nothing here waits for a fixed time: it waits for a condition, up to a deadline.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test that called, and is printed with its output"
)]

pub mod accounts;
pub mod balancer;
pub mod browser;
pub mod conformance;
pub mod edge_hosts;
pub mod gateway;
pub mod guests;
pub mod http;
pub mod measure;
pub mod origin;
pub mod process;
pub mod raw;
pub mod shop;
pub mod visitor;
pub mod wait;

pub use ropeline_test_ports as ports;
