//! Which gateway a command speaks to, through its operator listener.

mod client;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::Failure;
use crate::config::{Config, Fault, OperatorToken, files};
pub(super) use client::Client;

/// Where the operator's token is looked for when nothing else is said.
const TOKEN_ENV: &str = "ROPELINE_OPERATOR_TOKEN";

/// Which gateway, and how it knows the operator.
#[derive(Debug, Args)]
pub(super) struct Gateway {
    /// The gateway's configuration: gives the operator's address and token, and the sales for `create` and `apply`.
    #[arg(short, long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The operator listener's address [default: the configuration's, else http://127.0.0.1:9900].
    #[arg(long, value_name = "URL", global = true)]
    operator: Option<String>,
    /// The file with the operator's token [default: the configuration's, else the environment variable
    /// ROPELINE_OPERATOR_TOKEN].
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
}

impl Gateway {
    /// The configuration, where one is named.
    pub(super) fn config(&self) -> Result<Option<Config>, Failure> {
        let load = |path| Config::load(path).map_err(|report| Failure::Found(report.to_string()));
        self.config.as_deref().map(load).transpose()
    }

    pub(super) fn client(&self, config: Option<&Config>) -> Result<Client, Failure> {
        let words = |fault: Fault| Failure::Found(format!("{}; {}", fault.what, fault.mend));
        let token = match (&self.token_file, config) {
            (Some(path), _) => {
                let read = files::read(path, 4_096)
                    .and_then(|bytes| OperatorToken::parse(&String::from_utf8_lossy(&bytes)));
                read.map_err(words)?
            }
            (None, Some(config)) => config.operator.token.clone(),
            (None, None) => {
                let value = std::env::var(TOKEN_ENV).map_err(|_| {
                    Failure::Found(format!(
                        "the operator's token is needed: give -c FILE or --token-file FILE, or set {TOKEN_ENV}"
                    ))
                })?;
                OperatorToken::parse(&value).map_err(words)?
            }
        };
        let address = match (&self.operator, config) {
            (Some(address), _) => address.clone(),
            (None, Some(config)) => format!("http://{}", reachable(config.listen.operator)),
            (None, None) => "http://127.0.0.1:9900".to_owned(),
        };
        Client::new(&address, &token)
    }
}

/// The address to call for one to listen on: "any address" is reached on loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
