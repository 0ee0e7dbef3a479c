//! Claims that arrive while a transaction is in flight wait, and are served together by the next one; there is no timer.
//!
//! Each product has a queue of its own and a few workers at it, each with a connection of its own: while one waits for
//! its commit to reach the disk, the next one works.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{ConnectOptions, PgConnection};
use tokio::sync::{mpsc, oneshot};

use super::claims::{Counter, Effort, Served};
use super::retry::{Failure, Tries};
use super::transaction::PgTx;
use super::{BUCKETS, Shared, in_time};
use crate::answer::Answer;
use crate::model::Kind;
use crate::store::rows::unknown;
use crate::store::tx::{Standing, Tx, WriteError};
use crate::store::{Claim, StoreError};

/// Claims that may wait for one product; beyond it the shop says that it is busy.
const QUEUE: usize = 8_192;
/// The most claims of one transaction; it bounds how long the first of them waits.
const BATCH: usize = 512;
/// Workers at one product.
const WORKERS: i64 = 2;
/// After so many tries the product is taken alone.
const CROSSINGS: u32 = 2;
/// How long a worker keeps a connection that it has no use for.
const IDLE: Duration = Duration::from_secs(60);

/// A queue for each product.
#[derive(Debug)]
pub(super) struct Lanes {
    shared: Arc<Shared>,
    queues: Mutex<HashMap<String, mpsc::Sender<Asked>>>,
}

/// A claim and who waits for its answer.
#[derive(Debug)]
struct Asked {
    claim: Claim,
    reply: oneshot::Sender<Answer>,
    at: Instant,
}

/// One of those who serve a product.
struct Worker {
    shared: Arc<Shared>,
    product: String,
    kind: Kind,
    first: i64,
    queue: Arc<tokio::sync::Mutex<mpsc::Receiver<Asked>>>,
    connection: Option<PgConnection>,
}

// === impl Lanes ===

impl Lanes {
    /// Opens a queue for each product that is on sale.
    pub(super) async fn open(shared: Arc<Shared>) -> Result<Self, sqlx::Error> {
        let products: Vec<(String, String)> =
            sqlx::query_as("SELECT id, kind FROM products").fetch_all(&shared.pool).await?;
        let lanes = Self { shared, queues: Mutex::default() };
        for (product, word) in products {
            let kind = Kind::parse(&word).ok_or_else(|| unknown("products.kind", &word))?;
            let queue = lanes.start(&product, kind);
            lanes.queues.lock().unwrap_or_else(PoisonError::into_inner).insert(product, queue);
        }
        Ok(lanes)
    }

