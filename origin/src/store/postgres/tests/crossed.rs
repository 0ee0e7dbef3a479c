//! Others in the way, whom the database has to part, or a node.

use sqlx::Executor;
use tokio::task::JoinHandle;

use super::*;
use crate::store::postgres::transaction::{first_i64, key_id};

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody else's transaction, which the database never picks when it has to end one in a deadlock.
async fn session(url: &str) -> (PgConnection, i32) {
    let mut session = beside(url).await;
    session.execute("SET deadlock_timeout = '1h'; SET lock_timeout = 0; BEGIN").await.unwrap();
    let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.unwrap();
    (session, pid)
}

/// Waits until the answer of a question about a session is yes.
async fn until(url: &str, question: &'static str, pid: i32) {
    let (deadline, mut looker) = (Instant::now() + PATIENCE, beside(url).await);
    loop {
        let yes: bool = sqlx::query_scalar(question).bind(pid).fetch_one(&mut looker).await.unwrap();
        if yes {
            break looker.close().await.unwrap();
        }
        assert!(Instant::now() < deadline, "never: {question}");
    }
}
const KEEPS_SOMEBODY_WAITING: &str =
    "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))";
const WAITS: &str = "SELECT cardinality(pg_blocking_pids($1)) > 0";

/// Has somebody run this statement and end the transaction with it.
fn then_end(mut session: PgConnection, sql: String) -> JoinHandle<()> {
    tokio::spawn(async move {
        session.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
        session.execute("ROLLBACK").await.unwrap();
        session.close().await.unwrap();
    })
}

