//! The whole service: books, payment service, keys and listener, started and stopped together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::admission::{Admission, KeySource, KeysUnreadable};
use crate::cashier::Cashier;
use crate::config::{Config, Database, PaymentsConfig};
use crate::http::App;
use crate::model::{Audit, unguessable};
use crate::outbox::{Relay, RelayError};
use crate::payments::Payments;
use crate::payments::stripe::Stripe;
use crate::payments::test_provider::{self, TestProvider};
use crate::premises::{Premises, PremisesError};
use crate::store::{self, Settings, Store, StoreError};

/// How often due holds are ended when nobody claims.
const SWEEP: Duration = Duration::from_secs(1);
/// How often the books are audited.
const AUDIT: Duration = Duration::from_secs(10);
/// How long a call that this node is at is left alone by the others, in milliseconds: longer than driving a purchase takes.
const LEASE: i64 = 60_000;
/// Longest time for a request's head, and for a connection without a request. Longer than gateways keep an idle
/// connection, so that they are the ones that close it, and never send on one that is being closed.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// Connections that are still busy this long after the order to stop are cut.
const GRACE: Duration = Duration::from_secs(10);

/// Why the service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("listen: {address} cannot be listened on: {error}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The books are somebody else's, or not what they were.
    #[error("database: {0}")]
    Premises(#[from] PremisesError),
    /// The books cannot be opened.
    #[error("database: {0}")]
    Books(#[from] store::OpenError),
    /// The books cannot be read.
    #[error("database: {0}")]
    Unreadable(#[from] StoreError),
    /// The test provider's books cannot be opened.
    #[error("database: {0}")]
    TestProvider(#[from] test_provider::OpenError),
    /// The key file cannot be read.
    #[error("admission.jwks_file: {0}")]
    Keys(#[from] KeysUnreadable),
    /// The operating system has no randomness to give.
    #[error("no randomness: {0}")]
    Random(#[from] getrandom::Error),
    /// No HTTP client, for the keys or for payments.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    /// Events cannot be told.
    #[error("outbox: {0}")]
    Relay(#[from] RelayError),
}

/// The service, listening and not yet answering.
#[derive(Debug)]
pub struct Origin {
    listener: TcpListener,
    address: SocketAddr,
    app: axum::Router,
    handle: Handle,
    admission: Admission,
    cashier: Cashier,
    /// Works beside the shop, where it is not somebody else's.
    provider: Option<TestProvider>,
    refresh: Duration,
    reconcile: Duration,
    premises: Option<Premises>,
    relays: Vec<Relay>,
}

/// A look at a running service from within its process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    store: Store,
}

// === impl Handle ===

impl Handle {
    /// The books of every product, of one moment.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub async fn audit(&self) -> Result<Audit, StoreError> {
        self.store.audit().await
    }
}

// === impl Origin ===

impl Origin {
    /// Opens everything and listens. Keys at an address are fetched when the service runs, since the gateway that
    /// publishes them may start after it; until then shoppers are answered 503.
    ///
    /// # Errors
    /// When the address is taken, a database is in use, lost or cannot be opened, or the key file cannot be read.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let settings = settings(&config)?;
        let admission = Admission::new(config.terms, config.keys.clone())?;
        if let KeySource::File(_) = config.keys {
            admission.refresh().await?;
        }
        let payments_file = match &config.payments {
            PaymentsConfig::Test { database, .. } => Some(database.as_path()),
            PaymentsConfig::Stripe(_) => None,
        };
        let (premises, store) = match &config.database {
            Database::File(path) => {
                let premises = Premises::take(path, payments_file)?;
                (Some(premises), Store::open_sqlite(path, &config.products, settings).await?)
            }
            Database::Postgres(url) => {
                let premises = payments_file.map(Premises::take_payments).transpose()?;
                (premises, Store::open_postgres(url, &config.products, settings).await?)
            }
        };
        let (payments, provider): (Arc<dyn Payments>, _) = match config.payments {
            PaymentsConfig::Test { secret, delay, database } => {
                if let Some(premises) = &premises {
                    premises.check_payments(&database, store.has_purchases().await?)?;
                }
                let provider = TestProvider::open(&database, secret, delay).await?;
                (Arc::new(provider.clone()), Some(provider))
            }
            PaymentsConfig::Stripe(settings) => (Arc::new(Stripe::new(settings)?), None),
        };
        let relays = Relay::all(&store, config.outbox)?;
        let failed = |error| StartError::Listen { address: config.listen, error };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let cashier = Cashier::new(store.clone(), payments.clone());
        let app = App::new(
            store.clone(),
            cashier.clone(),
            payments,
            admission.clone(),
            &config.public_authority,
            config.requests_at_once,
        );
        Ok(Self {
            listener,
            address,
            app: app.router(),
            handle: Handle { store },
            admission,
            cashier,
            provider,
            refresh: config.refresh,
            reconcile: config.reconcile,
            premises,
            relays,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// For looking at it while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Answers until `shutdown`, then finishes what it has begun. What payments were under way is taken up at the
    /// next start.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        // Nobody else may open the books before this service is done with them.
        let _premises = self.premises;
        let mut tasks = JoinSet::new();
        tasks.spawn(self.admission.keep_refreshing(self.refresh));
        tasks.spawn(self.cashier.keep_reconciling(self.reconcile));
        if let Some(provider) = self.provider {
            tasks.spawn(provider.deliver(webhook_url(self.address)));
        }
        for relay in self.relays {
            tasks.spawn(relay.keep_delivering());
        }
        tasks.spawn(keep_auditing(self.handle.store.clone()));
        tasks.spawn(keep_sweeping(self.handle.store));
        tracing::info!(address = %self.address, "listening");
        let (stopping, mut stopped) = tokio::sync::watch::channel(());
        let listener = self.listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "answers may be delayed");
            }
        });
        let served = ropeline_listener::serve(listener, self.app, HEAD_TIME, async move {
            shutdown.await;
            drop(stopping);
        });
        tokio::select! {
            () = served => {}
            () = async {
                // Ends when the sender is dropped, which is the order to stop.
                while stopped.changed().await.is_ok() {}
                tokio::time::sleep(GRACE).await;
            } => {}
        }
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2)
}

/// What a configuration says to the books. This node's name is its own each time it starts.
pub(crate) fn settings(config: &Config) -> Result<Settings, getrandom::Error> {
    Ok(Settings {
        hold_ms: milliseconds(config.hold),
        extension_ms: milliseconds(config.extension),
        units_per_visitor: config.units_per_visitor,
        sinks: config.outbox.sinks(),
        node: unguessable("node_")?,
        lease_ms: LEASE,
    })
}

/// The test provider runs beside the shop, so it reaches it by the port it listens on.
fn webhook_url(mut address: SocketAddr) -> String {
    match address.ip() {
        std::net::IpAddr::V4(ip) if ip.is_unspecified() => {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        std::net::IpAddr::V6(ip) if ip.is_unspecified() => {
            address.set_ip(std::net::Ipv6Addr::LOCALHOST.into());
        }
        _ => {}
    }
    format!("http://{address}/webhooks/payments")
}

async fn keep_auditing(store: Store) {
    let mut tick = tokio::time::interval(AUDIT);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Err(error) = store.guard().await {
            tracing::warn!(%error, "could not audit; will try again");
        }
    }
}

async fn keep_sweeping(store: Store) {
    let mut tick = tokio::time::interval(SWEEP);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Err(error) = store.sweep().await {
            tracing::warn!(%error, "could not sweep; claims do it by themselves");
        }
    }
}

/// Runs a whole service: [`Origin::bind`] and [`Origin::serve`]. `shutdown` ends it while it starts, too: a database that does
/// not answer can take long.
///
/// # Errors
/// When it cannot be started.
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), StartError> {
    let mut shutdown = Box::pin(shutdown);
    let origin = tokio::select! {
        origin = Origin::bind(config) => origin?,
        () = &mut shutdown => return Ok(()),
    };
    origin.serve(shutdown).await;
    Ok(())
}
