//! The contract's fixture, and the servers it runs on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ropeline_test_redis::{Certificates, Cluster, Durable, Sentinel, Server};

use super::secure::rights;
use crate::contract::{Fixture, ManualClock};
use crate::redis::{RedisClientCertificate, RedisServers, RedisSettings, RedisStore, RedisTls};
use crate::{Clock, QueueStore};

pub(in crate::redis) fn settings(servers: RedisServers) -> RedisSettings {
    RedisSettings { servers, tls: RedisTls::default(), patience: Duration::from_secs(5), checkpoint: None }
}

/// A store on servers that keep what they have answered.
struct OnRedis {
    clock: Arc<ManualClock>,
    settings: RedisSettings,
    /// Kills the servers, which it holds, and starts them again.
    again: Mutex<Box<dyn FnMut() + Send>>,
}

// === impl OnRedis ===

impl OnRedis {
    fn new(settings: RedisSettings, again: impl FnMut() + Send + 'static) -> Self {
        Self { clock: Arc::default(), settings, again: Mutex::new(Box::new(again)) }
    }
}

#[async_trait]
impl Fixture for OnRedis {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn connect(&self) -> Arc<dyn QueueStore> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Arc::new(RedisStore::with_clock(&self.settings, Some(clock)).unwrap())
    }

    async fn restart(&self) {
        (self.again.lock().unwrap())();
    }
}

fn one_server() -> OnRedis {
    let mut server = Server::start(Durable::Always);
    OnRedis::new(settings(RedisServers::Single(server.url())), move || {
        server.kill();
        server.again();
    })
}

fn three_masters() -> OnRedis {
    let mut cluster = Cluster::start(3, Durable::Always);
    OnRedis::new(settings(RedisServers::Cluster(cluster.urls())), move || cluster.again())
}

/// A server that is reached by TLS, by a user that may do no more than is documented.
pub(super) fn secured(certificates: &Certificates, durable: Durable) -> (Server, RedisSettings) {
    let rights = rights();
    let mut options = vec!["--user", "ropeline", "on", ">s3cret", "resetchannels"];
    options.extend(rights.split(' '));
    let server = Server::start_by_tls(durable, certificates, &options);
    let url = format!("rediss://ropeline:s3cret@127.0.0.1:{}", server.tls_port());
    let client = RedisClientCertificate {
        certificate: certificates.client.clone().into_bytes(),
        key: certificates.client_key.clone().into_bytes(),
    };
    let tls = RedisTls { authority: Some(certificates.authority.clone().into_bytes()), client: Some(client) };
    (server, RedisSettings { tls, ..settings(RedisServers::Single(url)) })
}

fn by_tls() -> OnRedis {
    let certificates = Certificates::new();
    let (mut server, settings) = secured(&certificates, Durable::Always);
    OnRedis::new(settings, move || {
        let _ = &certificates;
        server.kill();
        server.again();
    })
}

fn by_sentinel() -> OnRedis {
    let mut server = Server::start(Durable::Always);
    let sentinel = Sentinel::watch(&server, 0);
    let servers = RedisServers::Sentinel {
        addresses: vec![sentinel.url()],
        service: format!("redis://{}", sentinel.service()),
    };
    OnRedis::new(settings(servers), move || {
        server.kill();
        server.again();
        sentinel.wait_for(&server);
    })
}

mod one_server {
    crate::queue_store_contract!(super::one_server());
}

mod three_masters {
    crate::queue_store_contract!(super::three_masters());
}

mod by_tls {
    crate::queue_store_contract!(super::by_tls());
}

mod by_sentinel {
    crate::queue_store_contract!(super::by_sentinel());
}
