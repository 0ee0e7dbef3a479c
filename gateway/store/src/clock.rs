//! The store's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use ropeline_queue::UnixMillis;

/// Gives a store its time. A clock that steps back is allowed: a sale's own time then stands
/// still until the clock has caught up.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> UnixMillis;
}

/// The operating system's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

// === impl SystemClock ===

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        // Before 1970 there are no sales: a clock set that wrong reads as the epoch itself.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}
