//! The sales this gateway knows, each with what it shows to everyone, kept fresh by the ticker.

pub mod attendance;
mod budget;
mod live;
mod policy;
mod probe;
pub mod ticker;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use ropeline_decision::{Gate, Policy, SalePolicy};
use ropeline_edge::Upstream;
use ropeline_queue::{Queue, SaleDefinition, SaleId, SaleView, StoreAway, UnixMillis};
use ropeline_store::{QueueStore, StoreError};

pub use live::{LiveSale, Showing, Source};
pub use policy::PolicyRules;

use crate::edge::decider::Decider;
use crate::keys::Keys;
use crate::page;

/// The sales this gateway knows.
pub struct Sales {
    store: Arc<dyn QueueStore>,
    renderer: live::Renderer,
    rules: PolicyRules,
    /// Sales that are created where the store does not have them.
    configured: Vec<SaleDefinition>,
    by_id: ArcSwap<HashMap<String, Arc<LiveSale>>>,
    policy: ArcSwap<Policy>,
    decider: Arc<Decider>,
    /// Held while the sales, or the policy that follows from them, are replaced.
    replacing: Mutex<()>,
    /// One at a time takes in sales that are not known yet.
    meeting: tokio::sync::Mutex<()>,
    /// Whether all of the store's sales are known here.
    complete: AtomicBool,
}

impl Sales {
    /// No sales yet; `configured` are those that are to exist. What is published of a draw is signed with `keys`; `decider`
    /// is told of each policy.
    #[must_use]
    pub fn new(
        store: Arc<dyn QueueStore>,
        room: Arc<page::Room>,
        rules: PolicyRules,
        keys: Arc<Keys>,
        decider: Arc<Decider>,
        configured: Vec<SaleDefinition>,
    ) -> Self {
        let policy = ArcSwap::from_pointee(rules.policy([]));
        Self {
            store,
            renderer: live::Renderer::new(room, rules.api_prefix.clone(), keys),
            rules,
            configured,
            by_id: ArcSwap::default(),
            policy,
            decider,
            replacing: Mutex::default(),
            meeting: tokio::sync::Mutex::default(),
            complete: AtomicBool::new(false),
        }
    }

