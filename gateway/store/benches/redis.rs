//! The queue on Redis: joins from one and from two gateways, memory, and what a waiting crowd costs.
//!
//! `cargo bench -p ropeline-store --features redis --bench redis -- --visitors 2000000`. It starts a server of its own,
//! which writes its append-only file once a second.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and breaks")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ropeline_queue::{Pace, RawDefinition, SaleId, TickInput, VisitorKey};
use ropeline_store::{Join, QueueStore, RedisServers, RedisSettings, RedisStore, RedisTls};
use ropeline_test_redis::{Durable, Server};

const CALLERS: u64 = 64;
const BATCH: u64 = 64;

fn main() {
    let mut visitors = 200_000;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--visitors" {
            visitors = args.next().unwrap().parse().unwrap();
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(all(visitors));
}

fn sale(name: &str) -> SaleId {
    name.parse().unwrap()
}

fn join(who: u64) -> Join {
    // As evenly spread as the digests that visitor keys are.
    let spread = u128::from(who + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    Join::of(VisitorKey((spread ^ (spread >> 64)).to_le_bytes()))
}

async fn all(visitors: u64) {
    let server = Server::start(Durable::EverySecond);
    let settings = RedisSettings {
        servers: RedisServers::Single(server.url()),
        tls: RedisTls::default(),
        patience: Duration::from_secs(10),
        checkpoint: None,
    };
    let open = || Arc::new(RedisStore::open(&settings).unwrap());
    let (one, two) = (open(), open());
    println!("redis store, {visitors} visitors, append-only file synced every second");
    for name in ["one", "two"] {
        let mut raw = RawDefinition::new(sale(name), 1_000_000);
        raw.pace = Pace::Smooth { admit: 1_000_000, per_ms: 1_000, burst: 1_000_000 };
        one.create(raw.check().unwrap(), [1; 32]).await.unwrap();
    }
    let used = || server.info("memory", "used_memory").unwrap();
    let empty = used();
    measure("one gateway, 64 callers, batches of 64", &sale("one"), &[Arc::clone(&one)], visitors).await;
    let full = used();
    println!("  redis: {:.1} B a visitor", ratio(full.saturating_sub(empty), visitors));
    measure(
        "two gateways on one sale, 64 callers each",
        &sale("two"),
        &[Arc::clone(&one), Arc::clone(&two)],
        visitors,
    )
    .await;

    let (first, second) = (one.redis_report(), two.redis_report());
    println!(
        "    {} commits, {} batches run in vain, at most {} commits of the other let pass",
        first.commits + second.commits,
        first.conflicts + second.conflicts,
        first.longest_wait.max(second.longest_wait)
    );

    let asleep = TickInput { health_limit: Some(0) };
    for gateway in [&one, &two] {
        gateway.tick(&sale("one"), asleep).await.unwrap();
    }
    let (before, ticks) = (commands(&server), 20u64);
    for _ in 0..ticks {
        for gateway in [&one, &two] {
            gateway.tick(&sale("one"), asleep).await.unwrap();
        }
    }
    let scripts = commands(&server) - before;
    println!(
        "  {visitors} waiting: {:.2} commands a tick of one gateway, and none between ticks",
        ratio(scripts, ticks * 2)
    );

    let started = Instant::now();
    let third = open();
    third.view(&sale("one")).await.unwrap();
    println!("  a gateway that starts reads the sale in {} ms", started.elapsed().as_millis());
}

/// Commands from clients: scripts, those the scripts run not counted.
fn commands(server: &Server) -> u64 {
    server.calls("evalsha") + server.calls("eval") + server.calls("mget")
}

/// All join through the gateways at once.
async fn measure(what: &str, sale: &SaleId, gateways: &[Arc<RedisStore>], visitors: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut tasks = Vec::new();
    for gateway in gateways {
        for _ in 0..CALLERS {
            let (gateway, next, sale) = (Arc::clone(gateway), Arc::clone(&next), sale.clone());
            tasks.push(tokio::spawn(async move {
                let mut slowest = Duration::ZERO;
                loop {
                    let from = next.fetch_add(BATCH, Ordering::Relaxed);
                    if from >= visitors {
                        return slowest;
                    }
                    let joins = (from..visitors.min(from + BATCH)).map(join).collect();
                    let asked = Instant::now();
                    let answers = gateway.join(&sale, joins).await.unwrap();
                    slowest = slowest.max(asked.elapsed());
                    assert!(answers.iter().all(Result::is_ok));
                }
            }));
        }
    }
    let mut slowest = Duration::ZERO;
    for task in tasks {
        slowest = slowest.max(task.await.unwrap());
    }
    let took = started.elapsed();
    let rate = ratio(visitors * 1_000_000, u64::try_from(took.as_micros()).unwrap());
    println!("  {what}: {rate:.0}/s, slowest answer {} ms", slowest.as_millis());
}

#[allow(clippy::cast_precision_loss, reason = "for printing")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
