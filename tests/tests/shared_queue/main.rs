//! Several gateways on one queue in Redis, with people under way, while one thing after another fails. Whatever the clients
//! were told has to be true of one queue, and everybody comes through in the end.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test, and is printed with its output"
)]

mod crowd;
mod failover;
mod gateways;
mod history;
mod partition;
mod redis;
mod stage;

pub(crate) const SALE: &str = "drop";
pub(crate) const PAGE: &str = "/sale";
