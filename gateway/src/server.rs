//! Puts the parts together and runs them until told to stop.

#[cfg(feature = "redis")]
mod agreement;
mod housekeeping;
mod operator;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pingora::apps::HttpServerOptions;
use pingora::listeners::tls::TlsSettings;
use pingora::proxy::HttpProxy;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use pingora::services::background::background_service;
use pingora::services::listening::Service;
use ropeline_decision::{PathPattern, Policy};
use ropeline_store::{Clock, EmbeddedStore, QueueStore, StoreError, SystemClock};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::runtime::{Handle, Runtime};
use tokio::time::{Instant, sleep, timeout};

use crate::beacon::{BeaconWatch, Relays};
use crate::client_address::TrustedProxies;
use crate::config::{Config, HostHeader, Store, Tls};
use crate::cookies::CookieStyle;
use crate::downstream::Guarded;
use crate::edge::decider::Decider;
use crate::edge::export::Exporter;
use crate::feedback;
use crate::gateway::Gateway;
use crate::identity::{Identifier, VisitorCookies};
use crate::invitations::UsedInvitations;
use crate::issuer::Issuer;
use crate::join_guard::JoinGuard;
use crate::measured::MeasuredStore;
use crate::metrics::Metrics;
use crate::operator::Operator;
use crate::page;
use crate::phases::Phases;
use crate::returning;
use crate::sales::{PolicyRules, Sales, attendance::Attendance, ticker::Ticker};
use crate::shutdown::{LAST, Order, Shutdown, Stages, Stopping};
use crate::upstream::Upstream;
use crate::verified::Verified;
use housekeeping::Housekeeping;
use operator::{OperatorService, Watch};

/// Threads of a store on a server. Each sale is one task.
const STORE_THREADS: usize = 2;

