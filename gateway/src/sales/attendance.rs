//! Whether this gateway alone cannot reach the store. Every gateway that reaches it leaves a mark now and then where those
//! look who do not; a balancer then turns away from them. Where nobody reaches the store, nobody is to be turned away from:
//! without any gateway not even the admitted could pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join_all;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use ropeline_store::{QueueStore, StoreError};
use tokio::time::MissedTickBehavior;

use super::{LiveSale, Sales};

/// How often a mark is left, or looked for.
const EVERY: Duration = Duration::from_secs(5);

/// Who was answered by the store no longer ago than this reaches it.
const RECENT: Duration = Duration::from_secs(2);

/// How long others are believed to reach the store after their last mark was new.
const BELIEVED: Duration = Duration::from_secs(15);

/// Marks that must have been new since this gateway lost the store: the first may be from before the others lost it, too.
const NEW_MARKS: u32 = 2;

/// What has been seen of the marks of others since the store was lost.
#[derive(Debug, Default)]
pub(super) struct Seen {
    mark: Option<u64>,
    new: u32,
    last: Option<Instant>,
}

/// The service that leaves marks and looks for them.
pub struct Attendance {
    sales: Arc<Sales>,
    store: Arc<dyn QueueStore>,
}

// === impl Seen ===

impl Seen {
    /// There is this mark.
    pub(super) fn see(&mut self, mark: Option<u64>, now: Instant) {
        if self.mark.is_some() && mark.is_some() && self.mark != mark {
            self.new += 1;
            self.last = Some(now);
        }
        self.mark = mark.or(self.mark);
    }

    /// Others reach the store.
    pub(super) fn others_reach(&self, now: Instant) -> bool {
        self.new >= NEW_MARKS && self.last.is_some_and(|last| now.saturating_duration_since(last) < BELIEVED)
    }
}

// === impl Attendance ===

impl Attendance {
    /// Nothing is done before it is started.
    #[must_use]
    pub fn new(sales: Arc<Sales>, store: Arc<dyn QueueStore>) -> Self {
        Self { sales, store }
    }

    async fn look(&self, sale: &LiveSale) -> Result<(), StoreError> {
        if sale.is_away() {
            let mark = self.store.mark(&sale.id).await?;
            sale.seen().see(mark, Instant::now());
            return Ok(());
        }
        *sale.seen() = Seen::default();
        if sale.since_tick() < RECENT { self.store.leave_mark(&sale.id).await } else { Ok(()) }
    }
}

#[async_trait]
impl BackgroundService for Attendance {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut looks = tokio::time::interval(EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => {
                    let sales = self.sales.all();
                    let all = sales.iter().map(|sale| async {
                        if let Err(error) = self.look(sale).await {
                            tracing::debug!(sale = %sale.id, %error, "whether others reach the store is not known");
                        }
                    });
                    join_all(all).await;
                }
                _ = shutdown.changed() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sees_new_marks_again_and_again_is_alone_for_as_long_as_they_are_new() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut seen = Seen::default();
        seen.see(None, at(0));
        seen.see(Some(1), at(5));
        assert!(!seen.others_reach(at(5)), "it may be from before");
        seen.see(Some(2), at(10));
        assert!(!seen.others_reach(at(10)), "it may be the last of one that lost the store, too");
        seen.see(Some(3), at(15));
        assert!(seen.others_reach(at(15)));
        seen.see(Some(3), at(20));
        assert!(seen.others_reach(at(29)) && !seen.others_reach(at(30)));
    }
}
