//! The store that any number of gateways share: a replica of each sale in each gateway, and Redis between them.
//!
//! The rules of a sale are those of [`ropeline_queue`] and nowhere else. Redis puts the batches of all gateways in one
//! order and keeps what they add up to; a batch that was run on something older than the latest commit is refused,
//! taken back and run again. So any gateway may tick, none leads, and each answer is true of the one course of the sale.
//! What Redis does for a sale does not depend on how many wait.
//!
//! The server's own clock is the sale's, held steady where it is set or where another server takes over.

mod agreement;
mod attempt;
mod checkpoint;
mod entry;
mod keys;
mod link;
mod loss;
mod replica;
mod report;
mod sale;
mod server;
mod settings;
mod spread;
mod standing;
mod writes;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ropeline_queue::{
    Arrival, ChangeRefusal, Changes, ClaimRefusal, Claimed, Command, CommandDone, CommandRefusal, JoinRecord,
    JoinRefusal, Joined, LeaseEvent, LeaveRefusal, Position, Queue, SaleDefinition, SaleId, SaleView, Stock,
    TickInput, UnixMillis,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use self::agreement::Agreement;
pub use self::agreement::RedisKeys;
use self::checkpoint::{Checkpoint, Known};
use self::link::{Link, Scripts};
use self::report::Counts;
pub use self::report::RedisReport;
use self::sale::{Call, INBOX, Sale, Work, document, name, nonce};
pub use self::settings::{RedisCheckpoint, RedisClientCertificate, RedisServers, RedisSettings, RedisTls};
use self::spread::Spread;
use self::standing::{Standing, Status};
use crate::{Clock, Join, QueueStore, StoreError, StoreReport};

/// A [`QueueStore`] that is shared through Redis 7 or later, which must not evict keys (`maxmemory-policy noeviction`).
///
/// Its user needs no more than this:
/// ```text
/// ACL SETUSER ropeline on >PASSWORD resetchannels ~rl:sales ~{rl:*
///   +evalsha +eval +info +time +hmget +hget +hset +hdel +hincrby +hgetall +llen +lrange +rpush +lpop
///   +setrange +set +get +mget +del +unlink +exists +sadd +smembers
/// ```
/// and `+cluster|slots +asking +ping` beside it in a cluster. At sentinels it needs `+sentinel|masters +role`.
///
/// It connects with the first call, and again whenever the connection is lost. Calls are made inside a Tokio runtime.
pub struct RedisStore {
    shared: Arc<Shared>,
    /// A task each.
    inboxes: Mutex<BTreeMap<SaleId, mpsc::Sender<Box<dyn Call>>>>,
}

/// What the sales of one gateway have in common.
struct Shared {
    link: Link,
    scripts: Scripts,
    counts: Arc<Counts>,
    checkpoint: Option<Checkpoint>,
    agreement: Agreement,
    /// Tells this store from those of other gateways.
    id: u64,
    /// Instead of the server's.
    clock: Option<Arc<dyn Clock>>,
}

// === impl Shared ===

impl Shared {
    /// The sales that Redis has, and those that it has lost: whoever asks for one of them puts it back.
    async fn sales(self: &Arc<Self>) -> Result<Vec<SaleId>, StoreError> {
        let Shared { link, checkpoint, .. } = &**self;
        self.agree().await?;
        let named: Vec<String> = link.ask(redis::cmd("SMEMBERS").arg(keys::SALES)).await?;
        let mut sales = match checkpoint {
            Some(checkpoint) => checkpoint.sales().await?,
            None => BTreeSet::new(),
        };
        for sale in named.into_iter().filter_map(|name| SaleId::try_from(name).ok()) {
            // It is put on the list before it is made.
            if !sales.contains(&sale) && link.ask(redis::cmd("EXISTS").arg(keys::head(&sale))).await? {
                sales.insert(sale);
            }
        }
        Ok(sales.into_iter().collect())
    }

