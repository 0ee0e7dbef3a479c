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

mod notify;
mod outbox;
mod payments;
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
use serde::Deserialize;

use crate::admission::{KeySource, Terms};
use crate::client::is_local;
use crate::model::{Kind, Product};
use crate::store::{ProductSeed, SeedStock, Store};
pub(crate) use notify::NotifyConfig;
pub use notify::RawNotify;
pub(crate) use outbox::{OutboxConfig, StreamConfig, WebhookConfig};
pub use outbox::{RawOutbox, RawWebhook};
pub(crate) use payments::PaymentsConfig;
pub use payments::{RawPayments, RawProvider, RawStripe};

/// A configuration as written. Unknown members are refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: String,
    /// File of the books, or the address of a PostgreSQL database with them. Beside a file, the test provider keeps its
    /// own, with `-payments` added to the name.
    pub database: PathBuf,
    /// Where shoppers see the shop: scheme, host and port.
    pub public_url: String,
    /// How long a hold lasts.
    #[serde(default = "default_hold_seconds")]
    pub hold_seconds: u64,
    /// By how much a shopper may extend a hold, once; 0: not at all.
    #[serde(default)]
    pub hold_extension_seconds: u64,
    /// What one visitor may have, and how much is too much for the service.
    #[serde(default)]
    pub limits: RawLimits,
    /// Whose tokens are good.
    pub admission: RawAdmission,
    /// The payment service.
    pub payments: RawPayments,
    /// Who is told of what happens.
    #[serde(default)]
    pub outbox: RawOutbox,
    /// The worker that mails order confirmations.
    pub notify: Option<RawNotify>,
    /// What is sold.
    #[serde(default)]
    pub products: Vec<RawProduct>,
}

/// Limits, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLimits {
    /// Units that one visitor may hold and own, of all products together.
    pub units_per_visitor: Option<i64>,
    /// Shoppers' requests that the service wants to work on at once. More are answered too; the gateway is told to let in
    /// fewer.
    pub requests_at_once: u32,
}

impl Default for RawLimits {
    fn default() -> Self {
        Self { units_per_visitor: None, requests_at_once: 256 }
    }
}

/// Whose tokens are good, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAdmission {
    /// File with the JWK Set; or `jwks_url`.
    pub jwks_file: Option<PathBuf>,
    /// `http` or `https` address of the JWK Set; or `jwks_file`.
    pub jwks_url: Option<String>,
    /// How often it is read again.
    #[serde(default = "default_refresh_seconds")]
    pub refresh_seconds: u64,
    /// `iss` of the tokens.
    pub issuer: String,
    /// `aud` of the tokens: the sale.
    pub audience: String,
    /// The oldest epoch that still counts.
    #[serde(default)]
    pub min_epoch: u32,
    /// For clocks that differ.
    #[serde(default = "default_leeway_seconds")]
    pub leeway_seconds: u64,
}

/// A product, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawProduct {
    /// Its name in addresses: `a-z`, `0-9`, `-`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// A sentence or two.
    #[serde(default)]
    pub description: String,
    /// Price of one unit in the currency's minor unit (cents).
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// Units there are in all, sold ones included.
    pub total: i64,
    /// The most one visitor may hold.
    #[serde(default = "default_max_quantity")]
    pub max_quantity: i64,
    /// What its units are.
    #[serde(default)]
    pub kind: RawKind,
    /// The names of the units, of kind `units`; without them they are numbered from 1.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// What the units of a product are, as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RawKind {
    /// One like the other.
    #[default]
    Count,
    /// Each with a number or name of its own, which shoppers may choose by.
    Units,
}

/// The longest name of a unit, in characters.
pub(crate) const LONGEST_LABEL: usize = 40;
/// Each of them is a row.
const MOST_UNITS: i64 = 1_000_000;

fn default_hold_seconds() -> u64 {
    300
}
fn default_refresh_seconds() -> u64 {
    60
}
fn default_leeway_seconds() -> u64 {
    Leeway::default().seconds()
}
fn default_max_quantity() -> i64 {
    1
}

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

/// Something wrong in a configuration, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The member, as `products[1].currency`.
    pub field: String,
    /// What is wrong and what would be right.
    pub mend: String,
}

/// Everything wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(pub Vec<Fault>);

// === impl ConfigError ===

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        writeln!(f, "the configuration has {count} fault{}:", if count == 1 { "" } else { "s" })?;
        for Fault { field, mend } in &self.0 {
            let colon = if field.is_empty() { "" } else { ": " };
            writeln!(f, "  {field}{colon}{mend}")?;
        }
        Ok(())
    }
}

/// Collects faults.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, field: &str, mend: impl Into<String>) {
        self.0.push(Fault { field: field.to_owned(), mend: mend.into() });
    }

    fn check(&mut self, good: bool, field: &str, mend: impl Into<String>) {
        if !good {
            self.add(field, mend);
        }
    }

    /// Whether there is one of this member already.
    fn names(&self, field: &str) -> bool {
        self.0.iter().any(|fault| fault.field == field)
    }

    fn seconds(&mut self, field: &str, given: u64, least: u64, most: u64) -> Duration {
        self.check(
            (least..=most).contains(&given),
            field,
            format!("must be from {least} to {most}, is {given}"),
        );
        Duration::from_secs(given)
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
    /// Reads TOML.
    ///
    /// # Errors
    /// When it is no TOML or has members missing, unknown or of the wrong type; line and column are named.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| unreadable(text, &error))
    }

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

