//! `[store]`: where the queue's state lives.

use std::path::{Path, PathBuf};

use super::read::Section;
use super::report::Fault;

#[cfg(feature = "redis")]
pub use redis::SharedStore;

/// Where the queue's state lives.
#[derive(Debug, Clone)]
pub enum Store {
    /// In this process, in one file.
    Embedded(PathBuf),
    /// In Redis, shared by any number of gateways.
    #[cfg(feature = "redis")]
    Shared(Box<SharedStore>),
}

impl Store {
    /// Other gateways may use it as well, and this one can do without it for a while.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }

    /// A name for what belongs to this process alone, without its extension.
    #[must_use]
    pub fn own(&self) -> &Path {
        match self {
            Self::Embedded(path) => path,
            #[cfg(feature = "redis")]
            Self::Shared(shared) => shared.own(),
        }
    }
}

pub(super) fn read(section: Section<'_>) -> Option<Store> {
    let named = shared(&section);
    let embedded = section.has("path");
    let path = section.or("path", section.around.base.join("ropeline.redb"), |item| {
        let path = item.path()?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            return Err(Fault::new(
                format!("the folder {} does not exist", folder.display()),
                format!("mkdir -p {}", folder.display()),
            ));
        }
        Ok(path)
    });
    let store = match named {
        Named::Nothing => Some(Store::Embedded(path)),
        Named::Wrong => None,
        #[cfg(feature = "redis")]
        Named::Redis(key, _) if embedded => {
            section.fault(
                key,
                Fault::new("two stores are named", "keep store.path for one gateway, or Redis for several"),
            );
            None
        }
        #[cfg(feature = "redis")]
        Named::Redis(_, shared) => Some(Store::Shared(shared)),
    };
    #[cfg(not(feature = "redis"))]
    let _ = embedded;
    section.finish();
    store
}

/// What the section says of a store that is shared.
enum Named {
    Nothing,
    /// Something that has been noted.
    Wrong,
    /// By which key, and what follows.
    #[cfg(feature = "redis")]
    Redis(&'static str, Box<SharedStore>),
}

#[cfg(feature = "redis")]
fn shared(section: &Section<'_>) -> Named {
    redis::read(section)
}

#[cfg(not(feature = "redis"))]
fn shared(section: &Section<'_>) -> Named {
    let keys =
        ["redis", "redis_env", "redis_file", "redis_cluster", "redis_cluster_env", "redis_cluster_file"];
    let Some(key) = keys.into_iter().find(|key| section.has(key)) else { return Named::Nothing };
    section.fault(key, Fault::new("this build has no store on Redis", "build with `--features redis`"));
    Named::Wrong
}

#[cfg(feature = "redis")]
mod redis {
    use std::fmt;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use ropeline_store::{RedisCheckpoint, RedisServers, RedisSettings, RedisStore, RedisTls, StoreError};

    use super::Named;
    use crate::config::files;
    use crate::config::read::Section;
    use crate::config::report::Fault;

    /// Longest file or variable with addresses, in bytes.
    const MAX_ADDRESSES: u64 = 16 << 10;

    /// How long Redis is waited for, unless the file says otherwise.
    const PATIENCE: Duration = Duration::from_secs(2);

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

    /// The keys of one kind of servers.
    struct Keys {
        plain: &'static str,
        env: &'static str,
        file: &'static str,
        /// Whether several addresses are given.
        several: bool,
        servers: fn(Vec<String>) -> Option<RedisServers>,
    }

    const KINDS: [Keys; 2] = [
        Keys {
            plain: "redis",
            env: "redis_env",
            file: "redis_file",
            several: false,
            servers: |addresses| addresses.into_iter().next().map(RedisServers::Single),
        },
        Keys {
            plain: "redis_cluster",
            env: "redis_cluster_env",
            file: "redis_cluster_file",
            several: true,
            servers: |addresses| Some(RedisServers::Cluster(addresses)),
        },
    ];

