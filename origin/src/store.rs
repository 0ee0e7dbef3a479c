//! The shop's books on SQLite: one writer, many readers.
//!
//! Every change goes through one task that owns the only writing connection. Changes that arrive while a transaction
//! is in flight wait in a channel and are made together by the next one, so that one durable commit serves them all;
//! there is no timer. Nothing is answered before its commit is on disk: WAL with `synchronous=FULL` syncs the log at
//! each commit, and [`Store::open`] refuses a database where either cannot be had.
//!
//! Time is the database's. Each transaction reads its clock once and first ends every hold that is due, so that nothing
//! later in it can see a hold that should be over.

mod claims;
mod payments;
mod reads;
mod rows;
mod seed;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use crate::answer::Answer;
use crate::checkout::Report;
use crate::model::{Purchase, Stock};
pub(crate) use reads::{ProductView, ReservationView};
pub(crate) use seed::ProductSeed;
pub use seed::SeedError;
use writer::Command;

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations/sqlite");

/// Changes that may wait for the writer; beyond it the shop says that it is busy.
const QUEUE: usize = 8_192;
/// The sweep commits every second, so a writer that has not committed for this long is stuck.
const STUCK: Duration = Duration::from_secs(10);
/// Connections for reading.
const READERS: u32 = 4;

/// Why the books could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database said no.
    #[error("the database cannot be opened: {0}")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the database's schema cannot be brought up to date: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A commit would not survive a crash.
    #[error("the database cannot promise durable commits ({0}); put it on a local disk")]
    NotDurable(String),
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

/// A handle on the books; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    commands: mpsc::Sender<Command>,
    reads: SqlitePool,
    committed: watch::Receiver<Committed>,
}

/// The last commit.
#[derive(Clone, Copy, Debug)]
struct Committed {
    stock: Stock,
    at: Instant,
}

// === impl Store ===

impl Store {
    /// Opens the books at `path`, creating them if there are none, brings their schema up to date and puts `products`
    /// on sale. Holds made from now on last `hold`.
    ///
    /// # Errors
    /// When the database cannot be opened, is of a newer schema, cannot promise durable commits, or when a product's
    /// total is below what is held and sold of it.
    pub(crate) async fn open(
        path: &Path,
        products: &[ProductSeed],
        hold: Duration,
    ) -> Result<Self, OpenError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(5));
        let mut connection = connect(&options).await?;
        MIGRATIONS.run(&mut connection).await?;
        seed::seed(&mut connection, products).await?;
        // From here on, books that are gone are not to be taken for new.
        let options = options.create_if_missing(false);
        let stock = writer::stock(&mut connection).await?;
        let (commits, committed) = watch::channel(Committed { stock, at: Instant::now() });
        let reads = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(Duration::from_secs(5))
            .connect_with(options.clone().read_only(true))
            .await?;
        let (commands, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(writer::run(connection, options, waiting, hold, commits));
        Ok(Self { commands, reads, committed })
    }

    async fn send<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(command(reply)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Failed,
        })?;
        answer.await.map_err(|_| StoreError::Failed)
    }

    /// What is left of the sale as of the last commit. No query: it is told with every answer.
    #[must_use]
    pub(crate) fn stock(&self) -> Stock {
        self.committed.borrow().stock
    }

    /// Whether the books can be read and are being written. It reads alone: who asks often keeps no shopper waiting.
    ///
    /// # Errors
    /// When they cannot be read, or nothing was committed for so long before `now` that the writer must be stuck.
    pub(crate) async fn health(&self, now: Instant) -> Result<(), StoreError> {
        if now.saturating_duration_since(self.committed.borrow().at) > STUCK {
            return Err(StoreError::Failed);
        }
        self.readable().await
    }

    /// Holds `quantity` units of `product` for the key's visitor. A visitor who has a hold already is answered with it.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn claim(
        &self,
        key: KeyUse,
        product: String,
        quantity: i64,
    ) -> Result<Answer, StoreError> {
        self.send(|reply| Command::Claim(claims::Claim { key, product, quantity, reply })).await
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
        self.send(|reply| Command::Cancel { visitor, reservation, key, reply }).await
    }

    /// Starts a payment by `method` for a reservation, or takes up the one that this key started.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn begin(
        &self,
        key: KeyUse,
        reservation: String,
        method: String,
    ) -> Result<Begun, StoreError> {
        self.send(|reply| Command::Begin { key, reservation, method, reply }).await
    }

    /// Keeps the answer of a purchase call with its key, and gives the answer that is kept: the first.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn finish(&self, key: KeyUse, answer: Answer) -> Result<Answer, StoreError> {
        self.send(|reply| Command::Finish { key, answer, reply }).await
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
        self.send(|reply| Command::Report { purchase, report, reason, reply }).await
    }

    /// Takes a webhook's event, once. `None`: it had come before, or there is no such purchase.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn event(&self, event: Event) -> Result<Option<Purchase>, StoreError> {
        self.send(|reply| Command::Event { event, reply }).await
    }

    /// Ends every hold that is due and forgets old keys. Claims do the former by themselves; this keeps the figures fresh.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn sweep(&self) -> Result<(), StoreError> {
        self.send(|reply| Command::Sweep { reply }).await
    }
}

/// A connection whose commits are durable.
async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, OpenError> {
    let mut connection = options.connect().await?;
    refuse_forgetful(&mut connection).await?;
    Ok(connection)
}

/// `synchronous` and the journal are asked for at connect; some file systems and builds do not give them.
async fn refuse_forgetful(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await?;
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *connection).await?;
    if synchronous < 2 || !journal.eq_ignore_ascii_case("wal") {
        return Err(OpenError::NotDurable(format!("synchronous={synchronous}, journal_mode={journal}")));
    }
    connection.ping().await?;
    Ok(())
}
