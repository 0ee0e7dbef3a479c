//! The connection to the server or cluster, made when it is needed and again when it is lost.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue,
    IntoConnectionInfo as _, Pipeline, RedisError, Script, TlsCertificates, TlsMode, Value,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::attempt::{Attempt, Latest};
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
    latest: Latest<Connection>,
    /// Where connections and tasks live; the caller's runtime where none is set.
    pub(super) home: OnceLock<Handle>,
}

enum Source {
    Single(Box<Client>),
    Sentinel(Box<tokio::sync::Mutex<SentinelClient>>),
    Cluster(Box<ClusterClient>),
}

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A connection to be asked by one, and for how long.
struct Way {
    connection: Connection,
    attempt: Attempt<Connection>,
    until: Instant,
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
                let sentinels = sentinels(addresses, service, tls)?;
                Source::Sentinel(Box::new(tokio::sync::Mutex::new(sentinels)))
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
            latest: Latest::default(),
            home: OnceLock::new(),
        })
    }

    /// How long an answer is waited for, and the connection where there is none yet, both together.
    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// There is a connection, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.latest.is_well()
    }

    /// Runs a command.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let mut way = self.way(self.until()).await?;
        Counts::one(&self.counts.commands);
        let answer = async { on!(&mut way.connection, command) };
        let answer = self.wait(way.until, &way.attempt, answer).await;
        answer.map_err(|error| failed(&self.counts, &error))
    }

    /// Runs a command that names no key on the server, or on each that has keys.
    pub(super) async fn ask_each(&self, command: &Cmd) -> Result<Value, StoreError> {
        let mut way = self.way(self.until()).await?;
        Counts::one(&self.counts.commands);
        let answer = async {
            match &mut way.connection {
                Connection::Single(single) => command.query_async(single).await,
                Connection::Cluster(cluster) => {
                    let all = MultipleNodeRoutingInfo::AllMasters;
                    cluster.route_command(command.clone(), RoutingInfo::MultiNode((all, None))).await
                }
            }
        };
        let answer = self.wait(way.until, &way.attempt, answer).await;
        answer.map_err(|error| failed(&self.counts, &error))
    }

    /// Runs commands of one sale, one after the other but not as one.
    pub(super) async fn ask_all<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        let mut way = self.way(self.until()).await?;
        self.counts.sent(commands.len());
        let answer = async { on!(&mut way.connection, commands) };
        let answer = self.wait(way.until, &way.attempt, answer).await;
        answer.map_err(|error| failed(&self.counts, &error))
    }

    /// Runs a script, which the server is told in full only if it does not know it.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Named,
        keys: &[impl AsRef<str>],
        args: &[impl AsRef<[u8]>],
    ) -> Result<T, StoreError> {
        self.try_run(self.until(), script, keys, args).await.map_err(|(error, _)| error)
    }

    /// Runs a script that does nothing when it is run again. Where its answer is lost, it is asked for it again, as often as
    /// patience allows.
    pub(super) async fn run_surely<T: FromRedisValue>(
        &self,
        script: &Named,
        keys: &[impl AsRef<str>],
        args: &[impl AsRef<[u8]>],
    ) -> Result<T, StoreError> {
        let until = self.until();
        loop {
            match self.try_run(until, script, keys, args).await {
                Ok(answer) => return Ok(answer),
                Err((_, Answered::No)) if Instant::now() + BREATH < until => {
                    Counts::one(&self.counts.uncertain);
                    sleep(BREATH).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    async fn try_run<T: FromRedisValue>(
        &self,
        until: Instant,
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
        let Way { mut connection, attempt, until } =
            self.way(until).await.map_err(|error| (error, Answered::No))?;
        Counts::one(&self.counts.commands);
        let answer = async {
            let answer = on!(&mut connection, command("EVALSHA", script.digest()));
            if answer.as_ref().is_err_and(|error: &RedisError| error.code() == Some("NOSCRIPT")) {
                return on!(&mut connection, command("EVAL", &script.text));
            }
            answer
        };
        let answer = self.wait(until, &attempt, answer).await;
        answer.map_err(|error| {
            let answered = if is_lost(&error) { Answered::No } else { Answered::Yes };
            (failed(&self.counts, &error), answered)
        })
    }

    /// Until when whoever asks now waits.
    fn until(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// The connection, once there is one. Who waits for it when it cannot be had hears of that, and tries nothing anew.
    async fn way(&self, until: Instant) -> Result<Way, StoreError> {
        let mut attempt = self.attempt();
        let made = match timeout_at(until, attempt.wait_for(Option::is_some)).await {
            Ok(Ok(made)) => made.clone(),
            Ok(Err(_)) => Some(Err(StoreError::Unavailable { reason: "the connection was not made".into() })),
            Err(_) => None,
        };
        let late = || Err(failed(&self.counts, &(ErrorKind::Io, "no connection in time").into()));
        let connection = made.unwrap_or_else(late)?;
        Ok(Way { connection, attempt, until })
    }

    /// The latest attempt to connect; another one where that has failed.
    fn attempt(&self) -> Attempt<Connection> {
        self.latest.or_begin(|told| {
            let (source, patience, counts) =
                (Arc::clone(&self.source), self.patience, Arc::clone(&self.counts));
            // A connection lives as long as the runtime that it was made on.
            self.spawn(async move {
                let made = connect(source, patience).await;
                if made.is_ok() {
                    Counts::one(&counts.connections);
                }
                told.send_replace(Some(made.map_err(|error| failed(&counts, &error))));
            });
        })
    }

    /// Waits for an answer. After an error that is not the server's word on the command, the connection is made anew.
    async fn wait<T>(
        &self,
        until: Instant,
        attempt: &Attempt<Connection>,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        let asked = Instant::now();
        let Ok(answer) = timeout_at(until, answer).await else {
            // Who has spent most of the time on waiting for the connection says little about it.
            if asked + self.patience / 2 < until {
                self.latest.lose(attempt);
            }
            return Err((ErrorKind::Io, "no answer in time").into());
        };
        if answer.as_ref().is_err_and(|error| is_lost(error) || error.code() == Some("READONLY")) {
            self.latest.lose(attempt);
        }
        answer
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
}

/// What the server did, if anything, is not known.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

fn failed(counts: &Counts, error: &RedisError) -> StoreError {
    let failure = unavailable(error);
    counts.failed(&failure.to_string());
    failure
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

/// Where a server does not know a command that every Redis knows.
pub(super) const COMMANDS_MEND: &str = "every Redis has this command unless its configuration renames it or turns it off: remove \
                                        that rename-command from redis.conf, and let a user's rights (ACL) do it instead";

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
        _ if error.detail().is_some_and(|said| said.starts_with("unknown command")) => COMMANDS_MEND,
        code => {
            let mend = match code {
                Some("OOM") => "; give it more memory (maxmemory), or free some of it",
                Some("NOREPLICAS") => "; bring its replicas back, or lower min-replicas-to-write",
                Some("READONLY") => "; it is a replica: name the primary, or make this one it",
                Some("MISCONF") => "; it cannot write to its disk: see its log, and free space there",
                _ => "",
            };
            return StoreError::Unavailable { reason: format!("redis: {error}{mend}") };
        }
    };
    StoreError::Denied { reason: format!("redis: {error}; {mend}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_takes_no_writes_is_told_with_what_mends_it() {
        // As Redis 7 words them; of a script it names the digest, which helps nobody.
        for (said, mend) in [
            (
                "-OOM command not allowed when used memory > 'maxmemory'. script: 5f1c, on @user_script:9.\r\n",
                "maxmemory)",
            ),
            (
                "-NOREPLICAS Not enough good replicas to write. script: 5f1c, on @user_script:9.\r\n",
                "min-replicas-to-write",
            ),
            ("-READONLY You can't write against a read only replica. script: 5f1c\r\n", "name the primary"),
            ("-MISCONF Errors writing to the AOF file: No space left on device\r\n", "free space there"),
        ] {
            let Ok(Value::ServerError(error)) = redis::parse_redis_value(said.as_bytes()) else {
                panic!("no error: {said}")
            };
            let told = unavailable(&error.into()).to_string();
            assert!(told.contains(mend), "{told}");
        }
    }
}
