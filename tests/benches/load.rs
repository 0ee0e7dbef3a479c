//! A whole sale on one machine: all join through two gateways that share Redis, wait, are drawn, called and let in.
//!
//! `VISITORS` is how many join, `CALLED` how many of them are let in, `POLLS` how many ask each second where they stand
//! while all wait, for `SECONDS`. Gateways, Redis and the shoppers share the machine. It stops at anything that is not as it
//! should be: two arrivals of one number, a place that is not the draw's, one call more than may be.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark: it prints what it found, and stops at what went wrong"
)]

#[path = "load/crowd.rs"]
mod crowd;
#[path = "load/stage.rs"]
mod stage;

use std::time::Duration;

use ropeline_tests::measure::setting;

use self::crowd::{Crowd, Pace};
use self::stage::Stage;

/// How many wait when it is first counted what that costs.
const FEW: u32 = 1_000;
/// Joins of another sale, by which it is known how long those of this one will take.
const TRIAL: u32 = 20_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(all(Size::read()));
}

/// How much of everything.
#[derive(Clone, Copy)]
struct Size {
    visitors: u32,
    called: u32,
    polls: Pace,
}

// === impl Size ===

impl Size {
    fn read() -> Self {
        let visitors = setting("VISITORS", 2_000_000_u32).max(FEW + 1);
        let called = setting("CALLED", 25_000_u32).min(visitors);
        let polls =
            Pace { a_second: setting("POLLS", 1_000), lasting: Duration::from_secs(setting("SECONDS", 20)) };
        Self { visitors, called, polls }
    }
}

async fn all(size: Size) {
    let Size { visitors, called, polls } = size;
    println!("{visitors} visitors, two gateways, one Redis that syncs its append-only file every second");
    let mut stage = Stage::set(called).await;

    let trial = Crowd::join(&stage.addresses(), stage::TRIAL, 0, TRIAL.min(visitors)).await;
    stage.announce(visitors, trial.rate()).await;
    let empty = stage.redis_memory();
    let few = Crowd::join(&stage.addresses(), stage::SALE, 0, FEW).await;
    let (polled, quiet) = stage.while_waiting(&few, polls).await;
    println!(
        "  {FEW} waiting: {quiet:.1} Redis commands/s; status p50 {:.2} ms, p99 {:.2} ms",
        polled.p50_ms(),
        polled.p99_ms()
    );
    let mut crowd = Crowd::join(&stage.addresses(), stage::SALE, FEW, visitors).await;
    println!("  joins: {:.0}/s through two gateways, p99 {:.1} ms", crowd.rate(), crowd.waits().p99_ms());
    crowd.add(few);
    crowd.check_numbers();
    let memory = stage.redis_memory().saturating_sub(empty);
    println!("  Redis: {:.1} B a waiting visitor", memory as f64 / f64::from(visitors));
    for (number, bytes) in stage.gateways_memory().into_iter().enumerate() {
        println!("  gateway {}: {} MiB resident", number + 1, bytes >> 20);
    }
    let (polled, busy) = stage.while_waiting(&crowd, polls).await;
    println!(
        "  {visitors} waiting: {busy:.1} Redis commands/s; status p50 {:.2} ms, p99 {:.2} ms",
        polled.p50_ms(),
        polled.p99_ms()
    );

    let drawn = stage.drawn().await;
    println!(
        "  drawn: {} arrivals; the seed was known {:.1} s after the closing",
        drawn.size,
        drawn.after.as_secs_f64()
    );
    crowd.check_places(&stage.addresses(), &drawn).await;
    let calling = stage.all_called(called).await;
    println!("  called: {called} in {:.1} s, as the pace has it", calling.as_secs_f64());
    let claims = crowd.claim(&stage.addresses(), &drawn.first(called)).await;
    println!("  claims: {:.0}/s through two gateways, p99 {:.1} ms", claims.rate(), claims.p99_ms());
    stage.check_cap(called).await;
    println!("  never more than {called} called or inside; nobody else was let in");
}
