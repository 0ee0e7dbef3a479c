//! The shop's books: one meaning over two back ends.
//!
//! What an operation means is written once, in [`ops`], over the primitives of [`tx::Tx`]; a back end opens the database,
//! runs operations in transactions that are durable before they are answered, loads and writes the batch of claims that
//! [`ops::claim`] decides, and reads.
//!
//! A back end is a type with the methods that [`Store`] hands on to it, by the same names and with the same promises.
//! Time is the database's, always.

mod ops;
mod outbox;
mod postgres;
mod rows;
mod schema;
mod seed;
mod sqlite;
#[cfg(test)]
mod tests;
mod tx;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::checkout::Report;
use crate::model::{Audit, Lease, Product, ProductAudit, Purchase, Reservation, Stock};
use ops::Operation;
pub use outbox::OutboxEvent;
pub(crate) use outbox::{Again, Backlog, Fate, Leased, Settled};
use postgres::Postgres;
pub use seed::SeedError;
pub(crate) use seed::{ProductSeed, SeedStock};
use sqlite::Sqlite;

/// Nothing was committed for this long, though the sweep does every second: who writes is stuck.
const STUCK: Duration = Duration::from_secs(10);

/// Why the books could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database said no.
    #[error("the database cannot be opened: {0}")]
    Database(#[from] sqlx::Error),
    /// The file cannot be opened or written.
    #[error(
        "{} cannot be opened as a database: {error}; this user has to be able to read and write it and in its folder", .path.display()
    )]
    File {
        /// As configured.
        path: std::path::PathBuf,
        /// Why.
        error: sqlx::Error,
    },
    /// The schema could not be brought up to date.
    #[error("the database's schema cannot be brought up to date: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A commit would not survive a crash.
    #[error("the database cannot promise durable commits ({0}); put it on a local disk")]
    NotDurable(String),
    /// The server, or what is in it, is not as it has to be.
    #[error("the database will not do: {0}")]
    Unfit(String),
    /// The products to sell do not fit what was sold.
    #[error(transparent)]
    Seed(#[from] SeedError),
}

/// The books did not answer. Whether a change was made is unknown; repeating it with its key is safe.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum StoreError {
    /// More changes wait than the writer takes.
    #[error("too many changes are waiting")]
    Busy,
    /// The transaction failed, or the writer is gone.
    #[error("the books cannot be written")]
    Failed,
    /// A read failed.
    #[error("the books cannot be read")]
    Unreadable,
}

/// What operations go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How long a hold lasts, in milliseconds.
    pub hold_ms: i64,
    /// By how much a hold may be extended, once, in milliseconds; 0: not at all.
    pub extension_ms: i64,
    /// Units that one visitor may hold and own, of all products together.
    pub units_per_visitor: Option<i64>,
    /// Who is told of events; each has its rows in the outbox.
    pub sinks: Vec<String>,
    /// This node's name among those that share the books.
    pub node: String,
    /// How long another node leaves a call alone that this one is at, in milliseconds.
    pub lease_ms: i64,
}

/// An idempotency key and what it was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyUse {
    /// Keys of different visitors never meet.
    pub visitor: String,
    /// As sent.
    pub key: String,
    /// SHA-256 over the call and its content.
    pub fingerprint: [u8; 32],
}

/// A wish for units of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Whose wish, under which key.
    pub key: KeyUse,
    /// The product.
    pub product: String,
    /// Which units.
    pub wanted: Wanted,
}

/// The units that are wished for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// So many, one or more; of a numbered product the next free ones.
    Any(i64),
    /// These, by their labels; one or more, none of them twice.
    Chosen(Vec<String>),
}

/// What came of a request to pay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Nothing more is to be done.
    Answered(Answer),
    /// This purchase is to be driven on, and its answer kept with [`Store::finish`].
    Started(String),
}

/// A report of the payment service, brought by a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The payment service's name for the event; it may come more than once.
    pub id: String,
    /// Its type, as written.
    pub kind: String,
    /// The payment it speaks of.
    pub purchase: String,
    /// What it says, where it says something that counts.
    pub report: Option<Report>,
    /// The payment service's words for the shopper.
    pub reason: Option<String>,
}

