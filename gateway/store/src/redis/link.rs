//! The connection to the server or cluster, made when it is needed and again when it is lost.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue,
    IntoConnectionInfo as _, Pipeline, RedisError, Script, TlsCertificates, TlsMode,
};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::keys;
use super::report::Counts;
use super::settings::{RedisServers, RedisSettings, RedisTls};
use crate::StoreError;

/// The scripts, each with what it shares with the others.
pub(super) struct Scripts {
    pub(super) sync: Named,
    pub(super) commit: Named,
    pub(super) replace: Named,
    pub(super) meet: Named,
}

/// A script and its digest, by which the server knows it once it has seen it.
pub(super) struct Named {
    text: String,
    digest: String,
}

// === impl Named ===

impl Named {
    /// What the server calls it.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }
}

// === impl Scripts ===

impl Scripts {
    pub(super) fn new() -> Self {
        let named = |text: String| {
            let digest = Script::new(&text).get_hash().to_owned();
            Named { text, digest }
        };
        let of_sale = |script| {
            let since = include_str!("scripts/since.lua");
            named(format!("local FORMAT = '{}'\n{since}{script}", keys::FORMAT))
        };
        Self {
            sync: of_sale(include_str!("scripts/sync.lua")),
            commit: of_sale(include_str!("scripts/commit.lua")),
            replace: of_sale(include_str!("scripts/replace.lua")),
            meet: named(include_str!("scripts/meet.lua").to_owned()),
        }
    }
}

/// Whether the server has said anything. If not, what it did is not known.
enum Answered {
    Yes,
    No,
}

/// Between a lost answer and asking again.
const BREATH: Duration = Duration::from_millis(20);

/// Where commands go.
pub(super) struct Link {
    source: Arc<Source>,
    patience: Duration,
    counts: Arc<Counts>,
    connection: Mutex<Option<Connection>>,
    /// Where connections and tasks live; the caller's runtime where none is set.
    pub(super) home: OnceLock<Handle>,
}

enum Source {
    Single(Box<Client>),
    Sentinel(Box<Mutex<SentinelClient>>),
    Cluster(Box<ClusterClient>),
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
    pub(super) fn new(settings: &RedisSettings, counts: Arc<Counts>) -> Result<Self, RedisError> {
        let RedisSettings { servers, tls, patience, .. } = settings;
        // Whoever runs the gateway in a process of its own making may have chosen a provider already; that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let source = match servers {
            RedisServers::Single(url) => Source::Single(Box::new(match certificates(tls) {
                Some(certificates) if url.starts_with("rediss:") => {
                    Client::build_with_tls(url.as_str(), certificates)?
                }
                _ => Client::open(url.as_str())?,
            })),
            RedisServers::Sentinel { addresses, service } => {
                Source::Sentinel(Box::new(Mutex::new(sentinels(addresses, service, tls)?)))
            }
            RedisServers::Cluster(urls) => {
                let mut builder = ClusterClient::builder(urls.iter().map(String::as_str));
                if let Some(certificates) = certificates(tls) {
                    builder = builder.certs(certificates);
                }
                // A lost connection is this store's to see: what a command did is then not known.
                let client = builder.retries(2).connection_timeout(*patience).response_timeout(*patience);
                Source::Cluster(Box::new(client.build()?))
            }
        };
        Ok(Self {
            source: Arc::new(source),
            patience: *patience,
            counts,
            connection: Mutex::default(),
            home: OnceLock::new(),
        })
    }

    /// How long an answer is waited for.
    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// There is a connection, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        // Whoever holds it is about to connect.
        self.connection.try_lock().is_ok_and(|connection| connection.is_some())
    }

    /// Runs a command.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let mut connection = self.connection().await?;
        Counts::one(&self.counts.commands);
        let answer = on!(&mut connection, command);
        self.judge(answer).await
    }

    /// Runs commands of one sale, one after the other but not as one.
    pub(super) async fn ask_all<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        let mut connection = self.connection().await?;
        self.counts.sent(commands.len());
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
        self.try_run(script, keys, args).await.map_err(|(error, _)| error)
    }

    /// Runs a script that does nothing when it is run again. Where its answer is lost, it is asked for it once more at least,
    /// and as often as patience allows.
    pub(super) async fn run_surely<T: FromRedisValue>(
        &self,
        script: &Named,
        keys: &[impl AsRef<str>],
        args: &[impl AsRef<[u8]>],
    ) -> Result<T, StoreError> {
        let (began, mut again) = (Instant::now(), true);
        loop {
            match self.try_run(script, keys, args).await {
                Ok(answer) => return Ok(answer),
                Err((_, Answered::No)) if again || began.elapsed() < self.patience => {
                    Counts::one(&self.counts.uncertain);
                    again = false;
                    sleep(BREATH).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    async fn try_run<T: FromRedisValue>(
        &self,
        script: &Named,
        keys: &[impl AsRef<str>],
        args: &[impl AsRef<[u8]>],
    ) -> Result<T, (StoreError, Answered)> {
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
        let mut connection = self.connection().await.map_err(|error| (error, Answered::No))?;
        let known = command("EVALSHA", script.digest());
        Counts::one(&self.counts.commands);
        let mut answer = on!(&mut connection, known);
        if answer.as_ref().is_err_and(|error: &RedisError| error.code() == Some("NOSCRIPT")) {
            let told = command("EVAL", &script.text);
            answer = on!(&mut connection, told);
        }
        let lost = |error: &RedisError| error.is_io_error() || error.is_unrecoverable_error();
        let answered = if answer.as_ref().is_err_and(lost) { Answered::No } else { Answered::Yes };
        self.judge(answer).await.map_err(|error| (error, answered))
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        // A connection lives as long as the runtime that it was made on.
        let made = self.spawn(connect(Arc::clone(&self.source), self.patience)).await;
        let gone = |_| StoreError::Unavailable { reason: "the connection was not made".into() };
        let made = made.map_err(gone)?.map_err(|error| self.failed(&error))?;
        Counts::one(&self.counts.connections);
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
                Err(self.failed(&error))
            }
        }
    }

    fn failed(&self, error: &RedisError) -> StoreError {
        let failure = unavailable(error);
        self.counts.failed(&failure.to_string());
        failure
    }
}

async fn connect(source: Arc<Source>, patience: Duration) -> Result<Connection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(patience));
    let connecting = async {
        match &*source {
            Source::Single(client) => {
                let made = client.get_multiplexed_async_connection_with_config(&config);
                Ok(Connection::Single(Box::pin(made).await?))
            }
            Source::Sentinel(sentinels) => {
                let mut sentinels = sentinels.lock().await;
                let made = sentinels.get_async_connection_with_config(&config);
                Ok(Connection::Single(Box::pin(made).await?))
            }
            Source::Cluster(client) => {
                Ok(Connection::Cluster(Box::pin(client.get_async_connection()).await?))
            }
        }
    };
    // With sentinels there are several to be asked.
    let late = |_| RedisError::from((ErrorKind::Io, "no connection in time"));
    timeout(patience, connecting).await.map_err(late)?
}

