//! A sentinel, which makes a replica the master when the master is gone.

use std::fs;
use std::process::{Child, Command, Stdio};

use ropeline_test_ports::Port;
use tempfile::TempDir;

use crate::{Reply, Server, eventually, wire};

/// The name of what it watches.
const SERVICE: &str = "sales";

/// One sentinel, whose word alone counts.
#[derive(Debug)]
pub struct Sentinel {
    folder: TempDir,
    port: Port,
    process: Child,
}

// === impl Sentinel ===

impl Sentinel {
    /// Watches a master, and waits until it knows so many replicas of it.
    pub fn watch(master: &Server, replicas: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the sentinel");
        let (port, master_port) = (Port::free(), master.port());
        // It writes down here what it learns.
        let file = folder.path().join("sentinel.conf");
        // Where nobody could take over, a busy moment is no reason to call the master down.
        let down_after_ms = if replicas == 0 { 30_000 } else { 500 };
        let text = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor {SERVICE} 127.0.0.1 {master_port} 1\n\
             sentinel down-after-milliseconds {SERVICE} {down_after_ms}\nsentinel failover-timeout {SERVICE} 3000\n",
            port.number(),
            folder.path().display()
        );
        fs::write(&file, text).expect("the sentinel's file");
        let process = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is not installed; `scripts/setup.sh test` installs it");
        let sentinel = Self { folder, port, process };
        eventually(
            "the sentinel to know the replicas",
            || matches!(sentinel.ask(&["SENTINEL", "REPLICAS", SERVICE]), Some(Reply::List(known)) if known.len() >= replicas),
        );
        sentinel
    }

    /// What a client connects to.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port.number())
    }

    /// What it calls what it watches.
    pub const fn service(&self) -> &'static str {
        SERVICE
    }

    /// Waits until it says that this one is the master.
    pub fn wait_for(&self, server: &Server) {
        let port = server.port().to_string();
        eventually("the sentinel to fail over", || {
            let said = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
            // Whom a sentinel makes the master closes the connections that it has.
            let role = wire::try_ask(server.port(), &[b"ROLE"]);
            let is_master =
                matches!(role, Ok(Reply::List(role)) if role.first() == Some(&Reply::Text("master".into())));
            is_master
                && matches!(said, Some(Reply::List(address)) if address.last() == Some(&Reply::Text(port.clone())))
        });
    }

    /// What it answers to a command, if anything.
    pub fn ask(&self, words: &[&str]) -> Option<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        wire::try_ask(self.port.number(), &words).ok()
    }

    /// Its folder, with what it has learnt.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
