//! `ropeline edge`: what the CDN's side needs of a gateway.

mod check;
mod export;
mod forms;
mod test;

use std::io::Write;

use clap::Subcommand;

use super::Done;

#[derive(Debug, Subcommand)]
pub(super) enum Edge {
    /// Writes the settings for edges, as the running gateway has them now: its sales, and its public keys.
    Export(export::Export),
    /// Says what is wrong with settings, or what they hold.
    Check(check::Check),
    /// Runs an edge's module against the conformance vectors, within limits of fuel and memory.
    Test(test::Test),
}

impl Edge {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        match self {
            Self::Export(export) => export.run(out),
            Self::Check(check) => check.run(out),
            Self::Test(test) => test.run(out),
        }
    }
}