/// Sentinels, and what the server that they name is asked with.
fn sentinels(addresses: &[String], service: &str, tls: &RedisTls) -> Result<SentinelClient, RedisError> {
    let infos: Vec<_> =
        addresses.iter().map(|url| url.as_str().into_connection_info()).collect::<Result<_, _>>()?;
    let Some(first) = infos.first() else {
        return Err((ErrorKind::InvalidClientConfig, "no sentinel is named").into());
    };
    let server = service.into_connection_info()?;
    let (ConnectionAddr::Tcp(name, _) | ConnectionAddr::TcpTls { host: name, .. }) = server.addr() else {
        return Err((ErrorKind::InvalidClientConfig, "the name of a service is no host").into());
    };
    let by_tls = |address: &ConnectionAddr| matches!(address, ConnectionAddr::TcpTls { .. });
    let of_all = infos.iter().map(|info| info.addr().clone());
    let mut builder = SentinelClientBuilder::new(of_all, name, SentinelServerType::Master)?
        .set_client_to_redis_db(server.redis_settings().db());
    if by_tls(server.addr()) {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        if let Some(certificates) = certificates(tls) {
            builder = builder.set_client_to_redis_certificates(certificates);
        }
    }
    if infos.iter().all(|info| by_tls(info.addr()))
        && let Some(certificates) = certificates(tls)
    {
        builder = builder.set_client_to_sentinel_certificates(certificates);
    }
    if let Some(user) = server.redis_settings().username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = server.redis_settings().password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(user) = first.redis_settings().username() {
        builder = builder.set_client_to_sentinel_username(user);
    }
    if let Some(password) = first.redis_settings().password() {
        builder = builder.set_client_to_sentinel_password(password);
    }
    builder.build()
}

/// None where the machine's own are good for it.
fn certificates(tls: &RedisTls) -> Option<TlsCertificates> {
    let RedisTls { authority, client } = tls;
    let shown = client.as_ref().map(|client| ClientTlsConfig {
        client_cert: client.certificate.clone(),
        client_key: client.key.clone(),
    });
    let told = authority.is_some() || shown.is_some();
    told.then(|| TlsCertificates { client_tls: shown, root_cert: authority.clone() })
}

/// An error of Redis in the store's words.
pub(super) fn unavailable(error: &RedisError) -> StoreError {
    let mend = match error.code() {
        // The scripts' own word.
        Some("FORMAT") => return keys::newer(keys::IN_REDIS, error.detail().unwrap_or_default()),
        Some("NOPERM") => "give its user the rights that docs/redis.md lists",
        Some("NOAUTH" | "WRONGPASS") => "name the user and the password that it knows",
        _ if error.kind() == ErrorKind::AuthenticationFailed => {
            "name the user and the password that it knows"
        }
        _ => return StoreError::Unavailable { reason: format!("redis: {error}") },
    };
    StoreError::Denied { reason: format!("redis: {error}; {mend}") }
}
