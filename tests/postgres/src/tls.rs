//! A server that is reached over TCP, with TLS alone.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;

use crate::{Postgres, cluster};

impl Postgres {
    /// Starts a server that, besides its socket, takes connections at this address (a loopback address of its own, since
    /// the port is PostgreSQL's usual one) from whoever speaks TLS. `certificate` and `key` are PEM.
    pub fn start_with_tls(address: Ipv4Addr, certificate: &str, key: &str) -> Self {
        let mut server = Self::make_in(
            &std::env::temp_dir(),
            &[
                ("listen_addresses", &address.to_string()),
                ("ssl", "on"),
                ("ssl_cert_file", "tls.crt"),
                ("ssl_key_file", "tls.key"),
            ],
        );
        let data = server.data();
        for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
            let path = data.join(name);
            fs::write(&path, text).expect("a file for TLS");
            // It refuses a key that others may read.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
            cluster::give(&path);
        }
        let rules = "local all all trust\nhostssl all all 127.0.0.0/8 trust\n";
        fs::write(data.join("pg_hba.conf"), rules).expect("pg_hba.conf");
        server.launch();
        server
    }
}
