//! What the operator does to the books from the command line, whether or not the service runs.

use crate::config::{Config, Database};
use crate::model::Audit;
use crate::service::settings;
use crate::store::{Again, OpenError, OutboxEvent, Resumed, Store, StoreError};

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

/// Makes the tables of the books on PostgreSQL, or brings them up to date. Books in a file are brought up to date by
/// whoever serves them.
///
/// # Errors
/// When the database cannot be reached or is not as it has to be.
pub async fn migrate(config: &Config) -> Result<(), OperatorError> {
    match &config.database {
        Database::File(_) => Ok(()),
        Database::Postgres(url) => Ok(Store::migrate_postgres(url).await?),
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
    Ok(store(config).await?.outbox(sink, only_dead, limit).await?)
}

/// Has an event sent again, or every dead one where none is named, to `sink` or to every one, as if it had never been
/// tried. To how many sinks, counted for each event; one that is being told right now is not counted.
///
/// # Errors
/// When the books are not there, or cannot be written.
pub async fn resend(config: &Config, event: Option<&str>, sink: Option<&str>) -> Result<u64, OperatorError> {
    let which = event.map_or(Again::AllDead, |id| Again::One(id.to_owned()));
    Ok(store(config).await?.send_again(which, sink.map(str::to_owned)).await?)
}
