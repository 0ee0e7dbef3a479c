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
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let plan =
            if self.once { Plan::once(self.shoppers, seed) } else { Plan::interactive(self.shoppers, seed) };
        play(&plan, self.port, out)
    }
}

/// Plays in a folder of its own, which is gone afterwards however it came out.
fn play(plan: &Plan, port: Option<u16>, out: &mut dyn Write) -> Done {
    let folder = tempfile::Builder::new().prefix("ropeline-demo-").tempdir();
    let folder = folder.context("no temporary folder can be made")?;
    Keygen::all(folder.path().join("keys")).run(&mut io::sink())?;
    let verdict = demo::run(plan, port, folder.path(), out)?;
    folder.close().context("the temporary folder cannot be removed")?;
    match verdict {
        Verdict::Good => Ok(()),
        Verdict::Failed(faults) => Err(Failure::Found(format!("failed: {}", faults.join("\n        ")))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_demo_that_does_not_come_to_its_end_in_time_has_failed() {
        // Joining alone takes longer.
        let plan = Plan { deadline: Some(Duration::from_millis(1_500)), ..Plan::once(5, 1) };
        let mut told = Vec::new();
        let failure = play(&plan, None, &mut told).unwrap_err().to_string();
        assert!(failure.starts_with("failed: not at its end after "), "{failure}");
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("5 shoppers for 10 units") && !told.contains("\nok\n"), "{told}");
    }
}
