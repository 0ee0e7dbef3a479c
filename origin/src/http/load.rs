//! How busy the shop is, as the gateway is told with every answer: it lets in fewer when this is enough.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Requests of shoppers that are being worked on, over those that the shop wants to have at once. A slow database, a slow
/// payment service and a crowd all show in it. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Load {
    requests: Arc<AtomicU32>,
    at_once: NonZeroU32,
}

/// A request that is being worked on, until this is dropped.
#[derive(Debug)]
pub(super) struct Busy(Load);

// === impl Load ===

impl Load {
    /// Nothing to do, in a shop that wants `at_once` requests at most.
    pub(super) fn new(at_once: NonZeroU32) -> Self {
        Self { requests: Arc::default(), at_once }
    }

    /// Begins to work on a request.
    pub(super) fn enter(&self) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// In percent; above 100 when there is more than enough to do.
    pub(super) fn percent(&self) -> u32 {
        self.requests.load(Ordering::Relaxed).saturating_mul(100) / self.at_once
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_while_they_are_worked_on_and_no_longer() {
        let load = Load::new(NonZeroU32::new(4).unwrap());
        let mut busy: Vec<Busy> = (0..5).map(|_| load.enter()).collect();
        assert_eq!(load.percent(), 125);
        busy.truncate(1);
        assert_eq!(load.percent(), 25);
        drop(busy);
        assert_eq!(load.percent(), 0);
    }
}
