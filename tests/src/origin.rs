//! The real reservation service, `ropeline-origin serve`, in a folder of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::gateway::{Gateway, ISSUER};
use crate::http;
use crate::ports::Port;
use crate::process::{Process, binary};
use crate::wait::until;

/// What a reservation service under test sells.
#[derive(Debug, Clone)]
pub struct Product {
    /// Its id, and that of the sale it is sold in.
    pub id: String,
    /// Units there are.
    pub total: u32,
    /// How long a hold lasts, in seconds.
    pub hold_seconds: u32,
}

/// What a test sets otherwise than it is by itself.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// The address of an empty PostgreSQL database; without one its books are a file.
    pub database: Option<String>,
    /// How long the test provider's slow cards take, in milliseconds.
    pub test_delay_ms: u32,
    /// Requests that the service wants to work on at once.
    pub requests_at_once: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { database: None, test_delay_ms: 5_000, requests_at_once: 256 }
    }
}

/// A running reservation service. It and its folder end with this value.
#[derive(Debug)]
pub struct Origin {
    process: Process,
    port: Port,
    folder: TempDir,
}

impl Origin {
    /// Starts it on `port`, which the gateway in front of it has as its upstream, and waits until it can
    /// let shoppers in. It gets its keys from that gateway.
    pub async fn start(port: Port, gateway: &Gateway, product: &Product) -> Self {
        Self::start_behind(port, gateway, product, &gateway.url("")).await
    }

    /// The same, where shoppers reach it at `public`: by an edge in front of the gateway.
    pub async fn start_behind(port: Port, gateway: &Gateway, product: &Product, public: &str) -> Self {
        Self::start_tuned(port, gateway, product, public, Tuning::default()).await
    }

    /// The same, with settings of its own.
    pub async fn start_tuned(
        port: Port,
        gateway: &Gateway,
        product: &Product,
        public: &str,
        tuning: Tuning,
    ) -> Self {
        let Tuning { database, test_delay_ms, requests_at_once } = tuning;
        let folder = tempfile::tempdir().expect("a folder for the reservation service");
        let on_postgres = database.is_some();
        let Product { id, total, hold_seconds } = product;
        let text = format!(
            r#"
listen = "{address}"
database = "{database}"
public_url = "{public}"
hold_seconds = {hold_seconds}

[limits]
requests_at_once = {requests_at_once}

[admission]
jwks_url = "{keys}"
issuer = "{ISSUER}"
audience = "{id}"

[payments]
webhook_secret = "whsec_of_the_whole_system_tests"
test_delay_ms = {test_delay_ms}
test_database = "{payments}"

[[products]]
id = "{id}"
name = "Product {id}"
price_minor = 18900
currency = "EUR"
total = {total}
"#,
            address = port.address(),
            database = database.unwrap_or_else(|| folder.path().join("origin.db").display().to_string()),
            payments = folder.path().join("payments.db").display(),
            keys = gateway.url("/.well-known/jwks.json"),
        );
        fs::write(folder.path().join("origin.toml"), text).expect("a configuration file");
        if on_postgres {
            migrate(&folder);
        }
        let process = launch(&folder, port.address()).await;
        Self { process, port, folder }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Where the service keeps its files: its books, `origin.db` unless they are on a server, and the test provider's,
    /// `payments.db`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Kills it at once (SIGKILL) and starts it again on the same folder and port.
    pub async fn kill_and_restart(&mut self) {
        self.process.kill();
        self.restart().await;
    }

    /// Starts it again, after it was killed, on the same folder and port.
    pub async fn restart(&mut self) {
        self.process = launch(&self.folder, self.port.address()).await;
    }
}

fn migrate(folder: &TempDir) {
    let mut migrate = Command::new(binary("ropeline-origin"));
    let done = migrate.args(["migrate", "--config"]).arg(folder.path().join("origin.toml")).output();
    let done = done.expect("ropeline-origin migrate");
    assert!(done.status.success(), "migrate: {}", String::from_utf8_lossy(&done.stderr));
}

async fn launch(folder: &TempDir, address: SocketAddr) -> Process {
    let configuration = folder.path().join("origin.toml");
    let arguments = ["serve".as_ref(), "--config".as_ref(), configuration.as_os_str()];
    let mut process =
        Process::start("ropeline-origin", &binary("ropeline-origin"), arguments, folder.path(), &[]);
    process.listening(address).await;
    // It listens before it has the gateway's keys, and then says of itself that it cannot let anybody in.
    let (client, health) = (http::client(), format!("http://{address}/healthz"));
    until("the reservation service has its keys", || async {
        let answer = client.get(&health).send().await.ok()?;
        answer.status().is_success().then_some(())
    })
    .await;
    process
}
