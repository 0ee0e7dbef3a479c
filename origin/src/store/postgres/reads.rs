//! Reads: in nobody's way. Each is as its namesake of [`super::super::Store`], and is tried again when the connection
//! that it came upon is gone.

use std::time::Instant;

use sqlx::{FromRow, Row};

use super::retry::Tries;
use super::transaction::clock;
use super::{BUCKETS, Postgres, in_time};
use crate::checkout::{self, Hold};
use crate::model::{Audit, Kind, Lease, Product, ProductAudit, Purchase, Reservation};
use crate::store::rows::{select_purchase, select_reservation, unknown};
use crate::store::tx::WriteError;
use crate::store::{ProductView, ReservationView, StoreError, unreadable};

impl Postgres {
    pub(super) async fn read<T, F: Future<Output = Result<T, sqlx::Error>>>(
        &self,
        read: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let mut tries = Tries::since(Instant::now());
        loop {
            let error = match in_time(read()).await {
                Ok(found) => return Ok(found),
                Err(error) => WriteError::Database(error),
            };
            if !tries.again(&error).await {
                return Err(match error {
                    WriteError::Database(error) => unreadable(&error),
                    WriteError::Answer(_) | WriteError::Random(_) => StoreError::Unreadable,
                });
            }
        }
    }

    async fn now(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(concat!("SELECT ", clock!())).fetch_one(&self.shared.pool).await
    }

    pub(in crate::store) async fn readable(&self) -> Result<(), StoreError> {
        // Not tried again: whoever asks wants to know.
        let read = sqlx::query("SELECT 1 FROM products LIMIT 1").fetch_optional(&self.shared.pool);
        in_time(read).await.map(drop).map_err(|error| unreadable(&error))
    }

    pub(in crate::store) async fn product(
        &self,
        id: &str,
        visitor: &str,
    ) -> Result<Option<ProductView>, StoreError> {
        self.read(|| async {
            let row = sqlx::query(concat!("SELECT *, ", clock!(), " AS now FROM products WHERE id = $1"))
                .bind(id)
                .fetch_optional(&self.shared.pool)
                .await?;
            let Some(row) = row else { return Ok(None) };
            let own: Option<Reservation> = sqlx::query_as(select_reservation!(
                "WHERE r.visitor = $2 AND r.product_id = $1 AND r.over = ''"
            ))
            .bind(id)
            .bind(visitor)
            .fetch_optional(&self.shared.pool)
            .await?;
            let product = Product::from_row(&row)?;
            let now = row.try_get("now")?;
            let free = match product.kind {
                Kind::Count => Vec::new(),
                Kind::Units => self.free_units(id).await?,
            };
            Ok(Some(ProductView {
                product,
                stopped: row.try_get::<Option<i64>, _>("stopped_at")?.is_some(),
                left: self.shared.figures.of(id),
                free,
                own: own.map(|own| own.at(now)),
                now,
            }))
        })
        .await
    }

    async fn free_units(&self, product: &str) -> Result<Vec<String>, sqlx::Error> {
        sqlx::query_scalar(
            "SELECT label FROM units WHERE product_id = $1 AND place > $2 ORDER BY place LIMIT $3",
        )
        .bind(product)
        .bind(self.shared.cursors.of(product).passed)
        .bind(ProductView::SHOWN)
        .fetch_all(&self.shared.pool)
        .await
    }

    pub(in crate::store) async fn reservation(
        &self,
        id: &str,
        visitor: &str,
    ) -> Result<Option<ReservationView>, StoreError> {
        self.read(|| async {
            let found: Option<Reservation> =
                sqlx::query_as(select_reservation!("WHERE r.id = $1 AND r.visitor = $2"))
                    .bind(id)
                    .bind(visitor)
                    .fetch_optional(&self.shared.pool)
                    .await?;
            let Some(reservation) = found else { return Ok(None) };
            let product_name = sqlx::query_scalar("SELECT name FROM products WHERE id = $1")
                .bind(&reservation.product)
                .fetch_one(&self.shared.pool)
                .await?;
            let purchase = sqlx::query_as(select_purchase!(
                "WHERE p.reservation_id = $1 ORDER BY p.created_at DESC, p.id DESC LIMIT 1"
            ))
            .bind(id)
            .fetch_optional(&self.shared.pool)
            .await?;
            let now = self.now().await?;
            Ok(Some(ReservationView { reservation: reservation.at(now), product_name, purchase, now }))
        })
        .await
    }

    pub(in crate::store) async fn lease(&self, visitor: &str) -> Result<Option<Lease>, StoreError> {
        self.read(|| async {
            // Of one state, the last to end decides: while it is not due, there is one.
            let states: Vec<(String, i64, i64)> = sqlx::query_as(concat!(
                "SELECT state, MAX(expires_at), ",
                clock!(),
                " FROM reservations WHERE visitor = $1 GROUP BY state"
            ))
            .bind(visitor)
            .fetch_all(&self.shared.pool)
            .await?;
            let mut now_states = Vec::with_capacity(states.len());
            for (word, expires_at, now) in states {
                let state = Hold::parse(&word).ok_or_else(|| unknown("reservations.state", &word))?;
                now_states.push(if now >= expires_at { checkout::expire(state).0 } else { state });
            }
            Ok(Lease::of(now_states))
        })
        .await
    }

    pub(in crate::store) async fn any_purchase(&self, id: &str) -> Result<Option<Purchase>, StoreError> {
        self.read(|| async {
            let found: Option<Purchase> = sqlx::query_as(select_purchase!("WHERE p.id = $1"))
                .bind(id)
                .fetch_optional(&self.shared.pool)
                .await?;
            let now = self.now().await?;
            Ok(found.map(|found| Purchase { reservation: found.reservation.clone().at(now), ..found }))
        })
        .await
    }

