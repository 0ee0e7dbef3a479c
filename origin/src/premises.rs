//! What must be so before the books are opened: they are this service's alone, and they are the ones that were kept.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The books must not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PremisesError {
    /// Two services on the same books would each drive the payments of both.
    #[error("{} is in use: another ropeline-origin holds {}; stop it first, or configure another database", .database.display(), .lock.display())]
    InUse {
        /// As configured.
        database: PathBuf,
        /// The lock file.
        lock: PathBuf,
    },
    /// The database cannot be looked at.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Nothing can be written beside the database.
    #[error(
        "{} cannot be opened: {error}; the folder has to be there, and this user has to be able to write in it, for the database \
         and what stands beside it",
        .lock.display()
    )]
    Folder {
        /// The lock file.
        lock: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Opening it as new would sell everything once more.
    #[error(
        "{} is empty, so what was sold is not in it; restore it from a backup, or remove it if nothing was ever sold",
        .database.display()
    )]
    Empty {
        /// As configured.
        database: PathBuf,
    },
    /// There were payments, so there were books.
    #[error(
        "{} is missing, but {} is there: what was sold would be sold again; restore both from one backup, or remove the \
         payments too if this is to be a new shop",
        .database.display(), .payments.display()
    )]
    Missing {
        /// As configured.
        database: PathBuf,
        /// The books of the payments.
        payments: PathBuf,
    },
    /// There are purchases, so there were payments.
    #[error(
        "{} is missing or empty, but {database} has purchases: what was paid for them cannot be told any more, and none could be \
         captured, voided or refunded; restore both from one backup, or remove the database too if this is to be a new shop",
        .payments.display()
    )]
    PaymentsMissing {
        /// The file, or that it is none.
        database: String,
        /// The books of the payments.
        payments: PathBuf,
    },
}

/// The sole right to the books, for as long as this lives. The operating system gives it back when the process ends, however
/// it ends.
#[derive(Debug)]
pub(crate) struct Premises {
    _lock: File,
    /// The books, in words.
    database: String,
    has_payments: bool,
}

// === impl Premises ===

impl Premises {
    /// Takes the lock beside `database`, then looks whether the file is what it should be. The lock is on a file of its own,
    /// since closing any handle on the database would let go of SQLite's locks; that file stays.
    ///
    /// # Errors
    /// When another service has the books, or when the database is empty, or missing though there are `payments`.
    pub(crate) fn take(database: &Path, payments: Option<&Path>) -> Result<Self, PremisesError> {
        let lock = lock(database)?;
        let database_size = size(database)?;
        let payments_size = payments.map(size).transpose()?.flatten();
        match (database_size, payments_size, payments) {
            (Some(0), ..) => Err(PremisesError::Empty { database: database.to_owned() }),
            (None, Some(1..), Some(payments)) => {
                Err(PremisesError::Missing { database: database.to_owned(), payments: payments.to_owned() })
            }
            _ => {
                let has_payments = matches!(payments_size, Some(1..));
                Ok(Self { _lock: lock, database: database.display().to_string(), has_payments })
            }
        }
    }

    /// Takes the lock beside the payments' own books, where those of the shop are on a server for any number of services.
    ///
    /// # Errors
    /// When another service has them.
    pub(crate) fn take_payments(payments: &Path) -> Result<Self, PremisesError> {
        let (lock, has_payments) = (lock(payments)?, matches!(size(payments)?, Some(1..)));
        Ok(Self { _lock: lock, database: "the PostgreSQL database".to_owned(), has_payments })
    }

    /// Looks whether the books of the payments may be opened, once it is known whether there are purchases. A shop that
    /// never sold anything may have been stopped before it made them.
    ///
    /// # Errors
    /// When there were payments and they are lost.
    pub(crate) fn check_payments(&self, payments: &Path, has_purchases: bool) -> Result<(), PremisesError> {
        if has_purchases && !self.has_payments {
            let (database, payments) = (self.database.clone(), payments.to_owned());
            return Err(PremisesError::PaymentsMissing { database, payments });
        }
        Ok(())
    }
}

/// Makes a file for books if there is none, for this user alone: what shoppers bought is read by nobody else. What SQLite
/// keeps beside it gets the same rights. Where it cannot be made, whoever opens it next says why.
pub(crate) fn make_private(books: &Path) {
    drop(File::options().write(true).create_new(true).mode(0o600).open(books));
}

fn lock(database: &Path) -> Result<File, PremisesError> {
    let mut path = database.to_owned().into_os_string();
    path.push("-lock");
    let path = PathBuf::from(path);
    let lock = File::options().create(true).truncate(false).write(true).open(&path);
    let lock = lock.map_err(|error| PremisesError::Folder { lock: path.clone(), error })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(PremisesError::InUse { database: database.to_owned(), lock: path })
        }
        Err(TryLockError::Error(error)) => Err(PremisesError::Unreadable { path, error }),
    }
}

/// In bytes; `None` when there is no such file.
fn size(path: &Path) -> Result<Option<u64>, PremisesError> {
    match std::fs::metadata(path) {
        Ok(file) => Ok(Some(file.len())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PremisesError::Unreadable { path: path.to_owned(), error }),
    }
}
