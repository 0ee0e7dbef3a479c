//! Where the shop is. Names are resolved here, off the request path; requests only ever see socket addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;

/// The shop's current addresses, used in turn.
#[derive(Debug)]
pub struct Upstream {
    authority: String,
    addresses: ArcSwap<Vec<SocketAddr>>,
    turn: AtomicUsize,
}

/// The shop's name has no address.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The resolver failed.
    #[error("cannot resolve {0}: {1}")]
    Lookup(String, std::io::Error),
    /// The resolver knows no address.
    #[error("{0} has no address")]
    Nothing(String),
}

impl Upstream {
    /// Resolves `authority` (host:port) for the first time.
    ///
    /// # Errors
    /// When it has no address now; a gateway that cannot find its shop does not start.
    pub async fn resolve(authority: &str) -> Result<Self, ResolveError> {
        let addresses = lookup(authority).await?;
        Ok(Self {
            authority: authority.to_owned(),
            addresses: ArcSwap::from_pointee(addresses),
            turn: AtomicUsize::new(0),
        })
    }

    /// Resolves again; the old addresses stay when that fails.
    ///
    /// # Errors
    /// When the name has no address now.
    pub async fn refresh(&self) -> Result<(), ResolveError> {
        let addresses = lookup(&self.authority).await?;
        self.addresses.store(Arc::new(addresses));
        Ok(())
    }

    /// The next address in turn.
    #[must_use]
    pub fn next(&self) -> Option<SocketAddr> {
        let addresses = self.addresses.load();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        addresses.get(turn.checked_rem(addresses.len())?).copied()
    }
}

async fn lookup(authority: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    let found: Vec<_> = tokio::net::lookup_host(authority)
        .await
        .map_err(|error| ResolveError::Lookup(authority.to_owned(), error))?
        .collect();
    if found.is_empty() { Err(ResolveError::Nothing(authority.to_owned())) } else { Ok(found) }
}
