//! `ropeline serve`.

use std::io::IsTerminal as _;
use std::path::Path;

use tracing_subscriber::EnvFilter;

use super::{Done, Failure};
use crate::config::Config;
use crate::shutdown::Order;

/// What is logged when `RUST_LOG` does not say.
const DEFAULT_LOG: &str = "info,pingora_core=warn,pingora_proxy=warn,redis=error";

pub(super) fn run(path: &Path) -> Done {
    let config = Config::load(path).map_err(|report| Failure::Found(report.to_string()))?;
    log_to_stderr(DEFAULT_LOG);
    for warning in &config.warnings {
        tracing::warn!(line = warning.line, key = warning.key, mend = warning.mend, "{}", warning.what);
    }
    crate::server::run(&config, Order::Signals)?;
    Ok(())
}

/// JSON lines where a program reads them, plain text where a person does. `RUST_LOG` outranks `filter`.
pub(super) fn log_to_stderr(filter: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written, as on a full disk, would be complained of where it cannot be written either: by
        // a panic in the midst of a request.
        .log_internal_errors(false);
    // A second call in one process, as tests make, keeps the first.
    let _ = if std::io::stderr().is_terminal() { builder.try_init() } else { builder.json().try_init() };
}
