//! The sales this gateway knows, each with what it shows to everyone, kept fresh by the ticker.

pub mod attendance;
mod budget;
mod live;
mod policy;
mod probe;
pub mod ticker;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use ropeline_decision::{Gate, Policy, SalePolicy};
use ropeline_edge::Upstream;
use ropeline_queue::{Queue, SaleDefinition, SaleId, SaleView, StoreAway, UnixMillis};
use ropeline_store::{QueueStore, StoreError};
use tokio::time::timeout;

use self::live::AWAY_AFTER;
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
    /// Whether the store was reached since the start.
    begun: AtomicBool,
    /// Whether all of the store's sales are known here.
    complete: AtomicBool,
    trouble: Mutex<Trouble>,
}

/// What could not be read when that was last tried.
#[derive(Default)]
struct Trouble {
    /// Which sales there are.
    list: Option<StoreError>,
    /// Sales that are not known.
    unread: BTreeMap<SaleId, StoreError>,
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
            begun: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            trouble: Mutex::default(),
        }
    }

    /// Creates the configured sales that the store does not have, and takes in all that it has and that are not known yet.
    /// Those it has stay as they are: what an operator changed in a running sale is not undone by a restart. One that cannot
    /// be read hides none of the others.
    ///
    /// # Errors
    /// When the store cannot be reached, or none of its sales can be read; to be tried again. What is shown then stays.
    pub async fn begin(&self) -> Result<(), StoreError> {
        let listed = match self.store.sales().await {
            Ok(listed) => listed,
            Err(error) => {
                self.trouble().list = Some(error.clone());
                return Err(error);
            }
        };
        let mut unread = BTreeMap::new();
        for definition in self.configured.iter().filter(|sale| !self.knows(&sale.id)) {
            if let Err(error) = self.create(definition).await {
                unread.insert(definition.id.clone(), error);
            }
        }
        for id in listed.iter().chain(self.configured.iter().map(|sale| &sale.id)) {
            // The ticker keeps those fresh that are known.
            if !self.knows(id)
                && !unread.contains_key(id)
                && let Err(error) = self.refresh(id).await
            {
                unread.insert(id.clone(), error);
            }
        }
        let none = unread.values().next().cloned().filter(|_| !self.all().iter().any(|sale| sale.is_known()));
        let mut trouble = self.trouble();
        for (id, error) in unread.iter().filter(|(id, error)| trouble.unread.get(*id) != Some(*error)) {
            tracing::error!(sale = %id, %error, "the sale cannot be read; what no known sale protects is not let through");
        }
        self.complete.store(unread.is_empty(), Ordering::Release);
        *trouble = Trouble { list: None, unread };
        drop(trouble);
        match none {
            Some(error) => Err(error),
            None => {
                self.begun.store(true, Ordering::Release);
                Ok(())
            }
        }
    }

    async fn create(&self, definition: &SaleDefinition) -> Result<(), StoreError> {
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
        Ok(())
    }

    /// Shows the configured sales that are not known as far as that is possible without the store: their rooms, and that it
    /// is away.
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

    /// The policy that follows from the configured sales alone.
    #[must_use]
    pub fn policy_of_configuration(&self, now: UnixMillis) -> Policy {
        let view = |definition: &SaleDefinition| Queue::create(definition.clone(), [0; 32], now).view(now);
        let views: Vec<SaleView> = self.configured.iter().map(view).collect();
        self.rules.policy(&views)
    }

    /// Whether the store was reached since the start and one of its sales at least could be read, if it has any.
    #[must_use]
    pub fn have_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// What keeps this gateway from knowing all of the store's sales, in words.
    #[must_use]
    pub fn amiss(&self) -> Option<String> {
        let trouble = self.trouble();
        if let Some(error) = &trouble.list {
            return Some(if self.have_begun() {
                format!("the list of sales cannot be read: {error}")
            } else {
                format!("the queue's store has not been reached since the start: {error}")
            });
        }
        let (sale, error) = trouble.unread.first_key_value()?;
        let more = match trouble.unread.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        Some(format!("sale {sale} cannot be read: {error}{more}"))
    }

    /// A sale that others reach, where this gateway reaches none. One that reaches any of them is needed for that.
    #[must_use]
    pub fn cut_off(&self) -> Option<Arc<LiveSale>> {
        let sales = self.all();
        if sales.iter().any(|sale| !sale.is_away()) {
            return None;
        }
        sales.into_iter().find(|sale| sale.is_cut_off())
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
        let began = Instant::now();
        let mut ticking = pin!(async {
            let one = sale.refreshing.lock().await;
            (one, self.store.tick(&sale.id, sale.tick_input()).await)
        });
        // Whatever the store makes of it in the end, nobody else is to wait for it as long.
        let (_one, ticked) = loop {
            match timeout(AWAY_AFTER, &mut ticking).await {
                Ok(ticked) => break ticked,
                Err(_) => {
                    let reason = "it does not answer".to_owned();
                    sale.failed(&StoreError::Unavailable { reason }, began, &self.renderer);
                }
            }
        };
        match ticked {
            Ok(view) => {
                self.show(sale, view);
                sale.ticked();
                Ok(())
            }
            Err(error) => {
                sale.failed(&error, began, &self.renderer);
                Err(error)
            }
        }
    }

    /// The store was asked for the sale, and has answered.
    fn knows(&self, id: &SaleId) -> bool {
        self.get(id.as_str()).is_some_and(|sale| sale.is_known())
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
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
