//! The cases of `cases` that the queue has a part in, once more: on Redis, with two gateways, where each request goes to the
//! other one in turn. And what only several gateways, or a Redis that goes, can bring about.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test"
)]

use ropeline_tests::gateway::Store;

mod away;
#[path = "../cases/caching.rs"]
mod caching;
#[path = "../cases/capacity.rs"]
mod capacity;
#[path = "../cases/common.rs"]
mod common;
#[path = "../cases/eta.rs"]
mod eta;
#[path = "../cases/forgery.rs"]
mod forgery;
#[path = "../cases/guard.rs"]
mod guard;
#[path = "../cases/health.rs"]
mod health;
#[path = "../cases/lanes.rs"]
mod lanes;
mod lost;
#[path = "../cases/on_demand.rs"]
mod on_demand;
mod one_queue;
#[path = "../cases/pause.rs"]
mod pause;
#[path = "../cases/place.rs"]
mod place;
mod racing;
mod servers;
#[path = "../cases/sold_out.rs"]
mod sold_out;

/// Where the queue of each case lives.
const STORE: Store = Store::Redis(2);
