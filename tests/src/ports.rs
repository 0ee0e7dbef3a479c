//! Free ports on loopback.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

/// Ports below those that the system gives to outgoing connections, so that none of these takes one between the
/// choice and the server's start.
const FIRST: u16 = 10_240;
const COUNT: u16 = 20_000;

/// A port that no other test has while this lives; a server can stop and start again on it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Chooses a port that is free now and that no other test on this machine has chosen.
    pub fn free() -> Self {
        let folder = std::env::temp_dir().join("ropeline-test-ports");
        std::fs::create_dir_all(&folder).expect("a folder for port locks");
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").subsec_nanos();
        let start = (nanos ^ std::process::id().rotate_left(16)) % u32::from(COUNT);
        let start = u16::try_from(start).expect("below COUNT");
        for step in 0..COUNT {
            let number = FIRST + (start + step) % COUNT;
            let lock = File::create(folder.join(number.to_string())).expect("a port lock");
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Self { number, _lock: lock };
            }
        }
        panic!("no free port from {FIRST} on");
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its address on loopback.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}
