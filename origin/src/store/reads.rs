//! Reads: never in the writer's way.

use sqlx::{FromRow, Row};

use super::rows::{select_purchase, select_reservation, unknown};
use super::{Store, StoreError};
use crate::checkout::{self, Hold};
use crate::model::{Audit, Lease, Product, ProductAudit, Purchase, Reservation, Stock};

/// A product's page: the product, what is left of it, and this visitor's reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProductView {
    /// The product.
    pub product: Product,
    /// What is left of it.
    pub left: Stock,
    /// The visitor's hold or purchase of it.
    pub own: Option<Reservation>,
}

/// A reservation with the database's time, by which it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReservationView {
    /// As it stands at `now`.
    pub reservation: Reservation,
    /// The product's name for people.
    pub product_name: String,
    /// Its latest purchase.
    pub purchase: Option<Purchase>,
    /// Unix milliseconds.
    pub now: i64,
}

fn unreadable(error: &sqlx::Error) -> StoreError {
    tracing::error!(%error, "the books cannot be read");
    StoreError::Unreadable
}

impl Store {
    async fn now(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")
            .fetch_one(&self.reads)
            .await
    }

    /// A read that any working database answers.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(super) async fn readable(&self) -> Result<(), StoreError> {
        let read = sqlx::query("SELECT 1 FROM stock LIMIT 1").fetch_optional(&self.reads).await;
        read.map(drop).map_err(|error| unreadable(&error))
    }

    /// A product as this visitor sees it; `None` if there is none of that name.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn product(&self, id: &str, visitor: &str) -> Result<Option<ProductView>, StoreError> {
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
            let now = self.now().await?;
            Ok(Some(ProductView {
                product: Product::from_row(&row)?,
                left: Stock { available: row.try_get("available")?, held: row.try_get("held")? },
                own: own.map(|own| own.at(now)),
            }))
        };
        read.await.map_err(|error: sqlx::Error| unreadable(&error))
    }

    /// A visitor's own reservation.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn reservation(
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

    /// What the gateway is to know about a visitor's lease; `None` of a visitor who never had a hold.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn lease(&self, visitor: &str) -> Result<Option<Lease>, StoreError> {
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

    /// A visitor's own purchase.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn purchase(&self, id: &str, visitor: &str) -> Result<Option<Purchase>, StoreError> {
        let found = self.any_purchase(id).await?;
        Ok(found.filter(|purchase| purchase.reservation.visitor == visitor))
    }

    /// A purchase, whosever it is.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn any_purchase(&self, id: &str) -> Result<Option<Purchase>, StoreError> {
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

    /// Whether anybody ever began to pay.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn has_purchases(&self) -> Result<bool, StoreError> {
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM purchases)")
            .fetch_one(&self.reads)
            .await
            .map_err(|error| unreadable(&error))
    }

    /// Names of the purchases about which the payment service is to be asked, the longest untouched first, but none
    /// that changed in the last `idle_ms` milliseconds.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn unsettled(&self, idle_ms: i64) -> Result<Vec<String>, StoreError> {
        sqlx::query_scalar(
            "SELECT id FROM purchases WHERE state IN ('authorising', 'capturing', 'voiding', 'refunding')
             AND changed_at <= round(unixepoch('subsec') * 1000) - ?1 ORDER BY changed_at",
        )
        .bind(idle_ms)
        .fetch_all(&self.reads)
        .await
        .map_err(|error| unreadable(&error))
    }

    /// How old a purchase is on the database's clock, in milliseconds.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn age_ms(&self, purchase: &Purchase) -> Result<i64, StoreError> {
        Ok(self.now().await.map_err(|error| unreadable(&error))? - purchase.created_at)
    }

    /// The books of every product, in one query, so that they are of one moment.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn audit(&self) -> Result<Audit, StoreError> {
        let rows: Vec<(String, i64, i64, i64, i64, i64, i64)> = sqlx::query_as(
            "SELECT s.product_id, s.total, s.available, s.held, s.sold,
                    COALESCE(SUM(r.quantity) FILTER (WHERE r.state IN ('held', 'paying', 'capturing')), 0),
                    COALESCE(SUM(r.quantity) FILTER (WHERE r.state = 'sold'), 0)
             FROM stock s LEFT JOIN reservations r ON r.product_id = s.product_id
             GROUP BY s.product_id ORDER BY s.product_id",
        )
        .fetch_all(&self.reads)
        .await
        .map_err(|error| unreadable(&error))?;
        let products: Vec<ProductAudit> = rows
            .into_iter()
            .map(|(id, total, available, counted_held, counted_sold, held, sold)| ProductAudit {
                id,
                total,
                available,
                held,
                sold,
                balanced: total == available + held + sold && counted_held == held && counted_sold == sold,
            })
            .collect();
        Ok(Audit { balanced: products.iter().all(|product| product.balanced), products })
    }
}
