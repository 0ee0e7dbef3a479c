//! Free ports on loopback, for what is started after the port is chosen, or stopped and started again on it.
//!
//! Who listens in its own process needs none of this: a listener that is bound to port 0 and kept has its port for itself.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test says what broke by panicking"
)]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as Name, UnixDatagram};
use std::time::{SystemTime, UNIX_EPOCH};

/// Ports below those that the system gives to outgoing connections, so that none of these takes one between the
/// choice and the server's start.
const FIRST: u16 = 10_240;
const COUNT: u16 = 20_000;

/// A port that nobody else who asks here has while this lives, in this process or another, whoever runs it and
/// wherever its files are; a server can stop and start again on it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Bound to a name that stands for the port: abstract ones are as wide as ports are, the network namespace, and
    /// free again as soon as their process has ended, however it did.
    _claim: UnixDatagram,
}

// === impl Port ===

impl Port {
    /// Chooses a port on which nobody listens and that nobody else has.
    pub fn free() -> Self {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").subsec_nanos();
        let start = (nanos ^ std::process::id().rotate_left(16)) % u32::from(COUNT);
        let start = u16::try_from(start).expect("below COUNT");
        let mut ports = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
        ports.find_map(Self::claim).expect("no free port")
    }

    fn claim(number: u16) -> Option<Self> {
        let name = Name::from_abstract_name(format!("ropeline-test-port-{number}")).expect("a short name");
        let claim = UnixDatagram::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }

    /// Its number.
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Its address on loopback.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

#[cfg(test)]
mod tests;
