//! What the embedded store costs: joins a second, bytes a visitor, the start with two million of
//! them on disk. `cargo bench -p ropeline-store`; `-- --visitors 200000` for a shorter run,
//! `-- --folder DIR` for another disk (the default is the target folder's).
//!
//! Joins are made as a busy gateway makes them: several callers at once, each with the shoppers
//! that have gathered while its last batch became durable. "Per core" divides by the processor
//! time of the whole process, callers included. Memory is the resident set (Linux): what a visitor
//! adds is its growth from one million visitors to two, so that threads, caches and buffers, which
//! do not grow with the crowd, are told apart.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first fault"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ropeline_queue::{Arrival, Pace, RawDefinition, SaleId, TickInput, VisitorKey};
use ropeline_store::{EmbeddedStore, Join, QueueStore, SystemClock};

fn main() {
    let mut visitors = 2_000_000;
    let mut folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut reopen = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--visitors" => visitors = args.next().unwrap().parse().unwrap(),
            "--folder" => folder = args.next().unwrap().into(),
            "--reopen" => reopen = args.next().map(PathBuf::from),
            _ => {}
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match reopen {
        Some(path) => runtime.block_on(start_again(&path, visitors)),
        None => runtime.block_on(all(&folder, visitors)),
    }
}

fn sale() -> SaleId {
    "drop".parse().unwrap()
}

