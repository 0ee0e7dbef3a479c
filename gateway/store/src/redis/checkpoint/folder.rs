//! A folder with a file a sale, and one beside it that is locked meanwhile.
//!
//! The files hold the secrets of draws: nobody but the gateways' own user may read them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ropeline_queue::SaleId;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Unread;
use crate::StoreError;

/// How many may wait for the disk: one that does not answer shall not take all threads that may block.
const AT_ONCE: usize = 4;

/// Until the lock is tried again.
const AGAIN: Duration = Duration::from_millis(5);

#[derive(Clone, Debug)]
pub(in crate::redis) struct Folder {
    path: PathBuf,
    patience: Duration,
    room: Arc<Semaphore>,
}

// === impl Folder ===

impl Folder {
    pub(super) fn new(path: PathBuf, patience: Duration) -> Self {
        Self { path, patience, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The names of all that have a file.
    pub(super) async fn names(&self) -> Result<Vec<String>, StoreError> {
        self.aside(|folder| {
            folder.is_there()?;
            let failed =
                |error: io::Error| StoreError::Io { path: folder.path.clone(), detail: error.to_string() };
            let mut names = Vec::new();
            for entry in fs::read_dir(&folder.path).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                names.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
            }
            Ok(names)
        })
        .await
    }

    /// Writes a mark, which nobody needs after a crash.
    pub(super) async fn leave_mark(&self, sale: &SaleId, mark: u64) -> Result<(), StoreError> {
        let sale = sale.clone();
        self.aside(move |folder| {
            folder.is_there()?;
            let path = folder.path.join(format!("{sale}.mark"));
            let failed = |error: io::Error| StoreError::Io { path: path.clone(), detail: error.to_string() };
            fs::write(&path, mark.to_string()).map_err(failed)
        })
        .await
    }

    /// Reads the mark that was written last.
    pub(super) async fn mark(&self, sale: &SaleId) -> Result<Option<String>, StoreError> {
        let sale = sale.clone();
        self.aside(move |folder| {
            let path = folder.path.join(format!("{sale}.mark"));
            match fs::read_to_string(&path) {
                Ok(mark) => Ok(Some(mark)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(StoreError::Io { path, detail: error.to_string() }),
            }
        })
        .await
    }

    /// Has the file looked at.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        name: &str,
        look: impl FnOnce(Option<String>) -> Result<(Option<String>, T), Unread> + Send + 'static,
    ) -> Result<T, StoreError> {
        let name = name.to_owned();
        self.aside(move |folder| folder.locked(&name, look)).await
    }

    /// Has it done where that may block.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = self.clone();
        let done = async {
            let failed = || unavailable("the checkpoint could not be read or written");
            let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| failed())?;
            let work = move || {
                let _room = room;
                work(&folder)
            };
            tokio::task::spawn_blocking(work).await.map_err(|_| failed())?
        };
        // What is given up on the way may be written for nothing: numbers are skipped then, never given twice.
        let done = timeout(self.patience, done).await;
        done.unwrap_or_else(|_| Err(unavailable("the checkpoint's folder does not answer")))
    }

    /// One that is made here would be this gateway's alone, where the shared one is not mounted.
    fn is_there(&self) -> Result<(), StoreError> {
        if self.path.is_dir() {
            return Ok(());
        }
        let detail = "the checkpoint's folder is not there: is it mounted?".to_owned();
        Err(StoreError::Io { path: self.path.clone(), detail })
    }

    /// Reads, and writes what is to be written, while no other gateway does.
    fn locked<T>(
        &self,
        name: &str,
        look: impl FnOnce(Option<String>) -> Result<(Option<String>, T), Unread>,
    ) -> Result<T, StoreError> {
        let until = Instant::now() + self.patience;
        let path = self.path.join(format!("{name}.json"));
        let failed = |error: io::Error| StoreError::Io { path: path.clone(), detail: error.to_string() };
        self.is_there()?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.path.join(format!("{name}.lock")))
            .map_err(failed)?;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(AGAIN),
                Err(TryLockError::WouldBlock) => {
                    return Err(unavailable("another gateway does not let go of the checkpoint"));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        let damaged = |detail: String| StoreError::Damaged { path: path.clone(), detail };
        let held = match fs::read(&path) {
            Ok(bytes) => Some(String::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let (write, done) = look(held).map_err(|unread| match unread {
            Unread::Damaged(detail) => damaged(detail),
            Unread::Failed(error) => error,
        })?;
        if let Some(text) = write {
            replace(&self.path, &path, text.as_bytes()).map_err(failed)?;
        }
        Ok(done)
    }
}

/// The file is the old or the new one, whatever happens, and the new one for good before this returns.
fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    // Left behind by one that was killed, perhaps readable by others.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(folder)?.sync_all()
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned() }
}