/// Whether the server has found a deadlock. It tells some seconds late.
async fn was_deadlocked(url: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while number(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await == 0
    {
        if Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_the_database_ends_in_a_deadlock_is_made_once() {
    let server = Server::start();
    let url = shop(&server).await;
    let store = open(&url, &[counted(10)], 300_000).await;
    let mut claims = 0;
    // Should the machine be so slow that a lock is no longer waited for when the circle closes, it is tried anew.
    while claims == 0 || !was_deadlocked(&url).await {
        claims += 1;
        assert!(claims <= 5, "no deadlock comes about");
        let visitor = format!("visitor {claims}");
        let asked = one(&visitor, "runner");
        // A claim takes units out of a bucket, then keeps its key, then writes its hold. One session has the key, so that
        // it waits there; the other has the hold, and wants the bucket.
        let (mut first, first_pid) = session(&url).await;
        sqlx::query(
            "INSERT INTO idempotency_keys (id, fingerprint, answer, created_at) VALUES ($1, $1, '', 0)",
        )
        .bind(key_id(&asked.key).as_slice())
        .execute(&mut first)
        .await
        .unwrap();
        let (mut other, other_pid) = session(&url).await;
        sqlx::query(
            "INSERT INTO reservations (id, product_id, visitor, quantity, amount_minor, currency, state, created_at,
                                       expires_at, changed_at, bucket)
             VALUES ('other', 'runner', $1, 1, 100, 'EUR', 'held', 0, 0, 0, 0)",
        )
        .bind(&visitor)
        .execute(&mut other)
        .await
        .unwrap();
        let answer = {
            let store = store.clone();
            tokio::spawn(async move { insist(&store, asked).await })
        };
        until(&url, KEEPS_SOMEBODY_WAITING, first_pid).await;
        let other = then_end(other, "UPDATE buckets SET available = available".into());
        until(&url, WAITS, other_pid).await;
        first.execute("ROLLBACK").await.unwrap();
        other.await.unwrap();
        assert_eq!(answer.await.unwrap().status, 201);
    }
    assert_eq!(number(&url, "SELECT COUNT(*) FROM reservations").await, claims);
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
    assert_eq!((audit.products[0].available, audit.products[0].held), (10 - claims, claims));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_that_the_database_ends_in_a_deadlock_is_begun_once() {
    let server = Server::start();
    let url = shop(&server).await;
    let store = open(&url, &[counted(10)], 300_000).await;
    let mut purchases = 0;
    while purchases == 0 || !was_deadlocked(&url).await {
        purchases += 1;
        assert!(purchases <= 5, "no deadlock comes about");
        let visitor = format!("visitor {purchases}");
        let reservation = insist(&store, one(&visitor, "runner")).await.text("id").to_owned();
        // A purchase takes the lock of its key, then the reservation, then keeps the key. One session has the reservation,
        // so that it waits there; the other has the key, and wants its lock.
        let key = KeyUse { visitor, key: "buy".into(), fingerprint: [3; 32] };
        let id = key_id(&key);
        let (mut first, first_pid) = session(&url).await;
        sqlx::query("SELECT 1 FROM reservations WHERE id = $1 FOR UPDATE")
            .bind(&reservation)
            .execute(&mut first)
            .await
            .unwrap();
        let (mut other, other_pid) = session(&url).await;
        sqlx::query(
            "INSERT INTO idempotency_keys (id, fingerprint, answer, created_at) VALUES ($1, $1, '', 0)",
        )
        .bind(id.as_slice())
        .execute(&mut other)
        .await
        .unwrap();
        let begun = {
            let (store, key) = (store.clone(), key.clone());
            let reservation = reservation.clone();
            tokio::spawn(async move { store.begin(key, reservation, "card".into(), None).await.unwrap() })
        };
        until(&url, KEEPS_SOMEBODY_WAITING, first_pid).await;
        let other = then_end(other, format!("SELECT pg_advisory_xact_lock({})", first_i64(&id)));
        until(&url, WAITS, other_pid).await;
        first.execute("ROLLBACK").await.unwrap();
        other.await.unwrap();
        let Begun::Started(purchase) = begun.await.unwrap() else { panic!("it did not begin") };
        store.report(purchase.clone(), Report::Authorised, None).await.unwrap().unwrap();
        let sold = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
        assert_eq!(sold.state, Payment::Sold);
    }
    assert_eq!(number(&url, "SELECT COUNT(*) FROM purchases").await, purchases);
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
    assert_eq!((audit.products[0].available, audit.products[0].sold), (10 - purchases, purchases));
}

/// The server ends a transaction so where it cannot put it in order with others. Under READ COMMITTED it does so only in
/// corners, as when a row has moved to another partition, so here a trigger does.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_serialized_is_done_once() {
    let server = Server::start();
    let url = shop(&server).await;
    let store = open(&url, &[counted(10), numbered(10)], 300_000).await;
    for table in ["reservations", "purchases"] {
        // What a sequence has given stays given, also when the transaction is undone.
        server.psql(
            "shop",
            &format!(
                "CREATE SEQUENCE refused_{table};
                 CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF nextval('refused_{table}') <= 3 THEN
                         RAISE 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
                     END IF;
                     RETURN NEW;
                 END $$;
                 CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_{table}()"
            ),
        );
    }
    for product in ["runner", "seat"] {
        let answer = store.claim(one("ann", product)).await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        if product == "runner" {
            assert_eq!(buy(&store, "ann", answer.text("id")).await, Payment::Sold);
        }
    }
    assert_eq!(number(&url, "SELECT last_value FROM refused_reservations").await, 5);
    assert_eq!(number(&url, "SELECT last_value FROM refused_purchases").await, 4);
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
    let books: Vec<_> =
        audit.products.iter().map(|books| (books.available, books.held, books.sold)).collect();
    assert_eq!(books, [(9, 0, 1), (9, 1, 0)]);
}

/// All of PostgreSQL's time-outs go by the time of day.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_left_with_locks_is_ended_though_the_clock_is_set_back() {
    let server = Server::start_with_clock();
    server.step_clock(3_600);
    let url = shop(&server).await;
    let store = open(&url, &[counted(10)], 300_000).await;
    // As a node leaves it that stops where it stands.
    let mut left = connect::session(connect::parse(&url).unwrap()).connect().await.unwrap();
    left.execute("BEGIN; SELECT 1 FROM buckets FOR UPDATE").await.unwrap();
    // Whoever is in nobody's way, or is none of ours, is left alone.
    let (mut other, _) = session(&url).await;
    server.step_clock(0);
    // One that goes on, and one that starts.
    let claimed = tokio::spawn(async move { insist(&store, one("ann", "runner")).await });
    let opened = tokio::spawn({
        let url = url.clone();
        async move { open(&url, &[counted(20)], 300_000).await }
    });
    let both = async { (claimed.await.unwrap(), opened.await.unwrap()) };
    let (answer, node) = tokio::time::timeout(PATIENCE, both).await.expect("both go on");
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(insist(&node, one("ben", "runner")).await.status, 201);
    left.execute("SELECT 1").await.unwrap_err();
    other.execute("ROLLBACK").await.unwrap();
    let audit = node.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
}
