//! `ropeline-origin`: the reservation service from the command line.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use ropeline_origin::{Config, RawConfig, Resumed, operator};
use tracing_subscriber::EnvFilter;

/// The reservation service of a Ropeline shop.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service until SIGTERM or SIGINT.
    Serve {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
    },
    /// Count the books, say in JSON what is in them, and fail if they do not add up. A product whose books differ is
    /// stopped.
    Audit {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
        /// First take up the sale of this product, which had been stopped and whose books add up again.
        #[arg(long)]
        resume: Option<String>,
    },
    /// Make the tables in a PostgreSQL database, or bring them up to date. Before a new version serves, not while it does.
    Migrate {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
    },
    /// Say everything that is wrong in a configuration file.
    Check {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Serve { config } => serve(&config),
        Command::Audit { config, resume } => audit(&config, resume.as_deref()),
        Command::Migrate { config } => {
            let config = read(&config)?;
            let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
            Ok(runtime.block_on(operator::migrate(&config))?)
        }
        Command::Check { config } => {
            read(&config)?;
            writeln!(std::io::stdout(), "{}: good", config.display())?;
            Ok(())
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    RawConfig::from_toml(&text).and_then(RawConfig::check).with_context(|| path.display().to_string())
}

fn audit(config: &Path, resume: Option<&str>) -> anyhow::Result<()> {
    let config = read(config)?;
    let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
    runtime.block_on(async {
        if let Some(product) = resume {
            match operator::resume(&config, product).await? {
                Resumed::Resumed => {}
                Resumed::Running => bail!("{product}: its sale is not stopped"),
                Resumed::Unbalanced => bail!("{product}: its books do not add up; mend them first"),
                Resumed::Unknown => bail!("{product}: there is no product of that name"),
            }
        }
        let audit = operator::audit(&config).await?;
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&audit)?)?;
        if !audit.balanced {
            bail!("the books do not add up");
        }
        Ok(())
    })
}

fn serve(config: &Path) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let config = read(config)?;
    let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        };
        ropeline_origin::run(config, shutdown).await?;
        Ok(())
    })
}