    pub(super) fn read(section: &Section<'_>) -> Named {
        let mut found = Vec::new();
        let mut wrong = false;
        for kind in &KINDS {
            for (key, addresses) in addresses(section, kind) {
                match addresses.ok().and_then(kind.servers) {
                    Some(servers) => found.push((key, servers)),
                    None => wrong = true,
                }
            }
        }
        let patience = section.or("redis_patience", PATIENCE, |item| {
            item.duration_in(Duration::from_millis(100), Duration::from_secs(30))
        });
        let checkpoint = section.get("checkpoint", |item| item.path());
        if wrong {
            return Named::Wrong;
        }
        if let Some((key, _)) = found.get(1) {
            section
                .fault(key, Fault::new("Redis is named twice", "keep one of the keys that say where it is"));
            return Named::Wrong;
        }
        let Some((key, servers)) = found.pop() else {
            let alone = ["redis_patience", "checkpoint"].into_iter().find(|key| section.has(key));
            let Some(key) = alone else { return Named::Nothing };
            let mend = "say where Redis is, or remove this: a store in a file needs none";
            section.fault(key, Fault::new("has no meaning without Redis", mend));
            return Named::Wrong;
        };
        if checkpoint.is_none() {
            section.warn(
                key,
                Fault::new(
                    "no checkpoint is named: should Redis lose something that only gateways knew of that are gone, too, \
                     numbers could be given twice",
                    "name a folder that all gateways share in store.checkpoint, or have Redis keep all that it answers \
                     (docs/redis.md)",
                ),
            );
        }
        let checkpoint = checkpoint.map(RedisCheckpoint::Folder);
        let settings = RedisSettings { servers, tls: RedisTls::default(), patience, checkpoint };
        // Its words name no address.
        if let Err(StoreError::Unavailable { reason }) = RedisStore::open(&settings) {
            section.fault(key, Fault::new(reason, MEND));
            return Named::Wrong;
        }
        Named::Redis(key, Box::new(SharedStore { settings, own: section.around.base.join("ropeline") }))
    }

    const MEND: &str = "write for example redis://queue.internal:6379, or rediss://USER@HOST:6380 for TLS; a password follows USER:";

    type Addresses = Result<Vec<String>, ()>;

    /// What the section says by each of the kind's keys that it has.
    fn addresses(section: &Section<'_>, kind: &Keys) -> Vec<(&'static str, Addresses)> {
        let mut all = Vec::new();
        if section.has(kind.plain) {
            let named = if kind.several {
                section.list(kind.plain, |item| address(item.text()?))
            } else {
                section.get(kind.plain, |item| address(item.text()?)).map(|one| vec![one])
            };
            if named.as_ref().is_some_and(Vec::is_empty) {
                section.fault(kind.plain, Fault::new("names no server", MEND));
            }
            if named.iter().flatten().any(|address| has_password(address)) {
                let mend = format!(
                    "name a file in store.{} or an environment variable in store.{}",
                    kind.file, kind.env
                );
                let what = "a password is in it, for everybody to read who may read this file";
                section.warn(kind.plain, Fault::new(what, format!("{mend}, and write the address there")));
            }
            all.push((kind.plain, named.filter(|named| !named.is_empty()).ok_or(())));
        }
        let from_env = section.try_get(kind.env, |item| {
            let name = item.text()?;
            let value = (section.around.env)(name).ok_or_else(|| {
                Fault::new(
                    format!("the environment variable {name} is not set"),
                    format!("export {name}=redis://…"),
                )
            })?;
            split(&value, kind)
        });
        let from_file = section.try_get(kind.file, |item| {
            let path = item.path()?;
            let bytes = files::read(&path, MAX_ADDRESSES)?;
            let named = split(&String::from_utf8_lossy(&bytes), kind)?;
            Ok((named, files::readable_by_others(&path)))
        });
        let from_file = from_file.map(|read| {
            read.map(|(named, open)| {
                if let Some(fault) = open.filter(|_| named.iter().any(|address| has_password(address))) {
                    section.warn(kind.file, fault);
                }
                named
            })
        });
        for (key, read) in [(kind.env, from_env), (kind.file, from_file)] {
            if let Some(named) = read.transpose() {
                all.push((key, named));
            }
        }
        all
    }

    /// Addresses with white space or commas between them.
    fn split(text: &str, kind: &Keys) -> Result<Vec<String>, Fault> {
        let parts = text.split(|c: char| c.is_whitespace() || c == ',').filter(|part| !part.is_empty());
        let named: Vec<String> = parts.map(address).collect::<Result<_, _>>()?;
        match named.len() {
            0 => Err(Fault::new("names no server", MEND)),
            2.. if !kind.several => Err(Fault::new("names several servers", "give the address of one")),
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

    fn has_password(address: &str) -> bool {
        reqwest::Url::parse(address).is_ok_and(|url| url.password().is_some())
    }
}