    async fn create(
        self: &Arc<Self>,
        definition: SaleDefinition,
        draw_secret: [u8; 32],
    ) -> Result<(), StoreError> {
        self.agree().await?;
        let sale = definition.id.clone();
        let Shared { link, scripts, checkpoint, clock, .. } = &**self;
        let keys = [keys::head(&sale), keys::log(&sale)];
        let found: Standing = link.run(&scripts.sync, &keys, &["", "0", "", "", ""]).await?;
        if found.status != Status::None {
            return Err(StoreError::SaleExists(sale));
        }
        let now = clock.as_ref().map_or(UnixMillis(found.now_ms), |clock| clock.now());
        if let Some(checkpoint) = checkpoint
            && checkpoint.read(&sale, now).await?.is_some()
        {
            // Redis has lost it; the next call puts it back.
            return Err(StoreError::SaleExists(sale));
        }
        let queue = Queue::create(definition, draw_secret, now);
        loss::list(link, &sale).await?;
        let line = name()?;
        let entry = entry::encode(nonce()?, &Changes::default());
        let (core, definition) = (document(queue.core())?, document(&**queue.definition())?);
        let spread = document(&Spread::default())?;
        let (none, first, line_name): (&[u8], &[u8], &[u8]) = (b"0", b"1", line.as_bytes());
        let args: [&[u8]; 12] =
            [b"", none, &entry, &core, &definition, line_name, first, line_name, first, b"", none, &spread];
        let made: Standing = link.run(&scripts.replace, &keys, &args).await?;
        if made.status != Status::Done {
            return Err(StoreError::SaleExists(sale));
        }
        if let Some(checkpoint) = checkpoint {
            checkpoint.reach(&sale, 1, Known::of(&line, 1, &queue)).await?;
        }
        Ok(())
    }
}

// === impl RedisStore ===

impl RedisStore {
    /// A store that connects with its first call.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where an address makes no sense or TLS cannot be set up.
    pub fn open(settings: &RedisSettings) -> Result<Self, StoreError> {
        Self::with_clock(settings, None)
    }

    /// The same store, whose tasks and connections live on that runtime. Without one they live on whichever runtime makes
    /// the call that needs them first, and end with it.
    #[must_use]
    pub fn living_on(self, home: Handle) -> Self {
        // It is set once: this is the only place.
        let _ = self.shared.link.home.set(home);
        self
    }

    /// The same store, which has nothing to do with any sale before it has found that the other gateways take what this one
    /// signs, and the other way round: each kind of keys by the setting that names it.
    #[must_use]
    pub fn with_keys(self, keys: BTreeMap<String, RedisKeys>) -> Self {
        // As above.
        let _ = self.shared.agreement.keys.set(keys);
        self
    }

    fn with_clock(settings: &RedisSettings, clock: Option<Arc<dyn Clock>>) -> Result<Self, StoreError> {
        let counts = Arc::new(Counts::default());
        let link = Link::new(settings, Arc::clone(&counts)).map_err(|error| link::unavailable(&error))?;
        let checkpoint = settings
            .checkpoint
            .as_ref()
            .map(|place| Checkpoint::new(place, settings.patience))
            .transpose()?;
        let id = u64::from_le_bytes(nonce()?);
        let shared = Arc::new(Shared {
            link,
            scripts: Scripts::new(),
            counts,
            checkpoint,
            agreement: Agreement::default(),
            id,
            clock,
        });
        Ok(Self { shared, inboxes: Mutex::default() })
    }

    /// What this gateway has had to do with Redis so far.
    pub fn redis_report(&self) -> RedisReport {
        self.shared.counts.report(self.shared.link.is_connected())
    }

    /// Has the sale do `work`, on what all gateways have done, and answers once it is committed. It may be done several
    /// times, of which the last counts.
    async fn on_sale<T: Send + 'static>(
        &self,
        sale: &SaleId,
        weight: usize,
        work: impl FnMut(&mut Queue, UnixMillis) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(sale, Work::call(weight, true, work)).await
    }

