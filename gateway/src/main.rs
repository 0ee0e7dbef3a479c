//! Entry point.

use std::process::ExitCode;

use clap::Parser as _;
use ropeline_gateway::cli::{Cli, run};

fn main() -> ExitCode {
    run(Cli::parse())
}
