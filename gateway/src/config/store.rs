//! `[store]`: where the queue's state lives.

#[cfg(feature = "redis")]
mod redis;

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
    let keys = [
        "redis",
        "redis_env",
        "redis_file",
        "redis_cluster",
        "redis_cluster_env",
        "redis_cluster_file",
        "redis_sentinel",
        "redis_sentinel_env",
        "redis_sentinel_file",
    ];
    let Some(key) = keys.into_iter().find(|key| section.has(key)) else { return Named::Nothing };
    section.fault(key, Fault::new("this build has no store on Redis", "build with `--features redis`"));
    Named::Wrong
}
