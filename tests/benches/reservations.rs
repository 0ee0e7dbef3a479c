//! Reservations, in one run on one PostgreSQL server whose commits are durable: how long a shopper waits for one when so
//! many arrive each second, and how many claims a second the books take, side by side with what would be written first.
//!
//! `ROUNDS` and `SECONDS` shorten or lengthen it, `RATE` is how many shoppers arrive each second. `cargo bench -p
//! ropeline-tests --all-features --bench reservations -- --long` makes a million claims beside an open snapshot instead.
//! Shoppers, gateway, service and database share the machine.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark: it prints what it found, and stops at what went wrong"
)]

#[path = "reservations/arrivals.rs"]
mod arrivals;
#[path = "reservations/claims.rs"]
mod claims;

use ropeline_test_postgres::Postgres;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = Postgres::start_with(&[("max_connections", "300"), ("max_wal_size", "4GB")]);
    if std::env::args().any(|arg| arg == "--long") {
        runtime.block_on(claims::beside_a_snapshot(&server));
    } else {
        // First, while the server has nothing to tidy up after millions of claims.
        runtime.block_on(arrivals::at_a_constant_rate(&server));
        runtime.block_on(claims::side_by_side(&server));
    }
}
