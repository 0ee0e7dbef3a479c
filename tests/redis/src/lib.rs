//! A real Redis server, or a cluster of them, for a test or a benchmark.
//!
//! Everything is bound to loopback, keeps its files in a folder of its own and ends with the value that stands for it.
//! The functions block: they start processes and wait for them.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test says what broke by panicking"
)]

mod cluster;
mod proxy;
mod sentinel;
mod tls;
mod wire;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ropeline_test_ports::Port;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use cluster::Cluster;
pub use proxy::{Proxy, Way};
pub use sentinel::Sentinel;
pub use tls::Certificates;
pub use wire::Reply;

/// How long a server may take to do what it was told.
const PATIENCE: Duration = Duration::from_secs(30);

/// When what a server was told is on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// Before it answers.
    Always,
    /// A second later at most.
    EverySecond,
    /// Never: a restart begins empty.
    Never,
}

/// A server that can be stopped and started again on the same port.
#[derive(Debug)]
pub struct Server {
    folder: TempDir,
    port: u16,
    /// What it listens on first, and for others than clients.
    ports: Vec<Port>,
    durable: Durable,
    more: Vec<String>,
    process: Option<Child>,
}

// === impl Server ===

impl Server {
    /// Starts one.
    pub fn start(durable: Durable) -> Self {
        Self::start_with(durable, &[])
    }

    /// Starts one with more of `redis-server`'s options.
    pub fn start_with(durable: Durable, more: &[&str]) -> Self {
        Self::start_at(vec![Port::free()], durable, more)
    }

    /// Starts one that takes connections by TLS too, from who shows a certificate alone, at [`Server::tls_port`].
    pub fn start_by_tls(durable: Durable, certificates: &Certificates, more: &[&str]) -> Self {
        let ports = vec![Port::free(), Port::free()];
        let options = certificates.options(ports[1].number());
        let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Self::start_at(ports, durable, &options)
    }

    /// Starts one at the first of these ports. The others are those of its options.
    fn start_at(ports: Vec<Port>, durable: Durable, more: &[&str]) -> Self {
        let mut server = Self {
            folder: tempfile::tempdir().expect("a folder for the server"),
            port: ports[0].number(),
            ports,
            durable,
            more: more.iter().map(|option| (*option).to_owned()).collect(),
            process: None,
        };
        server.again();
        server
    }

    /// Starts a replica of this one, and waits until it has all of it.
    pub fn replica(&self, durable: Durable) -> Self {
        let replica = Self::start_with(durable, &["--replicaof", "127.0.0.1", &self.port.to_string()]);
        replica.catch_up(self);
        replica
    }

    /// Waits until it has all that its master was told.
    pub fn catch_up(&self, master: &Self) {
        eventually("the replica to follow", || {
            let Reply::Text(info) = self.ask(&["INFO", "replication"]) else { return false };
            info.contains("master_link_status:up")
                && self.info("replication", "slave_repl_offset")
                    >= master.info("replication", "master_repl_offset")
        });
    }

    /// Freezes a replica of this one and cuts the link between them, so that it never hears of what comes now.
    pub fn leave_behind(&self, replica: &Self) {
        replica.catch_up(self);
        replica.freeze();
        let Reply::Number(1..) = self.ask(&["CLIENT", "KILL", "TYPE", "replica"]) else {
            panic!("the master has no replica");
        };
    }

    /// The port it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The port where it takes connections by TLS, if it was started so.
    pub fn tls_port(&self) -> u16 {
        self.ports[1].number()
    }

    /// What a client connects to.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its folder, with its append-only file.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("the server to be there");
            process.wait().expect("the server to end");
        }
    }

    /// Stops it for as long as the function runs: nobody gets an answer, no connection is lost.
    pub fn frozen<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        self.freeze();
        let done = meanwhile();
        self.thaw();
        done
    }

    /// Stops it until [`Server::thaw`].
    pub fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("the server to be there");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).expect("the server to be there");
    }

    fn pid(&self) -> Pid {
        let process = self.process.as_ref().expect("a server that runs");
        Pid::from_child(process)
    }

    /// Starts it again with what it has on its disk, and waits until it answers.
    pub fn again(&mut self) {
        let (append, fsync) = match self.durable {
            Durable::Always => ("yes", "always"),
            Durable::EverySecond => ("yes", "everysec"),
            Durable::Never => ("no", "no"),
        };
        let process = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", append, "--appendfsync", fsync, "--dir"])
            .arg(self.folder.path())
            .args(&self.more)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is not installed; `scripts/setup.sh test` installs it");
        self.process = Some(process);
        eventually("the server to answer", || {
            wire::try_ask(self.port, &[b"PING"]).is_ok_and(|reply| reply == Reply::Text("PONG".into()))
        });
    }

    /// Starts it again with nothing on its disk.
    pub fn again_empty(&mut self) {
        self.kill();
        for entry in std::fs::read_dir(self.folder.path()).expect("the server's folder") {
            let path = entry.expect("a file of the server").path();
            // Who belongs to a cluster does so still.
            if path.ends_with("nodes.conf") {
                continue;
            }
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            removed.expect("to remove a file of the server");
        }
        self.again();
    }

    /// How long its append-only file is. After the last rewrite, that is all that it was told.
    pub fn written(&self) -> u64 {
        std::fs::metadata(self.log()).expect("an append-only file").len()
    }

    /// Cuts the append-only file of a server that does not run: what was written after that is lost.
    pub fn cut(&self, length: u64) {
        assert!(self.process.is_none(), "a server that runs does not lose what it was told");
        let file = std::fs::OpenOptions::new().write(true).open(self.log()).expect("an append-only file");
        assert!(file.metadata().expect("its length").len() > length, "nothing was written after that");
        file.set_len(length).expect("to cut the append-only file");
    }

    fn log(&self) -> PathBuf {
        let folder = self.folder.path().join("appendonlydir");
        let files = std::fs::read_dir(&folder).expect("the folder of the append-only file");
        let names = files.map(|entry| entry.expect("a file of the server").path());
        let log = names.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max();
        log.expect("an append-only file")
    }

    /// Listens on another port from now on, as one that takes another's place.
    pub fn move_to(&mut self, port: u16) {
        let moved = self.ask(&["CONFIG", "SET", "port", &port.to_string()]);
        assert_eq!(moved, Reply::Text("OK".into()));
        self.port = port;
    }

    /// One command, and what the server says.
    pub fn ask(&self, words: &[&str]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        wire::try_ask(self.port, &words).expect("the server to answer")
    }

    /// A number out of `INFO`.
    pub fn info(&self, section: &str, field: &str) -> Option<u64> {
        let Reply::Text(info) = self.ask(&["INFO", section]) else { return None };
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.trim().parse().ok()
    }

    /// How often a command has been called, by `INFO commandstats`.
    pub fn calls(&self, command: &str) -> u64 {
        let Reply::Text(info) = self.ask(&["INFO", "commandstats"]) else { return 0 };
        let field = format!("cmdstat_{command}:calls=");
        let counted =
            info.lines().find_map(|line| line.strip_prefix(&field)?.split(',').next()?.parse().ok());
        counted.unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Waits until something is so.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