    pub(super) async fn claim(&self, claim: Claim) -> Result<Answer, StoreError> {
        let at = Instant::now();
        let Some(queue) = self.queue(&claim.product).await? else {
            return self.unknown_product(&claim).await;
        };
        let (reply, answer) = oneshot::channel();
        queue.try_send(Asked { claim, reply, at }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Failed,
        })?;
        answer.await.map_err(|_| StoreError::Failed)
    }

    /// The queue of a product; `None`: there is no such product.
    async fn queue(&self, product: &str) -> Result<Option<mpsc::Sender<Asked>>, StoreError> {
        if let Some(queue) = self.queues.lock().unwrap_or_else(PoisonError::into_inner).get(product) {
            return Ok(Some(queue.clone()));
        }
        // Others may have put it on sale meanwhile.
        let mut tries = Tries::since(Instant::now());
        let kind = loop {
            match in_time(self.kind(product)).await {
                Ok(kind) => break kind,
                Err(error) if tries.again(&error).await => {}
                Err(error) => {
                    tracing::error!(%error, "a product cannot be looked up");
                    return Err(StoreError::Failed);
                }
            }
        };
        let Some(kind) = kind else { return Ok(None) };
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(product.to_owned()).or_insert_with(|| self.start(product, kind));
        Ok(Some(queue.clone()))
    }

    async fn kind(&self, product: &str) -> Result<Option<Kind>, WriteError> {
        let word: Option<String> = sqlx::query_scalar("SELECT kind FROM products WHERE id = $1")
            .bind(product)
            .fetch_optional(&self.shared.pool)
            .await?;
        Ok(word.map(|word| Kind::parse(&word).ok_or_else(|| unknown("products.kind", &word))).transpose()?)
    }

    fn start(&self, product: &str, kind: Kind) -> mpsc::Sender<Asked> {
        let (queue, asked) = mpsc::channel(QUEUE);
        let asked = Arc::new(tokio::sync::Mutex::new(asked));
        // Nodes begin at different buckets, too.
        let node =
            self.shared.settings.node.bytes().fold(0_i64, |sum, byte| sum.wrapping_mul(31) + i64::from(byte));
        for worker in 0..WORKERS {
            let worker = Worker {
                shared: self.shared.clone(),
                product: product.to_owned(),
                kind,
                first: (node.rem_euclid(BUCKETS) + worker * (BUCKETS / WORKERS)).rem_euclid(BUCKETS),
                queue: asked.clone(),
                connection: None,
            };
            tokio::spawn(worker.run());
        }
        queue
    }

    /// What a claim on nothing is answered, unless its key stands for something.
    async fn unknown_product(&self, claim: &Claim) -> Result<Answer, StoreError> {
        let look = async {
            let mut connection = self.shared.pool.acquire().await?;
            let mut tx = PgTx::begin(&mut connection, &self.shared).await?;
            tx.key(&claim.key).await
        };
        match in_time(look).await {
            Ok(None) => Ok(Answer::no_product()),
            Ok(Some(known)) if known.fingerprint != claim.key.fingerprint => Ok(Answer::key_reused()),
            Ok(Some(known)) => Ok(match known.standing {
                Standing::Answered(answer) => answer,
                Standing::UnderWay { .. } => Answer::in_flight(),
            }),
            Err(error) => {
                tracing::error!(%error, "a key cannot be looked up");
                Err(StoreError::Failed)
            }
        }
    }
}

// === impl Worker ===

impl Worker {
    /// Runs until every handle is gone.
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.next(&mut batch).await {
            self.serve(&mut batch).await;
            batch.clear();
        }
    }

    /// Waits for claims. `false`: there will be none.
    async fn next(&mut self, batch: &mut Vec<Asked>) -> bool {
        loop {
            let queue = self.queue.clone();
            let arrived = async { queue.lock().await.recv_many(batch, BATCH).await };
            if self.connection.is_none() {
                return arrived.await > 0;
            }
            match tokio::time::timeout(IDLE, arrived).await {
                Ok(arrived) => return arrived > 0,
                Err(_) => self.connection = None,
            }
        }
    }

    async fn serve(&mut self, batch: &mut Vec<Asked>) {
        let Some(mut tries) = batch.iter().map(|asked| asked.at).min().map(Tries::since) else { return };
        let (claims, replies): (Vec<Claim>, Vec<_>) =
            batch.drain(..).map(|Asked { claim, reply, .. }| (claim, reply)).unzip();
        let (mut effort, mut crossings) = (Effort::Fast, 0);
        loop {
            match self.attempt(&claims, effort).await {
                Ok(Served::Answers(answers)) => {
                    for (reply, answer) in replies.into_iter().zip(answers) {
                        // The asker may be gone; what was done stays done.
                        drop(reply.send(answer));
                    }
                    return;
                }
                Ok(Served::Short) => effort = Effort::Reclaim,
                Err(error) => {
                    if Failure::of(&error) == Failure::Crossed {
                        crossings += 1;
                    } else {
                        self.connection = None;
                    }
                    if crossings >= CROSSINGS {
                        effort = Effort::Reclaim;
                    }
                    if !tries.again(&error).await {
                        // The askers see their reply's sender dropped; a retry with the same key finds out what was done.
                        tracing::error!(%error, claims = claims.len(), "a transaction failed; its changes are undone");
                        return;
                    }
                }
            }
        }
    }

    async fn attempt(&mut self, claims: &[Claim], effort: Effort) -> Result<Served, WriteError> {
        let Self { shared, product, kind, first, connection, .. } = self;
        let counter = Counter { shared, product, kind: *kind, first: *first };
        let attempt = async {
            let connection = match connection {
                Some(connection) => connection,
                None => connection.insert(shared.options.connect().await?),
            };
            counter.serve(connection, claims, effort).await
        };
        // The worker takes another connection for whatever is tried again after that.
        in_time(attempt).await
    }
}
