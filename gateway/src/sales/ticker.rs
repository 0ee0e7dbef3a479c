//! Moves every sale on, several times a second, without anybody asking: leases end, calls lapse, batches are called.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use ropeline_store::{Clock, QueueStore, StoreError};
use tokio::time::MissedTickBehavior;

use super::Sales;
use crate::metrics::Metrics;

/// How often the list of sales is read again: others may create sales in a store that is shared.
const RELIST: Duration = Duration::from_secs(5);

/// A wall clock this far off the sales' own is told in the log, in milliseconds.
const SKEW_MS: u64 = 1_000;

/// The service that ticks.
pub struct Ticker {
    sales: Arc<Sales>,
    store: Arc<dyn QueueStore>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    every: Duration,
    /// Why the store could not be reached since the start, as last told: the log must not drown in it.
    told: Mutex<Option<StoreError>>,
}

impl Ticker {
    /// Ticks each sale `every` so often.
    #[must_use]
    pub fn new(
        sales: Arc<Sales>,
        store: Arc<dyn QueueStore>,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
        every: Duration,
    ) -> Self {
        Self { sales, store, metrics, clock, every, told: Mutex::default() }
    }

    async fn begin(&self) {
        let Err(error) = self.sales.begin().await else {
            tracing::info!("the queue's store has been reached");
            return;
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() != Some(&error) {
            tracing::error!(%error, "the queue's store has not been reached yet");
            *told = Some(error);
        }
    }

    /// All sales at once: one whose part of the store does not answer must not hold up the others.
    async fn tick_all(&self) {
        if !self.sales.have_begun() {
            self.begin().await;
        }
        let sales = self.sales.all();
        join_all(sales.iter().map(|sale| async {
            // What goes wrong has been told.
            let _ = self.sales.tick(sale).await;
            sale.list_places();
            self.metrics.reached(sale.id.as_str(), !sale.is_away(), sale.since_tick());
        }))
        .await;
        if let Some(report) = self.store.report() {
            self.metrics.store_did(&report);
        }
    }

    /// Takes in the sales that are not known yet.
    async fn list_again(&self) {
        let skew_ms = self.clock.skew_ms();
        if skew_ms.unsigned_abs() > SKEW_MS {
            tracing::warn!(skew_ms, "the wall clock has leapt; the sales' clock follows it slowly");
        }
        if self.sales.have_begun()
            && let Err(error) = self.sales.begin().await
        {
            tracing::error!(%error, "the list of sales cannot be read");
        }
    }
}

#[async_trait]
impl BackgroundService for Ticker {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut relist = tokio::time::interval(RELIST);
        relist.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ticking = async {
            loop {
                ticks.tick().await;
                self.tick_all().await;
            }
        };
        // Beside the ticks: a sale that cannot be read must not hold up those that can.
        let listing = async {
            loop {
                relist.tick().await;
                self.list_again().await;
            }
        };
        tokio::select! {
            () = ticking => {}
            () = listing => {}
            _ = shutdown.changed() => {}
        }
    }
}
