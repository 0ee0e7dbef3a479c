//! The real gateway, `ropeline serve`, in a folder of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

use crate::http;
use crate::ports::Port;
use crate::process::{Process, binary};

/// The issuer of every token that a gateway under test signs.
pub const ISSUER: &str = "https://shop.test";

/// A `[[sale]]` of the configuration: always on, 500 calls every five seconds, unless told otherwise.
#[derive(Debug, Clone)]
pub struct Sale(BTreeMap<&'static str, String>);

/// Everything before the first `[[sale]]`: defaults, and what a test sets.
#[derive(Debug, Clone)]
pub struct Settings(BTreeMap<&'static str, BTreeMap<&'static str, String>>);

/// A running gateway. It and its folder end with this value.
#[derive(Debug)]
pub struct Gateway {
    process: Process,
    shop: Port,
    operator: Port,
    operator_token: String,
    folder: TempDir,
}

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
        Self(BTreeMap::new())
            .set("insecure", "plain_http", "true")
            .set("keys", "admission", r#"[{ path = "keys/admission.jwk", state = "sign" }]"#)
            .set("keys", "ticket", r#"[{ path = "keys/ticket.jwk", state = "sign" }]"#)
            .set("operator", "token_file", r#""keys/operator.token""#)
            .set("queue", "issuer", &quoted(ISSUER))
            .set("upstream", "address", &quoted(&upstream.to_string()))
            .set("visitor", "cookie_secrets", r#"["keys/visitor.secret"]"#)
    }

    /// Sets `key` of `[table]` to `value`, which is written as TOML: text needs its quotation marks.
    #[must_use]
    pub fn set(mut self, table: &'static str, key: &'static str, value: &str) -> Self {
        self.0.entry(table).or_default().insert(key, value.to_owned());
        self
    }
}

// === impl Gateway ===

impl Gateway {
    /// Makes keys, writes the configuration, starts the gateway and waits until it takes connections.
    pub async fn start(settings: Settings, sales: &[Sale]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the gateway");
        let (shop, operator) = (Port::free(), Port::free());
        let keys = Command::new(binary("ropeline"))
            .args(["keygen", "--dir"])
            .arg(folder.path().join("keys"))
            .output()
            .expect("ropeline keygen");
        assert!(keys.status.success(), "keygen: {}", String::from_utf8_lossy(&keys.stderr));
        let settings = settings
            .set("listen", "shop", &format!("[{}]", quoted(&shop.address().to_string())))
            .set("listen", "operator", &quoted(&operator.address().to_string()));
        let text = configuration(&settings, sales);
        fs::write(folder.path().join("ropeline.toml"), text).expect("a configuration file");
        let operator_token = fs::read_to_string(folder.path().join("keys/operator.token"));
        let operator_token = operator_token.expect("the operator's token").trim().to_owned();
        let process = launch(folder.path(), shop.address(), operator.address()).await;
        Self { process, shop, operator, operator_token, folder }
    }

    /// Where shoppers connect.
    pub fn address(&self) -> SocketAddr {
        self.shop.address()
    }

    /// Where the operator connects.
    pub fn operator_address(&self) -> SocketAddr {
        self.operator.address()
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
        let url = format!("http://{}{path}", self.operator.address());
        let mut request = http::client().request(method, url).bearer_auth(&self.operator_token);
        if let Some(document) = document {
            request = request.json(document);
        }
        let answer = request.send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        let (status, bytes) = (answer.status(), answer.bytes().await.unwrap_or_default());
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Sends a command for a sale (`open`, `pause`, …) to the operator's listener, with its document.
    ///
    /// # Panics
    /// When it is not carried out.
    pub async fn command(&self, sale: &str, command: &str, document: &Value) -> Value {
        let path = format!("/api/v1/operator/sales/{sale}/{command}");
        let (status, answer) = self.operator(Method::POST, &path, Some(document)).await;
        assert!(status.is_success(), "{command} {sale}: {status} {answer}");
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
        format!("http://{}{path}", self.shop.address())
    }

    /// The folder with its configuration, keys, store and log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Kills it at once (SIGKILL) and starts it again on the same folder and ports.
    pub async fn kill_and_restart(&mut self) {
        self.process.kill();
        self.process = launch(self.folder.path(), self.shop.address(), self.operator.address()).await;
    }

    /// Stops it as an operator would (SIGTERM).
    ///
    /// # Panics
    /// When it does not end well, or takes more than `limit`.
    pub async fn stop(&mut self, limit: Duration) {
        let status = self.process.stop(limit).await;
        assert!(status.success(), "it ended with {status}");
    }
}

async fn launch(folder: &Path, shop: SocketAddr, operator: SocketAddr) -> Process {
    let configuration = folder.join("ropeline.toml");
    let arguments = ["serve".as_ref(), "-c".as_ref(), configuration.as_os_str()];
    let mut process = Process::start("ropeline", &binary("ropeline"), arguments, folder, &[]);
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
    for (name, keys) in &settings.0 {
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