/// How often it is looked whether a gateway that does not fit is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Longest wait for one relay of a beacon: the next may have the round.
const RELAY_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Runs the gateway until `order` says to stop. It has threads of its own; this one waits, and must not be one of an
/// async runtime.
///
/// # Errors
/// When it cannot start: the store cannot be opened, the shop has no address, a listener cannot be had.
pub fn run(config: &Config, order: Order) -> anyhow::Result<()> {
    // Before anything is written to the store: a start that cannot succeed creates no sale.
    can_listen("listen.operator", config.listen.operator)?;
    for address in &config.listen.shop {
        can_listen("listen.shop", *address)?;
    }
    if let Some(tls) = &config.listen.tls {
        can_speak(tls)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    // A store on a server has tasks and connections, which go on as long as anybody may call.
    let own = config.store.is_shared().then(store_runtime).transpose()?;
    let home = own.as_ref().map_or_else(|| runtime.handle(), Runtime::handle);
    let metrics = Arc::new(Metrics::new()?);
    let store = runtime.block_on(open_store(config, &clock, home))?;
    let store: Arc<dyn QueueStore> = Arc::new(MeasuredStore::new(store, Arc::clone(&metrics)));
    let ended = runtime
        .block_on(assemble(config, Arc::clone(&store), metrics, clock))
        .and_then(|parts| serve(config, order, parts));
    // Those who start after this one need not wait until it counts as gone.
    if let Ok(Err(error)) = runtime.block_on(async { timeout(LAST, store.part()).await }) {
        tracing::debug!(%error, "the other gateways were not told of the end");
    }
    drop(store);
    if let Some(own) = own {
        // Who was answered has it on record. A checkpoint's folder that hangs is waited for no longer.
        own.shutdown_timeout(LAST);
    }
    ended
}

/// Runs until `order` says to stop.
fn serve(config: &Config, order: Order, parts: Parts) -> anyhow::Result<()> {
    let Parts { gateway, carrier, returning, stopping, operator, beacons } = parts;

    let mut server = Server::new_with_opt_and_conf(None, server_conf(config));
    server.bootstrap();

    let mut app = HttpProxy::new(Phases::new(Arc::clone(&gateway)), Arc::clone(&server.configuration));
    app.handle_init_modules();
    let mut options = HttpServerOptions::default();
    options.h2_idle_timeout = Some(config.limits.keepalive);
    app.server_options = Some(options);
    let mut proxy = Service::new("shop".to_owned(), Guarded::new(app, &config.limits));
    for address in &config.listen.shop {
        // Pingora would try for half a minute, say that it is ready meanwhile, and then go on without.
        can_listen("listen.shop", *address)?;
        match &config.listen.tls {
            None => proxy.add_tcp(&address.to_string()),
            Some(tls) => {
                let mut settings = TlsSettings::intermediate(
                    &tls.certificate.to_string_lossy(),
                    &tls.private_key.to_string_lossy(),
                )
                .map_err(|error| anyhow::anyhow!("listen.tls: {error}"))?;
                settings.enable_h2();
                proxy.add_tls_with_settings(&address.to_string(), None, settings);
            }
        }
    }
    proxy.threads = Some(config.limits.threads.get());

    let stages = Arc::new(Stages::default());
    server.add_service(stages.first(background_service(
        "ticker",
        Ticker::new(
            Arc::clone(&gateway.sales),
            Arc::clone(&gateway.store),
            Arc::clone(&gateway.metrics),
            Arc::clone(&gateway.clock),
            config.queue.tick_every,
        ),
    )));
    if config.store.is_shared() {
        let attendance = Attendance::new(Arc::clone(&gateway.sales), Arc::clone(&gateway.store));
        server.add_service(stages.first(background_service("attendance", attendance)));
    }
    server.add_service(stages.first(background_service("beacons", beacons)));
    server.add_service(stages.last(background_service("shop reports", carrier)));
    server.add_service(stages.first(background_service("returning tickets", returning)));
    let housekeeping = Housekeeping::new(&gateway, config);
    server.add_service(stages.first(background_service("housekeeping", housekeeping)));
    server.add_service(stages.first(background_service("operator", operator)));
    server.add_service(stages.first(proxy));

    tracing::info!(shop = ?config.listen.shop, operator = %config.listen.operator, "ropeline is ready");
    let shutdown = Shutdown::new(order, stopping, Arc::clone(&stages), config.limits.shutdown_grace);
    server.run(RunArgs { shutdown_signal: Box::new(shutdown) });
    Ok(())
}

/// Takes an address for a moment.
fn can_listen(key: &str, address: SocketAddr) -> anyhow::Result<()> {
    std::net::TcpListener::bind(address)
        .map(drop)
        .with_context(|| format!("{key}: cannot listen on {address}"))
}

/// Reads what the listeners speak TLS with. Pingora would do so once it runs, and go on without the listener.
fn can_speak(tls: &Tls) -> anyhow::Result<()> {
    let chain = || CertificateDer::pem_file_iter(&tls.certificate)?.collect::<Result<Vec<_>, _>>();
    let chain = chain().with_context(|| format!("listen.tls.certificate: {}", tls.certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(&tls.private_key)
        .with_context(|| format!("listen.tls.private_key: {}", tls.private_key.display()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map(drop)
        .context("listen.tls: name a certificate chain, leaf first, and the private key that belongs to it")
}

struct Parts {
    gateway: Arc<Gateway>,
    carrier: feedback::Carrier,
    returning: returning::Carrier,
    stopping: Stopping,
    operator: OperatorService,
    beacons: BeaconWatch,
}

async fn assemble(
    config: &Config,
    store: Arc<dyn QueueStore>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Parts> {
    let upstream = Upstream::resolve(&config.upstream.address.to_string())
        .await
        .context("upstream.address: name a shop that can be resolved")?;
    let accounts = match &config.visitor.account {
        Some(account) => {
            Some((account.source.clone(), housekeeping::accounts(account, config.queue.leeway).await?))
        }
        None => None,
    };
    let room = Arc::new(page::Room::new()?);
    let one_host = matches!(config.upstream.host_header, HostHeader::Fixed(_));
    let rules = PolicyRules {
        issuer: config.queue.issuer.clone(),
        leeway: config.queue.leeway,
        api_prefix: config.queue.api_prefix.clone(),
        api_pattern: PathPattern::parse(&config.queue.api_prefix)?,
        secure_cookies: config.listen.secure_cookies(),
        one_host,
    };
    let decider = Arc::new(Decider::new(&config.edge, &config.keys, Arc::clone(&metrics))?);
    let sales = Sales::new(
        Arc::clone(&store),
        Arc::clone(&room),
        rules,
        Arc::clone(&config.keys),
        Arc::clone(&decider),
        config.sales.clone(),
    );
    let fits = |policy: &Arc<Policy>| {
        decider.take(policy).context(
            "edge.module: it does not take the sales as they are; edge.mode = \"native\" decides without it",
        )
    };
    // Before the store is told of any sale: a start that fails leaves none behind.
    fits(&Arc::new(sales.policy_of_configuration(clock.now())))?;
    let (jwks, exporter) = (config.keys.published()?.to_jwks().into(), Exporter::new(&config.keys)?);
    match begin(&sales).await {
        Err(error @ StoreError::Unavailable { .. }) if config.store.is_shared() => {
            tracing::error!(%error, "the queue's store is away; the gateway starts, and joins when it comes back");
        }
        begun => begun?,
    }
    if !sales.are_complete() {
        sales.stand_in(clock.now());
    }
    fits(&sales.policy())?;
    let sales = Arc::new(sales);

    let cookies = CookieStyle { secure: config.listen.secure_cookies() };
    let visitor_cookies = VisitorCookies::new(config.visitor.cookie_secrets.clone());
    let (back, returning) = returning::channel(Arc::clone(&store));
    let (sink, carrier) = feedback::channel(Arc::clone(&store));
    let stopping = Stopping::default();
    let gateway = Arc::new(Gateway {
        store: Arc::clone(&store),
        sales: Arc::clone(&sales),
        verified: Verified::new(config.keys.admission.set().clone(), config.keys.ticket.set().clone()),
        jwks,
        keys: Arc::clone(&config.keys),
        guard: JoinGuard::new(config.limits.join.clone(), config.visitor.cookie_secrets.clone()),
        invitations: UsedInvitations::new(),
        issuer: Issuer::new(config.queue.issuer.clone(), Arc::clone(&config.keys)),
        identifier: Arc::new(Identifier::new(visitor_cookies, cookies, accounts)),
        room,
        cookies,
        trusted: TrustedProxies::new(config.listen.trusted_proxies.clone()),
        trust_forwarded_host: config.listen.trust_forwarded_host,
        upstream: Arc::new(upstream),
        upstream_settings: config.upstream.clone(),
        queue: config.queue.clone(),
        limits: config.limits.clone(),
        stopping: stopping.clone(),
        metrics: Arc::clone(&metrics),
        feedback: sink,
        returning: back,
        decider,
        clock,
    });
    let relays = Relays::new(config.draw.beacons.clone(), RELAY_TIME_LIMIT);
    let beacons = BeaconWatch::new(
        Arc::clone(&sales),
        Arc::clone(&store),
        relays,
        Arc::clone(&gateway.clock),
        Arc::clone(&metrics),
    );
    let operator = Operator {
        store,
        metrics,
        gateway: Arc::new(Watch {
            sales,
            stopping: stopping.clone(),
            clock: Arc::clone(&gateway.clock),
            exporter,
        }),
        access: Arc::new(config.operator.clone()),
        api_prefix: config.queue.api_prefix.as_str().into(),
        one_host,
    };
    let operator = OperatorService::bind(config.listen.operator, operator)?;
    Ok(Parts { gateway, carrier, returning, stopping, operator, beacons })
}

/// Learns the sales. Where another gateway is in the way that may be gone, it is tried again until that would be known.
async fn begin(sales: &Sales) -> Result<(), StoreError> {
    let began = Instant::now();
    loop {
        let begun = sales.begin().await;
        let Err(StoreError::Disagrees { reason, lasts: Some(lasts) }) = &begun else { return begun };
        if began.elapsed() > *lasts + LOOK_AGAIN {
            return begun;
        }
        tracing::warn!(%reason, "another gateway does not fit to this one; looking whether it is still there");
        sleep(LOOK_AGAIN).await;
    }
}

fn store_runtime() -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(STORE_THREADS).thread_name("store").enable_all().build()
}

/// Opens the queue's store, wherever it is. One on a server that cannot be reached is opened all the same.
async fn open_store(
    config: &Config,
    clock: &Arc<dyn Clock>,
    home: &Handle,
) -> anyhow::Result<Arc<dyn QueueStore>> {
    #[cfg(not(feature = "redis"))]
    let _ = home;
    match &config.store {
        Store::Embedded(path) => Ok(Arc::new(EmbeddedStore::open(path, Arc::clone(clock))?)),
        #[cfg(feature = "redis")]
        Store::Shared(shared) => {
            let store = ropeline_store::RedisStore::open(shared.settings())?
                .living_on(home.clone())
                .with_keys(agreement::keys(config));
            match store.examine().await {
                Ok(faults) if faults.is_empty() => {}
                Ok(faults) => anyhow::bail!("store.redis: {}", faults.join("; ")),
                Err(denied @ StoreError::Denied { .. }) => anyhow::bail!("store.redis: {denied}"),
                Err(error) => tracing::error!(%error, "redis is not there yet"),
            }
            Ok(Arc::new(store))
        }
    }
}

fn server_conf(config: &Config) -> ServerConf {
    let seconds = |duration: Duration| duration.as_secs().max(1);
    ServerConf {
        threads: config.limits.threads.get(),
        // When Pingora is told, all that was open has been waited for.
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(seconds(config.limits.shutdown_grace)),
        // Each request is tried once on a fresh connection; only a pooled one that had died may be tried again.
        max_retries: 2,
        // No hot upgrade by socket: its default path is in a folder that anybody can write to.
        upgrade_sock: config.store.own().with_extension("upgrade.sock").to_string_lossy().into_owned(),
        pid_file: config.store.own().with_extension("pid").to_string_lossy().into_owned(),
        ..ServerConf::default()
    }
}
