//! The books on PostgreSQL, for any number of nodes.
//!
//! READ COMMITTED with explicit row locks. Claims of one product that arrive while its transactions are in flight are
//! served together by the next one; everything else is a transaction of its own. What comes to nothing because the server
//! or the connection is lost, or because two nodes crossed each other, is tried again for as long as somebody waits.
//!
//! Time is the database's, read after the locks are held. A hold that is due ends when anybody needs its units.

mod claims;
mod connect;
mod cursors;
mod figures;
mod lanes;
mod outbox;
mod overtime;
mod reads;
mod retry;
mod seed;
#[cfg(test)]
mod tests;
mod transaction;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPool};

use super::ops::Operation;
use super::seed::Existing;
use super::tx::WriteError;
use super::{Claim, OpenError, ProductSeed, Settings, StoreError};
use crate::answer::Answer;
use crate::model::Stock;
use cursors::Cursors;
use figures::Figures;
use lanes::Lanes;
use retry::Tries;
use transaction::PgTx;

/// Rows that the stock of a counted product is kept in.
const BUCKETS: i64 = 8;
/// Nobody waits longer for one try; a server that answers nothing any more is taken to be gone.
const TRY: Duration = Duration::from_secs(10);

/// A handle on the books; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Postgres {
    shared: Arc<Shared>,
    /// Claims end when the last handle does, so who serves them has none of it.
    lanes: Arc<Lanes>,
}

/// What everybody at these books needs.
#[derive(Debug)]
struct Shared {
    pool: PgPool,
    options: PgConnectOptions,
    settings: Settings,
    cursors: Cursors,
    figures: Figures,
    opened_at: Instant,
}

// === impl Postgres ===

impl Postgres {
    /// As [`super::Store::check_postgres`].
    pub(super) fn check_address(url: &str) -> Result<(), String> {
        connect::check_address(url)
    }

    /// Brings the schema of the database at `url` up to date.
    pub(super) async fn migrate(url: &str) -> Result<(), OpenError> {
        connect::migrate(&connect::parse(url)?).await
    }

    /// As [`super::Store::add_postgres`].
    pub(super) async fn add(url: &str, product: &ProductSeed) -> Result<(), OpenError> {
        let options = connect::parse(url)?;
        in_time(connect::check(&options)).await?;
        let options = connect::session(options);
        Ok(seed::seed(&options, std::slice::from_ref(product), Existing::Refuse).await?)
    }

    /// As [`super::Store::open_postgres`].
    pub(super) async fn open(
        url: &str,
        products: &[ProductSeed],
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let options = connect::parse(url)?;
        in_time(connect::check(&options)).await?;
        let options = connect::session(options);
        let pool = in_time(connect::pool(options.clone())).await?;
        let shared = Arc::new(Shared {
            pool,
            options,
            settings,
            cursors: Cursors::default(),
            figures: Figures::default(),
            opened_at: Instant::now(),
        });
        // From here on it waits for locks of others.
        tokio::spawn(overtime::watch(Arc::downgrade(&shared)));
        seed::seed(&shared.options, products, Existing::Update).await?;
        in_time(figures::count(&shared)).await?;
        tokio::spawn(figures::keep_counting(Arc::downgrade(&shared)));
        Ok(Self { lanes: Arc::new(in_time(Lanes::open(shared.clone())).await?), shared })
    }

    pub(super) async fn claim(&self, claim: Claim) -> Result<Answer, StoreError> {
        self.lanes.claim(claim).await
    }

    /// Runs an operation in a transaction of its own, again if need be.
    pub(super) async fn change<O: Operation>(&self, operation: O) -> Result<O::Output, StoreError> {
        let mut tries = Tries::since(Instant::now());
        loop {
            match self.shared.run(&operation).await {
                Ok(output) => return Ok(output),
                Err(error) if tries.again(&error).await => {}
                Err(error) => {
                    tracing::error!(%error, "a transaction failed; its changes are undone");
                    return Err(StoreError::Failed);
                }
            }
        }
    }

    pub(super) fn stock(&self) -> Stock {
        self.shared.figures.total()
    }

    pub(super) fn committed_at(&self) -> Instant {
        self.shared.figures.committed_at().unwrap_or(self.shared.opened_at)
    }
}

// === impl Shared ===

impl Shared {
    async fn run<O: Operation>(&self, operation: &O) -> Result<O::Output, WriteError> {
        let mut connection = self.pool.acquire().await?;
        let done = tokio::time::timeout(TRY, async {
            let mut tx = PgTx::begin(&mut connection, self).await?;
            let output = operation.run(&mut tx).await?;
            tx.commit().await?;
            Ok(output)
        });
        match done.await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(error)) => {
                if retry::Failure::of(&error) == retry::Failure::Lost {
                    connection.close_on_drop();
                }
                Err(error)
            }
            Err(_) => {
                connection.close_on_drop();
                Err(silence().into())
            }
        }
    }
}

/// The server did not answer.
fn silence() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())
}

/// What comes of it within [`TRY`].
async fn in_time<T, E: From<sqlx::Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    tokio::time::timeout(TRY, work).await.unwrap_or_else(|_| Err(silence().into()))
}
