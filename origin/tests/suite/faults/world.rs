//! The processes of a run: one node on a file, or two on a PostgreSQL server of their own. What is done to them waits for
//! it to be done, so it is called from a thread of its own.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use ropeline_test_postgres::{Clock, Postgres};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::books::Books;
use super::goods::{Goods, Kind};
use super::proxy::Port;
use super::receiver::SECRET;
use crate::common::{Gate, ISSUER, SALE};
use crate::stripe::{ACCOUNT, ENDPOINT};

/// How long a node may take to start, with a database that is recovering, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long holds last in a sale, in seconds.
pub(super) const HOLD: u64 = 3;
/// How much of a log is shown when a run fails.
const LOG_TAIL: u64 = 6_000;

/// Where the books are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Sqlite,
    Postgres,
}

/// What the nodes are told of the others.
pub(super) struct Surroundings<'a> {
    pub(super) gate: &'a Gate,
    pub(super) goods: &'a Goods,
    pub(super) payment_service: &'a str,
    /// Where events are told.
    pub(super) receiver: &'a str,
    /// How long holds last, in seconds.
    pub(super) hold: u64,
    /// How long the payment service is waited for, in seconds.
    pub(super) timeout: u64,
}

/// All processes of a run. They end with it.
#[derive(Debug)]
pub(super) struct World {
    folder: TempDir,
    /// Of the database: of a file, that is of the node itself.
    clock: Option<Clock>,
    server: Option<Postgres>,
    pub(super) nodes: Vec<Node>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    config: PathBuf,
    log: PathBuf,
    clock: Option<Clock>,
    child: Option<Child>,
    pub(super) port: Port,
}

// === impl World ===

impl World {
    /// Starts all of them, with all files in folders in `place`.
    pub(super) fn build(store: Store, place: &Path, around: &Surroundings<'_>) -> Self {
        let folder = tempfile::tempdir_in(place).unwrap();
        let server = (store == Store::Postgres).then(|| Postgres::start_in_with_clock(place));
        let clock = server.is_none().then(|| Clock::new(folder.path().join("clock")));
        let database = match &server {
            Some(server) => server.create("shop"),
            None => folder.path().join("shop.db").display().to_string(),
        };
        fs::write(folder.path().join("jwks.json"), around.gate.jwks()).unwrap();
        let config = folder.path().join("origin.toml");
        fs::write(&config, configuration(&database, folder.path(), around)).unwrap();
        if server.is_some() {
            let migrated = program().args(["migrate", "--config"]).arg(&config).status().unwrap();
            assert!(migrated.success(), "the tables could not be made");
        }
        let nodes = if server.is_some() { 2 } else { 1 };
        let nodes = (0..nodes)
            .map(|number| Node {
                config: config.clone(),
                log: folder.path().join(format!("node-{number}.log")),
                clock: clock.clone(),
                child: None,
                port: Port::new(AtomicU16::new(0)),
            })
            .collect();
        let mut world = Self { folder, clock, server, nodes };
        for node in &mut world.nodes {
            node.start();
        }
        world
    }

    pub(super) fn has_server(&self) -> bool {
        self.server.is_some()
    }

    pub(super) fn step_clock(&self, seconds: i64) {
        match (&self.server, &self.clock) {
            (Some(server), _) => server.step_clock(seconds),
            (None, Some(clock)) => clock.step(seconds),
            (None, None) => {}
        }
    }

    pub(super) fn kill_server(&mut self) {
        self.server.as_mut().unwrap().kill();
    }

    pub(super) fn launch_server(&mut self) {
        self.server.as_mut().unwrap().launch();
    }

    pub(super) fn pause_server(&self) {
        self.server.as_ref().unwrap().pause();
    }

    pub(super) fn resume_server(&self) {
        self.server.as_ref().unwrap().resume();
    }

    /// Runs SQL on the server, whether or not it can.
    pub(super) fn try_sql(&self, sql: &str) -> bool {
        self.server.as_ref().unwrap().try_psql("shop", sql)
    }

