//! `[store]` in Redis: where it is, whom to trust there, and where it is written down how far the sales have gone.

mod named;
mod tls;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ropeline_store::{RedisCheckpoint, RedisServers, RedisSettings, RedisStore, StoreError};

use self::named::{Found, Keys, has_password};
use super::Named;
use crate::config::read::Section;
use crate::config::report::Fault;

/// How long Redis is waited for, unless the file says otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

const MEND: &str = "write for example redis://queue.internal:6379, or rediss://USER@HOST:6380 for TLS; a password follows USER:";
const SERVICE_MEND: &str = "write redis://NAME, or rediss://NAME if the server takes TLS; its user and password stand \
                            before the name: redis://USER:PASSWORD@NAME";
const CHECKPOINT_MEND: &str =
    "name a folder that all gateways share, or a PostgreSQL database: postgres://USER@HOST/DATABASE";

/// A store in Redis. Its addresses, which may hold a password, are never printed.
#[derive(Clone)]
pub struct SharedStore {
    settings: RedisSettings,
    own: PathBuf,
}

// === impl SharedStore ===

impl SharedStore {
    /// What the store is opened with.
    #[must_use]
    pub const fn settings(&self) -> &RedisSettings {
        &self.settings
    }

    pub(super) fn own(&self) -> &Path {
        &self.own
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStore(…)")
    }
}

/// How the servers stand to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Single,
    Sentinel,
    Cluster,
}

const KINDS: [(Kind, Keys); 3] = [
    (Kind::Single, Keys { plain: "redis", env: "redis_env", file: "redis_file", example: "redis://…" }),
    (
        Kind::Sentinel,
        Keys {
            plain: "redis_sentinel",
            env: "redis_sentinel_env",
            file: "redis_sentinel_file",
            example: "redis://…",
        },
    ),
    (
        Kind::Cluster,
        Keys {
            plain: "redis_cluster",
            env: "redis_cluster_env",
            file: "redis_cluster_file",
            example: "redis://…",
        },
    ),
];

const SERVICE: Keys = Keys {
    plain: "redis_sentinel_service",
    env: "redis_sentinel_service_env",
    file: "redis_sentinel_service_file",
    example: "redis://…",
};

const CHECKPOINT: Keys =
    Keys { plain: "checkpoint", env: "checkpoint_env", file: "checkpoint_file", example: "postgres://…" };

/// All that the section says. What is wrong in one of them has been noted.
pub(super) fn read(section: &Section<'_>) -> Named {
    let found = KINDS.iter().flat_map(|(kind, keys)| {
        addresses(section, *kind, keys).into_iter().map(|(key, addresses)| Ok((*kind, key, addresses?)))
    });
    let found: Result<Vec<_>, ()> = found.collect::<Vec<_>>().into_iter().collect();
    let service = SERVICE.one(section, "the service", service, |url| has_password(url));
    let tls = tls::read(section);
    let base = section.around.base;
    let checkpoint = CHECKPOINT.one(section, "the checkpoint", |text| checkpoint(text, base), is_secret);
    let patience = section.or("redis_patience", PATIENCE, |item| {
        item.duration_in(Duration::from_millis(100), Duration::from_secs(30))
    });
    let (Ok(mut found), Ok(service), Ok(tls), Ok(checkpoint)) = (found, service, tls, checkpoint) else {
        return Named::Wrong;
    };
    let wrong = |key: &str, fault: Fault| {
        section.fault(key, fault);
        Named::Wrong
    };
    if let Some((_, key, _)) = found.get(1) {
        return wrong(key, Fault::new("Redis is named twice", "keep one of the keys that say where it is"));
    }
    let Some((kind, key, addresses)) = found.pop() else {
        let alone = [
            service.map(|(key, _)| key),
            tls.map(|(key, _)| key),
            checkpoint.map(|(key, _)| key),
            section.has("redis_patience").then_some("redis_patience"),
        ];
        let Some(key) = alone.into_iter().flatten().next() else { return Named::Nothing };
        let mend = "say where Redis is, or remove this: a store in a file needs none";
        return wrong(key, Fault::new("has no meaning without Redis", mend));
    };
    let servers = match servers(kind, key, addresses, service) {
        Ok(servers) => servers,
        Err((key, fault)) => return wrong(key, fault),
    };
    let tls = match tls {
        Some((key, _)) if !by_tls(&servers) => {
            let mend = "begin the addresses of servers that take TLS with rediss://, or remove this";
            return wrong(key, Fault::new("has no meaning without TLS", mend));
        }
        tls => tls.map(|(_, tls)| tls).unwrap_or_default(),
    };
    if checkpoint.is_none() {
        section.warn(
            key,
            Fault::new(
                "no checkpoint is named: should Redis lose something that only gateways knew of that are gone, too, \
                 numbers could be given twice",
                "name a folder that all gateways share, or a PostgreSQL database, in store.checkpoint, or have Redis keep \
                 all that it answers (docs/redis.md)",
            ),
        );
    }
    let mut settings = RedisSettings { servers, tls, patience, checkpoint: None };
    if let Some(reason) = odd(&settings) {
        return wrong(key, Fault::new(reason, MEND));
    }
    if let Some((key, checkpoint)) = checkpoint {
        settings.checkpoint = Some(checkpoint);
        if let Some(reason) = odd(&settings) {
            return wrong(key, Fault::new(reason, CHECKPOINT_MEND));
        }
    }
    Named::Redis(key, Box::new(SharedStore { settings, own: section.around.base.join("ropeline") }))
}

