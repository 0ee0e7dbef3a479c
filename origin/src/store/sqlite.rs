//! The books on SQLite: one writer, many readers.
//!
//! Every change goes through one task that owns the only writing connection. Changes that arrive while a transaction
//! is in flight wait in a channel and are made together by the next one, so that one durable commit serves them all;
//! there is no timer. Nothing is answered before its commit is on disk: WAL with `synchronous=FULL` syncs the log at
//! each commit, and [`Sqlite::open`] refuses a database where either cannot be had.
//!
//! Each transaction excludes all others from its beginning, reads the clock once and first ends every hold that is due,
//! so that nothing later in it can see a hold that should be over.

mod claims;
mod outbox;
mod reads;
mod seed;
#[cfg(test)]
mod tests;
mod transaction;
mod writer;

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use super::ops::Operation;
use super::schema::{refuse_foreign, refuse_other};
use super::seed::Existing;
use super::{Claim, OpenError, ProductSeed, Settings, StoreError};
use crate::answer::Answer;
use crate::model::Stock;
use crate::premises::make_private;
use writer::{Command, Pending};

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations/sqlite");

/// Changes that may wait for the writer; beyond it the shop says that it is busy.
const QUEUE: usize = 8_192;
/// Connections for reading.
const READERS: u32 = 4;

/// A handle on the books; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Sqlite {
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

// === impl Sqlite ===

impl Sqlite {
    /// As [`super::Store::open_sqlite`].
    pub(super) async fn open(
        path: &Path,
        products: &[ProductSeed],
        settings: Settings,
    ) -> Result<Self, OpenError> {
        make_private(path);
        let mut connection = connect(&options(path).create_if_missing(true)).await?;
        if has_tables(&mut connection).await? {
            refuse_foreign(&MIGRATIONS, &mut connection).await?;
        }
        MIGRATIONS.run(&mut connection).await?;
        seed::seed(&mut connection, products, Existing::Update).await?;
        // These books are one service's at a time, so whoever had a lease is gone.
        sqlx::query(
            "UPDATE idempotency_keys SET lease_owner = NULL, lease_until = NULL WHERE answer IS NULL",
        )
        .execute(&mut connection)
        .await?;
        // What it was about to tell is due, whatever the clock was then and is now, and nobody has refused it.
        sqlx::query(
            "UPDATE outbox SET leased_until = NULL, next_try = 0, put_off_at = 0, tries = max(tries - 1, 0)
             WHERE leased_until IS NOT NULL",
        )
        .execute(&mut connection)
        .await?;
        connection.close().await?;
        Self::attach(path, settings).await
    }

    /// As [`super::Store::attach_sqlite`].
    pub(super) async fn attach(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        // Books that are gone are not to be taken for new.
        let options = options(path);
        let mut connection = connect_as_is(&options).await?;
        let stock = writer::stock(&mut connection).await?;
        let (commits, committed) = watch::channel(Committed { stock, at: Instant::now() });
        let reads = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(Duration::from_secs(5))
            .connect_with(options.clone().read_only(true))
            .await?;
        let (commands, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(writer::run(connection, options, waiting, settings, commits));
        Ok(Self { commands, reads, committed })
    }

    /// As [`super::Store::add_sqlite`].
    pub(super) async fn add(path: &Path, product: &ProductSeed) -> Result<(), OpenError> {
        let mut connection = connect_as_is(&options(path)).await?;
        seed::seed(&mut connection, std::slice::from_ref(product), Existing::Refuse).await?;
        connection.close().await?;
        Ok(())
    }

    async fn send<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(command(reply)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Failed,
        })?;
        answer.await.map_err(|_| StoreError::Failed)
    }

    pub(super) async fn change<O: Operation>(&self, operation: O) -> Result<O::Output, StoreError> {
        self.send(|reply| Command::Change(Box::new(Pending { operation, reply }))).await
    }

    pub(super) async fn claim(&self, claim: Claim) -> Result<Answer, StoreError> {
        self.send(|reply| Command::Claim(claim, reply)).await
    }

    pub(super) fn stock(&self) -> Stock {
        self.committed.borrow().stock
    }

    pub(super) fn committed_at(&self) -> Instant {
        self.committed.borrow().at
    }
}

/// For books that exist.
fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
}

/// A connection whose commits are durable.
async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, OpenError> {
    let mut connection = options.connect().await.map_err(|error| {
        let path = options.get_filename().to_owned();
        OpenError::File { path, error }
    })?;
    refuse_forgetful(&mut connection).await?;
    Ok(connection)
}

/// A connection to books that somebody else brings up to date.
async fn connect_as_is(options: &SqliteConnectOptions) -> Result<SqliteConnection, OpenError> {
    let mut connection = connect(options).await?;
    if !has_tables(&mut connection).await? {
        return Err(OpenError::Unfit("the file has no books in it".to_owned()));
    }
    refuse_other(&MIGRATIONS, &mut connection, "start this service, which brings them up to date").await?;
    Ok(connection)
}

async fn has_tables(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '_sqlx_migrations')")
        .fetch_one(connection)
        .await
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
