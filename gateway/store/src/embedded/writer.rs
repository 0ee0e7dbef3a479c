//! The thread that owns the sales and the file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use ropeline_queue::UnixMillis;
use tokio::sync::mpsc;

use super::Views;
use super::disk::Disk;
use super::failure::Failure;
use super::file::Source;
use super::sales::Sales;
use crate::{Clock, StoreError};

/// A call: applied to the sales at the store's time, it leaves behind what answers its caller.
pub(super) type Task = Box<dyn FnOnce(&mut Sales, UnixMillis) -> Answer + Send>;

/// Tells a caller the result of its call, or that it could not be made durable.
pub(super) type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Calls in one transaction at most: bounds the time the first of them waits.
const BATCH: usize = 4096;

pub(super) struct Writer {
    source: Source,
    clock: Arc<dyn Clock>,
    views: Arc<Views>,
    state: State,
    /// When the sales were last read from the disk.
    loaded_at: Instant,
}

enum State {
    /// What is in memory is what is on the disk.
    Running { disk: Disk, sales: Sales },
    /// Nothing is held in memory: what a failed transaction left there is worth nothing.
    Failed {
        reason: String,
        /// When to read the disk again; never, where only an operator can tell what it holds.
        retry_at: Option<Instant>,
    },
}

// === impl Writer ===

impl Writer {
    pub(super) fn open(source: Source, clock: Arc<dyn Clock>, views: Arc<Views>) -> Result<Self, StoreError> {
        let state = load(&source, clock.now(), &views)?;
        Ok(Self { source, clock, views, state, loaded_at: Instant::now() })
    }

    /// Serves calls until every sender is gone.
    pub(super) fn run(mut self, mut calls: mpsc::Receiver<Task>) {
        let mut batch = Vec::new();
        while let Some(first) = calls.blocking_recv() {
            batch.push(first);
            while batch.len() < BATCH
                && let Ok(next) = calls.try_recv()
            {
                batch.push(next);
            }
            self.serve(&mut batch);
        }
    }

    fn serve(&mut self, batch: &mut Vec<Task>) {
        let now = self.clock.now();
        self.retry(now);
        let (disk, sales) = match &mut self.state {
            State::Running { disk, sales } => (disk, sales),
            State::Failed { reason, .. } => {
                let refusal = StoreError::Unavailable { reason: reason.clone() };
                // Applied to no sales at all, a call does nothing but answer.
                for task in batch.drain(..) {
                    task(&mut Sales::default(), now)(Err(refusal.clone()));
                }
                return;
            }
        };

        let mut answers = Vec::with_capacity(batch.len());
        // A panic is a fault of ours in one call. Memory may then be half changed, the disk is
        // not: the sales are read again, and the callers of this batch told to repeat.
        let committed = catch_unwind(AssertUnwindSafe(|| {
            answers.extend(batch.drain(..).map(|task| task(sales, now)));
            disk.commit(sales)
        }))
        .unwrap_or_else(|_| Err(Failure::panic()));
        batch.clear();

        match committed {
            Ok(()) => {
                // Published first: who has an answer finds its effect in the view.
                sales.publish(now, &self.views);
                for answer in answers {
                    answer(Ok(()));
                }
            }
            Err(failure) => {
                let refusal = self.fail(failure);
                for answer in answers {
                    answer(Err(refusal.clone()));
                }
            }
        }
    }

    /// Lets go of the sales and the file.
    fn fail(&mut self, failure: Failure) -> StoreError {
        let Failure { reason, recoverable } = failure;
        let reason = if recoverable {
            format!("{reason}; going back to what is on the disk")
        } else {
            format!("{reason}; restart once the disk has been looked at")
        };
        tracing::error!(path = %self.source.path.display(), reason, "a write to the store failed");
        self.state = State::Failed {
            reason: reason.clone(),
            retry_at: recoverable.then(|| self.loaded_at + self.source.retry),
        };
        StoreError::Unavailable { reason }
    }

    fn retry(&mut self, now: UnixMillis) {
        let State::Failed { retry_at: Some(at), .. } = self.state else {
            return;
        };
        if Instant::now() < at {
            return;
        }
        match load(&self.source, now, &self.views) {
            Ok(state) => {
                tracing::info!(path = %self.source.path.display(), "the store works again");
                self.state = state;
                self.loaded_at = Instant::now();
            }
            Err(error) => {
                self.state = State::Failed {
                    reason: error.to_string(),
                    retry_at: Some(Instant::now() + self.source.retry),
                };
            }
        }
    }
}

/// Reads everything from the disk.
fn load(source: &Source, now: UnixMillis, views: &Views) -> Result<State, StoreError> {
    let disk = Disk::open(source)?;
    let sales = disk.load()?;
    sales.publish_all(now, views);
    Ok(State::Running { disk, sales })
}
