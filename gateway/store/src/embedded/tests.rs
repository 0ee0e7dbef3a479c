//! The contract on this store, and what only this store can get wrong: its disk.

mod file;
mod model;
mod platter;
mod power;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::EmbeddedStore;
use crate::QueueStore;
use crate::contract::{Fixture, ManualClock};

/// One store in a file of its own, opened at most once at a time, as the file demands.
struct OneFile {
    clock: Arc<ManualClock>,
    _folder: TempDir,
    path: PathBuf,
    open: Mutex<Option<Arc<EmbeddedStore>>>,
}

// === impl OneFile ===

impl OneFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.redb");
        Self { clock: Arc::default(), _folder: folder, path, open: Mutex::default() }
    }
}

#[async_trait]
impl Fixture for OneFile {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn connect(&self) -> Arc<dyn QueueStore> {
        let mut open = self.open.lock().await;
        let store = open
            .get_or_insert_with(|| Arc::new(EmbeddedStore::open(&self.path, self.clock.clone()).unwrap()));
        Arc::clone(store) as Arc<dyn QueueStore>
    }

    async fn restart(&self) {
        let store = self.open.lock().await.take().unwrap();
        Arc::try_unwrap(store).expect("a test still holds the store that it restarts");
    }
}

crate::queue_store_contract!(OneFile::new());
