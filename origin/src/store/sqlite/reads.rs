//! Reads: never in the writer's way. Each is as its namesake of [`super::super::Store`].

use sqlx::{FromRow, Row};

use super::Sqlite;
use crate::checkout::{self, Hold};
use crate::model::{Audit, Kind, Lease, Product, ProductAudit, Purchase, Reservation, Stock};
use crate::store::rows::{select_purchase, select_reservation, unknown};
use crate::store::{ProductView, ReservationView, StoreError, unreadable};

impl Sqlite {
    async fn now(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")
            .fetch_one(&self.reads)
            .await
    }

    pub(in crate::store) async fn readable(&self) -> Result<(), StoreError> {
        let read = sqlx::query("SELECT 1 FROM stock LIMIT 1").fetch_optional(&self.reads).await;
        read.map(drop).map_err(|error| unreadable(&error))
    }

    pub(in crate::store) async fn product(
        &self,
        id: &str,
        visitor: &str,
    ) -> Result<Option<ProductView>, StoreError> {
        let read = async {
            let row = sqlx::query(
                "SELECT p.*, s.available, s.held FROM products p JOIN stock s ON s.product_id = p.id WHERE p.id = ?1",
            )
            .bind(id)
            .fetch_optional(&self.reads)
            .await?;
            let Some(row) = row else { return Ok(None) };
            let own: Option<Reservation> = sqlx::query_as(select_reservation!(
                "WHERE r.product_id = ?1 AND r.visitor = ?2 AND r.state IN ('held', 'paying', 'capturing', 'sold')"
            ))
            .bind(id)
            .bind(visitor)
            .fetch_optional(&self.reads)
            .await?;
            let product = Product::from_row(&row)?;
            let free = match product.kind {
                Kind::Count => Vec::new(),
                Kind::Units => {
                    sqlx::query_scalar(
                        "SELECT label FROM units WHERE product_id = ?1 AND state = 'free' ORDER BY number LIMIT ?2",
                    )
                    .bind(id)
                    .bind(ProductView::SHOWN)
                    .fetch_all(&self.reads)
                    .await?
                }
            };
            let now = self.now().await?;
            Ok(Some(ProductView {
                product,
                stopped: row.try_get::<Option<i64>, _>("stopped_at")?.is_some(),
                left: Stock { available: row.try_get("available")?, held: row.try_get("held")? },
                free,
                own: own.map(|own| own.at(now)),
                now,
            }))
        };
        read.await.map_err(|error: sqlx::Error| unreadable(&error))
    }

    pub(in crate::store) async fn reservation(
        &self,
        id: &str,
        visitor: &str,
    ) -> Result<Option<ReservationView>, StoreError> {
        let read = async {
            let found: Option<Reservation> =
                sqlx::query_as(select_reservation!("WHERE r.id = ?1 AND r.visitor = ?2"))
                    .bind(id)
                    .bind(visitor)
                    .fetch_optional(&self.reads)
                    .await?;
            let Some(reservation) = found else { return Ok(None) };
            let product_name = sqlx::query_scalar("SELECT name FROM products WHERE id = ?1")
                .bind(&reservation.product)
                .fetch_one(&self.reads)
                .await?;
            let purchase = sqlx::query_as(select_purchase!(
                "WHERE p.reservation_id = ?1 ORDER BY p.created_at DESC, p.rowid DESC LIMIT 1"
            ))
            .bind(id)
            .fetch_optional(&self.reads)
            .await?;
            let now = self.now().await?;
            Ok(Some(ReservationView { reservation: reservation.at(now), product_name, purchase, now }))
        };
        read.await.map_err(|error: sqlx::Error| unreadable(&error))
    }

    pub(in crate::store) async fn lease(&self, visitor: &str) -> Result<Option<Lease>, StoreError> {
        let read = async {
            // Of one state, the last to end decides: while it is not due, there is one.
            let states: Vec<(String, i64, i64)> = sqlx::query_as(
                "SELECT state, MAX(expires_at), CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
                 FROM reservations WHERE visitor = ?1 GROUP BY state",
            )
            .bind(visitor)
            .fetch_all(&self.reads)
            .await?;
            let mut now_states = Vec::with_capacity(states.len());
            for (word, expires_at, now) in states {
                let state = Hold::parse(&word).ok_or_else(|| unknown("reservations.state", &word))?;
                now_states.push(if now >= expires_at { checkout::expire(state).0 } else { state });
            }
            Ok(Lease::of(now_states))
        };
        read.await.map_err(|error: sqlx::Error| unreadable(&error))
    }

