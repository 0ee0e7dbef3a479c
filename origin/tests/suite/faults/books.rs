//! The books of a run, read with SQL of its own.

use std::path::Path;

use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};

/// A connection to either store.
pub(super) enum Books {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

#[derive(Debug, sqlx::FromRow)]
pub(super) struct Reservation {
    pub(super) id: String,
    pub(super) product_id: String,
    pub(super) visitor: String,
    pub(super) quantity: i64,
    pub(super) amount_minor: i64,
    pub(super) state: String,
    pub(super) units: Option<String>,
    /// Whether the shopper chose these very units.
    pub(super) chosen: bool,
    /// Events told of it.
    pub(super) version: i64,
}

#[derive(Debug, sqlx::FromRow)]
pub(super) struct Purchase {
    pub(super) id: String,
    pub(super) reservation_id: String,
    pub(super) state: String,
    pub(super) provider_ref: Option<String>,
}

#[derive(Debug, sqlx::FromRow)]
pub(super) struct Unit {
    pub(super) product_id: String,
    pub(super) label: String,
    pub(super) state: String,
    pub(super) reservation_id: Option<String>,
}

/// All rows of a query that both stores understand.
macro_rules! rows {
    ($books:expr, $sql:literal) => {
        match $books {
            Books::Sqlite(connection) => sqlx::query_as($sql).fetch_all(connection).await.unwrap(),
            Books::Postgres(connection) => sqlx::query_as($sql).fetch_all(connection).await.unwrap(),
        }
    };
}

// === impl Books ===

impl Books {
    pub(super) async fn sqlite(path: &Path) -> Self {
        Self::Sqlite(crate::common::open_books(path).await)
    }

    pub(super) async fn postgres(url: &str) -> Self {
        let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
        Self::Postgres(options.connect().await.unwrap())
    }

    pub(super) async fn close(self) {
        match self {
            Self::Sqlite(connection) => connection.close().await.unwrap(),
            Self::Postgres(connection) => connection.close().await.unwrap(),
        }
    }

    pub(super) async fn reservations(&mut self) -> Vec<Reservation> {
        rows!(
            self,
            "SELECT id, product_id, visitor, quantity, amount_minor, state, units, chosen, version FROM reservations"
        )
    }

    pub(super) async fn purchases(&mut self) -> Vec<Purchase> {
        rows!(self, "SELECT id, reservation_id, state, provider_ref FROM purchases")
    }

    pub(super) async fn units(&mut self) -> Vec<Unit> {
        rows!(self, "SELECT product_id, label, state, reservation_id FROM units")
    }

    /// What can be had of each product.
    pub(super) async fn available(&mut self) -> Vec<(String, i64)> {
        match self {
            Self::Sqlite(connection) => {
                sqlx::query_as("SELECT product_id, available FROM stock").fetch_all(connection).await.unwrap()
            }
            Self::Postgres(connection) => sqlx::query_as(
                "SELECT product_id, sum(available)::BIGINT FROM buckets GROUP BY product_id
                 UNION ALL SELECT product_id, count(*) FILTER (WHERE state = 'free') FROM units GROUP BY product_id",
            )
            .fetch_all(connection)
            .await
            .unwrap(),
        }
    }

    /// Holds that are still to end by themselves.
    pub(super) async fn held(&mut self) -> usize {
        let all: Vec<(String,)> =
            rows!(self, "SELECT id FROM reservations WHERE state IN ('held', 'paying')");
        all.len()
    }

    /// Purchases that are not at their end.
    pub(super) async fn unsettled(&mut self) -> usize {
        let all: Vec<(String,)> = rows!(
            self,
            "SELECT id FROM purchases WHERE state IN ('authorising', 'capturing', 'voiding', 'refunding')"
        );
        all.len()
    }

    /// Events that are still to be told, dead ones included.
    pub(super) async fn untold(&mut self) -> usize {
        let all: Vec<(String,)> = rows!(self, "SELECT id FROM outbox");
        all.len()
    }

    /// Products whose sale was stopped, and why.
    pub(super) async fn stopped(&mut self) -> Vec<(String, Option<String>)> {
        rows!(self, "SELECT id, stopped_why FROM products WHERE stopped_at IS NOT NULL")
    }
}
