//! Configuration: what a file says ([`RawConfig`]), and what it means once checked ([`Config`]).
//!
//! ```toml
//! listen = "127.0.0.1:8081"
//! database = "/var/lib/ropeline/origin.db"                    # or "postgres://user:password@host/database"
//! public_url = "https://shop.example"
//! hold_seconds = 300
//! hold_extension_seconds = 120                                # 0: holds are not extended, the default
//!
//! [limits]
//! units_per_visitor = 4                                       # of all products together; none by default
//! requests_at_once = 256                                      # more, and the gateway is told to let in fewer
//!
//! [admission]
//! jwks_url = "http://127.0.0.1:8080/.well-known/jwks.json"    # or jwks_file
//! issuer = "https://shop.example"
//! audience = "sneaker"                                        # the sale
//!
//! [payments]
//! webhook_secret = "whsec_…"                                  # 16 characters or more
//! # Real money instead:
//! # provider = "stripe"
//! # [payments.stripe]
//! # secret_key = "sk_…"
//! # webhook_secrets = ["whsec_…"]                             # of an endpoint at <public_url>/webhooks/payments
//!
//! [outbox]                                                    # who is told of what happens; nobody by default
//! redis_url = "rediss://user:password@redis.example:6379"
//! stream = "ropeline:events"
//!
//! [[outbox.webhooks]]
//! name = "warehouse"
//! url = "https://warehouse.example/events"
//! secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]        # two, while one is being replaced
//!
//! [notify]                                                    # for `ropeline-origin notify`
//! smtp_url = "smtps://user:password@mail.example"
//! from = "Shop <orders@shop.example>"
//!
//! [[products]]
//! id = "sneaker"
//! name = "Night Runner"
//! description = "One pair, numbered."
//! price_minor = 18900
//! currency = "EUR"
//! total = 250
//! max_quantity = 2                                            # in one reservation; 1 by default
//! kind = "units"                                              # numbered from 1; "count", the default: one like the other
//!
//! [[products]]
//! id = "gala"
//! name = "Gala night"
//! price_minor = 4500
//! currency = "EUR"
//! total = 3
//! kind = "units"
//! labels = ["A-1", "A-2", "B-1"]                              # instead of numbers, in the order they are given away
//! ```

mod faults;
mod notify;
mod outbox;
mod payments;
mod products;
mod raw;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use ropeline_token::Leeway;

use crate::admission::{KeySource, Terms};
use crate::client::is_local;
use crate::store::{ProductSeed, Store};
pub use faults::{ConfigError, Fault};
use faults::{Faults, unreadable};
pub(crate) use notify::NotifyConfig;
pub use notify::RawNotify;
pub(crate) use outbox::{OutboxConfig, StreamConfig, WebhookConfig};
pub use outbox::{RawOutbox, RawWebhook};
pub(crate) use payments::PaymentsConfig;
pub use payments::{RawPayments, RawProvider, RawStripe};
pub(crate) use products::LONGEST_LABEL;
use products::check_product;
pub use products::{RawKind, RawProduct};
pub use raw::{RawAdmission, RawConfig, RawLimits};

/// Where the books are.
#[derive(Clone)]
pub(crate) enum Database {
    /// A file of one service's own.
    File(PathBuf),
    /// A database on a server, at this address, for any number of services. The address may have a password in it.
    Postgres(String),
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) database: Database,
    pub(crate) public_authority: String,
    pub(crate) hold: Duration,
    pub(crate) extension: Duration,
    pub(crate) units_per_visitor: Option<i64>,
    pub(crate) requests_at_once: NonZeroU32,
    pub(crate) keys: KeySource,
    pub(crate) refresh: Duration,
    pub(crate) terms: Terms,
    pub(crate) payments: PaymentsConfig,
    pub(crate) reconcile: Duration,
    pub(crate) outbox: OutboxConfig,
    pub(crate) notify: Option<NotifyConfig>,
    pub(crate) products: Vec<ProductSeed>,
}

// === impl Config ===

impl Config {
    /// What works, and had better not be left so.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        match &self.keys {
            KeySource::Url(url) if !address(url).is_some_and(|uri| is_confidential(&uri)) => vec![format!(
                "admission.jwks_url: {url} is asked without TLS, so that whoever is on the way can let anybody in; use https://, \
                 or jwks_file"
            )],
            KeySource::Url(_) | KeySource::File(_) => Vec::new(),
        }
    }
}

// === impl Database ===

impl Database {
    fn read(written: PathBuf, faults: &mut Faults) -> Self {
        let is_address = |written: &&str| written.contains("://") || written.starts_with("postgres:");
        if let Some(url) = written.to_str().filter(is_address) {
            if url.starts_with("postgres://") || url.starts_with("postgresql://") {
                if let Err(why) = Store::check_postgres(url) {
                    faults.add("database", why);
                }
            } else {
                faults.add(
                    "database",
                    "must name a file, or be the address of a PostgreSQL database: \"postgres://user:password@host/database\"",
                );
            }
            return Self::Postgres(url.to_owned());
        }
        faults.check(written.file_name().is_some(), "database", "must name a file");
        Self::File(written)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Postgres(_) => f.debug_tuple("Postgres").finish_non_exhaustive(),
        }
    }
}

// === impl RawConfig ===

