//! What a gateway has had to do with Redis, for its operator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Counts since the store was opened, and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisReport {
    /// There is a connection, as far as is known.
    pub connected: bool,
    /// Connections made.
    pub connections: u64,
    /// Commands sent, each script one.
    pub commands: u64,
    /// Batches committed.
    pub commits: u64,
    /// Batches that were taken back and run again, because another gateway had been faster.
    pub conflicts: u64,
    /// Commits whose answer was lost, and that were asked for again.
    pub uncertain: u64,
    /// Of all batches that were committed, the most commits of others that one had to let pass after it had asked for its
    /// turn: never as many as there are gateways.
    pub longest_wait: u64,
    /// Turns that ended before the gateway had committed, and in which others went on: it was too slow, or the server was
    /// lost. It asked for another each time.
    pub turns_lost: u64,
    /// Times that a sale went on after a restart, a failover or a loss of the server.
    pub recoveries: u64,
    /// What went wrong last, and when. For the operator; nothing of it is for shoppers.
    pub last_error: Option<(String, SystemTime)>,
}

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) commands: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) uncertain: AtomicU64,
    pub(super) longest_wait: AtomicU64,
    pub(super) turns_lost: AtomicU64,
    pub(super) recoveries: AtomicU64,
    last_error: Mutex<Option<(String, SystemTime)>>,
}

// === impl Counts ===

impl Counts {
    pub(super) fn one(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// So many commands were sent at once.
    pub(super) fn sent(&self, commands: usize) {
        self.commands.fetch_add(u64::try_from(commands).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A batch was committed after others had committed so many since it had asked for its turn.
    pub(super) fn waited(&self, commits: u64) {
        Self::one(&self.commits);
        self.longest_wait.fetch_max(commits, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, text: &str) {
        let now = SystemTime::now();
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((text.to_owned(), now));
    }

    pub(super) fn report(&self, connected: bool) -> RedisReport {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RedisReport {
            connected,
            connections: read(&self.connections),
            commands: read(&self.commands),
            commits: read(&self.commits),
            conflicts: read(&self.conflicts),
            uncertain: read(&self.uncertain),
            longest_wait: read(&self.longest_wait),
            turns_lost: read(&self.turns_lost),
            recoveries: read(&self.recoveries),
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
