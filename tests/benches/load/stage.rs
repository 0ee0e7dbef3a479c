//! Redis, the gateways and the sale.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ropeline_queue::Arrival;
use ropeline_queue::draw::{Permutation, Shuffle};
use ropeline_test_redis::{Durable, Server};
use ropeline_tests::gateway::{Gateway, Node, Sale, Servers, Settings, Store};
use ropeline_tests::ports::Port;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::crowd::{Crowd, Pace, Waits};

pub(crate) const SALE: &str = "drop";
/// The sale by which it is known how fast joins are.
pub(crate) const TRIAL: &str = "trial";

/// How long after the closing the sale opens, in seconds.
const BEFORE_OPENING_S: u64 = 5;
/// All who are to be called are, within so many seconds.
const CALLING_S: u32 = 5;
/// How long something may take that goes by the clock.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Everything but the visitors.
pub(crate) struct Stage {
    redis: Server,
    gateway: Gateway,
    called: u32,
    closes_at_s: u64,
}

/// A draw that was made.
pub(crate) struct Drawn {
    pub(crate) size: u32,
    /// How long after the closing its seed was there to be read.
    pub(crate) after: Duration,
    shuffle: Shuffle,
    places: Permutation,
}

// === impl Stage ===

impl Stage {
    /// Both gateways, and the sale for the trial.
    pub(crate) async fn set(called: u32) -> Self {
        let redis = tokio::task::spawn_blocking(|| Server::start(Durable::EverySecond)).await.unwrap();
        let shop = Port::free();
        let settings = Settings::new(shop.address()).on(Store::At(Servers::Single(redis.url()), 2));
        let gateway = Gateway::start(settings, &[Sale::new(TRIAL, &["/trial"])]).await;
        Self { redis, gateway, called, closes_at_s: 0 }
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.gateway.nodes().iter().map(Node::address).collect()
    }

    /// Makes the sale, whose draw closes when so many will have joined at this rate, and everything before that is done.
    pub(crate) async fn announce(&mut self, visitors: u32, rate: f64) {
        let joining = Duration::from_secs_f64(f64::from(visitors) / rate * 1.5);
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        self.closes_at_s = now_s + joining.as_secs() + 90;
        let every_ms = 1_000;
        let sale = json!({
            "id": SALE,
            "title": "Sale",
            "joins_open_at": (now_s - 1) * 1_000,
            "draw": { "closes_at": self.closes_at_s * 1_000 },
            "opens_at": (self.closes_at_s + BEFORE_OPENING_S) * 1_000,
            "pace": { "batch": { "admit": self.called.div_ceil(CALLING_S), "every_ms": every_ms } },
            "max_active": self.called,
            "protect": { "routes": ["/drop"] },
        });
        let (status, answer) =
            self.gateway.operator(reqwest::Method::POST, "/api/v1/operator/sales", Some(&sale)).await;
        assert!(status.is_success(), "{status}: {answer}");
        for gateway in self.gateway.nodes() {
            self.until(gateway, |snapshot| snapshot["phase"] == "pre_queue").await;
        }
    }

    /// What a gateway tells everybody, as soon as it says this.
    async fn until(&self, gateway: &Node, said: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let snapshot = gateway.snapshot(SALE).await;
            if said(&snapshot) {
                return snapshot;
            }
            assert!(begun.elapsed() < PATIENCE, "{snapshot}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// How long answers take while some ask where they stand, and how many commands Redis gets each second meanwhile.
    pub(crate) async fn while_waiting(&self, crowd: &Crowd, pace: Pace) -> (Waits, f64) {
        let (before, begun) = (self.commands(), Instant::now());
        let waits = crowd.poll(&self.addresses(), pace).await;
        #[allow(clippy::cast_precision_loss, reason = "for printing")]
        let commands = (self.commands() - before) as f64;
        (waits, commands / begun.elapsed().as_secs_f64())
    }

    /// Of clients; what a script calls is not counted.
    fn commands(&self) -> u64 {
        ["evalsha", "eval", "mget", "get", "hgetall", "info", "ping"]
            .map(|name| self.redis.calls(name))
            .iter()
            .sum()
    }

    /// In bytes.
    pub(crate) fn redis_memory(&self) -> u64 {
        self.redis.info("memory", "used_memory").unwrap()
    }

    /// Resident, in bytes.
    pub(crate) fn gateways_memory(&mut self) -> Vec<u64> {
        self.gateway.nodes_mut().iter_mut().map(|node| node.process().resident()).collect()
    }

    /// Waits for the draw.
    pub(crate) async fn drawn(&self) -> Drawn {
        let snapshot =
            self.until(&self.gateway.nodes()[1], |snapshot| !snapshot["draw"]["seed"].is_null()).await;
        let closed = UNIX_EPOCH + Duration::from_secs(self.closes_at_s);
        let after = SystemTime::now().duration_since(closed).expect("nothing is drawn before the closing");
        let seed = snapshot["draw"]["seed"].as_str().unwrap();
        let byte = |at: usize| u8::from_str_radix(&seed[2 * at..2 * at + 2], 16).unwrap();
        let size = snapshot["draw"]["size"].as_u64().unwrap().try_into().unwrap();
        let shuffle = Shuffle::new(std::array::from_fn(byte), size);
        Drawn { size, after, shuffle, places: shuffle.places() }
    }

    /// Waits until so many are called, from the opening on.
    pub(crate) async fn all_called(&self, called: u32) -> Duration {
        for gateway in self.gateway.nodes() {
            self.until(gateway, |snapshot| snapshot["serving"].as_u64() >= Some(called.into())).await;
        }
        let opened = UNIX_EPOCH + Duration::from_secs(self.closes_at_s + BEFORE_OPENING_S);
        SystemTime::now().duration_since(opened).expect("nobody is called before the opening")
    }

    /// As many are inside as may be, and nobody else was called.
    pub(crate) async fn check_cap(&self, called: u32) {
        let sale = self.gateway.sale(SALE).await;
        let called = Some(u64::from(called));
        assert_eq!((sale["active"].as_u64(), sale["serving"].as_u64()), (called, called), "{sale}");
    }
}

// === impl Drawn ===

impl Drawn {
    pub(crate) fn place(&self, arrival: u32) -> u64 {
        self.places.place(Arrival(arrival.into())).0
    }

    /// The arrivals at the front.
    pub(crate) fn first(&self, called: u32) -> Vec<u32> {
        (0..u64::from(called))
            .map(|place| self.shuffle.arrival(ropeline_queue::Place(place)).0.try_into().unwrap())
            .collect()
    }
}
