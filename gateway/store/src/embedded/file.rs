//! The store's file: making it, and opening it again after a failure.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{Builder, Database, DatabaseError};

use super::disk;
use super::failure::opening;
use crate::StoreError;

/// What redb may keep of the file in memory. Join rows are written once and read at start only,
/// so a larger cache would hold nothing but what the operating system's own cache holds.
const CACHE_BYTES: usize = 4 << 20;

/// How a database is opened once its builder is set up.
type OpenWith = Box<dyn Fn(&mut Builder) -> Result<Database, DatabaseError> + Send>;

/// Opens the database; called again to return to the last commit after a failed one.
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// The least time between two readings of the whole file, however often commits fail.
    pub(super) retry: Duration,
    pub(super) open: OpenWith,
}

// === impl Source ===

impl Source {
    pub(super) fn open(&self) -> Result<Database, StoreError> {
        let mut builder = builder();
        // Whatever is in the file, the answer is an error and not a panic: redb checks every
        // page, and what its checks should meet that they do not expect is caught here.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.open)(&mut builder)))
            .map_err(|_| StoreError::Damaged {
                path: self.path.clone(),
                detail: "its structure makes no sense".into(),
            })?
            .map_err(|error| opening(&self.path, error))
    }
}

pub(super) fn source(path: &Path) -> Source {
    let path = path.to_path_buf();
    Source {
        path: path.clone(),
        retry: Duration::from_secs(1),
        // Never `create`: that would take a file cut down to nothing for a new one, and give out
        // its numbers again.
        open: Box::new(move |builder| builder.open(&path)),
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder
}

/// Makes an empty store at `path` if nothing is there. The file appears whole or not at all, and
/// its name is durable before anybody is given a number out of it.
pub(super) fn create_if_missing(path: &Path) -> Result<(), StoreError> {
    let io_error = |error: io::Error| StoreError::Io { path: path.to_path_buf(), detail: error.to_string() };
    if path.try_exists().map_err(io_error)? {
        return Ok(());
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    let draft = PathBuf::from(draft);
    let made = draft_store(&draft).and_then(|()| {
        // A link fails where a rename would replace: of two processes that start at once, one
        // makes the file and the other then finds it.
        match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_error(error)),
            _ => Ok(()),
        }
    });
    let removed = std::fs::remove_file(&draft);
    made?;
    removed.map_err(io_error)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error)
}

fn draft_store(draft: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::Io { path: draft.to_path_buf(), detail: error.to_string() });
        }
        _ => {}
    }
    let database = builder().create(draft).map_err(|error| opening(draft, error))?;
    disk::format(&database)
        .map_err(|failure| StoreError::Io { path: draft.to_path_buf(), detail: failure.reason })
}
