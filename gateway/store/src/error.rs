//! What can go wrong in a store, apart from the queue's own refusals.

use std::path::PathBuf;
use std::time::Duration;

use ropeline_queue::SaleId;
use thiserror::Error;

/// Why a store could not be opened or did not do its work. The text is for the operator; a
/// shopper is told no more than that the queue cannot be reached for the moment.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// There is no such sale in this store.
    #[error("there is no sale \"{0}\"")]
    UnknownSale(SaleId),

    /// A sale of this id exists already.
    #[error("a sale \"{0}\" exists already")]
    SaleExists(SaleId),

    /// The store cannot do its work now. Whether the call took effect is not known; it may be
    /// repeated.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// What failed.
        reason: String,
    },

    /// The store does not take this gateway's user or password, or withholds a right that it needs. Whether the call took
    /// effect is known: it did not. Time does not mend it.
    #[error("the store lets this gateway do nothing: {reason}")]
    Denied {
        /// What it said, and how to mend it.
        reason: String,
    },

    /// This gateway would not fit to those that share the store with it, and has left it alone.
    #[error("this gateway and those beside it do not agree: {reason}")]
    Disagrees {
        /// On which setting, and how to mend it.
        reason: String,
        /// For how long this may be so because of one that is gone and was not heard of since: to be tried again until then.
        /// None where it does not mend itself.
        lasts: Option<Duration>,
    },

    /// A version of Ropeline that this one does not understand has written the sale on. It is left as it is.
    #[error(
        "{place} was written by a newer Ropeline (format {found}, this one knows {known}): upgrade this gateway, or stop it"
    )]
    Newer {
        /// What was written.
        place: &'static str,
        /// The format that it has.
        found: String,
        /// The format that this version reads and writes.
        known: u64,
    },

    /// Another process has the file open.
    #[error("{} is in use by another process: one file serves one gateway", path.display())]
    InUse {
        /// The store's file.
        path: PathBuf,
    },

    /// The file is not a store, or is damaged.
    #[error("{} is damaged or not a store of Ropeline: {detail}", path.display())]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },

    /// The file was written by a version of Ropeline that this one does not understand.
    #[error(
        "{} has format {found}, this version of Ropeline reads format {known}",
        path.display()
    )]
    Format {
        /// The store's file.
        path: PathBuf,
        /// The format of the file.
        found: u64,
        /// The format this version reads and writes.
        known: u64,
    },

    /// The file cannot be opened, read or written.
    #[error("cannot open {}: {detail}", path.display())]
    Io {
        /// The store's file.
        path: PathBuf,
        /// The operating system's words.
        detail: String,
    },
}
