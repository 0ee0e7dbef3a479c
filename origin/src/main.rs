//! `ropeline-origin`: the reservation service from the command line.

use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use ropeline_origin::config::RawProduct;
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
    /// Events that were not told yet. Works beside a running service.
    Outbox {
        #[command(subcommand)]
        command: OutboxCommand,
    },
    /// Mail order confirmations, as the configuration's [notify] says, until SIGTERM or SIGINT.
    Notify {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
    },
    /// Put a product on sale that is not in the configuration file, or list what is in the books. Beside a running service.
    Product {
        #[command(subcommand)]
        what: ProductCommand,
    },
    /// Ask the payment service about every purchase that is not settled, once, and say what came of it, a line of JSON each.
    /// Beside a running service, which does so by itself, too.
    Reconcile {
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

#[derive(Subcommand)]
enum ProductCommand {
    /// Put a product on sale. One that is in the file or in the books already is refused.
    Add {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
        /// The product (TOML), written as a [[products]] table of the configuration without that line; "-" reads it from
        /// standard input.
        product: PathBuf,
    },
    /// Say in JSON what is in the books of each product, and whether it is the file's (`in_file`).
    List {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
    },
}

#[derive(Subcommand)]
enum OutboxCommand {
    /// Say which events wait or are dead, the oldest first, a line of JSON for each.
    List {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
        /// Only those that are not tried any more.
        #[arg(long)]
        dead: bool,
        /// Only those of this sink: `redis`, or `webhook:` and its name.
        #[arg(long)]
        sink: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 1_000)]
        limit: u32,
    },
    /// Have events sent again, as if they had never been tried.
    Resend {
        /// The configuration file (TOML).
        #[arg(short, long)]
        config: PathBuf,
        /// The event, by its id.
        #[arg(required_unless_present = "all_dead", conflicts_with = "all_dead")]
        id: Option<String>,
        /// Every event that is dead.
        #[arg(long)]
        all_dead: bool,
        /// Only to this sink: `redis`, or `webhook:` and its name.
        #[arg(long)]
        sink: Option<String>,
    },
}

fn main() -> ExitCode {
    let Err(error) = run(Arguments::parse().command) else { return ExitCode::SUCCESS };
    // Whoever read the output, as `head` does, has read enough.
    if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(std::io::stderr(), "Error: {}", words(&error));
    ExitCode::FAILURE
}

/// What an error says, and its causes where it does not say them itself.
fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain() {
        let cause = without_origin(cause.to_string().trim_end()).to_owned();
        if !words.contains(&cause) {
            words += if words.is_empty() { "" } else { ": " };
            words += &cause;
        }
    }
    words
}

/// PostgreSQL also tells the line of its own source where an error came up, which helps nobody here.
fn without_origin(cause: &str) -> &str {
    match cause.rsplit_once(" at line ") {
        Some((before, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => cause,
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve { config } => serve(&config),
        Command::Audit { config, resume } => audit(&config, resume.as_deref()),
        Command::Migrate { config } => migrate(&config),
        Command::Product { what } => product(what),
        Command::Reconcile { config } => reconcile(&config),
        Command::Outbox { command } => outbox(command),
        Command::Notify { config } => notify(&config),
        Command::Check { config } => {
            for warning in warnings(&config, &read(&config)?) {
                writeln!(std::io::stderr(), "Warning: {warning}")?;
            }
            writeln!(std::io::stdout(), "{}: good", config.display())?;
            Ok(())
        }
    }
}

/// What had better not be left so, in a configuration and of its file, which has secrets in it.
fn warnings(path: &Path, config: &Config) -> Vec<String> {
    let mut warnings = config.warnings();
    if let Ok(file) = std::fs::metadata(path) {
        let mode = file.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            warnings.push(format!(
                "{0} has secrets in it and is open to others (mode {mode:04o}): chmod 600 {0}",
                path.display()
            ));
        }
    }
    warnings
}

fn read(path: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    RawConfig::from_toml(&text).and_then(RawConfig::check).with_context(|| path.display().to_string())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().context("no runtime")
}

fn migrate(path: &Path) -> anyhow::Result<()> {
    let migrated = runtime()?.block_on(operator::migrate(&read(path)?))?;
    let done = if migrated {
        "the tables are up to date"
    } else {
        "nothing to do: books in a file are brought up to date when they are served"
    };
    Ok(writeln!(std::io::stdout(), "{done}")?)
}

fn product(what: ProductCommand) -> anyhow::Result<()> {
    match what {
        ProductCommand::Add { config, product } => {
            let text = if product.as_os_str() == "-" {
                std::io::read_to_string(std::io::stdin())
            } else {
                std::fs::read_to_string(&product)
            };
            let text = text.with_context(|| format!("{} cannot be read", product.display()))?;
            let product = RawProduct::from_toml(&text)
                .with_context(|| format!("{} is no product", product.display()))?;
            let id = product.id.clone();
            runtime()?.block_on(operator::add_product(&read(&config)?, product))?;
            Ok(writeln!(std::io::stdout(), "{id}: on sale")?)
        }
        ProductCommand::List { config } => {
            let products = runtime()?.block_on(operator::products(&read(&config)?))?;
            Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&products)?)?)
        }
    }
}

fn reconcile(config: &Path) -> anyhow::Result<()> {
    let done = runtime()?.block_on(operator::reconcile(&read(config)?))?;
    let mut out = std::io::stdout().lock();
    for one in &done {
        writeln!(out, "{}", serde_json::to_string(one)?)?;
    }
    Ok(())
}

fn audit(config: &Path, resume: Option<&str>) -> anyhow::Result<()> {
    let config = read(config)?;
    let runtime = runtime()?;
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
        let written = writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&audit)?);
        if !audit.balanced {
            bail!("the books do not add up");
        }
        Ok(written?)
    })
}

fn outbox(command: OutboxCommand) -> anyhow::Result<()> {
    let runtime = runtime()?;
    match command {
        OutboxCommand::List { config, dead, sink, limit } => {
            let config = read(&config)?;
            let events = runtime.block_on(operator::outbox(&config, sink.as_deref(), dead, limit))?;
            let mut out = std::io::stdout().lock();
            for event in events {
                writeln!(out, "{}", serde_json::to_string(&event)?)?;
            }
        }
        OutboxCommand::Resend { config, id, all_dead: _, sink } => {
            let config = read(&config)?;
            let sent = runtime.block_on(operator::resend(&config, id.as_deref(), sink.as_deref()))?;
            if let Some(id) = id.filter(|_| sent == 0) {
                bail!("{id}: no event of that id waits or is dead; what was told is forgotten");
            }
            writeln!(std::io::stdout(), "{sent} to be sent again")?;
        }
    }
    Ok(())
}

fn notify(config: &Path) -> anyhow::Result<()> {
    log();
    let config = read(config)?;
    let runtime = runtime()?;
    runtime.block_on(async { Ok(ropeline_origin::notify::run(config, shutdown()?).await?) })
}

/// Logs to the standard error, at the level that `RUST_LOG` says: lines for a person, JSON for everybody else.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        // A log that cannot be written, as on a full disk, is no reason to answer nobody: complaining of it on stderr panics.
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        log.init();
    } else {
        log.json().init();
    }
}

/// Ends when the process is told to stop.
fn shutdown() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    })
}

fn serve(config: &Path) -> anyhow::Result<()> {
    log();
    let config = read(config)?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        ropeline_origin::run(config, shutdown()?).await?;
        Ok(())
    });
    // What was told to stop while it started may have a call to the system open that never ends.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}
