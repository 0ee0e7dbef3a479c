//! What went wrong for users of other waiting rooms, each against the real gateway (and the real reservation service
//! where it has a part in it). A test bears the number of the case in the list of the design.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test"
)]

use ropeline_tests::gateway::Store;

mod caching;
mod capacity;
mod common;
mod door;
mod eta;
mod forgery;
mod guard;
mod health;
mod lanes;
mod late;
mod on_demand;
mod pause;
mod place;
mod sold_out;

/// Where the queue of each case lives. The same cases run on Redis, with several gateways: see `cases_on_redis`.
const STORE: Store = Store::Embedded;
