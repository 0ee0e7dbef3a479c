//! Writes the vectors anew: `cargo run -p ropeline-tests --example vectors >tests/conformance/vectors.json`

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use ropeline_tests::conformance::{WRITTEN_AT, generate};

fn main() {
    print!("{}", generate(WRITTEN_AT).to_text());
}
