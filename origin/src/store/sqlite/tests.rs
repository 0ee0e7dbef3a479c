use sqlx::ConnectOptions;
use tempfile::TempDir;

use super::*;
use crate::checkout::{Payment, Report};
use crate::model::{Kind, Product};
use crate::store::{Begun, KeyUse, SeedStock, Store, StoreError, Wanted};

async fn open(dir: &TempDir, total: i64) -> Store {
    let product = Product {
        id: "runner".into(),
        name: "The runner".into(),
        description: String::new(),
        price_minor: 100,
        currency: "EUR".into(),
        max_quantity: 3,
        kind: Kind::Count,
    };
    let settings = Settings {
        hold_ms: 300_000,
        extension_ms: 0,
        units_per_visitor: None,
        sinks: Vec::new(),
        node: "here".into(),
        lease_ms: 60_000,
    };
    let seeds = [ProductSeed { product, stock: SeedStock::Count(total) }];
    Store::open_sqlite(&dir.path().join("shop.db"), &seeds, settings).await.unwrap()
}

async fn beside(dir: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(dir.path().join("shop.db"))
        .busy_timeout(Duration::from_secs(10))
        .connect()
        .await
        .unwrap()
}

fn claim(visitor: &str) -> Claim {
    let key = KeyUse { visitor: visitor.into(), fingerprint: [1; 32], key: "k".into() };
    Claim { key, product: "runner".into(), wanted: Wanted::Any(1) }
}

#[tokio::test]
async fn every_commit_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(&dir, 1).await);
    // What `refuse_forgetful` refuses: a connection that does not sync its commits.
    let mut forgetful = SqliteConnectOptions::new()
        .filename(dir.path().join("shop.db"))
        .synchronous(SqliteSynchronous::Normal)
        .connect()
        .await
        .unwrap();
    assert!(matches!(refuse_forgetful(&mut forgetful).await, Err(OpenError::NotDurable(_))));
}

/// One that was put into the outbox an hour from now, by a clock that was set right since then.
#[tokio::test]
async fn what_a_process_that_died_was_telling_is_told_by_the_next_whatever_the_clock_was() {
    const FROM_NOW: &str = "unixepoch('subsec') * 1000 + 3600000";
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1).await;
    let mut books = beside(&dir).await;
    let put = format!(
        "INSERT INTO outbox (sink, aggregate, seq, id, kind, payload, created_at, next_try, put_off_at)
         VALUES ('hook', 'a', 1, 'a1', 'k', '{{}}', {FROM_NOW}, {FROM_NOW}, {FROM_NOW})"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(put)).execute(&mut books).await.unwrap();
    books.close().await.unwrap();
    assert_eq!(store.take_events("hook", 60_000, 1).await.unwrap().len(), 1);
    drop(store);
    let taken = open(&dir, 1).await.take_events("hook", 60_000, 1).await.unwrap();
    assert_eq!(taken.iter().map(|event| event.tries).collect::<Vec<_>>(), [1], "nobody refused it");
}

/// As on a full disk: SQLite ends the transaction by itself, behind the driver's back.
#[tokio::test]
async fn a_rollback_by_the_database_itself_does_not_end_the_sale() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 3).await;
    let mut beside = beside(&dir).await;
    for round in 0..3 {
        sqlx::raw_sql(
            "CREATE TRIGGER disk_full BEFORE INSERT ON reservations BEGIN SELECT RAISE(ROLLBACK, 'disk full'); END",
        )
        .execute(&mut beside)
        .await
        .unwrap();
        let visitor = format!("visitor {round}");
        let refused = store.claim(claim(&visitor)).await;
        assert!(matches!(refused, Err(StoreError::Failed)), "{refused:?}");
        assert!(store.audit().await.unwrap().balanced);
        sqlx::raw_sql("DROP TRIGGER disk_full").execute(&mut beside).await.unwrap();
        let held = store.claim(claim(&visitor)).await.unwrap();
        assert_eq!((held.status, store.stock().held), (201, round + 1));
    }
}

#[tokio::test]
async fn the_schema_lets_no_unit_vanish() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 3).await;
    store.claim(claim("ann")).await.unwrap();
    for astray in ["UPDATE stock SET held = held - 1", "UPDATE stock SET available = -1, held = 4"] {
        assert!(sqlx::query(astray).execute(&mut beside(&dir).await).await.is_err(), "{astray}");
    }
}

/// Books that were kept before units were numbered and calls were leased.
#[tokio::test]
async fn older_books_are_taken_over_with_what_is_held_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let older = MIGRATIONS.iter().filter(|one| one.version < 20_261_130_000_003).cloned().collect();
    let path = dir.path().join("shop.db");
    let mut books = connect(&options(&path).create_if_missing(true)).await.unwrap();
    Migrator::with_migrations(older).run(&mut books).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO products VALUES ('runner', 'The runner', '', 100, 'EUR', 3, 'count');
         INSERT INTO stock VALUES ('runner', 3, 1, 2, 0);
         INSERT INTO reservations VALUES ('rsv_1', 'runner', 'ann', 2, 200, 'EUR', 'paying', 1, 99999999999999, 1);
         INSERT INTO purchases VALUES ('pur_1', 'rsv_1', 'authorising', 'any', NULL, 1, 1);
         INSERT INTO idempotency_keys VALUES ('ann', 'pay', zeroblob(32), 'pur_1', NULL, 99999999999999);",
    )
    .execute(&mut books)
    .await
    .unwrap();
    books.close().await.unwrap();
    let store = open(&dir, 3).await;
    assert!(store.audit().await.unwrap().balanced);
    assert_eq!(store.stock(), Stock { available: 1, held: 2 });
    let key = KeyUse { visitor: "ann".into(), key: "pay".into(), fingerprint: [0; 32] };
    let begun = store.begin(key, "rsv_1".into(), "any".into(), None).await.unwrap();
    assert_eq!(begun, Begun::Started("pur_1".into()), "the call goes on where it was");
    let sold = store.report("pur_1".into(), Report::Captured, None).await.unwrap().unwrap();
    assert_eq!((sold.state, sold.reservation.units.len()), (Payment::Sold, 0));
    assert!(store.audit().await.unwrap().balanced);
}
