//! A folder with a file a sale, and one beside it that is locked meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ropeline_queue::SaleId;

use super::{Document, Look};
use crate::StoreError;

#[derive(Clone, Debug)]
pub(in crate::redis) struct Folder(PathBuf);

// === impl Folder ===

impl Folder {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Has the file looked at where that may block.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        sale: &SaleId,
        look: impl FnOnce(Option<Document>) -> Look<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (folder, sale) = (self.clone(), sale.clone());
        let done = tokio::task::spawn_blocking(move || folder.locked(&sale, look)).await;
        done.map_err(|_| StoreError::Unavailable { reason: "the checkpoint could not be written".into() })?
    }

    /// Reads, and writes what is to be written, while no other gateway does.
    fn locked<T>(
        &self,
        sale: &SaleId,
        look: impl FnOnce(Option<Document>) -> Look<T>,
    ) -> Result<T, StoreError> {
        let path = self.0.join(format!("{sale}.json"));
        let failed = |error: io::Error| StoreError::Io { path: path.clone(), detail: error.to_string() };
        fs::create_dir_all(&self.0).map_err(failed)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.0.join(format!("{sale}.lock")))
            .map_err(failed)?;
        lock.lock().map_err(failed)?;
        let held = match fs::read(&path) {
            Ok(bytes) => Some(
                serde_json::from_slice(&bytes)
                    .map_err(|error| StoreError::Damaged { path: path.clone(), detail: error.to_string() })?,
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let (write, done) = look(held)?;
        if let Some(document) = write {
            let bytes = serde_json::to_vec(&document)
                .map_err(|error| StoreError::Unavailable { reason: error.to_string() })?;
            replace(&self.0, &path, &bytes).map_err(failed)?;
        }
        Ok(done)
    }
}

/// The file is the old or the new one, whatever happens, and the new one for good before this returns.
fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(folder)?.sync_all()
}