    pub(in crate::store) async fn has_purchases(&self) -> Result<bool, StoreError> {
        self.read(|| async {
            sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM purchases)").fetch_one(&self.shared.pool).await
        })
        .await
    }

    pub(in crate::store) async fn unsettled(&self, idle_ms: i64) -> Result<Vec<String>, StoreError> {
        self.read(|| async {
            sqlx::query_scalar(concat!(
                "SELECT id FROM purchases WHERE state IN ('authorising', 'capturing', 'voiding', 'refunding')
                 AND (changed_at <= ",
                clock!(),
                " - $1 OR changed_at > ",
                clock!(),
                ") ORDER BY changed_at"
            ))
            .bind(idle_ms)
            .fetch_all(&self.shared.pool)
            .await
        })
        .await
    }

    pub(in crate::store) async fn age_ms(&self, purchase: &Purchase) -> Result<i64, StoreError> {
        Ok(self.read(|| self.now()).await? - purchase.created_at)
    }

    pub(in crate::store) async fn audit(&self) -> Result<Audit, StoreError> {
        let rows = self.read(|| self.count_all()).await?;
        let products: Vec<ProductAudit> = rows
            .into_iter()
            .map(|row| {
                let ProductRow { id, total, available, held, sold, buckets, unit, stopped } = row;
                let unit = unit.as_deref().map(ProductAudit::unfit_unit);
                let differs = buckets.into_iter().chain(unit).collect();
                ProductAudit::new(id, [total, available, held, sold], stopped, differs)
            })
            .collect();
        Ok(Audit { balanced: products.iter().all(|product| product.balanced), products })
    }

    /// Each bucket has to fit the reservations that name it, and each unit its own, or the whole could balance by chance.
    async fn count_all(&self) -> Result<Vec<ProductRow>, sqlx::Error> {
        let mut tx = self.shared.pool.begin().await?;
        // It reads everything, and more than the other statements.
        sqlx::query("SET LOCAL enable_seqscan = on").execute(&mut *tx).await?;
        sqlx::query("SET LOCAL enable_hashjoin = on").execute(&mut *tx).await?;
        let rows = sqlx::query_as(
            "WITH counted AS (
                 SELECT product_id, bucket AS slot,
                        COALESCE(SUM(quantity) FILTER (WHERE state IN ('held', 'paying', 'capturing')), 0) AS held,
                        COALESCE(SUM(quantity) FILTER (WHERE state = 'sold'), 0) AS sold
                 FROM reservations WHERE over = '' GROUP BY product_id, bucket
             ), latest AS (
                 SELECT p.id AS product_id, b.slot, b.total, b.available
                 FROM products p CROSS JOIN generate_series(0, $1 - 1) k (slot)
                 CROSS JOIN LATERAL (SELECT * FROM buckets WHERE product_id = p.id AND slot = k.slot
                                     ORDER BY generation DESC LIMIT 1) b
             ), by_count AS (
                 SELECT product_id, SUM(total) AS total, SUM(available) AS available,
                        SUM(COALESCE(held, 0)) AS held, SUM(COALESCE(sold, 0)) AS sold,
                        string_agg(format('bucket %s has total = %s, available = %s, its reservations held = %s, sold = %s',
                                          slot, total, available, COALESCE(held, 0), COALESCE(sold, 0)), '; ' ORDER BY slot)
                            FILTER (WHERE total <> available + COALESCE(held, 0) + COALESCE(sold, 0)) AS unfit
                 FROM latest l LEFT JOIN counted c USING (product_id, slot) GROUP BY product_id
             ), owned AS (
                 SELECT r.product_id, r.id, r.state, label.value AS label
                 FROM reservations r CROSS JOIN json_array_elements_text(r.units::json) label (value)
                 WHERE r.over = '' AND r.units IS NOT NULL
             ), by_unit AS (
                 SELECT u.product_id, COUNT(*) AS total, COUNT(*) FILTER (WHERE u.state = 'free') AS available,
                        COUNT(*) FILTER (WHERE o.state IN ('held', 'paying', 'capturing')) AS held,
                        COUNT(*) FILTER (WHERE o.state = 'sold') AS sold,
                        min(u.label) FILTER (WHERE CASE u.state
                            WHEN 'free' THEN o.id IS NULL
                            WHEN 'sold' THEN o.id = u.reservation_id AND o.state = 'sold'
                            ELSE o.id = u.reservation_id AND o.state <> 'sold' END IS NOT TRUE) AS unfit
                 FROM units u LEFT JOIN owned o ON o.product_id = u.product_id AND o.label = u.label
                 GROUP BY u.product_id
             )
             SELECT p.id, COALESCE(c.total, u.total, 0)::bigint AS total,
                    COALESCE(c.available, u.available, 0)::bigint AS available,
                    COALESCE(c.held, u.held, 0)::bigint AS held, COALESCE(c.sold, u.sold, 0)::bigint AS sold,
                    c.unfit AS buckets, u.unfit AS unit, p.stopped_at IS NOT NULL AS stopped
             FROM products p LEFT JOIN by_count c ON p.kind = 'count' AND c.product_id = p.id
             LEFT JOIN by_unit u ON p.kind = 'units' AND u.product_id = p.id ORDER BY p.id",
        )
        .bind(BUCKETS)
        .fetch_all(&mut *tx)
        .await?;
        tx.rollback().await?;
        Ok(rows)
    }
}

#[derive(FromRow)]
struct ProductRow {
    id: String,
    total: i64,
    available: i64,
    held: i64,
    sold: i64,
    /// What differs in which of them.
    buckets: Option<String>,
    /// One that differs.
    unit: Option<String>,
    stopped: bool,
}
