//! Events as entries of a Redis stream.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use super::Outcome;
use crate::config::StreamConfig;
use crate::store::Leased;

/// How long a connection or a reply is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A stream on a server that may not be there yet.
#[derive(Clone)]
pub(super) struct Stream {
    connection: ConnectionManager,
    stream: String,
    max_len: u64,
}

// === impl Stream ===

impl Stream {
    /// Connects with the first event.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub(super) fn new(config: StreamConfig) -> Result<Self, redis::RedisError> {
        let StreamConfig { server, stream, max_len } = config;
        Ok(Self { connection: connection(server, PATIENCE)?, stream, max_len })
    }

    /// Adds an event, and waits until the server has it.
    pub(super) async fn deliver(&self, event: &Leased) -> Outcome {
        let Leased { id, aggregate, seq, kind, payload, created_at, .. } = event;
        let mut add = redis::cmd("XADD");
        add.arg(&self.stream);
        if self.max_len > 0 {
            add.arg("MAXLEN").arg("~").arg(self.max_len);
        }
        add.arg("*").arg("id").arg(id).arg("aggregate").arg(aggregate).arg("seq").arg(seq);
        add.arg("kind").arg(kind).arg("created_at").arg(created_at).arg("payload").arg(payload);
        match add.query_async::<String>(&mut self.connection.clone()).await {
            Ok(_) => Outcome::Taken,
            Err(error) if error.is_connection_refusal() => {
                Outcome::Unreachable { why: format!("redis: {error}") }
            }
            // Whatever the server lacks, it lacks for every event.
            Err(error) => Outcome::Failed { why: format!("redis: {error}"), after: None, down: true },
        }
    }
}

/// A connection that is made when it is needed, and again when it is lost.
pub(crate) fn connection(
    server: redis::ConnectionInfo,
    patience: Duration,
) -> Result<ConnectionManager, redis::RedisError> {
    // Whoever runs the service in a process of its own making may have chosen a provider already; that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(patience));
    ConnectionManager::new_lazy_with_config(redis::Client::open(server)?, config)
}