    /// Ends some of the nodes' connections to the server, unless it has so many that it takes no more.
    pub(super) fn cut_sessions(&self) {
        self.try_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name = 'ropeline-origin' AND random() < 0.5",
        );
    }

    /// Own eyes on the books, when nothing goes wrong any more.
    pub(super) async fn books(&self) -> Books {
        match &self.server {
            Some(server) => Books::postgres(&server.url("shop")).await,
            None => Books::sqlite(&self.folder.path().join("shop.db")).await,
        }
    }

    /// What the nodes wrote last.
    pub(super) fn logs(&self) -> String {
        let mut all = String::new();
        for node in &self.nodes {
            let tail = tail(&node.log);
            writeln!(all, "--- {} wrote:\n{tail}\n--- end", node.log.display()).unwrap();
        }
        all
    }
}

fn tail(path: &Path) -> String {
    let Ok(mut file) = File::open(path) else { return String::new() };
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = Vec::new();
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)));
    let _ = file.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"));
    program.env_remove("RUST_LOG").stdin(Stdio::null());
    program
}

fn configuration(database: &str, folder: &Path, around: &Surroundings<'_>) -> String {
    let Surroundings { gate: _, goods, payment_service, receiver, hold, timeout } = around;
    let jwks = folder.join("jwks.json");
    let mut text = format!(
        "listen = '127.0.0.1:0'\ndatabase = '{database}'\npublic_url = 'https://shop.example'\n\
         hold_seconds = {hold}\nhold_extension_seconds = 2\n\
         [limits]\nunits_per_visitor = 4\n\
         [admission]\njwks_file = '{}'\nissuer = '{ISSUER}'\naudience = '{SALE}'\n\
         [payments]\nprovider = 'stripe'\nreconcile_seconds = 1\n\
         [payments.stripe]\nsecret_key = '{ACCOUNT}'\nwebhook_secrets = ['{ENDPOINT}']\n\
         base_url = '{payment_service}'\nat_once = ['ideal']\ntimeout_seconds = {timeout}\n\
         [[outbox.webhooks]]\nname = 'run'\nurl = '{receiver}'\nsecrets = ['{SECRET}']\ntimeout_seconds = 5\n",
        jwks.display()
    );
    for product in &goods.0 {
        let kind = match product.kind {
            Kind::Count => "count",
            Kind::Units => "units",
        };
        write!(
            text,
            "[[products]]\nid = '{0}'\nname = '{0}'\nprice_minor = {1}\ncurrency = 'EUR'\ntotal = {2}\n\
             max_quantity = {3}\nkind = '{kind}'\n",
            product.id, product.price, product.total, product.most
        )
        .unwrap();
    }
    text
}

// === impl Node ===

impl Node {
    /// Starts it, again and again if its database is not there yet, and waits until it answers.
    pub(super) fn start(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = fs::metadata(&self.log).map_or(0, |data| data.len());
            let log = File::options().create(true).append(true).open(&self.log).unwrap();
            let mut command = program();
            command.args(["serve", "--config"]).arg(&self.config).stdout(Stdio::null()).stderr(log);
            if let Some(clock) = &self.clock {
                clock.wear(&mut command, true);
            }
            let mut child = command.spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if let Some(port) = listening(&self.log, before) {
                    self.port.store(port, Ordering::Relaxed);
                    self.child = Some(child);
                    return;
                }
                if Instant::now() > deadline {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(Instant::now() < deadline, "a node does not start:\n{}", tail(&self.log));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// SIGKILL: nothing is flushed, nothing is said goodbye to.
    pub(super) fn kill(&mut self) {
        self.port.store(0, Ordering::Relaxed);
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The same for one that others look at; [`Node::kill`] is to follow.
    pub(super) fn strike(&self) {
        self.signal(Signal::KILL);
    }

    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    /// Where the node itself is reached.
    pub(super) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.load(Ordering::Relaxed))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The port that a node's log names after `from`.
fn listening(log: &Path, from: u64) -> Option<u16> {
    let mut file = File::open(log).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    // The last line may be half written.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let said = lines.map(|line| line["fields"].clone()).find(|fields| fields["message"] == "listening")?;
    said["address"].as_str()?.rsplit_once(':')?.1.parse().ok()
}