fn join(who: u64) -> Join {
    // As evenly spread as the digests that visitor keys are.
    let spread = u128::from(who + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    Join::of(VisitorKey((spread ^ (spread >> 64)).to_le_bytes()))
}

async fn all(folder: &Path, visitors: u64) {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let path = folder.path().join("queue.redb");
    let store = Arc::new(EmbeddedStore::open(&path, Arc::new(SystemClock::new())).unwrap());
    let mut raw = RawDefinition::new(sale(), 1_000_000);
    raw.pace = Pace::Smooth { admit: 1_000_000, per_ms: 1_000, burst: 1_000_000 };
    store.create(raw.check().unwrap(), [1; 32]).await.unwrap();
    // Open, with nobody let in yet: each join looks whether somebody can be called.
    store.tick(&sale(), TickInput { health_limit: Some(0) }).await.unwrap();
    println!("embedded store, {visitors} visitors, in {}", folder.path().display());

    let empty = resident_bytes();
    let half = visitors / 2;
    measure("new visitors, 64 callers, batches of 64", &store, 0..half, 64, 64).await;
    let halfway = resident_bytes();
    measure("as many again", &store, half..visitors, 64, 64).await;
    let full = resident_bytes();
    println!(
        "  resident: {:.1} B for each visitor of the second half, {:.1} B in all with what does not grow ({} MiB)",
        ratio(full.saturating_sub(halfway), visitors - half),
        ratio(full.saturating_sub(empty), visitors),
        (full - empty) >> 20
    );
    println!(
        "  file: {:.1} MiB, {:.1} B a visitor",
        ratio(file_bytes(&path), 1 << 20),
        ratio(file_bytes(&path), visitors)
    );
    measure("the same visitors again", &store, 0..visitors, 64, 64).await;
    let singles = visitors / 20;
    measure("new visitors, 1,024 callers, one at a time", &store, visitors..visitors + singles, 1_024, 1)
        .await;

    let (views, started) = (1_000_000u64, Instant::now());
    for _ in 0..views {
        std::hint::black_box(store.view(&sale()).await.unwrap());
    }
    println!("  views: {:.0}/s from one caller", rate(views, started.elapsed()));
    drop(store);
    start_in_a_new_process(&path, visitors);

    let store = Arc::new(EmbeddedStore::open(&path, Arc::new(SystemClock::new())).unwrap());
    calls(&store).await;
    drop(store);
    start_in_a_new_process(&path, visitors);
}

fn start_in_a_new_process(path: &Path, visitors: u64) {
    let status = Command::new(std::env::current_exe().unwrap())
        .arg("--reopen")
        .arg(path)
        .args(["--visitors", &visitors.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// Joins the range, `callers` at a time, and prints how that went.
async fn measure(
    what: &str,
    store: &Arc<EmbeddedStore>,
    who: std::ops::Range<u64>,
    callers: u64,
    batch: u64,
) {
    let count = who.end - who.start;
    let next = Arc::new(AtomicU64::new(who.start));
    let (cpu, started) = (cpu_time(), Instant::now());
    let mut tasks = Vec::new();
    for _ in 0..callers {
        let (store, next, end) = (Arc::clone(store), Arc::clone(&next), who.end);
        tasks.push(tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            loop {
                let from = next.fetch_add(batch, Ordering::Relaxed);
                if from >= end {
                    return slowest;
                }
                let joins = (from..end.min(from + batch)).map(join).collect();
                let asked = Instant::now();
                let answers = store.join(&sale(), joins).await.unwrap();
                slowest = slowest.max(asked.elapsed());
                assert!(answers.iter().all(Result::is_ok));
            }
        }));
    }
    let mut slowest = Duration::ZERO;
    for task in tasks {
        slowest = slowest.max(task.await.unwrap());
    }
    let (wall, cpu) = (started.elapsed(), cpu_time().saturating_sub(cpu));
    println!(
        "  {what}: {:.0}/s, {:.0}/s per core ({:.2} cores busy), slowest answer {} ms",
        rate(count, wall),
        rate(count, cpu),
        cpu.as_secs_f64() / wall.as_secs_f64(),
        slowest.as_millis()
    );
}

/// Ticks and claims beside the crowd.
async fn calls(store: &Arc<EmbeddedStore>) {
    let started = Instant::now();
    let view = store.tick(&sale(), TickInput::default()).await.unwrap();
    println!("  a tick that calls {}: {:.1} ms", view.serving, started.elapsed().as_secs_f64() * 1e3);
    let claims = view.serving.0.min(100_000);
    let (cpu, started) = (cpu_time(), Instant::now());
    let mut tasks = Vec::new();
    let next = Arc::new(AtomicU64::new(0));
    for _ in 0..1_024 {
        let (store, view, next) = (Arc::clone(store), Arc::clone(&view), Arc::clone(&next));
        tasks.push(tokio::spawn(async move {
            loop {
                let arrival = next.fetch_add(1, Ordering::Relaxed);
                if arrival >= claims {
                    return;
                }
                store.claim(&sale(), view.position(Arrival(arrival))).await.unwrap().unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let (wall, cpu) = (started.elapsed(), cpu_time().saturating_sub(cpu));
    println!(
        "  {claims} claims, 1,024 callers: {:.0}/s, {:.0}/s per core",
        rate(claims, wall),
        rate(claims, cpu)
    );
    let (ticks, started) = (20_000u64, Instant::now());
    for _ in 0..ticks {
        store.tick(&sale(), TickInput { health_limit: Some(0) }).await.unwrap();
    }
    println!("  ticks that call nobody: {:.0}/s from one caller", rate(ticks, started.elapsed()));
}

/// In a process of its own: opens the file as after a crash or an update.
async fn start_again(path: &Path, visitors: u64) {
    let resident = resident_bytes();
    let started = Instant::now();
    let store = EmbeddedStore::open(path, Arc::new(SystemClock::new())).unwrap();
    let took = started.elapsed();
    let view = store.view(&sale()).await.unwrap();
    assert!(view.next_arrival.0 >= visitors);
    let grown = resident_bytes().saturating_sub(resident);
    println!(
        "  start with {} visitors and {} MiB on disk, file in the page cache: {:.2} s; {:.1} B resident a visitor",
        view.next_arrival,
        file_bytes(path) >> 20,
        took.as_secs_f64(),
        ratio(grown, view.next_arrival.0)
    );
}

#[allow(clippy::cast_precision_loss, reason = "for printing")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[allow(clippy::cast_precision_loss, reason = "for printing")]
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// The resident set, from `/proc`.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// User and system time of this process, from `/proc`, in hundredths of a second.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 =
        after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
