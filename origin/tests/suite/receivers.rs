//! Who is told: a receiver of webhooks, a Redis server and a mail server, all real, on free ports, gone when dropped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use ropeline_test_ports::Port;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Looks until there is something; how long that may take is bounded, not measured.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    for _ in 0..1_200 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

/// A webhook as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Answer = dyn Fn(&Received) -> Response + Send + Sync;

/// A receiver of webhooks.
pub struct Receiver {
    pub base: String,
    received: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Takes everything.
    pub async fn start() -> Self {
        Self::answering(|_| StatusCode::NO_CONTENT.into_response()).await
    }

    pub async fn answering(answer: impl Fn(&Received) -> Response + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), answer).await
    }

    /// The same at an address where nobody was.
    pub async fn at(
        address: SocketAddr,
        answer: impl Fn(&Received) -> Response + Send + Sync + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer): (_, Arc<Answer>) = (received.clone(), Arc::new(answer));
        let app = axum::Router::new().fallback(move |uri: http::Uri, headers: HeaderMap, body: String| {
            let one = Received { path: uri.path().to_owned(), headers, body };
            seen.lock().unwrap().push(one.clone());
            let answer = answer.clone();
            // Answers may take their time, or end a process first.
            async move { tokio::task::spawn_blocking(move || answer(&one)).await.unwrap() }
        });
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { base, received, task }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The first so many, once they are there.
    pub async fn first(&self, count: usize) -> Vec<Received> {
        eventually("a webhook", || async {
            let received = self.received();
            (received.len() >= count).then_some(received)
        })
        .await
    }
}

/// A process that is killed when dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis server that keeps what it was told when it is started again.
pub struct Redis {
    dir: TempDir,
    port: Port,
    server: Option<Killed>,
}

impl Redis {
    pub async fn start() -> Self {
        let mut redis = Self { dir: tempfile::tempdir().unwrap(), port: Port::free(), server: None };
        redis.again().await;
        redis
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port.number())
    }

    pub fn stop(&mut self) {
        self.server = None;
    }

    pub async fn again(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.number().to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(self.dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is not installed; `scripts/setup.sh test` installs it");
        self.server = Some(Killed(child));
        let client = redis::Client::open(self.url()).unwrap();
        eventually("redis", || async {
            let mut connection = client.get_multiplexed_async_connection().await.ok()?;
            redis::cmd("PING").query_async::<String>(&mut connection).await.ok()
        })
        .await;
    }

    pub async fn connection(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
    }

    /// The entries of a stream, each as its fields.
    pub async fn entries(&self, stream: &str) -> Vec<std::collections::HashMap<String, String>> {
        let found: redis::streams::StreamRangeReply = redis::cmd("XRANGE")
            .arg(stream)
            .arg("-")
            .arg("+")
            .query_async(&mut self.connection().await)
            .await
            .unwrap();
        let fields = |entry: &redis::streams::StreamId| {
            entry.map.keys().map(|name| (name.clone(), entry.get(name).unwrap())).collect()
        };
        found.ids.iter().map(fields).collect()
    }

    /// The first so many entries, once they are there.
    pub async fn first(&self, stream: &str, count: usize) -> Vec<std::collections::HashMap<String, String>> {
        eventually("an entry", || async {
            let entries = self.entries(stream).await;
            (entries.len() >= count).then_some(entries)
        })
        .await
    }
}

const AIOSMTPD_VERSION: &str = "1.4.6";

/// A mail server, aiosmtpd, that puts every mail it takes into a folder.
pub struct MailServer {
    dir: TempDir,
    port: Port,
    server: Option<Killed>,
    /// More words for its command line.
    words: Vec<String>,
}

impl MailServer {
    /// One that is not there yet.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// The same, with more words for aiosmtpd's command line.
    pub fn with(words: &[&str]) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Self { dir: tempfile::tempdir().unwrap(), port: Port::free(), server: None, words }
    }

    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port.number())
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Starts it; it takes mails up to so many bytes.
    pub async fn start(&mut self, largest: u32) {
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"), PathBuf::from);
        let python = cache.join(format!("ropeline/aiosmtpd-{AIOSMTPD_VERSION}/bin/python"));
        assert!(python.exists(), "{} is missing: run scripts/setup.sh test", python.display());
        let child = Command::new(python)
            .args(["-m", "aiosmtpd", "--nosetuid", "--listen", &format!("127.0.0.1:{}", self.port.number())])
            .args(["--size", &largest.to_string()])
            .args(&self.words)
            .args(["--class", "aiosmtpd.handlers.Mailbox"])
            .arg(self.mailbox())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.server = Some(Killed(child));
        eventually("the mail server", || async {
            tokio::net::TcpStream::connect(self.port.address()).await.ok()
        })
        .await;
    }

    pub fn stop(&mut self) {
        self.server = None;
    }

    fn mailbox(&self) -> PathBuf {
        self.dir.path().join("mails")
    }

    /// The mails it took.
    pub fn mails(&self) -> Vec<String> {
        let Ok(folder) = std::fs::read_dir(self.mailbox().join("new")) else { return Vec::new() };
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        folder.map(|mail| read(&mail.unwrap().path())).collect()
    }

    /// The mails, once there are so many.
    pub async fn first(&self, count: usize) -> Vec<String> {
        eventually("a mail", || async {
            let mails = self.mails();
            (mails.len() >= count).then_some(mails)
        })
        .await
    }
}