/// What came of the wish to take a product's sale up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// It goes on.
    Resumed,
    /// It was not stopped.
    Running,
    /// Its books still do not add up.
    Unbalanced,
    /// There is no such product.
    Unknown,
}

/// A product's page: the product, what is left of it, and this visitor's reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProductView {
    /// The product.
    pub product: Product,
    /// Whether its sale is stopped.
    pub stopped: bool,
    /// What is left of it.
    pub left: Stock,
    /// Of a numbered product, the labels of the next free units, [`ProductView::SHOWN`] at most.
    pub free: Vec<String>,
    /// The visitor's hold or purchase of it.
    pub own: Option<Reservation>,
    /// Unix milliseconds.
    pub now: i64,
}

/// A reservation with the database's time, by which it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReservationView {
    /// As it stands at `now`.
    pub reservation: Reservation,
    /// The product's name for people.
    pub product_name: String,
    /// Its latest purchase.
    pub purchase: Option<Purchase>,
    /// Unix milliseconds.
    pub now: i64,
}

/// A handle on the books; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    books: Books,
    extension_ms: i64,
    sinks: Arc<[String]>,
}

/// The back ends.
#[derive(Clone, Debug)]
enum Books {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// Hands a call on to whichever back end it is.
macro_rules! on {
    ($store:expr, $books:ident => $call:expr) => {
        match &$store.books {
            Books::Sqlite($books) => $call,
            Books::Postgres($books) => $call,
        }
    };
}
use on;

// === impl ProductView ===

impl ProductView {
    /// Free units that a page shows at most.
    pub(crate) const SHOWN: i64 = 200;
}

// === impl Wanted ===

impl Wanted {
    /// How many units.
    #[must_use]
    pub(crate) fn quantity(&self) -> i64 {
        match self {
            Self::Any(quantity) => *quantity,
            Self::Chosen(labels) => i64::try_from(labels.len()).unwrap_or(i64::MAX),
        }
    }
}

// === impl Store ===

impl Store {
    /// Opens the books in the SQLite file at `path`, creating them if there are none, brings their schema up to date and
    /// puts `products` on sale.
    ///
    /// # Errors
    /// When the database cannot be opened, is of a newer schema, cannot promise durable commits, or when a product's
    /// total is below what is held and sold of it.
    pub(crate) async fn open_sqlite(
        path: &Path,
        products: &[ProductSeed],
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let (extension_ms, sinks) = (settings.extension_ms, settings.sinks.clone().into());
        let books = Books::Sqlite(Sqlite::open(path, products, settings).await?);
        Ok(Self { books, extension_ms, sinks })
    }

    /// Opens books that are there as they are, beside whoever is at them already.
    ///
    /// # Errors
    /// When there are none, or they cannot be opened.
    pub(crate) async fn attach_sqlite(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let (extension_ms, sinks) = (settings.extension_ms, settings.sinks.clone().into());
        let books = Books::Sqlite(Sqlite::attach(path, settings).await?);
        Ok(Self { books, extension_ms, sinks })
    }

    /// Opens the books in the PostgreSQL database at `url` and puts `products` on sale. The tables have to be there, as
    /// [`Store::migrate_postgres`] makes them.
    ///
    /// # Errors
    /// When the database cannot be reached, when server, role or tables are not as they have to be, or when a product's
    /// total is below what is held and sold of it.
    pub(crate) async fn open_postgres(
        url: &str,
        products: &[ProductSeed],
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let (extension_ms, sinks) = (settings.extension_ms, settings.sinks.clone().into());
        let books = Books::Postgres(Box::pin(Postgres::open(url, products, settings)).await?);
        Ok(Self { books, extension_ms, sinks })
    }

    /// What is wrong with the address of a PostgreSQL database, in words without anything secret.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn check_postgres(url: &str) -> Result<(), String> {
        Postgres::check_address(url)
    }

    /// Makes the tables in the PostgreSQL database at `url`, or brings them up to date.
    ///
    /// # Errors
    /// When the database cannot be reached or is not as it has to be.
    pub(crate) async fn migrate_postgres(url: &str) -> Result<(), OpenError> {
        Postgres::migrate(url).await
    }

