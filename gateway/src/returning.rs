//! Tickets that come back after a loss of the store: many show theirs at once, only to see where they stand, and the store
//! is told of them together.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use ropeline_queue::JoinRecord;
use ropeline_store::QueueStore;
use tokio::sync::{Mutex, mpsc};

use crate::sales::LiveSale;

/// Tickets that wait for the store at most. Beyond, they are dropped: whoever is called shows the ticket again.
const WAITING: usize = 65_536;
/// Tickets shown to the store at once.
const BATCH: usize = 4_096;

/// Takes tickets on the request path, without waiting.
#[derive(Clone)]
pub struct Sink(mpsc::Sender<Shown>);

struct Shown {
    sale: Arc<LiveSale>,
    ticket: JoinRecord,
}

/// The service that shows them to the store.
pub struct Carrier {
    store: Arc<dyn QueueStore>,
    shown: Mutex<mpsc::Receiver<Shown>>,
}

/// A sink and the service behind it.
#[must_use]
pub fn channel(store: Arc<dyn QueueStore>) -> (Sink, Carrier) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Sink(sender), Carrier { store, shown: Mutex::new(receiver) })
}

// === impl Sink ===

impl Sink {
    /// Has a ticket shown to the store, once.
    pub fn tell(&self, sale: &Arc<LiveSale>, ticket: JoinRecord) {
        if !sale.is_away()
            && sale.comes_back(ticket.arrival)
            && self.0.try_send(Shown { sale: Arc::clone(sale), ticket }).is_err()
        {
            sale.has_not_come_back(ticket.arrival);
        }
    }
}

// === impl Carrier ===

impl Carrier {
    async fn carry(&self, batch: Vec<Shown>) {
        let mut by_sale: HashMap<String, (Arc<LiveSale>, Vec<JoinRecord>)> = HashMap::new();
        for Shown { sale, ticket } in batch {
            by_sale.entry(sale.id.to_string()).or_insert_with(|| (sale, Vec::new())).1.push(ticket);
        }
        for (sale, tickets) in by_sale.into_values() {
            if let Err(error) = self.store.reenter(&sale.id, tickets.clone()).await {
                tracing::warn!(sale = %sale.id, %error, "tickets that came back were not noted; they are shown again");
                tickets.iter().for_each(|ticket| sale.has_not_come_back(ticket.arrival));
            }
        }
    }
}

#[async_trait]
impl BackgroundService for Carrier {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut shown = self.shown.lock().await;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                taken = shown.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        return;
                    }
                    self.carry(batch).await;
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}
