//! What the operator does to the books from the command line, whether or not the service runs.

use std::sync::Arc;

use crate::cashier::Cashier;
use crate::config::{Config, ConfigError, Database, PaymentsConfig, RawProduct};
use crate::model::Audit;
use crate::payments::Payments;
use crate::payments::stripe::Stripe;
use crate::payments::test_provider::{self, TestProvider};
use crate::service::settings;
use crate::store::{Again, OpenError, OutboxEvent, Resumed, SeedError, Store, StoreError};

/// Why the operator's wish came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The books cannot be opened, or are not there.
    #[error("database: {0}")]
    Books(#[from] OpenError),
    /// The books cannot be read or written.
    #[error("database: {0}")]
    Store(#[from] StoreError),
    /// The operating system has no randomness to give.
    #[error("no randomness: {0}")]
    Random(#[from] getrandom::Error),
    /// Nobody of that name is told anything.
    #[error("no sink {name:?} is configured, and nothing waits for one of that name; there are: {known}")]
    NoSink {
        /// As asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The product is not as products have to be.
    #[error(transparent)]
    Product(#[from] ConfigError),
    /// At its next start, the service would go by the file again.
    #[error("product {0:?} is in the configuration file; change it there and start the service anew")]
    InFile(String),
    /// What there is of it is not to be written over.
    #[error("product {0:?} is in the books already")]
    Exists(String),
    /// The test provider's books cannot be opened.
    #[error("payments: {0}")]
    TestProvider(#[from] test_provider::OpenError),
    /// No HTTP client for the payment service.
    #[error("payments: no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}

/// A product in the books, and who put it there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    /// Its books.
    #[serde(flatten)]
    pub books: crate::model::ProductAudit,
    /// Whether the configuration file has it, and so decides what there is of it at each start.
    pub in_file: bool,
}

/// What became of a purchase that was not settled.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Reconciled {
    /// The purchase.
    pub purchase: String,
    /// How it stood.
    pub before: &'static str,
    /// How it stands.
    pub after: &'static str,
    /// Whether nothing more is to be done about it.
    pub settled: bool,
}

async fn store(config: &Config) -> Result<Store, OperatorError> {
    let settings = settings(config)?;
    Ok(match &config.database {
        Database::File(path) => Store::attach_sqlite(path, settings).await?,
        Database::Postgres(url) => Store::open_postgres(url, &[], settings).await?,
    })
}

/// Audits the books, and stops the sale of every product whose books do not add up.
///
/// # Errors
/// When the books are not there, or cannot be read or written.
pub async fn audit(config: &Config) -> Result<Audit, OperatorError> {
    Ok(store(config).await?.guard().await?)
}

/// Takes the sale of a stopped product up again, if its books add up.
///
/// # Errors
/// When the books are not there, or cannot be read or written.
pub async fn resume(config: &Config, product: &str) -> Result<Resumed, OperatorError> {
    Ok(store(config).await?.resume(product).await?)
}

/// Puts a product on sale that is neither in the configuration file nor in the books. A running service sells it at once,
/// and every later one, too: what the file does not name stays as it is in the books.
///
/// # Errors
/// When it is there already or not as products have to be, or the books are not there or cannot be written.
pub async fn add_product(config: &Config, product: RawProduct) -> Result<(), OperatorError> {
    let seed = product.check()?;
    let id = seed.product.id.clone();
    if config.products.iter().any(|other| other.product.id == id) {
        return Err(OperatorError::InFile(id));
    }
    let added = match &config.database {
        Database::File(path) => Store::add_sqlite(path, &seed).await,
        Database::Postgres(url) => Store::add_postgres(url, &seed).await,
    };
    added.map_err(|error| match error {
        OpenError::Seed(SeedError::Exists(id)) => OperatorError::Exists(id),
        error => error.into(),
    })
}

/// Every product in the books.
///
/// # Errors
/// When the books are not there, or cannot be read.
pub async fn products(config: &Config) -> Result<Vec<Listed>, OperatorError> {
    let in_file = |id: &str| config.products.iter().any(|other| other.product.id == id);
    let books = store(config).await?.audit().await?.products;
    Ok(books.into_iter().map(|books| Listed { in_file: in_file(&books.id), books }).collect())
}

/// Asks the payment service about every purchase that is not settled, once, whenever it was last asked about.
///
/// # Errors
/// When the books are not there, or cannot be read or written. What the payment service does not answer is no error: the
/// purchase stays as it was.
pub async fn reconcile(config: &Config) -> Result<Vec<Reconciled>, OperatorError> {
    let store = store(config).await?;
    let payments: Arc<dyn Payments> = match &config.payments {
        PaymentsConfig::Test { secret, delay, database } => {
            Arc::new(TestProvider::open(database, secret.clone(), *delay).await?)
        }
        PaymentsConfig::Stripe(settings) => Arc::new(Stripe::new(settings.clone())?),
    };
    let cashier = Cashier::new(store.clone(), payments);
    let mut done = Vec::new();
    for purchase in store.unsettled(0).await? {
        let Some(before) = store.any_purchase(&purchase).await? else { continue };
        let Some(after) = cashier.drive(&purchase).await? else { continue };
        done.push(Reconciled {
            purchase,
            before: before.state.as_str(),
            after: after.state.as_str(),
            settled: after.state.is_settled(),
        });
    }
    Ok(done)
}

/// Makes the tables of the books on PostgreSQL, or brings them up to date. `false`: the books are in a file, and brought up to
/// date by whoever serves them.
///
/// # Errors
/// When the database cannot be reached or is not as it has to be.
pub async fn migrate(config: &Config) -> Result<bool, OperatorError> {
    match &config.database {
        Database::File(_) => Ok(false),
        Database::Postgres(url) => {
            Store::migrate_postgres(url).await?;
            Ok(true)
        }
    }
}

/// Up to `limit` events that were not told yet, the oldest first: those that wait and those that are dead, or of `sink`
/// alone, or only dead ones.
///
/// # Errors
/// When the books are not there, or cannot be read.
pub async fn outbox(
    config: &Config,
    sink: Option<&str>,
    only_dead: bool,
    limit: u32,
) -> Result<Vec<OutboxEvent>, OperatorError> {
    let found = store(config).await?.outbox(sink, only_dead, limit).await?;
    if found.is_empty() {
        known_sink(config, sink)?;
    }
    Ok(found)
}

/// Refuses a sink that is a slip of the pen. One that is not configured any more may still have events waiting, which is for the
/// caller to know.
fn known_sink(config: &Config, sink: Option<&str>) -> Result<(), OperatorError> {
    let known = config.outbox.sinks();
    match sink {
        Some(name) if !known.iter().any(|one| one == name) => {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(OperatorError::NoSink { name: name.to_owned(), known })
        }
        _ => Ok(()),
    }
}

/// Has an event sent again, or every dead one where none is named, to `sink` or to every one, as if it had never been
/// tried. To how many sinks, counted for each event; one that is being told right now is not counted.
///
/// # Errors
/// When the books are not there, or cannot be written.
pub async fn resend(config: &Config, event: Option<&str>, sink: Option<&str>) -> Result<u64, OperatorError> {
    let which = event.map_or(Again::AllDead, |id| Again::One(id.to_owned()));
    let sent = store(config).await?.send_again(which, sink.map(str::to_owned)).await?;
    if sent == 0 {
        known_sink(config, sink)?;
    }
    Ok(sent)
}
