//! `ropeline demo`.

use std::io::{self, Write};

use anyhow::Context as _;
use clap::Args;

use super::keygen::Keygen;
use super::serve::log_to_stderr;
use super::{Done, Failure};
use crate::demo::{self, Plan, Verdict};

/// What is logged when `RUST_LOG` does not say: the demo's own lines are to be read.
const DEFAULT_LOG: &str = "warn,pingora_core=error,pingora_proxy=error";

/// Lives through a sale on this machine: gateway, queue and reservation service run in this process on loopback, and
/// simulated shoppers join, poll, claim, reserve and pay over HTTP. What it writes lies in a temporary folder, which
/// it removes at its end.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// A scripted shopper goes through the whole sale beside the crowd, the stock is checked to the unit, and the demo
    /// ends: 0 when all is as it should be, else 1. Without it the shop stays open until Ctrl-C.
    #[arg(long)]
    once: bool,
    /// Simulated shoppers.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(0..=50_000))]
    shoppers: u32,
    /// Decides what each shopper does; drawn and printed when not given.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The shop's port on 127.0.0.1 [default: 8080, or the next that is free].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

impl Demo {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        log_to_stderr(DEFAULT_LOG);
        let folder = tempfile::Builder::new().prefix("ropeline-demo-").tempdir();
        let folder = folder.context("no temporary folder can be made")?;
        Keygen::all(folder.path().join("keys")).run(&mut io::sink())?;
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let plan =
            if self.once { Plan::once(self.shoppers, seed) } else { Plan::interactive(self.shoppers, seed) };
        let verdict = demo::run(&plan, self.port, folder.path(), out)?;
        folder.close().context("the temporary folder cannot be removed")?;
        match verdict {
            Verdict::Good => Ok(()),
            Verdict::Failed(faults) => Err(Failure::Found(format!("failed: {}", faults.join("\n        ")))),
        }
    }
}
