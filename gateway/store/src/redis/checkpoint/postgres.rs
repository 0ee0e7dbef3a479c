//! A table in PostgreSQL with a row a sale.
//!
//! Where the user may not make tables, the operator does:
//! ```sql
//! CREATE TABLE ropeline_checkpoints (sale text PRIMARY KEY, document text NOT NULL);
//! GRANT SELECT, INSERT, UPDATE ON ropeline_checkpoints TO the_user;
//! ```

use std::fmt;
use std::str::FromStr as _;
use std::sync::OnceLock;
use std::time::Duration;

use ropeline_queue::SaleId;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Executor as _, PgConnection};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::Unread;
use crate::StoreError;

/// Tells this table's locks from all others: half of them, the other half is a digest of the sale's id.
const LOCKS: i32 = 0x726f_7065;

const GET: &str = "SELECT document FROM ropeline_checkpoints WHERE sale = $1";
const PUT: &str = "INSERT INTO ropeline_checkpoints (sale, document) VALUES ($1, $2) \
                   ON CONFLICT (sale) DO UPDATE SET document = excluded.document";

pub(in crate::redis) struct Postgres {
    options: PgConnectOptions,
    /// It lives on the runtime that is looked from first; until then there need not be any.
    pool: OnceLock<PgPool>,
    patience: Duration,
    /// The table is there.
    ready: OnceCell<()>,
}

// === impl Postgres ===

impl Postgres {
    pub(super) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| unavailable("its address is not that of a PostgreSQL database"))?;
        let options = options.application_name("ropeline");
        Ok(Self { options, pool: OnceLock::new(), patience, ready: OnceCell::new() })
    }

    fn pool(&self) -> &PgPool {
        // Sales write their marks one at a time, and seldom.
        let options = || PgPoolOptions::new().max_connections(4).acquire_timeout(self.patience);
        self.pool.get_or_init(|| options().connect_lazy_with(self.options.clone()))
    }

    /// The names of all that have a row.
    pub(super) async fn names(&self) -> Result<Vec<String>, StoreError> {
        self.soon(async {
            sqlx::query_scalar("SELECT sale FROM ropeline_checkpoints").fetch_all(self.pool()).await
        })
        .await
    }

    /// Writes a mark into a row that is no sale's.
    pub(super) async fn leave_mark(&self, sale: &SaleId, mark: u64) -> Result<(), StoreError> {
        self.soon(async {
            let mut transaction = self.pool().begin().await?;
            put(&mut transaction, &mark_of(sale), &mark.to_string()).await?;
            transaction.commit().await
        })
        .await
    }

    /// Reads the mark that was written last.
    pub(super) async fn mark(&self, sale: &SaleId) -> Result<Option<String>, StoreError> {
        self.soon(async { sqlx::query_scalar(GET).bind(mark_of(sale)).fetch_optional(self.pool()).await })
            .await
    }

    /// Has the table asked for something that takes no lock.
    async fn soon<T>(&self, ask: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
        let asked = async {
            self.ready.get_or_try_init(|| self.make_table()).await?;
            ask.await
        };
        let asked = timeout(self.patience, asked).await;
        asked.map_err(|_| unavailable("the database does not answer"))?.map_err(failed)
    }

    pub(super) async fn look<T>(
        &self,
        name: &str,
        look: impl FnOnce(Option<String>) -> Result<(Option<String>, T), Unread>,
    ) -> Result<T, StoreError> {
        // What is given up on the way is rolled back, or was written for nothing: numbers are skipped then, never given twice.
        let looked = timeout(self.patience, self.locked(name, look)).await;
        looked.unwrap_or_else(|_| Err(unavailable("the database does not answer")))
    }

    async fn locked<T>(
        &self,
        name: &str,
        look: impl FnOnce(Option<String>) -> Result<(Option<String>, T), Unread>,
    ) -> Result<T, StoreError> {
        self.ready.get_or_try_init(|| self.make_table()).await.map_err(failed)?;
        // What another gateway writes before this one has the lock is to be seen, however the database is set up.
        let mut transaction =
            self.pool().begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(failed)?;
        self.hurry(&mut transaction).await.map_err(failed)?;
        lock(&mut transaction, name).await.map_err(failed)?;
        let held = sqlx::query_scalar::<_, String>(GET)
            .bind(name)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failed)?;
        let (write, done) = look(held).map_err(|unread| match unread {
            Unread::Damaged(detail) => {
                unavailable(&format!("what it says of {name} cannot be read: {detail}"))
            }
            Unread::Failed(error) => error,
        })?;
        if let Some(text) = write {
            put(&mut transaction, name, &text).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(done)
    }

    /// A gateway that stops in the middle, or whose network does, holds the others up no longer than this.
    async fn hurry(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let patience = format!("{}ms", self.patience.as_millis().max(1));
        sqlx::query(
            "SELECT set_config('lock_timeout', $1, true), \
             set_config('idle_in_transaction_session_timeout', $1, true)",
        )
        .bind(patience)
        .execute(connection)
        .await
        .map(drop)
    }

    async fn make_table(&self) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool().begin().await?;
        self.hurry(&mut transaction).await?;
        // Two that make the same table at the same time hinder each other.
        lock(&mut transaction, "").await?;
        let there: bool = sqlx::query_scalar("SELECT to_regclass('ropeline_checkpoints') IS NOT NULL")
            .fetch_one(&mut *transaction)
            .await?;
        if !there {
            let table = "CREATE TABLE ropeline_checkpoints (sale text PRIMARY KEY, document text NOT NULL)";
            transaction.execute(table).await?;
        }
        transaction.commit().await
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

/// Writes a row, which the database does not forget once that is committed, however it is set up.
async fn put(connection: &mut PgConnection, name: &str, text: &str) -> Result<(), sqlx::Error> {
    connection.execute("SET LOCAL synchronous_commit = on").await?;
    sqlx::query(PUT).bind(name).bind(text).execute(connection).await.map(drop)
}

/// No sale's name has a dot.
fn mark_of(sale: &SaleId) -> String {
    format!("{sale}.mark")
}

/// Until the end of the transaction. Two names of one digest wait for each other, which does no harm.
async fn lock(connection: &mut PgConnection, name: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_xact_lock($1, hashtext($2))")
        .bind(LOCKS)
        .bind(name)
        .execute(connection)
        .await
        .map(drop)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: sqlx::Error) -> StoreError {
    unavailable(&error.to_string())
}

fn unavailable(what: &str) -> StoreError {
    StoreError::Unavailable { reason: format!("the checkpoint: {what}") }
}
