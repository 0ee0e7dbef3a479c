//! Several gateways that share a queue on a real Redis: they are one to those who queue, and lose nobody when it goes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test"
)]

use ropeline_tests::gateway::Store;

mod away;
#[path = "../cases/common.rs"]
mod common;
mod lost;
mod one_queue;
mod racing;

/// Where the queue of each test lives.
const STORE: Store = Store::Redis(2);