    /// Puts a new product on sale in the SQLite file at `path`, which exists, beside whoever is at it already.
    ///
    /// # Errors
    /// When there is none, it cannot be opened, or the books have a product of that name.
    pub(crate) async fn add_sqlite(path: &Path, product: &ProductSeed) -> Result<(), OpenError> {
        Sqlite::add(path, product).await
    }

    /// Puts a new product on sale in the PostgreSQL database at `url`, beside whoever is at it already.
    ///
    /// # Errors
    /// As [`Store::open_postgres`], and when the books have a product of that name.
    pub(crate) async fn add_postgres(url: &str, product: &ProductSeed) -> Result<(), OpenError> {
        Postgres::add(url, product).await
    }

    async fn change<O: Operation>(&self, operation: O) -> Result<O::Output, StoreError> {
        on!(self, books => books.change(operation).await)
    }

    /// What is left of the sale as of the last commit. No query: it is told with every answer.
    #[must_use]
    pub(crate) fn stock(&self) -> Stock {
        on!(self, books => books.stock())
    }

    /// By how much a hold may be extended, in milliseconds; 0: not at all.
    #[must_use]
    pub(crate) fn extension_ms(&self) -> i64 {
        self.extension_ms
    }

    fn committed_at(&self) -> Instant {
        on!(self, books => books.committed_at())
    }

    /// Whether the books can be read and are being written. It reads alone: who asks often keeps no shopper waiting.
    ///
    /// # Errors
    /// When they cannot be read, or nothing was committed for so long before `now` that the writer must be stuck.
    pub(crate) async fn health(&self, now: Instant) -> Result<(), StoreError> {
        if now.saturating_duration_since(self.committed_at()) > STUCK {
            return Err(StoreError::Failed);
        }
        on!(self, books => books.readable().await)
    }