/// What is wrong with a file's form, and where. Nothing of what it says: that may be a secret, and errors are logged.
fn unreadable(text: &str, error: &toml::de::Error) -> ConfigError {
    // What serde found stands in these; what it expected is no secret.
    let found = ["invalid type: string", "invalid value: string", "unknown variant"];
    let message = match found.into_iter().find(|found| error.message().starts_with(found)) {
        Some(found) => {
            let expected = error.message().rsplit_once(", expected ").map_or("", |(_, expected)| expected);
            format!("{found}, expected {expected}")
        }
        None => error.message().to_owned(),
    };
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let (line, column) = (
        before.matches('\n').count() + 1,
        before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
    );
    let mend = format!("line {line}, column {column}: {message}");
    ConfigError(vec![Fault { field: String::new(), mend }])
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

fn check_product(product: &RawProduct, at: &str, faults: &mut Faults) {
    let id_good = (1..=40).contains(&product.id.len())
        && product.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    faults.check(
        id_good,
        &format!("{at}.id"),
        format!("{:?} must be 1 to 40 characters of a-z, 0-9 and -", product.id),
    );
    faults.check(
        (1..=200).contains(&product.name.chars().count())
            && product.name.trim() == product.name
            && !product.name.contains(char::is_control),
        &format!("{at}.name"),
        "must have 1 to 200 characters on one line, no space around them",
    );
    faults.check(
        product.description.len() <= 4_000
            && !product.description.contains(|c: char| c.is_control() && !c.is_whitespace()),
        &format!("{at}.description"),
        "must have at most 4000 bytes, and no control characters",
    );
    faults.check(
        (0..=100_000_000_000).contains(&product.price_minor),
        &format!("{at}.price_minor"),
        format!("must be from 0 to 100000000000 (in cents), is {}", product.price_minor),
    );
    faults.check(
        product.currency.len() == 3 && product.currency.bytes().all(|byte| byte.is_ascii_uppercase()),
        &format!("{at}.currency"),
        format!("{:?} must be a code of three capitals, as \"EUR\"", product.currency),
    );
    faults.check(
        (0..=1_000_000_000).contains(&product.total),
        &format!("{at}.total"),
        format!("must be from 0 to 1000000000, is {}", product.total),
    );
    faults.check(
        (1..=100).contains(&product.max_quantity),
        &format!("{at}.max_quantity"),
        format!("must be from 1 to 100, is {}", product.max_quantity),
    );
    check_labels(product, at, faults);
}

fn check_labels(product: &RawProduct, at: &str, faults: &mut Faults) {
    let field = format!("{at}.labels");
    if product.kind == RawKind::Units {
        faults.check(
            product.total <= MOST_UNITS,
            &format!("{at}.total"),
            format!("must be at most {MOST_UNITS} of a product of kind \"units\", is {}", product.total),
        );
    }
    if product.labels.is_empty() {
        return;
    }
    let (count, mut seen) = (product.labels.len(), HashSet::new());
    faults.check(
        product.kind == RawKind::Units,
        &field,
        "are for kind = \"units\"; set that, or leave them out",
    );
    faults.check(
        i64::try_from(count) == Ok(product.total),
        &field,
        format!("are {count}, but total = {}; name each unit once", product.total),
    );
    for label in &product.labels {
        let good = (1..=LONGEST_LABEL).contains(&label.chars().count())
            && label.trim() == label
            && !label.chars().any(char::is_control);
        if !good || !seen.insert(label.as_str()) {
            faults.add(
                &field,
                format!("{label:?} must be 1 to 40 characters, no space around them, and be there once"),
            );
            return;
        }
    }
}

// === impl RawProduct ===

impl RawProduct {
    /// Reads the TOML of a `[[products]]` table, without that line.
    ///
    /// # Errors
    /// As [`RawConfig::from_toml`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| unreadable(text, &error))
    }

    /// Checks a product that is in no file.
    ///
    /// # Errors
    /// With everything that is wrong.
    pub(crate) fn check(self) -> Result<ProductSeed, ConfigError> {
        let mut faults = Faults::default();
        check_product(&self, "product", &mut faults);
        if faults.0.is_empty() { Ok(self.seed()) } else { Err(ConfigError(faults.0)) }
    }

    fn seed(self) -> ProductSeed {
        let stock = match self.kind {
            RawKind::Count => SeedStock::Count(self.total),
            RawKind::Units if self.labels.is_empty() => {
                SeedStock::Units((1..=self.total).map(|number| number.to_string()).collect())
            }
            RawKind::Units => SeedStock::Units(self.labels),
        };
        ProductSeed {
            product: Product {
                id: self.id,
                name: self.name,
                description: self.description,
                price_minor: self.price_minor,
                currency: self.currency,
                max_quantity: self.max_quantity,
                kind: match self.kind {
                    RawKind::Count => Kind::Count,
                    RawKind::Units => Kind::Units,
                },
            },
            stock,
        }
    }
}
