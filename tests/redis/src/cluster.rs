//! A cluster of masters.

use crate::{Durable, Reply, Server, eventually, free_port};

const SLOTS: usize = 16_384;

/// Masters that share the slots evenly.
#[derive(Debug)]
pub struct Cluster {
    masters: Vec<Server>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts so many and waits until each knows of all and serves.
    pub fn start(masters: usize, durable: Durable) -> Self {
        let start = |_| {
            let bus = free_port().to_string();
            let options =
                ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"];
            (Server::start_with(durable, &options), bus)
        };
        let started: Vec<(Server, String)> = (0..masters).map(start).collect();
        let ((first, first_bus), others) = started.split_first().expect("at least one master");
        let first_port = first.port().to_string();
        for (other, _) in others {
            let met = other.ask(&["CLUSTER", "MEET", "127.0.0.1", &first_port, first_bus]);
            assert_eq!(met, Reply::Text("OK".into()));
        }
        for (number, (server, _)) in started.iter().enumerate() {
            let (from, to) = (SLOTS * number / masters, SLOTS * (number + 1) / masters - 1);
            let given = server.ask(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]);
            assert_eq!(given, Reply::Text("OK".into()));
        }
        let cluster = Self { masters: started.into_iter().map(|(server, _)| server).collect() };
        cluster.wait();
        cluster
    }

    /// The masters.
    pub fn masters(&self) -> &[Server] {
        &self.masters
    }

    /// What a client connects to first.
    pub fn urls(&self) -> Vec<String> {
        self.masters.iter().map(Server::url).collect()
    }

    /// Kills all of them and starts them again with what they have on their disks.
    pub fn again(&mut self) {
        for master in &mut self.masters {
            master.kill();
        }
        for master in &mut self.masters {
            master.again();
        }
        self.wait();
    }

    fn wait(&self) {
        for master in &self.masters {
            eventually("the cluster to serve", || {
                let Reply::Text(info) = master.ask(&["CLUSTER", "INFO"]) else { return false };
                let known = format!("cluster_known_nodes:{}", self.masters.len());
                info.contains("cluster_state:ok") && info.contains(&known)
            });
        }
    }
}