impl RawConfig {
    /// Checks it.
    ///
    /// # Errors
    /// With everything that is wrong, at once.
    pub fn check(self) -> Result<Config, ConfigError> {
        let mut faults = Faults::default();
        let listen = self.listen.parse::<SocketAddr>().map_err(|_| {
            faults
                .add("listen", format!("{:?} is no address with a port, as \"127.0.0.1:8081\"", self.listen));
        });
        let database = Database::read(self.database, &mut faults);
        let public_authority = authority(&self.public_url).ok_or(()).map_err(|()| {
            faults.add(
                "public_url",
                format!(
                    "{:?} is not of the form \"https://shop.example\", without path or query",
                    self.public_url
                ),
            );
        });
        let hold = faults.seconds("hold_seconds", self.hold_seconds, 1, 86_400);
        let extension = faults.seconds("hold_extension_seconds", self.hold_extension_seconds, 0, 86_400);
        let units_per_visitor = self.limits.units_per_visitor;
        faults.check(
            units_per_visitor.is_none_or(|limit| (1..=1_000_000).contains(&limit)),
            "limits.units_per_visitor",
            "must be from 1 to 1000000; leave it out for no limit",
        );
        let requests_at_once = NonZeroU32::new(self.limits.requests_at_once).unwrap_or_else(|| {
            faults.add("limits.requests_at_once", "must be 1 or more; 256 by default");
            NonZeroU32::MIN
        });
        let keys = key_source(&self.admission, &mut faults);
        let refresh = faults.seconds("admission.refresh_seconds", self.admission.refresh_seconds, 1, 86_400);
        let terms = terms(&self.admission, &mut faults);
        let payments =
            payments::check(&self.payments, &self.products, &self.public_url, &database, &mut faults);
        let reconcile =
            faults.seconds("payments.reconcile_seconds", self.payments.reconcile_seconds, 1, 3_600);
        let outbox = outbox::check(self.outbox, &mut faults);
        let notify = self.notify.and_then(|notify| {
            notify::check(&notify, &outbox, &self.public_url, &self.products, &mut faults)
        });
        faults.check(
            !self.products.is_empty(),
            "products",
            "must list at least one product: add a [[products]] table",
        );
        let mut ids = HashSet::new();
        for (index, product) in self.products.iter().enumerate() {
            check_product(product, &format!("products[{index}]"), &mut faults);
            faults.check(
                ids.insert(product.id.as_str()),
                &format!("products[{index}].id"),
                format!("{:?} is there twice; give each product an id of its own", product.id),
            );
        }
        match (listen, public_authority, keys, terms, payments) {
            (Ok(listen), Ok(public_authority), Some(keys), Some(terms), Some(payments))
                if faults.0.is_empty() =>
            {
                Ok(Config {
                    listen,
                    database,
                    public_authority,
                    hold,
                    extension,
                    units_per_visitor,
                    requests_at_once,
                    keys,
                    refresh,
                    terms,
                    payments,
                    reconcile,
                    outbox,
                    notify,
                    products: self.products.into_iter().map(RawProduct::seed).collect(),
                })
            }
            _ => Err(ConfigError(faults.0)),
        }
    }
}

/// An address that can be asked, with a port that there is.
fn address(url: &str) -> Option<Uri> {
    url.parse::<Uri>().ok().filter(|_| reqwest::Url::parse(url).is_ok())
}

/// Whether a claim of a token can be so: as tokens have them, or nobody would ever be let in.
fn is_claim(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.trim() == text && !text.contains(char::is_control)
}

fn authority(url: &str) -> Option<String> {
    let uri = address(url)?;
    let bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && !url.contains('#');
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    (bare && matches!(uri.scheme_str(), Some("http" | "https")))
        .then(|| authority.as_str().to_ascii_lowercase())
}

/// Whether what is sent there is read by nobody on the way: it goes over TLS, or does not leave this machine.
fn is_confidential(uri: &Uri) -> bool {
    uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        && match uri.scheme_str() {
            Some("https") => uri.host().is_some_and(|host| !host.is_empty()),
            Some("http") => is_local(uri),
            _ => false,
        }
}

fn key_source(admission: &RawAdmission, faults: &mut Faults) -> Option<KeySource> {
    match (&admission.jwks_file, &admission.jwks_url) {
        (Some(path), None) => {
            faults.check(path.file_name().is_some(), "admission.jwks_file", "must name a file");
            Some(KeySource::File(path.clone()))
        }
        (None, Some(url)) => {
            let is_good = |uri: Uri| {
                matches!(uri.scheme_str(), Some("http" | "https"))
                    && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
            };
            if address(url).is_some_and(is_good) {
                return Some(KeySource::Url(url.clone()));
            }
            faults.add(
                "admission.jwks_url",
                "is no http:// or https:// address, or has a user or password in it; name the gateway's key set, or a file \
                 with jwks_file",
            );
            None
        }
        (None, None) => {
            faults.add("admission", "needs jwks_file or jwks_url: where the gateway's public keys are");
            None
        }
        (Some(_), Some(_)) => {
            faults.add("admission", "has both jwks_file and jwks_url; keep one");
            None
        }
    }
}

fn terms(admission: &RawAdmission, faults: &mut Faults) -> Option<Terms> {
    faults.check(
        is_claim(&admission.issuer),
        "admission.issuer",
        "must be the gateway's issuer, of 1 to 255 bytes without spaces around them",
    );
    faults.check(
        is_claim(&admission.audience),
        "admission.audience",
        "must be the sale, of 1 to 255 bytes without spaces around them",
    );
    match Leeway::from_seconds(admission.leeway_seconds) {
        Ok(leeway) => Some(Terms {
            issuer: admission.issuer.clone(),
            audience: admission.audience.clone(),
            min_epoch: admission.min_epoch,
            leeway,
        }),
        Err(_) => {
            faults.add(
                "admission.leeway_seconds",
                format!("must be at most {}, is {}", Leeway::MAX_SECONDS, admission.leeway_seconds),
            );
            None
        }
    }
}
