//! What went wrong for users of other waiting rooms, each against the real gateway (and the real reservation service
//! where it has a part in it). A test bears the number of the case in the list of the design.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test"
)]

mod caching;
mod capacity;
mod common;
mod door;
mod eta;
mod forgery;
mod health;
mod late;
mod on_demand;
mod pause;
mod place;
mod sold_out;
