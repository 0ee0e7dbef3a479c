//! What is left of each product, told with every answer. Counting holds takes time, so it is done now and then, and this
//! node's own changes are added in between.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sqlx::Row;

use super::{Shared, in_time};
use crate::model::Stock;

/// Between two counts, at least.
const EVERY: Duration = Duration::from_millis(500);
/// Of the time, one part in so many is spent counting at most.
const SHARE: u32 = 20;
/// For so long a count that changes of this node came in between of is counted again.
const STALE: Duration = Duration::from_secs(2);

/// What is left, and what this node has changed.
#[derive(Debug, Default)]
pub(super) struct Figures {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    products: HashMap<String, Stock>,
    /// Products whose sale is stopped.
    stopped: HashSet<String>,
    /// Commits of this node that were begun, and those that are under way.
    changes: u64,
    under_way: u32,
    counted_at: Option<Instant>,
    committed_at: Option<Instant>,
}

/// What a transaction changes.
#[derive(Debug, Default)]
pub(super) struct Deltas(HashMap<String, Stock>);

/// A commit that is under way.
#[derive(Debug)]
pub(super) struct Commit<'a> {
    figures: &'a Figures,
    deltas: Deltas,
}

// === impl Deltas ===

impl Deltas {
    pub(super) fn add(&mut self, product: &str, available: i64, held: i64) {
        let stock = self.0.entry(product.to_owned()).or_insert(Stock { available: 0, held: 0 });
        stock.available += available;
        stock.held += held;
    }
}

// === impl Figures ===

impl Figures {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of all products together. Nobody can claim of a product that is stopped; what is left of it may come back, as what is
    /// held.
    pub(super) fn total(&self) -> Stock {
        let inner = self.lock();
        inner.products.iter().fold(Stock { available: 0, held: 0 }, |sum, (id, stock)| {
            let (available, held) = (stock.available.max(0), stock.held.max(0));
            if inner.stopped.contains(id) {
                Stock { held: sum.held + held + available, ..sum }
            } else {
                Stock { available: sum.available + available, held: sum.held + held }
            }
        })
    }

    pub(super) fn of(&self, product: &str) -> Stock {
        let stock = self.lock().products.get(product).copied().unwrap_or(Stock { available: 0, held: 0 });
        Stock { available: stock.available.max(0), held: stock.held.max(0) }
    }

    /// A transaction of this node is about to be committed.
    pub(super) fn commit(&self, deltas: Deltas) -> Commit<'_> {
        let mut inner = self.lock();
        inner.changes += u64::from(!deltas.0.is_empty());
        inner.under_way += 1;
        Commit { figures: self, deltas }
    }

    pub(super) fn committed_at(&self) -> Option<Instant> {
        self.lock().committed_at
    }

    /// Changes so far; `None` while one is under way, which a count may or may not see.
    fn changes(&self) -> Option<u64> {
        let inner = self.lock();
        (inner.under_way == 0).then_some(inner.changes)
    }

    /// Takes a count over. Changes of this node while it was counted may or may not be in it: then it is left, unless
    /// the last one is old.
    fn counted(&self, counts: HashMap<String, Stock>, before: Option<u64>) {
        let mut inner = self.lock();
        let old = inner.counted_at.is_none_or(|at| at.elapsed() > STALE);
        if Some(inner.changes) == before || old {
            inner.products = counts;
            inner.counted_at = Some(Instant::now());
        }
    }
}

// === impl Commit ===

impl Commit<'_> {
    /// It is done.
    pub(super) fn done(self) {
        let mut inner = self.figures.lock();
        for (product, delta) in &self.deltas.0 {
            let stock = inner.products.entry(product.clone()).or_insert(Stock { available: 0, held: 0 });
            stock.available += delta.available;
            stock.held += delta.held;
        }
        inner.committed_at = Some(Instant::now());
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        self.figures.lock().under_way -= 1;
    }
}

/// Counts what is left of every product.
pub(super) async fn count(shared: &Shared) -> Result<(), sqlx::Error> {
    let before = shared.figures.changes();
    let mut counts = HashMap::new();
    let (products, passed) = shared.cursors.passed();
    let rows = sqlx::query(
        "SELECT p.id,
                CASE p.kind WHEN 'count' THEN
                    (SELECT COALESCE(SUM(b.available), 0) FROM generate_series(0, $1 - 1) slot
                     CROSS JOIN LATERAL (SELECT available FROM buckets WHERE product_id = p.id AND buckets.slot = slot.slot
                                         ORDER BY generation DESC LIMIT 1) b)
                ELSE (SELECT COUNT(*) FROM units u WHERE u.product_id = p.id AND u.place > COALESCE(k.passed, -1)) END
                    ::bigint AS available,
                (SELECT COALESCE(SUM(r.quantity), 0) FROM reservations r
                 WHERE r.product_id = p.id AND r.due_at IS NOT NULL)::bigint AS held,
                p.stopped_at IS NOT NULL AS stopped
         FROM products p LEFT JOIN unnest($2::text[], $3::bigint[]) k (id, passed) ON k.id = p.id",
    )
    .bind(super::BUCKETS)
    .bind(products)
    .bind(passed)
    .fetch_all(&shared.pool)
    .await?;
    let mut stopped = HashSet::new();
    for row in &rows {
        if row.try_get("stopped")? {
            stopped.insert(row.try_get("id")?);
        }
        let stock = Stock { available: row.try_get("available")?, held: row.try_get("held")? };
        counts.insert(row.try_get("id")?, stock);
    }
    shared.figures.lock().stopped = stopped;
    shared.figures.counted(counts, before);
    Ok(())
}

/// Counts until the last handle is gone.
pub(super) async fn keep_counting(shared: Weak<Shared>) {
    let mut pause = EVERY;
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else { break };
        let begun = Instant::now();
        if let Err(error) = in_time(count(&shared)).await {
            tracing::warn!(%error, "what is left cannot be counted");
        }
        pause = EVERY.max(begun.elapsed() * SHARE);
        drop::<Arc<Shared>>(shared);
    }
}
