//! redb's errors in the store's words.

use std::io::ErrorKind;
use std::path::Path;

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};

use crate::StoreError;

/// Why reading or writing the file failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// Whether the file can be trusted to hold the last commit, so that the store may read it and
    /// go on. True of a write refused for want of space, which leaves the file as it was. After
    /// any other error nobody knows what the kernel has kept of the pages it had accepted: a
    /// failed fsync may mark them clean, and the next one then reports success.
    pub(super) recoverable: bool,
}

// === impl Failure ===

impl Failure {
    pub(super) fn lasting(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), recoverable: false }
    }

    /// A panic while a call was applied: memory is suspect, the file is not.
    pub(super) fn panic() -> Self {
        Self { reason: "a fault in Ropeline, see the panic before this".into(), recoverable: true }
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        let recoverable = matches!(
            &error,
            StorageError::Io(io) if matches!(
                io.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
            )
        );
        Self { reason: error.to_string(), recoverable }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(storage) => storage.into(),
            other => Self::lasting(other.to_string()),
        }
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(storage) => storage.into(),
            other => Self::lasting(other.to_string()),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Storage(storage) => storage.into(),
            other => Self::lasting(other.to_string()),
        }
    }
}

/// An error of opening the file at `path`.
pub(super) fn opening(path: &Path, error: DatabaseError) -> StoreError {
    let path = path.to_path_buf();
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path },
        // redb says InvalidData of a file that is none of its own, UnexpectedEof of one cut short.
        DatabaseError::Storage(StorageError::Io(io))
            if !matches!(io.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            StoreError::Io { path, detail: io.to_string() }
        }
        other => StoreError::Damaged { path, detail: other.to_string() },
    }
}
