//! What a gateway is told of the servers it shares the queue through.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where Redis is. Addresses are URLs: `redis://USER:PASSWORD@HOST:PORT/DATABASE`, or `rediss://` for TLS; what is special
/// in a user or password is percent-encoded.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisServers {
    /// One server.
    Single(String),
    /// The server that is master at the moment, by what sentinels say.
    Sentinel {
        /// One or more of the sentinels. User and password are those of the first for all of them.
        addresses: Vec<String>,
        /// The name that the sentinels watch the master by, as the host of a URL: `redis://USER:PASSWORD@NAME/DATABASE`. The
        /// rest of it is what that server is to be asked with.
        service: String,
    },
    /// A Redis Cluster, by one or more of its nodes. User and password are those of the first for all nodes.
    Cluster(Vec<String>),
}

/// What TLS goes by, where an address begins with `rediss://`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Whoever may vouch for a server, in PEM; none: whoever the machine trusts.
    pub authority: Option<Vec<u8>>,
    /// What this gateway shows: a server asks for it unless it was told `tls-auth-clients no`.
    pub client: Option<RedisClientCertificate>,
}

/// A client's certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisClientCertificate {
    /// In PEM, the ones that vouch for it after it.
    pub certificate: Vec<u8>,
    /// Its private key, in PEM.
    pub key: Vec<u8>,
}

/// Where it is written down, outside of Redis, how far the sales have gone.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisCheckpoint {
    /// A folder that all gateways share, with the locks of the file system. It must be there.
    Folder(PathBuf),
    /// A PostgreSQL database, as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. The table `ropeline_checkpoints` is made if
    /// there is none and the user may make one.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

/// How a gateway shares the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Where Redis is.
    pub servers: RedisServers,
    /// What TLS goes by.
    pub tls: RedisTls,
    /// How long a connection or an answer is waited for.
    pub patience: Duration,
    /// Where how far the sales have gone is written down ahead of use; the same for all gateways. In the gateway's
    /// configuration this is `checkpoint = "postgres://…"`, or a folder.
    /// None: Redis is trusted to keep all that it has answered, over restarts and failovers (`appendonly yes`,
    /// `appendfsync always`, no asynchronous replica that may take over), because after a loss a number could be given
    /// again that only gateways knew of that are gone, too.
    pub checkpoint: Option<RedisCheckpoint>,
}

// === impl RedisServers ===

impl fmt::Debug for RedisServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |urls: &[String]| urls.iter().map(|url| public(url)).collect::<Vec<_>>();
        match self {
            Self::Single(url) => f.debug_tuple("Single").field(&public(url)).finish(),
            Self::Sentinel { addresses, service } => f
                .debug_struct("Sentinel")
                .field("addresses", &all(addresses))
                .field("service", &public(service))
                .finish(),
            Self::Cluster(urls) => f.debug_tuple("Cluster").field(&all(urls)).finish(),
        }
    }
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTls")
            .field("authority", &self.authority.is_some())
            .field("client", &self.client)
            .finish()
    }
}

impl fmt::Debug for RedisClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClientCertificate").finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => f.debug_tuple("Folder").field(folder).finish(),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => f.debug_tuple("Postgres").field(&public(url)).finish(),
        }
    }
}

/// The scheme and the host of a URL; where it is in any doubt which part that is, the scheme alone.
fn public(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let plain = rest.matches('@').count() <= 1 && authority.contains('@') == rest.contains('@');
    format!("{scheme}://{}", if plain { host } else { "…" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_names_no_password() {
        let url = |scheme: &str| format!("{scheme}://who:s3cr@host:6379/0?password=s3cr");
        let servers = [
            RedisServers::Single(url("redis")),
            RedisServers::Sentinel { addresses: vec![url("rediss")], service: url("redis") },
            RedisServers::Cluster(vec![url("redis")]),
        ];
        let tls = RedisTls {
            authority: None,
            client: Some(RedisClientCertificate { certificate: b"s3cr".to_vec(), key: b"s3cr".to_vec() }),
        };
        for servers in servers {
            let checkpoint = Some(RedisCheckpoint::Folder("checkpoint".into()));
            let settings = RedisSettings { servers, tls: tls.clone(), patience: Duration::ZERO, checkpoint };
            let printed = format!("{settings:?}");
            assert!(printed.contains("host:6379") && !printed.contains("s3cr"), "{printed}");
            assert!(!printed.contains("115, 51"), "{printed}");
        }
        for odd in
            ["redis://who:s3?cr@host", "redis://who:x@s3cr/@host", "who:s3cr@host", "redis://a@b?p=s3cr@"]
        {
            let printed = format!("{:?}", RedisServers::Single(odd.into()));
            assert!(!printed.contains("s3"), "{printed}");
        }
        #[cfg(feature = "postgres")]
        {
            let printed = format!("{:?}", RedisCheckpoint::Postgres(url("postgres")));
            assert!(printed.contains("host:6379") && !printed.contains("s3cr"), "{printed}");
        }
    }
}
