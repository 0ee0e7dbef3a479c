//! What stands while the sale goes on: the gateway with its store, and the reservation service, on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use ropeline_origin::config::{
    RawAdmission, RawConfig, RawKind, RawLimits, RawOutbox, RawPayments, RawProduct, RawProvider,
};
use ropeline_origin::{Handle, Origin};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::operator::Operator;
use super::plan::{Plan, SALE};
use crate::config::Config;
use crate::http_client;
use crate::server;
use crate::shutdown::Order;

/// Where the shop is looked for first.
const USUAL_PORT: u16 = 8_080;
/// How long everything may take to stand, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running shop.
pub(super) struct Stage {
    /// Where shoppers go, such as `http://127.0.0.1:8080`.
    pub(super) url: String,
    /// Runs the sale.
    pub(super) operator: Operator,
    /// The reservation service's books.
    pub(super) books: Handle,
    gateway: Gateway,
    origin: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

/// The gateway in its thread; ends with why.
type Gateway = oneshot::Receiver<anyhow::Result<()>>;

// === impl Stage ===

impl Stage {
    /// Sets everything up in `folder`, where the keys are already.
    ///
    /// # Errors
    /// When a part does not start.
    pub(super) async fn set(plan: &Plan, port: Option<u16>, folder: &Path) -> anyhow::Result<Self> {
        let (shop, operator) = addresses(port)?;
        let url = format!("http://{shop}");
        let origin = Origin::bind(origin_config(plan, &url, folder)?.check()?).await?;
        let upstream = origin.local_addr();
        let file = folder.join("ropeline.toml");
        std::fs::write(&file, gateway_config(shop, operator, upstream)).context("no configuration file")?;
        let config = Config::load(&file)?;
        let operator = Operator::new(operator, config.operator.token.clone())?;

        let (stop, stopped) = watch::channel(false);
        let books = origin.handle();
        let mut told = stopped.clone();
        let mut gateway = start(config, stopped)?;
        let standing = async {
            reached(shop).await;
            operator.ready().await;
            // Last, since it gets its keys from the gateway.
            let origin = tokio::spawn(origin.serve(async move {
                // A sender that is gone says the same.
                let _ = told.wait_for(|told| *told).await;
            }));
            origin_ready(upstream).await?;
            anyhow::Ok(origin)
        };
        let origin = tokio::select! {
            ended = &mut gateway => bail!(why(ended)),
            standing = timeout(PATIENCE, standing) => {
                standing.map_err(|_| anyhow!("the shop does not answer after {PATIENCE:?}"))??
            }
        };
        Ok(Self { url, operator, books, gateway, origin, stop })
    }

    /// Waits for a part to end, which none should, and says why it did.
    pub(super) async fn broken(&mut self) -> anyhow::Error {
        tokio::select! {
            ended = &mut self.gateway => why(ended),
            ended = &mut self.origin => anyhow!("the reservation service has ended: {ended:?}"),
        }
    }

    /// Ends everything.
    ///
    /// # Errors
    /// When a part does not end in time, or not well.
    pub(super) async fn strike(self) -> anyhow::Result<()> {
        // A receiver that is gone has ended already.
        let _ = self.stop.send(true);
        let Self { gateway, mut origin, .. } = self;
        let ended = timeout(PATIENCE, gateway).await.context("the gateway does not end")?;
        ended.context("the gateway has panicked")??;
        match timeout(PATIENCE, &mut origin).await {
            Ok(ended) => ended.context("the reservation service has panicked"),
            Err(_) => bail!("the reservation service does not end"),
        }
    }
}

fn why(ended: Result<anyhow::Result<()>, oneshot::error::RecvError>) -> anyhow::Error {
    match ended {
        Ok(Err(error)) => error.context("the gateway has ended"),
        Ok(Ok(())) => anyhow!("the gateway has ended"),
        Err(_) => anyhow!("the gateway has panicked"),
    }
}

/// The gateway blocks its thread and has others of its own.
fn start(config: Config, stopped: watch::Receiver<bool>) -> anyhow::Result<Gateway> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("gateway".to_owned());
    thread.spawn(move || {
        // Nobody listens when the demo has ended before.
        let _ = sender.send(server::run(&config, Order::Program(stopped)));
    })?;
    Ok(receiver)
}

/// Free addresses for the shop and its operator.
fn addresses(port: Option<u16>) -> anyhow::Result<(SocketAddr, SocketAddr)> {
    let listen = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let shop = match port {
        Some(port) => {
            listen(port).with_context(|| format!("port {port} of 127.0.0.1 cannot be had; choose another"))?
        }
        None => (USUAL_PORT..=u16::MAX)
            .find_map(|port| listen(port).ok())
            .with_context(|| format!("no port of 127.0.0.1 from {USUAL_PORT} on is free"))?,
    };
    // Both are held until both are chosen.
    let operator = listen(0)?;
    Ok((shop.local_addr()?, operator.local_addr()?))
}

fn gateway_config(shop: SocketAddr, operator: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        r#"[listen]
shop = ["{shop}"]
operator = "{operator}"

[upstream]
address = "{upstream}"

[queue]
issuer = "http://{shop}"

[keys]
ticket = [{{ path = "keys/ticket.jwk", state = "sign" }}]
admission = [{{ path = "keys/admission.jwk", state = "sign" }}]

[visitor]
cookie_secrets = ["keys/visitor.secret"]

[operator]
token_file = "keys/operator.token"

[limits.join]
exempt = ["127.0.0.0/8"]    # the whole crowd has one address
"#
    )
}

fn origin_config(plan: &Plan, url: &str, folder: &Path) -> anyhow::Result<RawConfig> {
    let secret: String = {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| anyhow!("no random numbers: {error}"))?;
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    Ok(RawConfig {
        listen: format!("{}:0", Ipv4Addr::LOCALHOST),
        database: folder.join("shop.db"),
        public_url: url.to_owned(),
        hold_seconds: plan.hold.as_secs(),
        hold_extension_seconds: 0,
        limits: RawLimits::default(),
        admission: RawAdmission {
            jwks_file: None,
            jwks_url: Some(format!("{url}/.well-known/jwks.json")),
            refresh_seconds: 60,
            issuer: url.to_owned(),
            audience: SALE.to_owned(),
            min_epoch: 0,
            leeway_seconds: 5,
        },
        payments: RawPayments {
            webhook_secret: Some(format!("whsec_{secret}")),
            reconcile_seconds: 2,
            provider: RawProvider::Test,
            test_delay_ms: Some(2_000),
            test_database: None,
            stripe: None,
        },
        outbox: RawOutbox::default(),
        notify: None,
        products: vec![RawProduct {
            id: SALE.to_owned(),
            name: "Night Runner".to_owned(),
            description: "A running shoe for the dark half of the year. One pair for each of you.".to_owned(),
            price_minor: 18_900,
            currency: "EUR".to_owned(),
            total: i64::from(plan.units),
            max_quantity: 1,
            kind: RawKind::Count,
            labels: Vec::new(),
        }],
    })
}

async fn reached(address: SocketAddr) {
    while TcpStream::connect(address).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
}

/// The reservation service lets nobody in before it has the gateway's keys.
async fn origin_ready(address: SocketAddr) -> anyhow::Result<()> {
    let client = http_client::builder("http://").no_proxy().build()?;
    let begun = Instant::now();
    loop {
        let answer = client.get(format!("http://{address}/healthz")).send().await?;
        if answer.status().is_success() {
            tracing::debug!(after = ?begun.elapsed(), "the reservation service is ready");
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
}
