//! The real gateway, `ropeline serve`, in a folder of its own; or several that share a queue on a real Redis.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use ropeline_test_redis::{Durable, Server};
use serde_json::Value;
use tempfile::TempDir;

use crate::http;
use crate::ports::Port;
use crate::process::{Process, binary};
use crate::wait::within;

/// The issuer of every token that a gateway under test signs.
pub const ISSUER: &str = "https://shop.test";

/// A `[[sale]]` of the configuration: always on, 500 calls every five seconds, unless told otherwise.
#[derive(Debug, Clone)]
pub struct Sale(BTreeMap<&'static str, String>);

/// Everything before the first `[[sale]]`: defaults, and what a test sets.
#[derive(Debug, Clone)]
pub struct Settings {
    tables: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
    environment: Vec<(OsString, OsString)>,
    store: Store,
}

/// Where the queue lives, and how many gateways share it.
#[derive(Debug, Clone, Default)]
pub enum Store {
    /// In the one gateway that there is.
    #[default]
    Embedded,
    /// In a Redis that is started for it, and for so many gateways.
    Redis(usize),
    /// In a Redis that runs already, shared by so many gateways.
    At(Servers, usize),
}

/// The way to a Redis.
#[derive(Debug, Clone)]
pub enum Servers {
    /// One, at this address.
    Single(String),
    /// A cluster, of which these are members.
    Cluster(Vec<String>),
    /// Whichever one a sentinel names for a service.
    Sentinel {
        /// Where the sentinel is.
        address: String,
        /// What it calls what it watches.
        service: String,
    },
}

/// A running gateway, or several that share a queue and stand for one. They and their folders end with this value.
///
/// Whoever comes is sent to one after the other, with each request anew, as behind a balancer that knows nothing.
#[derive(Debug)]
pub struct Gateway {
    nodes: Vec<Node>,
    turn: AtomicUsize,
    operator_token: String,
    folder: TempDir,
    /// Ends after those who use it.
    redis: Option<Server>,
}

/// One process of them.
#[derive(Debug)]
pub struct Node {
    process: Process,
    shop: Port,
    operator: Port,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

/// How soon every gateway shows what an operator has told one.
const SOON: Duration = Duration::from_secs(2);

// === impl Sale ===

impl Sale {
    /// A sale that protects the paths `routes`.
    pub fn new(id: &str, routes: &[&str]) -> Self {
        let sale = Self(BTreeMap::new());
        sale.set("id", &quoted(id))
            .set("title", &quoted(&format!("Sale {id}")))
            .set("routes", &format!("{routes:?}"))
            .set("pace", r#"{ admit = 500, every = "5s" }"#)
            .set("max_active", "2000")
    }

    /// Sets `key` to `value`, which is written as TOML: text needs its quotation marks.
    #[must_use]
    pub fn set(mut self, key: &'static str, value: &str) -> Self {
        self.0.insert(key, value.to_owned());
        self
    }
}

// === impl Settings ===

impl Settings {
    /// The defaults, in front of the shop at `upstream`.
    pub fn new(upstream: SocketAddr) -> Self {
        Self { tables: BTreeMap::new(), environment: Vec::new(), store: Store::default() }
            .set("insecure", "plain_http", "true")
            .set("keys", "admission", r#"[{ path = "keys/admission.jwk", state = "sign" }]"#)
            // Everybody in a test has one address.
            .set("limits.join", "exempt", r#"["127.0.0.0/8"]"#)
            .set("keys", "ticket", r#"[{ path = "keys/ticket.jwk", state = "sign" }]"#)
            .set("operator", "token_file", r#""keys/operator.token""#)
            .set("queue", "issuer", &quoted(ISSUER))
            .set("upstream", "address", &quoted(&upstream.to_string()))
            .set("visitor", "cookie_secrets", r#"["keys/visitor.secret"]"#)
    }

    /// Sets `key` of `[table]` to `value`, which is written as TOML: text needs its quotation marks.
    #[must_use]
    pub fn set(mut self, table: &'static str, key: &'static str, value: &str) -> Self {
        self.tables.entry(table).or_default().insert(key, value.to_owned());
        self
    }

    /// Starts the gateways with what is set in the environment of this command.
    #[must_use]
    pub fn dressed_as(mut self, command: &Command) -> Self {
        let set = |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
        self.environment.extend(command.get_envs().filter_map(set));
        self
    }

    /// Keeps the queue there.
    #[must_use]
    pub fn on(mut self, store: Store) -> Self {
        self.store = store;
        self
    }
}

// === impl Servers ===

impl Servers {
    /// Names them in `[store]`.
    pub fn named_in(&self, settings: Settings) -> Settings {
        match self {
            Self::Single(url) => settings.set("store", "redis", &quoted(url)),
            Self::Cluster(urls) => settings.set("store", "redis_cluster", &format!("{urls:?}")),
            Self::Sentinel { address, service } => settings
                .set("store", "redis_sentinel", &format!("[{address:?}]"))
                .set("store", "redis_sentinel_service", &quoted(&format!("redis://{service}"))),
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// Makes keys, writes the configuration, starts the gateway and waits until it takes connections.
    pub async fn start(settings: Settings, sales: &[Sale]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the gateway");
        let keys = folder.path().join("keys");
        let made = Command::new(binary("ropeline"))
            .args([
                "keygen",
                "ticket",
                "admission",
                "visitor-secret",
                "operator-token",
                "invitation",
                "--dir",
            ])
            .arg(&keys)
            .output();
        let made = made.expect("ropeline keygen");
        assert!(made.status.success(), "keygen: {}", String::from_utf8_lossy(&made.stderr));
        let (redis, shared) = match settings.store.clone() {
            Store::Embedded => (None, None),
            Store::Redis(gateways) => {
                let server = Server::start(Durable::Never);
                let servers = Servers::Single(server.url());
                (Some(server), Some((servers, gateways)))
            }
            Store::At(servers, gateways) => (None, Some((servers, gateways))),
        };
        let count = shared.as_ref().map_or(1, |(_, gateways)| *gateways);
        let settings = match shared {
            None => settings,
            Some((servers, _)) => {
                let checkpoint = folder.path().join("checkpoint");
                fs::create_dir(&checkpoint).expect("a folder for the checkpoint");
                servers.named_in(settings).set("store", "checkpoint", &format!("{checkpoint:?}"))
            }
        };
        let mut nodes = Vec::new();
        for number in 0..count {
            nodes.push(Node::start(&settings, sales, folder.path(), number).await);
        }
        let operator_token = fs::read_to_string(keys.join("operator.token"));
        let operator_token = operator_token.expect("the operator's token").trim().to_owned();
        Self { nodes, turn: AtomicUsize::new(0), operator_token, folder, redis }
    }

    /// The gateways that it consists of.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The same, to do something to one of them.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The Redis that was started for it.
    ///
    /// # Panics
    /// When there is none.
    pub fn redis(&mut self) -> &mut Server {
        self.redis.as_mut().expect("a Redis of its own")
    }

    fn next(&self) -> &Node {
        &self.nodes[self.turn.fetch_add(1, Ordering::Relaxed) % self.nodes.len()]
    }

    /// Where shoppers connect.
    pub fn address(&self) -> SocketAddr {
        self.nodes[0].shop.address()
    }

    /// Where the operator connects.
    pub fn operator_address(&self) -> SocketAddr {
        self.nodes[0].operator.address()
    }

    /// The bearer token of the operator's listener.
    pub fn operator_token(&self) -> &str {
        &self.operator_token
    }

    /// Calls the operator's listener with its token; the status, and the document where there is one.
    pub async fn operator(
        &self,
        method: Method,
        path: &str,
        document: Option<&Value>,
    ) -> (StatusCode, Value) {
        let url = format!("http://{}{path}", self.next().operator.address());
        let mut request = http::client().request(method, url).bearer_auth(&self.operator_token);
        if let Some(document) = document {
            request = request.json(document);
        }
        let answer = request.send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        let (status, bytes) = (answer.status(), answer.bytes().await.unwrap_or_default());
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Sends a command for a sale (`open`, `pause`, …) to the operator's listener, with its document; every gateway shows
    /// what came of it.
    ///
    /// # Panics
    /// When it is not carried out, or not shown soon.
    pub async fn command(&self, sale: &str, command: &str, document: &Value) -> Value {
        let path = format!("/api/v1/operator/sales/{sale}/{command}");
        let (status, answer) = self.operator(Method::POST, &path, Some(document)).await;
        assert!(status.is_success(), "{command} {sale}: {status} {answer}");
        if self.nodes.len() > 1 {
            let at = answer["sale"]["as_of"].as_u64().expect("a time");
            for node in &self.nodes {
                let shown = async || node.snapshot(sale).await["as_of"].as_u64().filter(|shown| *shown >= at);
                within(SOON, "a gateway shows what another was told", shown).await;
            }
        }
        answer
    }

    /// A sale as its operator sees it.
    ///
    /// # Panics
    /// When there is none.
    pub async fn sale(&self, sale: &str) -> Value {
        let path = format!("/api/v1/operator/sales/{sale}");
        let (status, answer) = self.operator(Method::GET, &path, None).await;
        assert!(status.is_success(), "{sale}: {status} {answer}");
        answer
    }

    /// The address of `path` for a shopper.
    pub fn url(&self, path: &str) -> String {
        self.nodes[0].url(path)
    }

    /// The folder with its configuration, keys, store and log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.nodes[0].process
    }

    /// Kills it at once (SIGKILL) and starts it again on the same folder and ports.
    pub async fn kill_and_restart(&mut self) {
        for node in &mut self.nodes {
            node.process.kill();
        }
        for node in &mut self.nodes {
            node.restart().await;
        }
    }

    /// Stops it as an operator would (SIGTERM).
    ///
    /// # Panics
    /// When it does not end well, or takes more than `limit`.
    pub async fn stop(&mut self, limit: Duration) {
        for node in &mut self.nodes {
            let status = node.process.stop(limit).await;
            assert!(status.success(), "it ended with {status}");
        }
    }
}

// === impl Node ===

impl Node {
    async fn start(settings: &Settings, sales: &[Sale], first: &Path, number: usize) -> Self {
        let folder = if number == 0 { first.to_owned() } else { first.join(format!("gateway-{number}")) };
        if number > 0 {
            // All sign with the same keys and know the same visitors.
            fs::create_dir_all(folder.join("keys")).expect("a folder for another gateway");
            for file in fs::read_dir(first.join("keys")).expect("the keys") {
                let file = file.expect("a key");
                fs::copy(file.path(), folder.join("keys").join(file.file_name())).expect("a copy of a key");
            }
        }
        let (shop, operator) = (Port::free(), Port::free());
        let settings = settings
            .clone()
            .set("listen", "shop", &format!("[{}]", quoted(&shop.address().to_string())))
            .set("listen", "operator", &quoted(&operator.address().to_string()));
        fs::write(folder.join("ropeline.toml"), configuration(&settings, sales))
            .expect("a configuration file");
        let environment = settings.environment;
        let process = launch(&folder, shop.address(), operator.address(), &environment).await;
        Self { process, shop, operator, folder, environment }
    }

    /// Where shoppers connect.
    pub fn address(&self) -> SocketAddr {
        self.shop.address()
    }

    /// Where the operator connects.
    pub fn operator_address(&self) -> SocketAddr {
        self.operator.address()
    }

    /// The address of `path` for a shopper.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.shop.address())
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Starts it again, after it was killed, on the same folder and ports.
    pub async fn restart(&mut self) {
        let Self { shop, operator, folder, environment, .. } = self;
        self.process = launch(folder, shop.address(), operator.address(), environment).await;
    }

    /// What it shows of a sale; nothing where it shows none.
    pub async fn snapshot(&self, sale: &str) -> Value {
        let url = self.url(&format!("/api/v1/queue/sales/{sale}/snapshot"));
        let answer = http::client().get(url).send().await.expect("an answer");
        serde_json::from_slice(&answer.bytes().await.unwrap_or_default()).unwrap_or_default()
    }

    /// Where it counts.
    pub fn metrics_url(&self) -> String {
        format!("http://{}/metrics", self.operator.address())
    }

    /// What it says of itself to a balancer.
    pub async fn readiness(&self) -> (StatusCode, String) {
        let url = format!("http://{}/readyz", self.operator.address());
        let answer = http::client().get(url).send().await.expect("an answer");
        (answer.status(), answer.text().await.unwrap_or_default())
    }
}

async fn launch(
    folder: &Path,
    shop: SocketAddr,
    operator: SocketAddr,
    environment: &[(OsString, OsString)],
) -> Process {
    let mut command = Command::new(binary("ropeline"));
    command.arg("serve").arg("-c").arg(folder.join("ropeline.toml"));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let mut process = Process::spawn("ropeline", command, folder);
    process.listening(operator).await;
    process.listening(shop).await;
    process
}

fn configuration(settings: &Settings, sales: &[Sale]) -> String {
    let mut text = String::new();
    let mut table = |head: String, keys: &BTreeMap<&str, String>| {
        text += &head;
        for (key, value) in keys {
            writeln!(text, "{key} = {value}").expect("memory");
        }
    };
    for (name, keys) in &settings.tables {
        table(format!("\n[{name}]\n"), keys);
    }
    for sale in sales {
        table("\n[[sale]]\n".to_owned(), &sale.0);
    }
    text
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}
