//! The command line. Results go to standard output, what stands in the way to standard error.

mod check;
#[cfg(feature = "demo")]
mod demo;
mod draw;
mod edge;
mod fetch;
mod invite;
mod keygen;
mod operator;
mod sale;
mod serve;
#[cfg(test)]
mod tests;
mod token;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

const EXIT_CODES: &str = "Exit codes: 0 done, or found good; 1 found wrong, or refused; \
                          2 the command line is wrong; 3 it could not be done.";

/// A virtual waiting room in front of a shop.
#[derive(Debug, Parser)]
#[command(name = "ropeline", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the gateway.
    Serve(ConfigFile),
    /// Checks a configuration and shows everything that is wrong with it, with line and mend.
    Check(ConfigFile),
    /// Makes signing keys and secrets.
    Keygen(keygen::Keygen),
    /// Signs invitations to a lane of a sale.
    Invite(invite::Invite),
    /// Looks into tokens.
    #[command(subcommand)]
    Token(token::Token),
    /// Checks draws.
    #[command(subcommand)]
    Draw(draw::Draw),
    /// Brings the gateway's verdict to CDN edges.
    #[command(subcommand)]
    Edge(edge::Edge),
    /// Runs sales through a gateway's operator listener.
    Sale(sale::Sale),
    /// Lives through a sale on this machine: gateway, reservation service and a crowd in one process.
    #[cfg(feature = "demo")]
    Demo(demo::Demo),
}

/// Which configuration.
#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "ropeline.toml")]
    config: PathBuf,
}

/// Why a command did not end well.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// What was looked at is wrong, or the gateway refused.
    #[error("{0}")]
    Found(String),
    /// It could not be done.
    #[error("{0:#}")]
    Unable(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Unable(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Unable(error.into())
    }
}

type Done = Result<(), Failure>;

/// Carries out one command line.
pub fn run(cli: Cli) -> ExitCode {
    let done = carry_out(cli.command, &mut io::stdout().lock());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has read enough: `ropeline sale list | head -1` is no failure.
        Err(Failure::Unable(error))
            if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let code = match &failure {
                Failure::Found(_) => 1,
                Failure::Unable(_) => 3,
            };
            // Where even standard error is gone, the exit code is all there is to say.
            let _ = writeln!(io::stderr(), "{failure}");
            ExitCode::from(code)
        }
    }
}

fn carry_out(command: Command, out: &mut dyn Write) -> Done {
    match command {
        Command::Serve(file) => serve::run(&file.config),
        Command::Check(file) => check::run(&file.config, out),
        Command::Keygen(keygen) => keygen.run(out),
        Command::Invite(invite) => invite.run(out),
        Command::Token(token) => token.run(out),
        Command::Draw(draw) => draw.run(out),
        Command::Edge(edge) => edge.run(out),
        Command::Sale(sale) => sale.run(out),
        #[cfg(feature = "demo")]
        Command::Demo(demo) => demo.run(out),
    }
}

/// A runtime for a command that makes a few calls and ends.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(work))
}
