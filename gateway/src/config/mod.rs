//! The configuration: one TOML file, read into types that cannot be wrong.
//!
//! Reading notes every fault with its line and goes on, so that `ropeline check` shows all of them at once. Each
//! file's values are parsed where they are read; what depends on several values is checked beside them. Files
//! the configuration names (keys, secrets, certificates) are opened too: what loads here can start.

mod draw;
mod edge;
pub mod files;
mod insecure;
mod join_limits;
mod keys;
mod limits;
mod listen;
mod operator;
mod protect;
mod queue;
mod read;
mod report;
mod sale;
mod secret;
mod store;
pub mod units;
mod upstream;
mod visitor;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ropeline_queue::{SaleDefinition, UnixMillis};
use toml::de::DeTable;

pub use draw::DrawSettings;
pub use insecure::Insecure;
pub use join_limits::JoinLimits;
pub use limits::Limits;
pub use listen::{Listen, Tls};
pub use operator::OperatorAccess;
pub use protect::{Guarded, ROUTES_APART, check_protect, routes_of_others};
pub use queue::QueueSettings;
pub use read::Surroundings;
pub use report::{Fault, Problem, Report};
pub use secret::{CookieSecret, OperatorToken};
#[cfg(feature = "redis")]
pub use store::SharedStore;
pub use store::Store;
pub use upstream::{HostHeader, HostPort, Upstream, UpstreamTls};
pub use visitor::{Account, AccountAlgorithm, AccountSource, KeySource, Visitor};

use crate::edge::decider::Decides;
use crate::keys::Keys;
use report::{Collector, position};

/// Longest configuration file, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// A whole configuration: every part parsed, every file it names read.
#[derive(Debug)]
pub struct Config {
    /// Where the gateway is reached.
    pub listen: Listen,
    /// The shop behind it.
    pub upstream: Upstream,
    /// What all sales share.
    pub queue: QueueSettings,
    /// Where the queue's state lives.
    pub store: Store,
    /// The signing keys.
    pub keys: Arc<Keys>,
    /// Who queues.
    pub visitor: Visitor,
    /// Who may run the sales.
    pub operator: OperatorAccess,
    /// What one client may take.
    pub limits: Limits,
    /// Dangerous switches.
    pub insecure: Insecure,
    /// Who decides on requests.
    pub edge: Decides,
    /// Where the public randomness of draws is fetched.
    pub draw: DrawSettings,
    /// Sales to create at start where the store does not have them.
    pub sales: Vec<SaleDefinition>,
    /// What works but should not stay so.
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Reads a file; relative paths in it start at its folder.
    ///
    /// # Errors
    /// Every problem of the file at once.
    pub fn load(path: &Path) -> Result<Self, Report> {
        let file = path.display().to_string();
        let text = files::read(path, MAX_FILE).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| {
                Fault::new(
                    format!("the file is not UTF-8 (byte {})", error.utf8_error().valid_up_to()),
                    "save it as UTF-8",
                )
            })
        });
        let text = text.map_err(|Fault { what, mend }| Report {
            file: file.clone(),
            problems: vec![Problem { line: 1, column: 1, key: String::new(), what, mend }],
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = UnixMillis(units::millis(since_1970));
        let around = Surroundings { base, env: &|name| std::env::var(name).ok(), now };
        Self::parse(&text, &around).map_err(|problems| Report { file, problems })
    }

    /// Reads a configuration's text.
    ///
    /// # Errors
    /// Every problem at once, in the order of the lines. Faults of the syntax come alone: what follows from
    /// them would only mislead.
    pub fn parse(text: &str, around: &Surroundings<'_>) -> Result<Self, Vec<Problem>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let problem = |error: &toml::de::Error| {
                let (line, column) = position(text, error.span().map_or(0, |span| span.start));
                let mend = "see https://toml.io for how TOML is written".to_owned();
                Problem { line, column, key: String::new(), what: error.message().to_owned(), mend }
            };
            return Err(errors.iter().map(problem).collect());
        }
        let notes = Collector::new(text);
        let parts = read_parts(read::Section::root(&table, &notes, around));
        let (problems, warnings) = notes.finish();
        match parts {
            Some(config) if problems.is_empty() => Ok(Self { warnings, ..config }),
            _ => Err(problems),
        }
    }
}

fn read_parts(root: read::Section<'_>) -> Option<Config> {
    let insecure = insecure::read(root.table("insecure"));
    let limits = limits::read(root.table("limits"));
    let (own, listen) = listen::read(root.table("listen"), insecure, &limits.join);
    let upstream = upstream::read(root.table("upstream"), insecure, &own);
    let queue = queue::read(root.table("queue"));
    let store = store::read(root.table("store"));
    let keys = keys::read(root.table("keys"));
    let edge = edge::read(root.table("edge"), keys.as_ref());
    let visitor = visitor::read(root.table("visitor"), insecure);
    let operator = operator::read(root.table("operator"));
    let draw = draw::read(root.table("draw"));
    // Where the keys are at fault, they are what is to be mended first.
    let invites = keys.as_ref().is_none_or(|keys| keys.invitation.is_some());
    let one_host =
        upstream.as_ref().is_some_and(|upstream| matches!(upstream.host_header, HostHeader::Fixed(_)));
    let beside = sale::Beside { api_prefix: &queue.api_prefix, invites, one_host };
    let sales = root.tables("sale").and_then(|sections| sale::read(sections, beside));
    root.finish();
    Some(Config {
        listen: listen?,
        upstream: upstream?,
        queue,
        store: store?,
        keys: Arc::new(keys?),
        visitor: visitor?,
        operator: operator?,
        limits,
        insecure,
        edge: edge?,
        draw,
        sales: sales?,
        warnings: Vec::new(),
    })
}
