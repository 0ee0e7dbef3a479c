//! The store in this process: the sales in memory, every change durable in one redb file.
//!
//! One thread owns all of it. It takes every call that waits, applies them to the sales, writes
//! what changed in one transaction, and answers them all once that is on the disk; the calls that
//! arrive meanwhile make up the next transaction. So the disk's latency is shared by however many
//! shoppers there are, without a timer. Reads take the view published after the last commit and
//! wait for nobody.

mod disk;
mod failure;
mod file;
mod sales;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use ropeline_queue::{
    Arrival, ChangeRefusal, ClaimRefusal, Claimed, Command, CommandDone, CommandRefusal, JoinRefusal, Joined,
    LeaseEvent, LeaveRefusal, Position, Queue, SaleDefinition, SaleId, SaleView, Stock, TickInput,
    UnixMillis,
};
use tokio::sync::{mpsc, oneshot};

use self::file::Source;
use self::sales::Sales;
use self::writer::{Task, Writer};
use crate::{Clock, Join, QueueStore, StoreError};

/// Calls that may wait for the writer; further callers wait for room.
const INBOX: usize = 4096;

/// The views that are read without asking the writer.
type Views = ArcSwap<BTreeMap<SaleId, Arc<SaleView>>>;

/// A [`QueueStore`] in this process, durable in one file.
///
/// Dropping it finishes the calls it has taken and closes the file.
#[derive(Debug)]
pub struct EmbeddedStore {
    /// `None` only while dropping: closing the inbox is what ends the writer.
    inbox: Option<mpsc::Sender<Task>>,
    views: Arc<Views>,
    writer: Option<JoinHandle<()>>,
}

// === impl EmbeddedStore ===

impl EmbeddedStore {
    /// Opens the store in the file at `path`, which is made if there is none, checks the whole
    /// file and loads the sales. Blocks while it does: about a second for two million visitors.
    ///
    /// # Errors
    /// [`StoreError::InUse`] where another process has the file open, [`StoreError::Damaged`],
    /// [`StoreError::Format`] and [`StoreError::Io`].
    pub fn open(path: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        file::create_if_missing(path)?;
        Self::start(file::source(path), clock)
    }

    fn start(source: Source, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let views = Arc::new(Views::default());
        let writer = Writer::open(source, clock, Arc::clone(&views))?;
        let (inbox, calls) = mpsc::channel(INBOX);
        let writer = std::thread::Builder::new()
            .name("ropeline-store".into())
            .spawn(move || writer.run(calls))
            .map_err(|error| StoreError::Unavailable {
                reason: format!("cannot start the store's thread: {error}"),
            })?;
        Ok(Self { inbox: Some(inbox), views, writer: Some(writer) })
    }

    /// Has the writer do `work` and answers once its effects are durable.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Sales, UnixMillis) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable { reason: "the store's writer has stopped".into() };
        let (reply, answer) = oneshot::channel();
        let task: Task = Box::new(move |sales, now| {
            let done = work(sales, now);
            Box::new(move |committed| {
                // A caller who has gone away needs no answer; the work is done all the same.
                let _ = reply.send(committed.and(done));
            })
        });
        let inbox = self.inbox.as_ref().ok_or_else(gone)?;
        inbox.send(task).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// [`call`](Self::call) on one sale.
    async fn on_sale<T: Send + 'static>(
        &self,
        sale: &SaleId,
        work: impl FnOnce(&mut Queue, UnixMillis) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let sale = sale.clone();
        self.call(move |sales, now| Ok(work(sales.queue_mut(&sale)?, now))).await
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.inbox = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer ended in a panic");
        }
    }
}

#[async_trait]
impl QueueStore for EmbeddedStore {
    async fn sales(&self) -> Result<Vec<SaleId>, StoreError> {
        Ok(self.views.load().keys().cloned().collect())
    }

    async fn create(&self, definition: SaleDefinition, draw_secret: [u8; 32]) -> Result<(), StoreError> {
        self.call(move |sales, now| sales.create(definition, draw_secret, now)).await
    }

    async fn change(
        &self,
        definition: SaleDefinition,
        over: Option<Arc<SaleDefinition>>,
    ) -> Result<Result<(), ChangeRefusal>, StoreError> {
        let sale = definition.id.clone();
        self.on_sale(&sale, move |queue, now| queue.change(definition, over.as_deref(), now)).await
    }

    async fn command(
        &self,
        sale: &SaleId,
        command: Command,
    ) -> Result<Result<CommandDone, CommandRefusal>, StoreError> {
        self.on_sale(sale, move |queue, now| queue.command(&command, now)).await
    }

    async fn join(
        &self,
        sale: &SaleId,
        joins: Vec<Join>,
    ) -> Result<Vec<Result<Joined, JoinRefusal>>, StoreError> {
        self.on_sale(sale, move |queue, now| {
            joins.iter().map(|join| queue.join(join.visitor, join.options(), now)).collect()
        })
        .await
    }

    async fn claim(
        &self,
        sale: &SaleId,
        position: Position,
    ) -> Result<Result<Claimed, ClaimRefusal>, StoreError> {
        self.on_sale(sale, move |queue, now| queue.claim(position, now)).await
    }

    async fn leave(&self, sale: &SaleId, position: Position) -> Result<Result<(), LeaveRefusal>, StoreError> {
        self.on_sale(sale, move |queue, now| queue.leave(position, now)).await
    }

    async fn lease(&self, sale: &SaleId, arrival: Arrival, event: LeaseEvent) -> Result<(), StoreError> {
        self.on_sale(sale, move |queue, now| queue.lease(arrival, event, now)).await
    }

    async fn stock(&self, sale: &SaleId, stock: Stock) -> Result<(), StoreError> {
        self.on_sale(sale, move |queue, now| queue.stock(stock, now)).await
    }

    async fn tick(&self, sale: &SaleId, input: TickInput) -> Result<Arc<SaleView>, StoreError> {
        self.on_sale(sale, move |queue, now| {
            queue.tick(input, now);
            Arc::new(queue.view(now))
        })
        .await
    }

    async fn view(&self, sale: &SaleId) -> Result<Arc<SaleView>, StoreError> {
        self.views.load().get(sale).cloned().ok_or_else(|| StoreError::UnknownSale(sale.clone()))
    }
}