    /// Holds units of a product for the key's visitor. A visitor who has a hold already is answered with it.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn claim(&self, claim: Claim) -> Result<Answer, StoreError> {
        on!(self, books => books.claim(claim).await)
    }

    /// Gives the units of a reservation back. Without a key the call is its own retry.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn cancel(
        &self,
        visitor: String,
        reservation: String,
        key: Option<KeyUse>,
    ) -> Result<Answer, StoreError> {
        self.change(ops::Cancel { visitor, reservation, key }).await
    }

    /// Starts a payment by `method` for a reservation, to be confirmed to `email`, or takes up the one that this key
    /// started. While it is under way here, other nodes answer the same key 409, until [`Settings::lease_ms`] are over.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn begin(
        &self,
        key: KeyUse,
        reservation: String,
        method: String,
        email: Option<String>,
    ) -> Result<Begun, StoreError> {
        self.change(ops::Begin { key, reservation, method, email }).await
    }

    /// Makes a hold of the key's visitor last longer, once.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn extend(&self, key: KeyUse, reservation: String) -> Result<Answer, StoreError> {
        self.change(ops::Extend { key, reservation }).await
    }

    /// Keeps the answer of a purchase call with its key, and gives the answer that is kept: the first.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn finish(&self, key: KeyUse, answer: Answer) -> Result<Answer, StoreError> {
        self.change(ops::Finish { key, answer }).await
    }

    /// Takes a report on a purchase. `None`: there is no such purchase.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn report(
        &self,
        purchase: String,
        report: Report,
        reason: Option<String>,
    ) -> Result<Option<Purchase>, StoreError> {
        self.change(ops::TakeReport { purchase, report, reason }).await
    }

    /// Takes a webhook's event, once. `None`: it had come before, or there is no such purchase.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn event(&self, event: Event) -> Result<Option<Purchase>, StoreError> {
        self.change(ops::TakeEvent(event)).await
    }

    /// Notes what the payment service calls a purchase, if it has no name there yet, and where the shopper has to confirm it,
    /// if so. The purchase as it stands then; `None`: there is no such purchase.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn note(
        &self,
        purchase: String,
        provider_ref: Option<String>,
        redirect_url: Option<String>,
    ) -> Result<Option<Purchase>, StoreError> {
        self.change(ops::Note { purchase, provider_ref, redirect_url }).await
    }

    /// Stops the sale of a product: claims on it are refused until it is resumed. `false`: there is none of that name, or
    /// it was stopped before.
    ///
    /// # Errors
    /// When the books cannot be written.
    async fn stop(&self, product: String, why: String) -> Result<bool, StoreError> {
        self.change(ops::Stop { product, why }).await
    }

    /// Takes the sale of a product up again, if its books add up.
    ///
    /// # Errors
    /// When the books cannot be read or written.
    pub(crate) async fn resume(&self, product: &str) -> Result<Resumed, StoreError> {
        let audit = self.audit().await?;
        Ok(match audit.products.iter().find(|one| one.id == product) {
            None => Resumed::Unknown,
            Some(found) if !found.balanced => Resumed::Unbalanced,
            Some(_) if self.change(ops::Resume { product: product.to_owned() }).await? => Resumed::Resumed,
            Some(_) => Resumed::Running,
        })
    }

    /// Ends holds that are due and forgets old keys and events. Claims do the former by themselves; this keeps the figures fresh.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn sweep(&self) -> Result<(), StoreError> {
        self.change(ops::Sweep).await
    }

    /// A product as this visitor sees it; `None` if there is none of that name.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn product(&self, id: &str, visitor: &str) -> Result<Option<ProductView>, StoreError> {
        on!(self, books => books.product(id, visitor).await)
    }

    /// A visitor's own reservation.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn reservation(
        &self,
        id: &str,
        visitor: &str,
    ) -> Result<Option<ReservationView>, StoreError> {
        on!(self, books => books.reservation(id, visitor).await)
    }

    /// What the gateway is to know about a visitor's lease; `None` of a visitor who never had a hold.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn lease(&self, visitor: &str) -> Result<Option<Lease>, StoreError> {
        on!(self, books => books.lease(visitor).await)
    }

    /// A visitor's own purchase.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn purchase(&self, id: &str, visitor: &str) -> Result<Option<Purchase>, StoreError> {
        let found = self.any_purchase(id).await?;
        Ok(found.filter(|purchase| purchase.reservation.visitor == visitor))
    }

    /// A purchase, whosever it is.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn any_purchase(&self, id: &str) -> Result<Option<Purchase>, StoreError> {
        on!(self, books => books.any_purchase(id).await)
    }

    /// Whether anybody ever began to pay.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn has_purchases(&self) -> Result<bool, StoreError> {
        on!(self, books => books.has_purchases().await)
    }

    /// Names of the purchases about which the payment service is to be asked, the longest untouched first, but none
    /// that changed in the last `idle_ms` milliseconds. One that changed in the future did so before the clock was set back.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn unsettled(&self, idle_ms: i64) -> Result<Vec<String>, StoreError> {
        on!(self, books => books.unsettled(idle_ms).await)
    }

    /// How old a purchase is on the database's clock, in milliseconds.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn age_ms(&self, purchase: &Purchase) -> Result<i64, StoreError> {
        on!(self, books => books.age_ms(purchase).await)
    }

    /// Audits the books, and stops the sale of every product whose books do not add up.
    ///
    /// # Errors
    /// When the books cannot be read or written.
    pub(crate) async fn guard(&self) -> Result<Audit, StoreError> {
        let mut audit = self.audit().await?;
        for product in audit.products.iter_mut().filter(|product| !product.balanced) {
            let ProductAudit { id, total, available, held, sold, differs, .. } = &*product;
            let differs = differs.join("; ");
            let why =
                format!("total = {total}, available = {available}, held = {held}, sold = {sold}: {differs}");
            if !product.stopped && self.stop(id.clone(), why.clone()).await? {
                tracing::error!(product = id, why, "the books do not add up; its sale is stopped");
            }
            product.stopped = true;
        }
        Ok(audit)
    }

    /// The books of every product, in one query, so that they are of one moment.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn audit(&self) -> Result<Audit, StoreError> {
        on!(self, books => books.audit().await)
    }
}

/// Says why a read failed, and that it did.
fn unreadable(error: &sqlx::Error) -> StoreError {
    tracing::error!(%error, "the books cannot be read");
    StoreError::Unreadable
}
