//! Where books are opened for a test, and how they are changed behind the store's back: as time or a fault would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ropeline_test_postgres::Postgres;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use crate::answer::Answer;
use crate::model::{Kind, Product};
use crate::store::{Claim, KeyUse, OpenError, ProductSeed, SeedStock, Settings, Store, Wanted};

/// The most of one product that a visitor may hold.
pub(super) const MOST: i64 = 3;

/// A place for books, on one of the back ends.
pub(super) enum Bench {
    Sqlite(TempDir),
    Postgres { server: Arc<Postgres>, url: String },
}

pub(super) fn settings() -> Settings {
    Settings {
        hold_ms: 300_000,
        extension_ms: 0,
        units_per_visitor: None,
        sinks: Vec::new(),
        node: "here".into(),
        lease_ms: 60_000,
    }
}

pub(super) fn product(id: &str, kind: Kind) -> Product {
    Product {
        id: id.into(),
        name: format!("The {id}"),
        description: String::new(),
        price_minor: 100,
        currency: "EUR".into(),
        max_quantity: MOST,
        kind,
    }
}

/// So many runners.
pub(super) fn counted(total: i64) -> ProductSeed {
    ProductSeed { product: product("runner", Kind::Count), stock: SeedStock::Count(total) }
}

pub(super) fn key(visitor: &str, key: &str) -> KeyUse {
    KeyUse { visitor: visitor.into(), key: key.into(), fingerprint: [1; 32] }
}

/// Claims runners.
pub(super) async fn claim(store: &Store, visitor: &str, word: &str, wanted: Wanted) -> Answer {
    let claim = Claim { key: key(visitor, word), product: "runner".into(), wanted };
    store.claim(claim).await.unwrap()
}

/// A reservation of some runners; its id.
pub(super) async fn held(store: &Store, visitor: &str, quantity: i64) -> String {
    let answer = claim(store, visitor, "hold", Wanted::Any(quantity)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.text("id").to_owned()
}

// === impl Bench ===

impl Bench {
    pub(super) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(super) fn postgres() -> Self {
        Self::database(Arc::new(Postgres::start()))
    }

    /// A database of its own.
    fn database(server: Arc<Postgres>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = server.create(&format!("shop_{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        Self::Postgres { server, url }
    }

    /// An empty bench of the same back end.
    pub(super) fn another(&self) -> Self {
        match self {
            Self::Sqlite(_) => Self::sqlite(),
            Self::Postgres { server, .. } => Self::database(server.clone()),
        }
    }

    /// How many cases a property is tried on: each takes a database of its own.
    pub(super) fn cases(&self) -> u32 {
        match self {
            Self::Sqlite(_) => 48,
            Self::Postgres { .. } => 12,
        }
    }

    /// Opens the books, for the first time or again.
    pub(super) async fn try_open(
        &self,
        products: &[ProductSeed],
        settings: Settings,
    ) -> Result<Store, OpenError> {
        match self {
            Self::Sqlite(dir) => Store::open_sqlite(&dir.path().join("shop.db"), products, settings).await,
            Self::Postgres { url, .. } => {
                Store::migrate_postgres(url).await?;
                Store::open_postgres(url, products, settings).await
            }
        }
    }

    pub(super) async fn open(&self, products: &[ProductSeed], settings: Settings) -> Store {
        self.try_open(products, settings).await.unwrap()
    }

    async fn sqlite_beside(dir: &TempDir) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(dir.path().join("shop.db"))
            .busy_timeout(std::time::Duration::from_secs(10))
            .connect()
            .await
            .unwrap()
    }

    async fn postgres_beside(url: &str) -> PgConnection {
        url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap()
    }

    /// Does something to the books, in SQL that every back end takes.
    pub(super) async fn run(&self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql);
        match self {
            Self::Sqlite(dir) => {
                sqlx::query(sql).execute(&mut Self::sqlite_beside(dir).await).await.unwrap();
            }
            Self::Postgres { url, .. } => {
                let mut beside = Self::postgres_beside(url).await;
                sqlx::query(sql).execute(&mut beside).await.unwrap();
                beside.close().await.unwrap();
            }
        }
    }

    /// The rows of texts that a query finds.
    pub(super) async fn texts(&self, sql: &str) -> Vec<String> {
        let sql = sqlx::AssertSqlSafe(sql);
        match self {
            Self::Sqlite(dir) => {
                sqlx::query_scalar(sql).fetch_all(&mut Self::sqlite_beside(dir).await).await.unwrap()
            }
            Self::Postgres { url, .. } => {
                let mut beside = Self::postgres_beside(url).await;
                let found = sqlx::query_scalar(sql).fetch_all(&mut beside).await.unwrap();
                beside.close().await.unwrap();
                found
            }
        }
    }

    /// The number that a query finds.
    pub(super) async fn number(&self, sql: &str) -> i64 {
        let sql = sqlx::AssertSqlSafe(sql);
        match self {
            Self::Sqlite(dir) => {
                sqlx::query_scalar(sql).fetch_one(&mut Self::sqlite_beside(dir).await).await.unwrap()
            }
            Self::Postgres { url, .. } => {
                let mut beside = Self::postgres_beside(url).await;
                let found = sqlx::query_scalar(sql).fetch_one(&mut beside).await.unwrap();
                beside.close().await.unwrap();
                found
            }
        }
    }

    /// The time of these holds is over; of all, if none is named.
    pub(super) async fn run_out(&self, reservations: &[&str]) {
        let which = match reservations {
            [] => String::new(),
            some => format!(" WHERE id IN ('{}')", some.join("', '")),
        };
        // A hold that ends now is looked for from when holds were looked for last, and not from the beginning of time.
        let over = match self {
            Self::Sqlite(_) => "1",
            Self::Postgres { .. } => "floor(extract(epoch FROM clock_timestamp()) * 1000)",
        };
        self.run(&format!("UPDATE reservations SET expires_at = {over}{which}")).await;
    }
}