    /// Creates the configured sales that the store does not have, and takes in all that it has. Those it has stay as they
    /// are: what an operator changed in a running sale is not undone by a restart.
    ///
    /// # Errors
    /// When the store cannot be reached; to be tried again.
    pub async fn begin(&self) -> Result<(), StoreError> {
        for definition in &self.configured {
            let mut secret = [0u8; 32];
            getrandom::fill(&mut secret)
                .map_err(|error| StoreError::Unavailable { reason: format!("no random bytes: {error}") })?;
            match self.store.create(definition.clone(), secret).await {
                Ok(()) => tracing::info!(sale = %definition.id, "created"),
                Err(StoreError::SaleExists(id)) => {
                    if *self.store.view(&id).await?.definition != *definition {
                        tracing::warn!(
                            sale = %id,
                            "the store has another definition than the file; the store's holds. \
                             `ropeline sale apply` takes the file's"
                        );
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.refresh_all().await?;
        self.complete.store(true, Ordering::Release);
        Ok(())
    }

    /// Shows the configured sales as far as they are known without the store: their rooms, and that it is away.
    pub fn stand_in(&self, now: UnixMillis) {
        for definition in self.configured.iter().filter(|sale| self.get(sale.id.as_str()).is_none()) {
            let queue = Queue::create(definition.clone(), [0; 32], now);
            // No draw is promised by a stand-in.
            let view = SaleView { draw: None, ..queue.view(now) };
            let sale = LiveSale::new(Arc::new(view), Source::Configuration, &self.renderer);
            self.insert(Arc::new(sale));
        }
        self.renew_policy();
    }

    /// Whether all of the store's sales are known here. Until then nobody can say what is not protected.
    #[must_use]
    pub fn are_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// The sale of this id, as sent by a client.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<LiveSale>> {
        self.by_id.load().get(id).cloned()
    }

    /// Every sale.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<LiveSale>> {
        self.by_id.load().values().cloned().collect()
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> arc_swap::Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// The policy of edges that send on to `upstream`. Only the gateway can let visitors straight through, of a sale on
    /// demand or of one that is open while its store is away, so an edge in front of it leaves them to it.
    #[must_use]
    pub fn policy_of_edges(&self, upstream: Upstream) -> Policy {
        let mut policy = Policy::clone(&self.policy());
        let gateway_lets_through = |sale: &SalePolicy| {
            self.get(sale.sale.as_str()).is_some_and(|live| {
                let definition = &live.showing().view.definition;
                definition.on_demand || definition.store_away != StoreAway::Closed
            })
        };
        if upstream == Upstream::Gateway {
            policy
                .sales
                .iter_mut()
                .filter(|sale| gateway_lets_through(sale))
                .for_each(|sale| sale.gate = Gate::Open);
        }
        policy
    }

    /// Takes in every sale of the store that is not known yet.
    ///
    /// # Errors
    /// When the store cannot be read; what is shown then stays.
    pub async fn refresh_all(&self) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for id in self.store.sales().await? {
            // The ticker keeps those fresh that are known. One that cannot be read must not hide the others.
            let known = self.get(id.as_str()).is_some_and(|sale| sale.is_known());
            if !known && let Err(error) = self.refresh(&id).await {
                outcome = Err(error);
            }
        }
        outcome
    }

    /// Shows a sale as the store has it now, at once: after a command, a change or a creation.
    ///
    /// # Errors
    /// When the store cannot be read; what is shown then stays.
    pub async fn refresh(&self, id: &SaleId) -> Result<(), StoreError> {
        let met = self.get(id.as_str());
        if let Some(sale) = met {
            let _one = sale.refreshing.lock().await;
            self.show(&sale, self.store.view(id).await?);
            return Ok(());
        }
        let _one = self.meeting.lock().await;
        let view = self.store.view(id).await?;
        match self.get(id.as_str()) {
            Some(sale) => {
                let _one = sale.refreshing.lock().await;
                self.show(&sale, view);
            }
            None => {
                self.insert(Arc::new(LiveSale::new(view, Source::Store, &self.renderer)));
                self.renew_policy();
            }
        }
        Ok(())
    }

    /// Moves a sale on and shows where it stands.
    ///
    /// # Errors
    /// When the store is away; what is shown then stays, with the time it was true, and says so once that has lasted.
    pub async fn tick(&self, sale: &LiveSale) -> Result<(), StoreError> {
        let _one = sale.refreshing.lock().await;
        match self.store.tick(&sale.id, sale.tick_input()).await {
            Ok(view) => {
                self.show(sale, view);
                sale.ticked();
                Ok(())
            }
            Err(error) => {
                sale.failed(&self.renderer);
                Err(error)
            }
        }
    }

    fn show(&self, sale: &LiveSale, view: Arc<SaleView>) {
        if sale.show(view, &self.renderer) {
            self.renew_policy();
        }
    }

    fn insert(&self, sale: Arc<LiveSale>) {
        let _one = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sales = HashMap::clone(&self.by_id.load());
        sales.insert(sale.id.to_string(), sale);
        self.by_id.store(Arc::new(sales));
    }

    fn renew_policy(&self) {
        // Two sales may change at once: the later policy knows of both.
        let _one = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let views: Vec<_> = self.all().iter().map(|sale| Arc::clone(&sale.showing().view)).collect();
        let policy = Arc::new(self.rules.policy(views.iter().map(Arc::as_ref)));
        self.policy.store(Arc::clone(&policy));
        // After it is in force: whatever sale the module's plans name is known here. What goes wrong has been told.
        let _ = self.decider.take(&policy);
    }
}
