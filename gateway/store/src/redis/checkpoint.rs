//! How far the sales have gone at most, kept outside of Redis.
//!
//! A folder holds one file a sale: numbers that may have been given, ahead of use in blocks; places that may have been
//! called, to the call; the last definition and core; and the generation that may go on. All gateways use the same folder,
//! and what one writes, it writes before it commits. So whatever Redis loses, what comes after it gives no number twice,
//! and a gateway that still talks to a server of an older generation gets no further than its block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ropeline_queue::{Arrival, Core, DrawRecord, Place, Queue, SaleDefinition, SaleId, UnixMillis};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Numbers that are written down at once. A loss passes over so many at most; at 100,000 joins a second it is written
/// six times a second.
const BLOCK: u64 = 16_384;

/// How far a sale may go without asking again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The generation that this holds for.
    pub(super) generation: u64,
    /// Numbers below may be given.
    pub(super) next_arrival: Arrival,
    /// Places below may be called.
    pub(super) serving: Place,
    /// The draw as it may have been frozen or made.
    pub(super) draw: DrawRecord,
    /// What the generations before may have given and called.
    pub(super) floor: Floor,
}

impl Mark {
    /// What those after this generation pass over.
    fn reached(&self) -> Floor {
        Floor { next_arrival: self.next_arrival, serving: self.serving, draw: self.draw.clone() }
    }
}

/// How far the generations before have gone at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Floor {
    next_arrival: Arrival,
    serving: Place,
    draw: DrawRecord,
}

impl Floor {
    /// Passes over what may have been given or called up to here, if that has not been done.
    pub(super) fn pass(&self, queue: &mut Queue, now: UnixMillis) {
        let core = queue.core();
        let behind = core.next_arrival() < self.next_arrival || core.serving() < self.serving;
        if behind || self.draw.is_ahead_of(&core.draw()) {
            queue.skip(self.next_arrival, self.serving, &self.draw, now);
        }
    }
}

/// The file of a sale.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    generation: u64,
    next_arrival: Arrival,
    serving: Place,
    draw: DrawRecord,
    floor: Floor,
    definition: SaleDefinition,
    core: Core,
}

/// What is known of a sale without its visitors.
#[derive(Clone, Debug)]
pub(super) struct Known {
    definition: Arc<SaleDefinition>,
    core: Core,
}

impl Known {
    pub(super) fn of(queue: &Queue) -> Self {
        Self { definition: Arc::clone(queue.definition()), core: queue.core().clone() }
    }
}

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint(PathBuf);

// === impl Checkpoint ===

impl Checkpoint {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The generation that went on last, and the sale as it was written down then, without its visitors.
    pub(super) fn read(&self, sale: &SaleId) -> Result<Option<(u64, Queue)>, StoreError> {
        self.locked(sale, |document| {
            let read = document.map(|document| {
                (document.generation, Queue::without_visitors(document.definition, document.core))
            });
            Ok((None, read))
        })
    }

    /// The generation that went on last; 0 if there is none.
    pub(super) fn generation(&self, sale: &SaleId) -> Result<u64, StoreError> {
        self.locked(sale, |document| Ok((None, document.map_or(0, |document| document.generation))))
    }

    /// Lets the sale go as far as it is known to have gone. No older generation gets any further from now on.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for an older generation: its server is not the one that the others talk to.
    pub(super) fn reach(&self, sale: &SaleId, generation: u64, known: &Known) -> Result<Mark, StoreError> {
        self.locked(sale, |document| {
            let held = document.map_or_else(Mark::default, Document::into_mark);
            if held.generation > generation {
                let reason = "the sale goes on at another server, after a loss".to_owned();
                return Err(StoreError::Unavailable { reason });
            }
            let begins = held.generation < generation;
            let draw = known.core.draw();
            let (next, serving) = (known.core.next_arrival(), known.core.serving());
            let ahead =
                if next > held.next_arrival { next.0.saturating_add(BLOCK) } else { held.next_arrival.0 };
            let mark = Mark {
                generation,
                next_arrival: Arrival(ahead),
                serving: held.serving.max(serving),
                draw: if held.draw.is_ahead_of(&draw) { held.draw.clone() } else { draw },
                floor: if begins { held.reached() } else { held.floor.clone() },
            };
            let write = (mark != held).then(|| Document::new(mark.clone(), known));
            Ok((write, mark))
        })
    }

    /// Reads, and writes what is to be written, while no other gateway does.
    fn locked<T>(
        &self,
        sale: &SaleId,
        work: impl FnOnce(Option<Document>) -> Result<(Option<Document>, T), StoreError>,
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
        let (write, done) = work(held)?;
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

impl Document {
    fn new(mark: Mark, known: &Known) -> Self {
        let Mark { generation, next_arrival, serving, draw, floor } = mark;
        let definition = SaleDefinition::clone(&known.definition);
        Self { generation, next_arrival, serving, draw, floor, definition, core: known.core.clone() }
    }

    fn into_mark(self) -> Mark {
        let Self { generation, next_arrival, serving, draw, floor, .. } = self;
        Mark { generation, next_arrival, serving, draw, floor }
    }
}

/// Has the folder looked at where that may block.
pub(super) async fn off<T: Send + 'static>(
    checkpoint: &Checkpoint,
    work: impl FnOnce(&Checkpoint) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let checkpoint = checkpoint.clone();
    let done = tokio::task::spawn_blocking(move || work(&checkpoint)).await;
    done.map_err(|_| StoreError::Unavailable { reason: "the checkpoint could not be written".into() })?
}
