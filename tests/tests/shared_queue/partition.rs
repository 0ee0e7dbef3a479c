//! Gateways and Redis that cannot reach each other: Redis runs in a network namespace of its own, at the other end of a link
//! that can be taken down. Nobody is told that a connection is gone; packets are just not delivered.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use ropeline_tests::gateway::Servers;
use ropeline_tests::process::Process;
use tempfile::TempDir;

use crate::stage::Stage;

const PORT: u16 = 6_379;

/// Redis at the other end of a link. All of it ends with this value.
struct FarRedis {
    namespace: String,
    link: String,
    address: Ipv4Addr,
    process: Option<Process>,
    folder: TempDir,
}

// === impl FarRedis ===

impl FarRedis {
    async fn start() -> Self {
        // Names and addresses of this test's own, whatever else runs: 198.18.0.0/15 is for tests (RFC 2544).
        let id = std::process::id();
        let (namespace, link) = (format!("ropeline-{id}"), format!("rl{id}"));
        let [.., high, low] = id.to_be_bytes();
        let (here, address) =
            (Ipv4Addr::new(198, 18, high, low & 0xfc | 1), Ipv4Addr::new(198, 18, high, low & 0xfc | 2));
        let folder = tempfile::tempdir().unwrap();
        let mut far = Self { namespace, link, address, process: None, folder };
        let (namespace, link, there) = (far.namespace.as_str(), far.link.as_str(), format!("{}x", far.link));
        ip(&["netns", "add", namespace]);
        ip(&["link", "add", link, "type", "veth", "peer", "name", &there, "netns", namespace]);
        ip(&["address", "add", &format!("{here}/30"), "dev", link]);
        ip(&["link", "set", link, "up"]);
        ip(&["-n", namespace, "address", "add", &format!("{address}/30"), "dev", &there]);
        ip(&["-n", namespace, "link", "set", &there, "up"]);
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace, "redis-server", "--bind", &address.to_string()])
            .args(["--port", &PORT.to_string(), "--protected-mode", "no", "--save", "", "--dir"])
            .arg(far.folder.path());
        let mut process = Process::spawn("redis", command, far.folder.path());
        process.listening(SocketAddr::from((address, PORT))).await;
        far.process = Some(process);
        far
    }

    fn url(&self) -> String {
        format!("redis://{}:{PORT}", self.address)
    }

    fn cut(&self) {
        ip(&["link", "set", &self.link, "down"]);
    }

    fn mend(&self) {
        ip(&["link", "set", &self.link, "up"]);
    }
}

impl Drop for FarRedis {
    fn drop(&mut self) {
        self.process = None;
        // Its end of the link goes with it.
        let _ = Command::new("ip").args(["netns", "delete", &self.namespace]).status();
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().expect("`ip`, of the package iproute2");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {arguments:?}, which needs root: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_cut_off_from_redis_keep_everybodys_place_and_go_on_by_themselves() {
    let redis = FarRedis::start().await;
    let mut stage = Stage::open(2, Servers::Single(redis.url())).await;
    for seconds in [1, 4, 8] {
        println!("cut off for {seconds} s");
        redis.cut();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        redis.mend();
        stage.more(10).await;
        stage.a_while(500).await;
    }
    stage.end().await;
}
