//! The one writer: takes what waits, makes it in one transaction, answers after the commit.

use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Sqlite, SqliteConnection, Transaction};
use tokio::sync::{mpsc, oneshot, watch};

use super::claims::{self, Claim};
use super::{Begun, Committed, Event, KeyUse, payments};
use crate::answer::Answer;
use crate::checkout::Report;
use crate::model::{Purchase, Stock};

/// The most changes of one transaction; it bounds how long the first of them waits.
const BATCH: usize = 512;
/// How long a key is remembered, in milliseconds.
const KEY_LIFE: i64 = 3 * 24 * 3_600 * 1_000;
/// Between two tries to open the books again.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);

pub(super) type Reply<T> = oneshot::Sender<T>;
/// An answer that waits for the commit.
pub(super) type Deferred = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(super) enum Command {
    Claim(Claim),
    Cancel { visitor: String, reservation: String, key: Option<KeyUse>, reply: Reply<Answer> },
    Begin { key: KeyUse, reservation: String, method: String, reply: Reply<Begun> },
    Finish { key: KeyUse, answer: Answer, reply: Reply<Answer> },
    Report { purchase: String, report: Report, reason: Option<String>, reply: Reply<Option<Purchase>> },
    Event { event: Event, reply: Reply<Option<Purchase>> },
    Sweep { reply: Reply<()> },
}

/// Why a transaction failed: every change in it is undone, and nobody is told that it was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error("an answer could not be kept or read: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("no randomness for a name: {0}")]
    Random(#[from] getrandom::Error),
}

/// An open transaction and the moment it stands for.
pub(super) struct Moment<'c> {
    pub(super) tx: Transaction<'c, Sqlite>,
    pub(super) now: i64,
    pub(super) hold_ms: i64,
}

/// Runs until every handle is gone. `options` open the books again, which must exist.
pub(super) async fn run(
    mut connection: SqliteConnection,
    options: SqliteConnectOptions,
    mut waiting: mpsc::Receiver<Command>,
    hold: Duration,
    commits: watch::Sender<Committed>,
) {
    let hold_ms = i64::try_from(hold.as_millis()).unwrap_or(i64::MAX / 2);
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        let size = batch.len();
        match commit(&mut connection, &mut batch, hold_ms).await {
            Ok((answers, stock)) => {
                // First, so that no answer goes out with the stock of before it.
                commits.send_replace(Committed { stock, at: Instant::now() });
                for answer in answers {
                    answer();
                }
            }
            // The askers see their reply's sender dropped; a retry with the same key finds out what was done.
            Err(error) => {
                tracing::error!(%error, size, "a transaction failed; its changes are undone");
                batch.clear();
                // SQLite may have rolled back by itself, as it does on a full disk. The driver does not notice: it would
                // take the connection to be in a transaction for good, and begin no other. The old one is closed after
                // the new one is there, since the last to close takes the log's index from those who read.
                let Some(opened) = reopen(&options, &mut waiting).await else { break };
                close(std::mem::replace(&mut connection, opened)).await;
            }
        }
    }
    close(connection).await;
}

async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the database did not close cleanly");
    }
}

/// Tries until the books are open again. Who asks meanwhile is refused at once; `None` when every handle is gone.
async fn reopen(
    options: &SqliteConnectOptions,
    waiting: &mut mpsc::Receiver<Command>,
) -> Option<SqliteConnection> {
    loop {
        match super::connect(options).await {
            Ok(connection) => return Some(connection),
            Err(error) => tracing::error!(%error, "the books cannot be opened again yet"),
        }
        let refuse = async { while waiting.recv().await.is_some() {} };
        if tokio::time::timeout(REOPEN_PAUSE, refuse).await.is_ok() {
            return None;
        }
    }
}

async fn commit(
    connection: &mut SqliteConnection,
    batch: &mut Vec<Command>,
    hold_ms: i64,
) -> Result<(Vec<Deferred>, Stock), WriteError> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let now = sqlx::query_scalar("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")
        .fetch_one(&mut *tx)
        .await?;
    let mut moment = Moment { tx, now, hold_ms };
    moment.expire().await?;
    let mut answers: Vec<Deferred> = Vec::with_capacity(batch.len());
    let mut claims = Vec::new();
    for command in batch.drain(..) {
        match command {
            // After everything else: what is given back in this transaction can be claimed in it.
            Command::Claim(claim) => claims.push(claim),
            Command::Cancel { visitor, reservation, key, reply } => {
                let answer = payments::cancel(&mut moment, &visitor, &reservation, key.as_ref()).await?;
                answers.push(later(reply, answer));
            }
            Command::Begin { key, reservation, method, reply } => {
                let begun = payments::begin(&mut moment, &key, &reservation, &method).await?;
                answers.push(later(reply, begun));
            }
            Command::Finish { key, answer, reply } => {
                let answer = payments::finish(&mut moment, &key, answer).await?;
                answers.push(later(reply, answer));
            }
            Command::Report { purchase, report, reason, reply } => {
                let purchase = payments::report(&mut moment, &purchase, report, reason.as_deref()).await?;
                answers.push(later(reply, purchase));
            }
            Command::Event { event, reply } => {
                let purchase = payments::event(&mut moment, &event).await?;
                answers.push(later(reply, purchase));
            }
            Command::Sweep { reply } => {
                sqlx::query("DELETE FROM idempotency_keys WHERE created_at < ?1")
                    .bind(now - KEY_LIFE)
                    .execute(&mut *moment.tx)
                    .await?;
                answers.push(later(reply, ()));
            }
        }
    }
    if !claims.is_empty() {
        claims::claim(&mut moment, claims, &mut answers).await?;
    }
    let stock = stock(&mut moment.tx).await?;
    moment.tx.commit().await?;
    Ok((answers, stock))
}

/// What is left of all products together.
pub(super) async fn stock(connection: &mut SqliteConnection) -> Result<Stock, sqlx::Error> {
    let (available, held) =
        sqlx::query_as("SELECT COALESCE(SUM(available), 0), COALESCE(SUM(held), 0) FROM stock")
            .fetch_one(connection)
            .await?;
    Ok(Stock { available, held })
}

/// The asker may be gone; what was done stays done.
pub(super) fn later<T: Send + 'static>(reply: Reply<T>, value: T) -> Deferred {
    Box::new(move || drop(reply.send(value)))
}

// === impl Moment ===

impl Moment<'_> {
    /// Ends every hold that is due: [`crate::checkout::expire`] for all of them at once.
    async fn expire(&mut self) -> Result<(), WriteError> {
        let ended: Vec<(String, i64)> = sqlx::query_as(
            "UPDATE reservations SET state = 'expired', changed_at = ?1
             WHERE state IN ('held', 'paying') AND expires_at <= ?1 RETURNING product_id, quantity",
        )
        .bind(self.now)
        .fetch_all(&mut *self.tx)
        .await?;
        let mut released = std::collections::BTreeMap::<String, i64>::new();
        for (product, quantity) in ended {
            *released.entry(product).or_default() += quantity;
        }
        for (product, quantity) in released {
            self.release(&product, quantity).await?;
        }
        Ok(())
    }

    /// From held to available.
    pub(super) async fn release(&mut self, product: &str, quantity: i64) -> Result<(), WriteError> {
        sqlx::query("UPDATE stock SET held = held - ?2, available = available + ?2 WHERE product_id = ?1")
            .bind(product)
            .bind(quantity)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }
}
