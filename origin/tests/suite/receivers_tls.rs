//! The way to Redis and to the mail server under TLS, where others may listen or answer. The system's trust is a file here, as
//! `SSL_CERT_FILE` names one.

use std::path::Path;
use std::process::{Command, Stdio};

use ropeline_test_ports::Port;
use serde_json::json;

use crate::authority::Authority;
use crate::common::{Gate, ISSUER, SALE, SECRET, client, said};
use crate::notify::{self, EMAIL, STREAM, all_confirmed, log, tries, worker_at};
use crate::outbox::buy;
use crate::receivers::{Killed, MailServer, Redis, eventually};

/// A Redis server that speaks TLS alone, with this certificate and key.
struct Vault {
    port: Port,
    root: std::path::PathBuf,
    _server: Killed,
    _folder: tempfile::TempDir,
}

// === impl Vault ===

impl Vault {
    async fn start(authority: &Authority, name: &str) -> Self {
        let (port, folder) = (Port::free(), tempfile::tempdir().unwrap());
        let (certificate, key) = authority.certify_in_files(name);
        let server = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--tls-port",
                &port.number().to_string(),
            ])
            .args(["--tls-auth-clients", "no", "--requirepass", "sesame", "--dir"])
            .arg(folder.path())
            .arg("--tls-cert-file")
            .arg(certificate)
            .arg("--tls-key-file")
            .arg(key)
            .arg("--tls-ca-cert-file")
            .arg(authority.root())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is not installed; `scripts/setup.sh test` installs it");
        let vault = Self { port, root: authority.root(), _server: Killed(server), _folder: folder };
        eventually("redis", || async { (vault.ask("PING")? == "PONG").then_some(()) }).await;
        vault
    }

    /// What it answers to somebody who believes its authority, and not the name.
    fn ask(&self, words: &str) -> Option<String> {
        let said = Command::new("redis-cli")
            .args([
                "--no-auth-warning",
                "-a",
                "sesame",
                "--tls",
                "-h",
                "127.0.0.1",
                "-p",
                &self.port.number().to_string(),
            ])
            .arg("--cacert")
            .arg(&self.root)
            .args(words.split(' '))
            .stderr(Stdio::null())
            .output()
            .unwrap();
        said.status.success().then(|| String::from_utf8(said.stdout).unwrap().trim().to_owned())
    }
}

/// A service whose system trusts `root` alone, and that tells a vault of what happens.
struct Service {
    base: String,
    gate: Gate,
    config: std::path::PathBuf,
    root: std::path::PathBuf,
    _process: Killed,
    _port: Port,
    _folder: tempfile::TempDir,
}

// === impl Service ===

impl Service {
    async fn start(vault: &Vault, root: &Path) -> Self {
        let (folder, gate, port) = (tempfile::tempdir().unwrap(), Gate::new(7), Port::free());
        let (jwks, config) = (folder.path().join("jwks.json"), folder.path().join("origin.toml"));
        std::fs::write(&jwks, gate.jwks()).unwrap();
        let text = format!(
            "listen = '{}'\ndatabase = {:?}\npublic_url = 'https://shop.example'\n\
             [admission]\njwks_file = {jwks:?}\nissuer = '{ISSUER}'\naudience = '{SALE}'\n\
             [payments]\nwebhook_secret = '{SECRET}'\n\
             [outbox]\nredis_url = 'rediss://:sesame@localhost:{}'\nstream = '{STREAM}'\n\
             [[products]]\nid = 'runner'\nname = 'Runner'\nprice_minor = 1\ncurrency = 'EUR'\ntotal = 9\n",
            port.address(),
            folder.path().join("shop.db"),
            vault.port.number(),
        );
        std::fs::write(&config, text).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
            .args(["serve", "--config"])
            .arg(&config)
            .env("SSL_CERT_FILE", root)
            .env_remove("SSL_CERT_DIR")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let service = Self {
            base: format!("http://{}", port.address()),
            gate,
            config,
            root: root.to_owned(),
            _process: Killed(process),
            _port: port,
            _folder: folder,
        };
        let http = client();
        eventually("the service", || async {
            http.get(format!("{}/healthz", service.base)).send().await.ok()
        })
        .await;
        service
    }