    /// The same for work that has mostly nothing to commit.
    async fn looks_at<T: Send + 'static>(
        &self,
        sale: &SaleId,
        work: impl FnMut(&mut Queue, UnixMillis) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(sale, Work::call(1, false, work)).await
    }

    async fn call<T: Send + 'static>(
        &self,
        sale: &SaleId,
        (work, answer): (Box<dyn Call>, oneshot::Receiver<Result<T, StoreError>>),
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable { reason: "the sale's task has stopped".into() };
        let mut call = work;
        // A sale that was not there a moment ago has stopped, and is looked for again.
        for _ in 0..2 {
            match self.inbox(sale)?.send(call).await {
                Ok(()) => return answer.await.map_err(|_| gone())?,
                Err(mpsc::error::SendError(unsent)) => call = unsent,
            }
        }
        Err(gone())
    }

    fn inbox(&self, sale: &SaleId) -> Result<mpsc::Sender<Box<dyn Call>>, StoreError> {
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = inboxes.get(sale).filter(|inbox| !inbox.is_closed()) {
            return Ok(inbox.clone());
        }
        // Sales that were asked for and do not exist.
        inboxes.retain(|_, inbox| !inbox.is_closed());
        let (inbox, calls) = mpsc::channel(INBOX);
        self.shared.link.spawn(Sale::new(sale.clone(), Arc::clone(&self.shared), name()?).run(calls));
        inboxes.insert(sale.clone(), inbox.clone());
        Ok(inbox)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl QueueStore for RedisStore {
    async fn sales(&self) -> Result<Vec<SaleId>, StoreError> {
        let shared = Arc::clone(&self.shared);
        // As for `create`.
        let read = self.shared.link.spawn(async move { shared.sales().await });
        read.await.map_err(|_| StoreError::Unavailable { reason: "the sales were not read".into() })?
    }

    async fn create(&self, definition: SaleDefinition, draw_secret: [u8; 32]) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        // The checkpoint, too, has connections, which end with the runtime that they were made on.
        let made =
            self.shared.link.spawn(async move { Box::pin(shared.create(definition, draw_secret)).await });
        made.await.map_err(|_| StoreError::Unavailable { reason: "the sale was not made".into() })?
    }

    async fn change(
        &self,
        definition: SaleDefinition,
        over: Option<Arc<SaleDefinition>>,
    ) -> Result<Result<(), ChangeRefusal>, StoreError> {
        let sale = definition.id.clone();
        self.on_sale(&sale, 1, move |queue, now| queue.change(definition.clone(), over.as_deref(), now)).await
    }

    async fn command(
        &self,
        sale: &SaleId,
        command: Command,
    ) -> Result<Result<CommandDone, CommandRefusal>, StoreError> {
        self.on_sale(sale, 1, move |queue, now| queue.command(&command, now)).await
    }

    async fn join(
        &self,
        sale: &SaleId,
        joins: Vec<Join>,
    ) -> Result<Vec<Result<Joined, JoinRefusal>>, StoreError> {
        // Those who only ask for what they have wait for no turn.
        let writes = joins.iter().any(|join| !join.known_only);
        let work = Work::call(joins.len(), writes, move |queue: &mut Queue, now| {
            let join = |join: &Join| queue.join(join.visitor, join.options(), now);
            joins.iter().map(join).collect()
        });
        self.call(sale, work).await
    }

    async fn reenter(&self, sale: &SaleId, tickets: Vec<JoinRecord>) -> Result<(), StoreError> {
        self.on_sale(sale, tickets.len(), move |queue, now| {
            for ticket in &tickets {
                queue.reenter(*ticket, now);
            }
        })
        .await
    }

    async fn claim(
        &self,
        sale: &SaleId,
        position: Position,
    ) -> Result<Result<Claimed, ClaimRefusal>, StoreError> {
        self.on_sale(sale, 1, move |queue, now| queue.claim(position, now)).await
    }

    async fn leave(&self, sale: &SaleId, position: Position) -> Result<Result<(), LeaveRefusal>, StoreError> {
        self.on_sale(sale, 1, move |queue, now| queue.leave(position, now)).await
    }

    async fn lease(&self, sale: &SaleId, arrival: Arrival, event: LeaseEvent) -> Result<(), StoreError> {
        self.on_sale(sale, 1, move |queue, now| queue.lease(arrival, event, now)).await
    }

    async fn stock(&self, sale: &SaleId, stock: Stock) -> Result<(), StoreError> {
        self.on_sale(sale, 1, move |queue, now| queue.stock(stock, now)).await
    }

    async fn tick(&self, sale: &SaleId, input: TickInput) -> Result<Arc<SaleView>, StoreError> {
        let from = self.shared.id;
        self.looks_at(sale, move |queue, now| {
            queue.share_health(from, input, now);
            queue.tick(input, now);
            Arc::new(queue.view(now))
        })
        .await
    }

    async fn view(&self, sale: &SaleId) -> Result<Arc<SaleView>, StoreError> {
        self.looks_at(sale, |queue, now| Arc::new(queue.view(now))).await
    }

    async fn leave_mark(&self, sale: &SaleId) -> Result<(), StoreError> {
        let (shared, sale, mark) = (Arc::clone(&self.shared), sale.clone(), checkpoint::mark(nonce()?));
        let left = self.shared.link.spawn(async move {
            let Some(checkpoint) = &shared.checkpoint else { return Ok(()) };
            checkpoint.leave_mark(&sale, mark).await
        });
        left.await.map_err(|_| StoreError::Unavailable { reason: "no mark was left".into() })?
    }

    async fn mark(&self, sale: &SaleId) -> Result<Option<u64>, StoreError> {
        let (shared, sale) = (Arc::clone(&self.shared), sale.clone());
        let read = self.shared.link.spawn(async move {
            let Some(checkpoint) = &shared.checkpoint else { return Ok(None) };
            checkpoint.mark(&sale).await
        });
        read.await.map_err(|_| StoreError::Unavailable { reason: "no mark was looked for".into() })?
    }

    async fn part(&self) -> Result<(), StoreError> {
        self.shared.part().await
    }

    fn report(&self) -> Option<StoreReport> {
        let RedisReport { commands, commits, conflicts, recoveries, .. } = self.redis_report();
        let disagrees = self.shared.agreement.is_broken();
        Some(StoreReport { commands, commits, conflicts, recoveries, disagrees })
    }
}