    pub(in crate::store) async fn any_purchase(&self, id: &str) -> Result<Option<Purchase>, StoreError> {
        let read = async {
            let found: Option<Purchase> = sqlx::query_as(select_purchase!("WHERE p.id = ?1"))
                .bind(id)
                .fetch_optional(&self.reads)
                .await?;
            let now = self.now().await?;
            Ok(found.map(|found| Purchase { reservation: found.reservation.clone().at(now), ..found }))
        };
        read.await.map_err(|error: sqlx::Error| unreadable(&error))
    }

    pub(in crate::store) async fn has_purchases(&self) -> Result<bool, StoreError> {
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM purchases)")
            .fetch_one(&self.reads)
            .await
            .map_err(|error| unreadable(&error))
    }

    pub(in crate::store) async fn unsettled(&self, idle_ms: i64) -> Result<Vec<String>, StoreError> {
        sqlx::query_scalar(
            "SELECT id FROM purchases WHERE state IN ('authorising', 'capturing', 'voiding', 'refunding')
             AND (changed_at <= round(unixepoch('subsec') * 1000) - ?1
                  OR changed_at > round(unixepoch('subsec') * 1000)) ORDER BY changed_at",
        )
        .bind(idle_ms)
        .fetch_all(&self.reads)
        .await
        .map_err(|error| unreadable(&error))
    }

    pub(in crate::store) async fn age_ms(&self, purchase: &Purchase) -> Result<i64, StoreError> {
        Ok(self.now().await.map_err(|error| unreadable(&error))? - purchase.created_at)
    }

    pub(in crate::store) async fn audit(&self) -> Result<Audit, StoreError> {
        // Numbered units are counted as well: of the others, there are none to differ. Each has to fit its own reservation,
        // or the whole could balance by chance.
        let rows: Vec<ProductRow> = sqlx::query_as(
            "SELECT s.product_id, s.total, s.available, s.held AS counted_held, s.sold AS counted_sold,
                    COALESCE(r.held, 0) AS held, COALESCE(r.sold, 0) AS sold, p.kind = 'units' AS numbered,
                    COALESCE(u.free, 0) AS units_free, COALESCE(u.held, 0) AS units_held,
                    COALESCE(u.sold, 0) AS units_sold, u.unfit,
                    p.stopped_at IS NOT NULL AS stopped
             FROM stock s JOIN products p ON p.id = s.product_id
             LEFT JOIN (SELECT product_id,
                               SUM(quantity) FILTER (WHERE state IN ('held', 'paying', 'capturing')) AS held,
                               SUM(quantity) FILTER (WHERE state = 'sold') AS sold
                        FROM reservations GROUP BY product_id) r ON r.product_id = s.product_id
             LEFT JOIN (SELECT n.product_id, COUNT(*) FILTER (WHERE n.state = 'free') AS free,
                               COUNT(*) FILTER (WHERE n.state = 'held') AS held,
                               COUNT(*) FILTER (WHERE n.state = 'sold') AS sold,
                               MIN(n.label) FILTER (WHERE n.state <> 'free' AND NOT COALESCE(
                                   iif(n.state = 'sold', o.state = 'sold', o.state IN ('held', 'paying', 'capturing'))
                                   AND n.label IN (SELECT value FROM json_each(o.units)), FALSE)) AS unfit
                        FROM units n LEFT JOIN reservations o ON o.id = n.reservation_id
                        GROUP BY n.product_id) u ON u.product_id = s.product_id
             ORDER BY s.product_id",
        )
        .fetch_all(&self.reads)
        .await
        .map_err(|error| unreadable(&error))?;
        let products: Vec<ProductAudit> = rows.into_iter().map(ProductRow::audit).collect();
        Ok(Audit { balanced: products.iter().all(|product| product.balanced), products })
    }
}

#[derive(FromRow)]
struct ProductRow {
    product_id: String,
    total: i64,
    available: i64,
    counted_held: i64,
    counted_sold: i64,
    held: i64,
    sold: i64,
    numbered: bool,
    units_free: i64,
    units_held: i64,
    units_sold: i64,
    unfit: Option<String>,
    stopped: bool,
}

impl ProductRow {
    fn audit(self) -> ProductAudit {
        let Self { product_id, total, available, held, sold, stopped, .. } = self;
        let mut differs = Vec::new();
        let mut compare = |what: &str, counter: i64, who: &str, counted: i64| {
            if counter != counted {
                differs.push(format!("the stock's counter says {what} = {counter}, the {who} say {counted}"));
            }
        };
        compare("held", self.counted_held, "reservations", held);
        compare("sold", self.counted_sold, "reservations", sold);
        if self.numbered {
            compare("available", available, "units", self.units_free);
            compare("held", self.counted_held, "units", self.units_held);
            compare("sold", self.counted_sold, "units", self.units_sold);
            differs.extend(self.unfit.as_deref().map(ProductAudit::unfit_unit));
        }
        ProductAudit::new(product_id, [total, available, held, sold], stopped, differs)
    }
}
