//! The connection to the server or cluster, made when it is needed and again when it is lost.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, Script};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::RedisServers;
use super::counts::Counts;
use crate::StoreError;

/// The scripts, each with what it shares with the others.
pub(super) struct Scripts {
    pub(super) sync: Named,
    pub(super) commit: Named,
    pub(super) replace: Named,
}

/// A script and its digest, by which the server knows it once it has seen it.
pub(super) struct Named {
    text: &'static str,
    digest: String,
}

macro_rules! script {
    ($name:literal) => {
        concat!(include_str!("scripts/since.lua"), include_str!(concat!("scripts/", $name, ".lua")))
    };
}

// === impl Scripts ===

impl Scripts {
    pub(super) fn new() -> Self {
        let named = |text| Named { text, digest: Script::new(text).get_hash().to_owned() };
        Self {
            sync: named(script!("sync")),
            commit: named(script!("commit")),
            replace: named(script!("replace")),
        }
    }
}

/// Where commands go.
pub(super) struct Link {
    source: Arc<Source>,
    patience: Duration,
    connection: Mutex<Option<Connection>>,
    pub(super) counts: Counts,
    /// Where connections and tasks live; the caller's runtime where none is set.
    pub(super) home: OnceLock<Handle>,
}

enum Source {
    Single(Box<Client>),
    Cluster(Box<redis::cluster::ClusterClient>),
}

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Runs a command or a pipeline on whichever connection there is.
macro_rules! on {
    ($connection:expr, $what:expr) => {
        match $connection {
            Connection::Single(single) => $what.query_async(single).await,
            Connection::Cluster(cluster) => $what.query_async(cluster).await,
        }
    };
}

// === impl Link ===

impl Link {
    /// Connects with the first command.
    pub(super) fn new(servers: &RedisServers, patience: Duration) -> Result<Self, RedisError> {
        // Whoever runs the gateway in a process of its own making may have chosen a provider already; that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let source = match servers {
            RedisServers::Single(url) => Source::Single(Box::new(Client::open(url.as_str())?)),
            RedisServers::Cluster(urls) => {
                let builder = redis::cluster::ClusterClient::builder(urls.iter().map(String::as_str));
                // A lost connection is this store's to see: what a command did is then not known.
                let client = builder.retries(2).connection_timeout(patience).response_timeout(patience);
                Source::Cluster(Box::new(client.build()?))
            }
        };
        Ok(Self {
            source: Arc::new(source),
            patience,
            connection: Mutex::default(),
            counts: Counts::default(),
            home: OnceLock::new(),
        })
    }

    /// Runs a command.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let mut connection = self.connection().await?;
        self.counts.commands.one_more();
        let answer = on!(&mut connection, command);
        self.judge(answer).await
    }

    /// Runs commands of one sale, one after the other but not as one.
    pub(super) async fn ask_all<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        let mut connection = self.connection().await?;
        self.counts.commands.more(commands.len());
        let answer = on!(&mut connection, commands);
        self.judge(answer).await
    }

    /// Runs a script, which the server is told in full only if it does not know it.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Named,
        keys: &[impl AsRef<str>],
        args: &[impl AsRef<[u8]>],
    ) -> Result<T, StoreError> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len());
            for key in keys {
                command.arg(key.as_ref());
            }
            for arg in args {
                command.arg(arg.as_ref());
            }
            command
        };
        let mut connection = self.connection().await?;
        let known = command("EVALSHA", &script.digest);
        self.counts.commands.one_more();
        let mut answer = on!(&mut connection, known);
        if answer.as_ref().is_err_and(|error: &RedisError| error.code() == Some("NOSCRIPT")) {
            let told = command("EVAL", script.text);
            self.counts.commands.one_more();
            answer = on!(&mut connection, told);
        }
        self.judge(answer).await
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        // A connection lives as long as the runtime that it was made on.
        let made = self.spawn(connect(Arc::clone(&self.source), self.patience)).await;
        let gone = |_| StoreError::Unavailable { reason: "the connection was not made".into() };
        let made = made.map_err(gone)?.map_err(|error| unavailable(&error))?;
        Ok(held.insert(made).clone())
    }

    /// Has a task go on where connections live.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match self.home.get() {
            Some(home) => home.spawn(task),
            None => tokio::spawn(task),
        }
    }

    /// After an error that is not the server's word on the command, the connection is made anew.
    async fn judge<T>(&self, answer: Result<T, RedisError>) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                if error.is_io_error() || error.is_unrecoverable_error() || error.code() == Some("READONLY") {
                    *self.connection.lock().await = None;
                }
                Err(unavailable(&error))
            }
        }
    }
}

async fn connect(source: Arc<Source>, patience: Duration) -> Result<Connection, RedisError> {
    match &*source {
        Source::Single(client) => {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(patience))
                .set_response_timeout(Some(patience));
            let made = client.get_multiplexed_async_connection_with_config(&config);
            Ok(Connection::Single(Box::pin(made).await?))
        }
        Source::Cluster(client) => Ok(Connection::Cluster(Box::pin(client.get_async_connection()).await?)),
    }
}

/// An error of Redis in the store's words.
pub(super) fn unavailable(error: &RedisError) -> StoreError {
    StoreError::Unavailable { reason: format!("redis: {error}") }
}
