//! Brings the round that a draw waits for to its queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use ropeline_queue::beacon::LATE_AFTER_MS;
use ropeline_queue::{Awaited, Command, DrawView, SaleId};
use ropeline_store::{Clock, QueueStore};
use tokio::time::{Instant, MissedTickBehavior};

use super::Relays;
use crate::metrics::Metrics;
use crate::sales::Sales;

#[cfg(test)]
mod tests;

/// How often is looked whether a draw waits.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Longest pause between two rounds of asking.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The service that fetches rounds. Every gateway runs one: the queue takes the round from whichever comes first, and
/// the others change nothing.
pub struct BeaconWatch {
    sales: Arc<Sales>,
    store: Arc<dyn QueueStore>,
    relays: Relays,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// How often in a row a round could not be had, and when to ask again.
struct Waiting {
    failures: u32,
    again_at: Instant,
}

// === impl BeaconWatch ===

impl BeaconWatch {
    /// Asks `relays` for the rounds that draws of `sales` wait for.
    #[must_use]
    pub fn new(
        sales: Arc<Sales>,
        store: Arc<dyn QueueStore>,
        relays: Relays,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { sales, store, relays, clock, metrics }
    }

    /// Asks for every round that has come by the sales' clock and is not to be waited for any longer.
    async fn look(&self, waiting: &mut HashMap<SaleId, Waiting>) {
        let awaited: Vec<_> =
            self.sales.all().iter().filter_map(|sale| Some((sale.id.clone(), self.due(sale)?))).collect();
        waiting.retain(|id, _| awaited.iter().any(|(other, _)| other == id));
        let now = Instant::now();
        let asked: Vec<_> =
            awaited.into_iter().filter(|(id, _)| waiting.get(id).is_none_or(|w| w.again_at <= now)).collect();
        // Beside each other: a slow relay keeps one sale waiting, not all.
        let outcomes = join_all(asked.iter().map(|(id, round)| self.bring(id, *round))).await;
        for ((id, _), done) in asked.into_iter().zip(outcomes) {
            if done {
                waiting.remove(&id);
                continue;
            }
            let entry = waiting.entry(id).or_insert(Waiting { failures: 0, again_at: now });
            entry.failures += 1;
            let pause = Duration::from_secs(1) * 2u32.saturating_pow(entry.failures - 1).min(64);
            entry.again_at = Instant::now() + pause.min(LONGEST_PAUSE);
        }
    }

    fn due(&self, sale: &crate::sales::LiveSale) -> Option<Awaited> {
        let showing = sale.showing();
        let awaited = showing.view.draw.as_ref().and_then(DrawView::awaited)?;
        (awaited.due_at <= self.clock.now()).then_some(awaited)
    }

    /// Whether the sale has what it waits for, or wants it no more.
    async fn bring(&self, sale: &SaleId, awaited: Awaited) -> bool {
        let Awaited { beacon, round, due_at } = awaited;
        let fetched = self.relays.fetch(beacon, round).await;
        for (relay, fault) in &fetched.passed_over {
            self.metrics.beacon_fetch(relay, fault.as_str());
            tracing::warn!(%sale, relay, round, %fault, "a relay of the beacon was passed over");
        }
        let Some((output, relay)) = fetched.round else {
            if self.clock.now() >= due_at.plus(LATE_AFTER_MS) {
                tracing::error!(%sale, round, "no relay has the beacon's round, which is overdue; the draw waits");
            }
            return false;
        };
        self.metrics.beacon_fetch(&relay, "good");
        match self.store.command(sale, Command::Beacon(output)).await {
            Ok(Ok(_)) => tracing::info!(%sale, relay, round, "drawn with the beacon's round"),
            Ok(Err(refusal)) => {
                tracing::info!(%sale, round, %refusal, "the beacon's round is not wanted any more");
            }
            Err(error) => {
                tracing::error!(%sale, %error, "the beacon's round cannot be handed to the queue");
                return false;
            }
        }
        if let Err(error) = self.sales.refresh(sale).await {
            tracing::warn!(%sale, %error, "the sale is shown as it was before its draw for a moment");
        }
        true
    }
}

#[async_trait]
impl BackgroundService for BeaconWatch {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting = HashMap::new();
        loop {
            tokio::select! {
                () = async { looks.tick().await; self.look(&mut waiting).await; } => {}
                _ = shutdown.changed() => return,
            }
        }
    }
}
