//! A cluster of masters.

use ropeline_test_ports::Port;

use crate::{Durable, Reply, Server, eventually};

const SLOTS: usize = 16_384;

/// Masters that share the slots evenly.
#[derive(Debug)]
pub struct Cluster {
    masters: Vec<Server>,
    durable: Durable,
}

// === impl Cluster ===

impl Cluster {
    /// Starts so many and waits until each knows of all and serves.
    pub fn start(masters: usize, durable: Durable) -> Self {
        let started: Vec<(Server, String)> = (0..masters).map(|_| node(durable)).collect();
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
        let cluster = Self { masters: started.into_iter().map(|(server, _)| server).collect(), durable };
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

    /// Which of the masters was given the slot of a key at the start.
    pub fn holder(&self, key: &str) -> usize {
        let slot = self.slot(key);
        let (masters, slots) = (self.masters.len(), 0..self.masters.len());
        slots.rev().find(|number| SLOTS * number / masters <= slot).expect("a master of each slot")
    }

    /// Begins to move the slot of a key to one of the masters, with all keys that are in it: both masters have a part in it
    /// until that is done.
    pub fn begin_move(&self, key: &str, to: usize) {
        let (from, to) = (&self.masters[self.holder(key)], &self.masters[to]);
        let slot = self.slot(key).to_string();
        let (from_id, to_id) = (name(from), name(to));
        let ok = Reply::Text("OK".into());
        assert_eq!(to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]), ok);
        assert_eq!(from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), ok);
        let Reply::List(keys) = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]) else {
            panic!("no list of keys");
        };
        let keys: Vec<String> = keys.into_iter().filter_map(Reply::text).collect();
        let port = to.port().to_string();
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        migrate.extend(keys.iter().map(String::as_str));
        assert_eq!(from.ask(&migrate), ok);
    }

    /// Ends it: the slot is that master's alone.
    pub fn end_move(&self, key: &str, to: usize) {
        let (slot, id) = (self.slot(key).to_string(), name(&self.masters[to]));
        let others = (0..self.masters.len()).filter(|number| *number != to);
        for number in [to].into_iter().chain(others) {
            let set = self.masters[number].ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
            assert_eq!(set, Reply::Text("OK".into()));
        }
    }

    fn slot(&self, key: &str) -> usize {
        let Reply::Number(slot) = self.masters[0].ask(&["CLUSTER", "KEYSLOT", key]) else {
            panic!("no slot for {key}");
        };
        usize::try_from(slot).expect("a slot")
    }

    /// One of the masters, to kill it.
    pub fn master(&mut self, number: usize) -> &mut Server {
        &mut self.masters[number]
    }

    /// Starts a replica of one of the masters, and waits until it has all of it.
    pub fn replica(&self, number: usize) -> Server {
        let master = &self.masters[number];
        let Reply::Text(id) = master.ask(&["CLUSTER", "MYID"]) else { panic!("a master without a name") };
        let Reply::Text(nodes) = master.ask(&["CLUSTER", "NODES"]) else { panic!("a master without nodes") };
        let address = nodes.lines().find_map(|line| line.split_once(&id)?.1.trim().split([' ', ',']).next());
        let bus = address.and_then(|address| address.split_once('@')).expect("the port of its bus").1;
        let (replica, _) = node(self.durable);
        let port = master.port().to_string();
        let met = replica.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, bus]);
        assert_eq!(met, Reply::Text("OK".into()));
        eventually("the replica to know its master", || {
            replica.ask(&["CLUSTER", "REPLICATE", &id]) == Reply::Text("OK".into())
        });
        replica.catch_up(master);
        // All of them have to know it, to make it a master.
        let Reply::Text(own) = replica.ask(&["CLUSTER", "MYID"]) else { panic!("a replica without a name") };
        for master in &self.masters {
            eventually("the masters to know the replica", || {
                let Reply::Text(nodes) = master.ask(&["CLUSTER", "NODES"]) else { return false };
                nodes.lines().any(|line| line.starts_with(&own) && line.contains(&format!(" slave {id}")))
            });
        }
        replica
    }

    /// Waits until a replica is master, and the others say so.
    pub fn wait_for(&self, replica: &Server, gone: usize) {
        let Reply::Text(own) = replica.ask(&["CLUSTER", "MYID"]) else { panic!("a replica without a name") };
        let others = self.masters.iter().enumerate().filter(|(number, _)| *number != gone);
        for server in others.map(|(_, server)| server).chain([replica]) {
            eventually("the replica to be master", || {
                let Reply::Text(nodes) = server.ask(&["CLUSTER", "NODES"]) else { return false };
                let Reply::Text(info) = server.ask(&["CLUSTER", "INFO"]) else { return false };
                let line = nodes.lines().find(|line| line.starts_with(&own));
                line.is_some_and(|line| line.contains("master")) && info.contains("cluster_state:ok")
            });
        }
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

/// What a node is called in its cluster.
fn name(server: &Server) -> String {
    server.ask(&["CLUSTER", "MYID"]).text().expect("a node without a name")
}

/// A node that knows no other, and the port of its bus.
fn node(durable: Durable) -> (Server, String) {
    let ports = vec![Port::free(), Port::free()];
    let bus = ports[1].number().to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"];
    (Server::start_at(ports, durable, &options), bus)
}