    /// Something happens that is to be told.
    async fn cancel(&self) {
        let post = |path: String, key: &str| {
            client()
                .post(format!("{}{path}", self.base))
                .header("ropeline-admission", self.gate.token("ann"))
                .header("idempotency-key", key)
                .json(&json!({}))
        };
        let held = said(post("/products/runner/reservations".into(), "hold")).await;
        assert_eq!(held.status, 201, "{}", held.text);
        let id = held.body["id"].as_str().unwrap();
        assert_eq!(said(post(format!("/reservations/{id}/cancel"), "give")).await.status, 204);
    }

    /// Why the first event that waits was not taken, once it was tried.
    async fn failure(&self) -> String {
        eventually("a failure", || async {
            let listed = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
                .args(["outbox", "list", "--config"])
                .arg(&self.config)
                .env("SSL_CERT_FILE", &self.root)
                .output()
                .unwrap();
            let event: serde_json::Value = serde_json::from_slice(&listed.stdout).ok()?;
            event["failure"].as_str().map(str::to_owned)
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_spoken_to_under_tls_and_only_with_the_right_certificate() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let vault = Vault::start(&ours, "localhost").await;
    let service = Service::start(&vault, &ours.root()).await;
    service.cancel().await;
    eventually("the event", || async { (vault.ask(&format!("XLEN {STREAM}"))? == "1").then_some(()) }).await;
    drop(service);

    // Certified by somebody else.
    let service = Service::start(&vault, &theirs.root()).await;
    service.cancel().await;
    let why = service.failure().await;
    assert!(why.contains("UnknownIssuer"), "{why}");
    drop(service);
    assert_eq!(vault.ask(&format!("XLEN {STREAM}")).unwrap(), "1", "it was told nothing more");

    // Certified for another server.
    let other = Vault::start(&ours, "redis.example").await;
    let service = Service::start(&other, &ours.root()).await;
    service.cancel().await;
    let why = service.failure().await;
    assert!(why.contains("not valid for name"), "{why}");
    assert_eq!(other.ask(&format!("XLEN {STREAM}")).unwrap(), "0");
}

/// The words by which aiosmtpd has a certificate.
fn certified(authority: &Authority, name: &str, prefix: &str) -> MailServer {
    let (certificate, key) = authority.certify_in_files(name);
    let (certificate, key) = (certificate.to_str().unwrap().to_owned(), key.to_str().unwrap().to_owned());
    MailServer::with(&[&format!("--{prefix}cert"), &certificate, &format!("--{prefix}key"), &key])
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_servers_are_spoken_to_under_tls_and_only_with_the_right_certificate() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let redis = Redis::start().await;
    let shop = notify::shop(&redis).await;
    for (prefix, before, after) in [("smtps", "smtps", ""), ("tls", "smtp", "?tls=required")] {
        let mut mails = certified(&ours, "localhost", prefix);
        mails.start(1 << 20).await;
        let url = format!("{before}://localhost:{}{after}", mails.port());
        let mut other = certified(&ours, "mail.example", prefix);
        other.start(1 << 20).await;
        let other_url = format!("{before}://localhost:{}{after}", other.port());
        buy(&shop, &format!("ann-{prefix}"), Some(EMAIL)).await;

        // Certified by somebody else, and certified for another server: the mail waits.
        for (url, root) in [(&url, theirs.root()), (&other_url, ours.root())] {
            let folder = tempfile::tempdir().unwrap();
            let before = tries(&redis).await.unwrap_or(0);
            let worker = worker_at(&redis, url, &folder, &[("SSL_CERT_FILE", &root)]);
            // It is taken up a second time, and so was tried.
            eventually("another try", || async { (tries(&redis).await? >= before + 2).then_some(()) }).await;
            let log = log(worker);
            assert!(log.contains("no mail can be sent") && !log.contains("refused"), "{log}");
        }
        assert!(mails.mails().is_empty() && other.mails().is_empty());

        let folder = tempfile::tempdir().unwrap();
        let _worker = worker_at(&redis, &url, &folder, &[("SSL_CERT_FILE", &ours.root())]);
        mails.first(1).await;
        all_confirmed(&redis).await;
    }
    assert!(redis.entries(&format!("{STREAM}:dead")).await.is_empty());
}
