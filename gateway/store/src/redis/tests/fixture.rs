//! The contract's fixtures.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ropeline_test_redis::{Cluster, Durable, Server};

use crate::contract::{Fixture, ManualClock};
use crate::redis::{RedisServers, RedisSettings, RedisStore};
use crate::{Clock, QueueStore};

pub(super) fn settings(servers: RedisServers) -> RedisSettings {
    RedisSettings { servers, patience: Duration::from_secs(5), checkpoint: None }
}

/// A server that keeps what it has answered.
struct OneServer {
    clock: Arc<ManualClock>,
    server: Mutex<Server>,
    settings: RedisSettings,
}

// === impl OneServer ===

impl OneServer {
    fn new() -> Self {
        let server = Server::start(Durable::Always);
        let settings = settings(RedisServers::Single(server.url()));
        Self { clock: Arc::default(), server: Mutex::new(server), settings }
    }
}

#[async_trait]
impl Fixture for OneServer {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn connect(&self) -> Arc<dyn QueueStore> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Arc::new(RedisStore::with_clock(&self.settings, Some(clock)).unwrap())
    }

    async fn restart(&self) {
        let mut server = self.server.lock().unwrap();
        server.kill();
        server.again();
    }
}

mod one_server {
    use super::OneServer;

    crate::queue_store_contract!(OneServer::new());
}

/// Three masters that share the slots.
struct ThreeMasters {
    clock: Arc<ManualClock>,
    cluster: Mutex<Cluster>,
    settings: RedisSettings,
}

// === impl ThreeMasters ===

impl ThreeMasters {
    fn new() -> Self {
        let cluster = Cluster::start(3, Durable::Always);
        let settings = settings(RedisServers::Cluster(cluster.urls()));
        Self { clock: Arc::default(), cluster: Mutex::new(cluster), settings }
    }
}

#[async_trait]
impl Fixture for ThreeMasters {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn connect(&self) -> Arc<dyn QueueStore> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Arc::new(RedisStore::with_clock(&self.settings, Some(clock)).unwrap())
    }

    async fn restart(&self) {
        self.cluster.lock().unwrap().again();
    }
}

mod three_masters {
    use super::ThreeMasters;

    crate::queue_store_contract!(ThreeMasters::new());
}
