//! The gateways, what they share, and the people.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ropeline_tests::balancer::Balancer;
use ropeline_tests::gateway::{Gateway, Node, Sale, Servers, Settings, Store};
use ropeline_tests::shop::Shop;
use ropeline_tests::wait::PATIENCE;

use crate::crowd::{ANSWER, Crowd};
use crate::history::Promises;
use crate::{PAGE, SALE};

/// People under way at the same time.
const PEOPLE: u32 = 40;
const PROMISES: Promises =
    Promises { max_active: 12, rate_per_s: 40.0, burst: 10.0, lease: Duration::from_secs(3_600) };

/// Everything that runs.
pub(crate) struct Stage {
    gateway: Gateway,
    _shop: Shop,
    _balancer: Balancer,
    crowd: Crowd,
    random: fastrand::Rng,
}

// === impl Stage ===

impl Stage {
    /// So many gateways on this Redis; people come at once.
    pub(crate) async fn open(gateways: usize, redis: Servers) -> Self {
        Self::with(gateways, redis, ANSWER, "4s").await
    }

    /// The same where nobody is at fault, and a busy machine alone makes nobody ask anew, nor a gateway end too soon.
    pub(crate) async fn open_faultless(gateways: usize, redis: Servers) -> Self {
        Self::with(gateways, redis, PATIENCE, "16s").await
    }

    async fn with(gateways: usize, redis: Servers, answer: Duration, grace: &str) -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
        println!("seed {seed}");
        let shop = Shop::open().await;
        let Promises { max_active, rate_per_s, burst, .. } = PROMISES;
        let sale = Sale::new(SALE, &[PAGE])
            .set("pace", &format!("{{ admit = {rate_per_s}, per = \"1s\", burst = {burst} }}"))
            .set("max_active", &max_active.to_string())
            .set("claim_window", "\"1m\"")
            .set("lease", "\"1h\"");
        let settings = Settings::new(shop.address())
            .set("limits", "shutdown_grace", &format!("\"{grace}\""))
            .set("store", "redis_patience", "\"1s\"")
            .on(Store::At(redis, gateways));
        let gateway = Gateway::start(settings, &[sale]).await;
        let balancer = Balancer::before(&gateway).await;
        let each = gateway.nodes().iter().map(|node| node.url("")).collect();
        let crowd = Crowd::come(PEOPLE, &balancer.url(""), each, answer);
        let random = fastrand::Rng::with_seed(seed.into());
        let stage = Self { gateway, _shop: shop, _balancer: balancer, crowd, random };
        stage.more(30).await;
        stage
    }

    /// Waits until so many more have been let in.
    pub(crate) async fn more(&self, people: u64) {
        let (before, deadline) = (self.crowd.claimed(), Instant::now() + PATIENCE);
        while self.crowd.claimed() < before + people {
            if Instant::now() > deadline {
                let sale = self.gateway.sale(SALE).await;
                panic!("nobody was let in for {PATIENCE:?}; {} since: {sale}", self.crowd.claimed() - before);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets everything go on for a random while.
    pub(crate) async fn a_while(&mut self, most_ms: u64) {
        tokio::time::sleep(Duration::from_millis(self.random.u64(20..most_ms))).await;
    }

    /// The number of one of the gateways.
    pub(crate) fn any(&mut self) -> usize {
        self.random.usize(0..self.gateway.nodes().len())
    }

    pub(crate) fn node(&mut self, number: usize) -> &mut Node {
        &mut self.gateway.nodes_mut()[number]
    }

    /// Requests that nobody answered so far.
    pub(crate) fn unanswered(&self) -> u64 {
        self.crowd.unanswered()
    }

    /// Everybody goes through to the end, and all that they were told is checked.
    pub(crate) async fn end(self) {
        self.more(30).await;
        let history = self.crowd.end().await;
        println!("{} people, {} let in", history.ways.len(), history.claimed());
        history.check(PROMISES);
        assert_eq!(history.claimed(), history.ways.len(), "everybody comes through");
    }
}
