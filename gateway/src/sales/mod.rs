//! The sales this gateway knows, each with what it shows to everyone, kept fresh by the ticker.

mod live;
mod policy;
mod probe;
pub mod ticker;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ropeline_decision::{Gate, Policy, SalePolicy};
use ropeline_edge::Upstream;
use ropeline_queue::{SaleId, SaleView};
use ropeline_store::{QueueStore, StoreError};

pub use live::{LiveSale, Showing};
pub use policy::PolicyRules;

use crate::edge::decider::Decider;
use crate::keys::Keys;
use crate::page;

/// The sales this gateway knows.
pub struct Sales {
    store: Arc<dyn QueueStore>,
    renderer: live::Renderer,
    rules: PolicyRules,
    by_id: ArcSwap<HashMap<String, Arc<LiveSale>>>,
    policy: ArcSwap<Policy>,
    decider: Arc<Decider>,
    /// One refresh at a time: a later view must not be overtaken by an earlier one.
    refreshing: tokio::sync::Mutex<()>,
}

impl Sales {
    /// Reads every sale of the store. What is published of a draw is signed with `keys`; `decider` is told of each policy.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn load(
        store: Arc<dyn QueueStore>,
        room: Arc<page::Room>,
        rules: PolicyRules,
        keys: Arc<Keys>,
        decider: Arc<Decider>,
    ) -> Result<Self, StoreError> {
        let policy = ArcSwap::from_pointee(rules.policy([]));
        let sales = Self {
            store,
            renderer: live::Renderer::new(room, rules.api_prefix.clone(), keys),
            rules,
            by_id: ArcSwap::default(),
            policy,
            decider,
            refreshing: tokio::sync::Mutex::new(()),
        };
        sales.refresh_all().await?;
        Ok(sales)
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

    /// The policy of edges that send on to `upstream`. Only the gateway can let visitors of a sale on demand straight
    /// through, so an edge in front of it leaves them to it.
    #[must_use]
    pub fn policy_of_edges(&self, upstream: Upstream) -> Policy {
        let mut policy = Policy::clone(&self.policy());
        let on_demand = |sale: &SalePolicy| {
            self.get(sale.sale.as_str()).is_some_and(|live| live.showing().view.definition.on_demand)
        };
        if upstream == Upstream::Gateway {
            policy.sales.iter_mut().filter(|sale| on_demand(sale)).for_each(|sale| sale.gate = Gate::Open);
        }
        policy
    }

    /// Reads every sale of the store again.
    ///
    /// # Errors
    /// When the store cannot be read; what is shown then stays.
    pub async fn refresh_all(&self) -> Result<(), StoreError> {
        for id in self.store.sales().await? {
            self.refresh(&id).await?;
        }
        Ok(())
    }

    /// Shows a sale as the store has it now, at once: after a command, a change or a creation.
    ///
    /// # Errors
    /// When the store cannot be read; what is shown then stays.
    pub async fn refresh(&self, id: &SaleId) -> Result<(), StoreError> {
        let _one = self.refreshing.lock().await;
        let view = self.store.view(id).await?;
        self.show(view);
        Ok(())
    }

    /// Moves a sale on and shows where it stands.
    ///
    /// # Errors
    /// When the store is away; what is shown then stays, with the time it was true.
    pub async fn tick(&self, sale: &LiveSale) -> Result<(), StoreError> {
        let _one = self.refreshing.lock().await;
        let view = self.store.tick(&sale.id, sale.tick_input()).await?;
        self.show(view);
        sale.ticked();
        Ok(())
    }

    fn show(&self, view: Arc<SaleView>) {
        let id = view.definition.id.as_str();
        let changed = match self.get(id) {
            Some(sale) => sale.show(view, &self.renderer),
            None => {
                let sale = Arc::new(LiveSale::new(view, &self.renderer));
                let mut sales = HashMap::clone(&self.by_id.load());
                sales.insert(sale.id.to_string(), sale);
                self.by_id.store(Arc::new(sales));
                true
            }
        };
        if changed {
            let views: Vec<_> = self.all().iter().map(|sale| Arc::clone(&sale.showing().view)).collect();
            let policy = Arc::new(self.rules.policy(views.iter().map(Arc::as_ref)));
            self.policy.store(Arc::clone(&policy));
            // After it is in force: whatever sale the module's plans name is known here. What goes wrong has been told.
            let _ = self.decider.take(&policy);
        }
    }
}
