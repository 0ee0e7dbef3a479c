//! Two million visitors live through a sale in simulated time, and every invariant is checked as it goes.
//!
//! `cargo run --release -p ropeline-queue --example simulate -- [--visitors N] [--seed S]`; ends with 1 if one broke.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a command's output
#![allow(clippy::disallowed_methods)] // the simulated time is the queue's; how long it took is the machine's

use std::process::ExitCode;
use std::time::Instant;

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use ropeline_queue::draw::Shuffle;
use simulation::{Scenario, run};

fn main() -> ExitCode {
    let mut scenario = Scenario { visitors: 2_000_000, seed: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u32>().ok());
        match (name.as_str(), value) {
            ("--visitors", Some(visitors)) if visitors >= 1_000 => scenario.visitors = visitors,
            ("--seed", Some(seed)) => scenario.seed = u64::from(seed),
            _ => {
                eprintln!("usage: simulate [--visitors N (at least 1000)] [--seed S]");
                return ExitCode::from(2);
            }
        }
    }
    println!("{} visitors, seed {}", scenario.visitors, scenario.seed);
    let start = Instant::now();
    match run(scenario) {
        Ok(report) => println!("{report}wall time: {:.1} s", start.elapsed().as_secs_f64()),
        Err(violation) => {
            println!("VIOLATION: {violation}");
            return ExitCode::FAILURE;
        }
    }
    let start = Instant::now();
    let places = Shuffle::new([7; 32], scenario.visitors).places();
    println!("draw of {} alone: {:.2} s", places.as_slice().len(), start.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