/// Why no store can be opened with these. The words name no address.
fn odd(settings: &RedisSettings) -> Option<String> {
    match RedisStore::open(settings) {
        Err(StoreError::Unavailable { reason }) => Some(reason),
        _ => None,
    }
}

fn servers(
    kind: Kind,
    key: &'static str,
    addresses: Vec<String>,
    service: Option<(&'static str, String)>,
) -> Result<RedisServers, (&'static str, Fault)> {
    match (kind, service) {
        (Kind::Sentinel, Some((_, service))) => Ok(RedisServers::Sentinel { addresses, service }),
        (Kind::Sentinel, None) => {
            let what = "names sentinels, but not which of the servers that they watch it is";
            let mend = "write the name that they watch it by in store.redis_sentinel_service: redis://NAME";
            Err((key, Fault::new(what, mend)))
        }
        (_, Some((key, _))) => {
            let mend = "name sentinels in store.redis_sentinel, or remove this";
            Err((key, Fault::new("has no meaning without sentinels", mend)))
        }
        (Kind::Cluster, None) => Ok(RedisServers::Cluster(addresses)),
        (Kind::Single, None) => match addresses.into_iter().next() {
            Some(address) => Ok(RedisServers::Single(address)),
            None => Err((key, Fault::new("names no server", MEND))),
        },
    }
}

/// Whether any connection is made by TLS.
fn by_tls(servers: &RedisServers) -> bool {
    let by_tls = |url: &String| url.starts_with("rediss:");
    match servers {
        RedisServers::Single(url) => by_tls(url),
        RedisServers::Sentinel { addresses, service } => by_tls(service) || addresses.iter().any(by_tls),
        RedisServers::Cluster(urls) => urls.iter().any(by_tls),
    }
}

/// What the section says by each of the kind's keys that it has.
fn addresses(section: &Section<'_>, kind: Kind, keys: &Keys) -> Vec<Found<Vec<String>>> {
    let mut all = Vec::new();
    if section.has(keys.plain) {
        let named = if kind == Kind::Single {
            section.get(keys.plain, |item| address(item.text()?)).map(|one| vec![one])
        } else {
            section.list(keys.plain, |item| address(item.text()?))
        };
        if named.as_ref().is_some_and(Vec::is_empty) {
            section.fault(keys.plain, Fault::new("names no server", MEND));
        }
        if named.iter().flatten().any(|address| has_password(address)) {
            keys.warn_of_password(section);
        }
        all.push((keys.plain, named.filter(|named| !named.is_empty()).ok_or(())));
    }
    let secret = |named: &Vec<String>| named.iter().any(|address| has_password(address));
    all.extend(keys.elsewhere(section, |text| split(text, kind), secret));
    all
}

/// Addresses with white space or commas between them.
fn split(text: &str, kind: Kind) -> Result<Vec<String>, Fault> {
    let parts = text.split(|c: char| c.is_whitespace() || c == ',').filter(|part| !part.is_empty());
    let named: Vec<String> = parts.map(address).collect::<Result<_, _>>()?;
    match named.len() {
        0 => Err(Fault::new("names no server", MEND)),
        2.. if kind == Kind::Single => Err(Fault::new("names several servers", "give the address of one")),
        _ => Ok(named),
    }
}

/// An address whose scheme is known and that has a host. What is wrong is said without the address.
fn address(text: &str) -> Result<String, Fault> {
    let wrong = |what: &str| Fault::new(format!("is no address of a Redis server: {what}"), MEND);
    let url = reqwest::Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "redis" | "rediss" if url.host_str().is_none_or(str::is_empty) => Err(wrong("it names no host")),
        "redis" | "rediss" => Ok(text.to_owned()),
        "unix" | "redis+unix" if !url.path().is_empty() => Ok(text.to_owned()),
        _ => Err(wrong("it begins neither with redis:// nor with rediss://")),
    }
}

/// An address whose host is the name that sentinels watch a server by; where that is, they say.
fn service(text: &str) -> Result<String, Fault> {
    let text = text.trim();
    let url = reqwest::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "redis" | "rediss"));
    let named =
        url.is_some_and(|url| url.host_str().is_some_and(|name| !name.is_empty()) && url.port().is_none());
    let wrong =
        || Fault::new("is not the name that sentinels watch a server by, as in redis://NAME", SERVICE_MEND);
    named.then(|| text.to_owned()).ok_or_else(wrong)
}

/// A folder, or the address of a database. What is wrong is said without it.
fn checkpoint(text: &str, base: &Path) -> Result<RedisCheckpoint, Fault> {
    let text = text.trim();
    if text.is_empty() || text.contains('\0') {
        return Err(Fault::new("names no folder", CHECKPOINT_MEND));
    }
    match text.split_once(':') {
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
            Ok(RedisCheckpoint::Postgres(text.to_owned()))
        }
        Some((scheme, rest)) if scheme.starts_with("postgres") || rest.starts_with("//") => {
            Err(Fault::new("is neither a folder nor the address of a PostgreSQL database", CHECKPOINT_MEND))
        }
        _ => Ok(RedisCheckpoint::Folder(base.join(text))),
    }
}

fn is_secret(checkpoint: &RedisCheckpoint) -> bool {
    matches!(checkpoint, RedisCheckpoint::Postgres(url) if has_password(url))
}
