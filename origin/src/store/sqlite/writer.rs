//! The one writer: takes what waits, makes it in one transaction, answers after the commit.

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use super::transaction::SqliteTx;
use super::{Committed, claims};
use crate::answer::Answer;
use crate::model::Stock;
use crate::store::ops::{self, Operation};
use crate::store::tx::{Tx, WriteError};
use crate::store::{Claim, Settings};

/// The most changes of one transaction; it bounds how long the first of them waits.
const BATCH: usize = 512;
/// Between two tries to open the books again.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);

pub(super) type Reply<T> = oneshot::Sender<T>;
/// An answer that waits for the commit.
pub(super) type Deferred = Box<dyn FnOnce() + Send>;

pub(super) enum Command {
    Claim(Claim, Reply<Answer>),
    Change(Box<dyn Change>),
}

/// An operation and who waits for it.
pub(super) struct Pending<O: Operation> {
    pub(super) operation: O,
    pub(super) reply: Reply<O::Output>,
}

/// Any operation.
#[async_trait]
pub(super) trait Change: Send {
    async fn make(self: Box<Self>, tx: &mut SqliteTx<'_>) -> Result<Deferred, WriteError>;
}

#[async_trait]
impl<O: Operation> Change for Pending<O> {
    async fn make(self: Box<Self>, tx: &mut SqliteTx<'_>) -> Result<Deferred, WriteError> {
        let output = self.operation.run(tx).await?;
        Ok(later(self.reply, output))
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(claim, _) => f.debug_tuple("Claim").field(claim).finish(),
            Self::Change(_) => f.debug_tuple("Change").finish_non_exhaustive(),
        }
    }
}

/// Runs until every handle is gone. `options` open the books again, which must exist.
pub(super) async fn run(
    mut connection: SqliteConnection,
    options: SqliteConnectOptions,
    mut waiting: mpsc::Receiver<Command>,
    settings: Settings,
    commits: watch::Sender<Committed>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        let size = batch.len();
        match commit(&mut connection, &mut batch, &settings).await {
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
    settings: &Settings,
) -> Result<(Vec<Deferred>, Stock), WriteError> {
    let mut tx = SqliteTx::begin(connection, settings).await?;
    let mut due = tx.due(u32::MAX).await?;
    ops::end(&mut tx, &mut due).await?;
    let mut answers: Vec<Deferred> = Vec::with_capacity(batch.len());
    let (mut claims, mut replies) = (Vec::new(), Vec::new());
    for command in batch.drain(..) {
        match command {
            // After everything else: what is given back in this transaction can be claimed in it.
            Command::Claim(claim, reply) => {
                claims.push(claim);
                replies.push(reply);
            }
            Command::Change(change) => answers.push(change.make(&mut tx).await?),
        }
    }
    if !claims.is_empty() {
        let told = claims::claim(&mut tx, &claims).await?;
        answers.extend(replies.into_iter().zip(told).map(|(reply, answer)| later(reply, answer)));
    }
    let stock = stock(tx.connection()).await?;
    tx.commit().await?;
    Ok((answers, stock))
}

/// What is left of all products together. Nobody can claim of a product that is stopped; what is left of it may come back,
/// as what is held.
pub(super) async fn stock(connection: &mut SqliteConnection) -> Result<Stock, sqlx::Error> {
    let (available, held) =
        sqlx::query_as(
            "SELECT COALESCE(SUM(s.available) FILTER (WHERE p.stopped_at IS NULL), 0),
                    COALESCE(SUM(s.held), 0) + COALESCE(SUM(s.available) FILTER (WHERE p.stopped_at IS NOT NULL), 0)
             FROM stock s JOIN products p ON p.id = s.product_id",
        )
        .fetch_one(connection)
        .await?;
    Ok(Stock { available, held })
}

/// The asker may be gone; what was done stays done.
fn later<T: Send + 'static>(reply: Reply<T>, value: T) -> Deferred {
    Box::new(move || drop(reply.send(value)))
}
