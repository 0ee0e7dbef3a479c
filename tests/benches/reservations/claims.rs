//! Claims a second on PostgreSQL, in one run on one server: one hot row; SKIP LOCKED one at a time; ours, of both kinds.
//!
//! Each does the same bookkeeping for every claim: the idempotency key is looked up, and so is the visitor's hold; one unit
//! is taken; a reservation and a key are written into the same tables with the same indexes; the commit is durable. The
//! ones to compare with have a connection for each shopper and as many statements in a transaction as ours, and run in
//! turn with it, so that a busy moment of the machine strikes them all.
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ropeline_origin::bench::Books;
use ropeline_test_postgres::Postgres;
use ropeline_tests::measure::{median, setting};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Row};

const SHOPPERS: [u64; 2] = [16, 256];

/// Visitors and keys are as long as real ones.
pub(crate) fn visitor_and_key() -> (String, String) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let spread = u128::from(next + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let word = format!("{spread:032x}");
    (format!("v-{word}"), word)
}

/// Runs `claim` from so many shoppers at once, each again as soon as it is answered, and counts a second's worth.
async fn rate<F: Future<Output = ()> + Send + 'static>(
    shoppers: u64,
    time: Duration,
    claim: impl Fn(u64) -> F + Send + Sync + 'static,
) -> f64 {
    let (claim, stop, done) =
        (Arc::new(claim), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let tasks: Vec<_> = (0..shoppers)
        .map(|shopper| {
            let (claim, stop, done) = (claim.clone(), stop.clone(), done.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    claim(shopper).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

/// The shop as it would be written first: a transaction for each claim.
struct Plain {
    connections: Vec<tokio::sync::Mutex<PgConnection>>,
}

impl Plain {
    async fn open(url: &str) -> Self {
        let options: PgConnectOptions = url.parse().unwrap();
        let mut connections = Vec::new();
        for _ in 0..SHOPPERS.into_iter().max().unwrap() {
            connections.push(tokio::sync::Mutex::new(options.connect().await.unwrap()));
        }
        Self { connections }
    }

    /// `hot`: all take from one row, each waiting for the other. Else each takes a unit of its own, skipping those that
    /// others have locked.
    async fn claim(&self, shopper: u64, hot: bool) {
        let mut connection = self.connections[usize::try_from(shopper).unwrap()].lock().await;
        let (visitor, key) = visitor_and_key();
        let product = if hot { "hot" } else { "plain" };
        let id = key.as_bytes()[..16].to_vec();
        let mut tx = connection.begin().await.unwrap();
        let known = sqlx::query(
            "SELECT 1 FROM idempotency_keys WHERE id = $1
             UNION ALL SELECT 1 FROM reservations WHERE visitor = $2 AND product_id = $3 AND over = ''",
        )
        .bind(&id)
        .bind(&visitor)
        .bind(product)
        .fetch_optional(&mut *tx)
        .await
        .unwrap();
        assert!(known.is_none());
        let reservation = format!("rsv_{key}");
        if hot {
            let taken = sqlx::query(
                "UPDATE buckets SET available = available - 1 WHERE product_id = $1 AND slot = 0 AND available > 0",
            )
            .bind(product)
            .execute(&mut *tx)
            .await
            .unwrap();
            assert_eq!(taken.rows_affected(), 1);
        } else {
            let taken = sqlx::query(
                "UPDATE units SET state = 'held', place = NULL, reservation_id = $2 WHERE product_id = $1 AND label = (
                     SELECT label FROM units WHERE product_id = $1 AND place IS NOT NULL ORDER BY place LIMIT 1
                     FOR UPDATE SKIP LOCKED)",
            )
            .bind(product)
            .bind(&reservation)
            .execute(&mut *tx)
            .await
            .unwrap();
            assert_eq!(taken.rows_affected(), 1);
        }
        sqlx::query(
            "WITH made AS (
                 INSERT INTO reservations (id, product_id, visitor, quantity, amount_minor, currency, state, created_at,
                                           expires_at, changed_at, bucket)
                 SELECT $1, $2, $3, 1, 18900, 'EUR', 'held', now, now + 3600000, now, 0
                 FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) clock (now))
             INSERT INTO idempotency_keys (id, fingerprint, reservation_id, created_at)
             SELECT $4, $5, $1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        )
        .bind(&reservation)
        .bind(product)
        .bind(&visitor)
        .bind(&id)
        .bind([7_u8; 32].as_slice())
        .execute(&mut *tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
    }
}

pub(crate) async fn side_by_side(server: &Postgres) {
    let (rounds, time) = (setting("ROUNDS", 5), Duration::from_secs(setting("SECONDS", 2)));
    let url = server.create("claims");
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let books = Books::open(&url, 10_000_000, 1_500_000).await.unwrap();
    plain_products(&pool).await;
    let plain = Arc::new(Plain::open(&url).await);
    println!("claims a second; median of {rounds} (least to most)");
    for shoppers in SHOPPERS {
        let mut rates: [Vec<f64>; 4] = Default::default();
        for _ in 0..rounds {
            for (contestant, rates) in rates.iter_mut().enumerate() {
                let rate = match contestant {
                    0 | 1 => {
                        let plain = plain.clone();
                        let hot = contestant == 0;
                        rate(shoppers, time, move |shopper| {
                            let plain = plain.clone();
                            async move { plain.claim(shopper, hot).await }
                        })
                        .await
                    }
                    _ => {
                        let books = books.clone();
                        let product = if contestant == 2 { Books::COUNTED } else { Books::NUMBERED };
                        rate(shoppers, time, move |_| {
                            let books = books.clone();
                            async move {
                                let (visitor, key) = visitor_and_key();
                                assert!(books.claim(product, visitor, key).await.unwrap(), "sold out");
                            }
                        })
                        .await
                    }
                };
                rates.push(rate);
            }
        }
        let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
        println!("{shoppers} shoppers at once");
        let names = ["one hot row", "SKIP LOCKED, one at a time", "ours, count", "ours, units"];
        for ((name, rates), median) in names.into_iter().zip(&rates).zip(&medians) {
            println!(
                "  {name:28} {median:8.0}  ({:.0} to {:.0})  {:6.1} x hot row  {:5.1} x SKIP LOCKED",
                rates[0],
                rates[rates.len() - 1],
                median / medians[0],
                median / medians[1]
            );
        }
    }
    let audit = books.audit().await.unwrap();
    let ours: Vec<_> = audit.products.iter().filter(|product| product.id.ends_with("ed")).collect();
    assert!(ours.iter().all(|product| product.balanced), "{audit:?}");
}

async fn plain_products(pool: &PgPool) {
    for sql in [
        "INSERT INTO products (id, name, description, price_minor, currency, max_quantity, kind)
         SELECT id, id, '', 18900, 'EUR', 1, kind FROM (VALUES ('hot', 'count'), ('plain', 'units')) p (id, kind)",
        "INSERT INTO buckets (product_id, slot, total, available) VALUES ('hot', 0, 10000000, 10000000)",
        "INSERT INTO units (product_id, number, label, place)
         SELECT 'plain', number, number::text, nextval('unit_places') FROM generate_series(1, 1000000) number",
        "VACUUM ANALYZE",
    ] {
        sqlx::query(sql).execute(pool).await.unwrap();
    }
}

/// What a claim touches, as the server counts it, while a transaction elsewhere keeps every old version alive.
pub(crate) async fn beside_a_snapshot(server: &Postgres) {
    const CLAIMS: u64 = 1_000_000;
    let url = server.create("claims");
    let books = Books::open(&url, 600_000, 600_000).await.unwrap();
    let options: PgConnectOptions = url.parse().unwrap();
    let (mut snapshot, mut counts) = (options.connect().await.unwrap(), options.connect().await.unwrap());
    let mut snapshot = snapshot.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SELECT count(*) FROM products").execute(&mut *snapshot).await.unwrap();
    println!("{CLAIMS} claims of both kinds beside one open snapshot: what each touches");
    let mut before = touched(&mut counts).await;
    for part in 1..=10 {
        let begun = Instant::now();
        let tasks: Vec<_> = (0..256)
            .map(|shopper_number| {
                let books = books.clone();
                let product = if shopper_number % 2 == 0 { Books::COUNTED } else { Books::NUMBERED };
                tokio::spawn(async move {
                    for _ in 0..CLAIMS / 10 / 256 {
                        let (visitor, key) = visitor_and_key();
                        assert!(books.claim(product, visitor, key).await.unwrap(), "sold out");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let rate = (CLAIMS / 10) as f64 / begun.elapsed().as_secs_f64();
        let after = touched(&mut counts).await;
        let each = |index: usize| (after[index] - before[index]) as f64 / (CLAIMS / 10) as f64;
        println!(
            "  part {part:2}: {:6.1} blocks  {:5.2} index entries of buckets  {:5.2} of units  ({rate:.0} claims/s)",
            each(0),
            each(1),
            each(2)
        );
        before = after;
    }
    assert!(books.audit().await.unwrap().balanced);
    snapshot.rollback().await.unwrap();
}

/// Blocks hit or read, and index entries read of the tables that are searched.
async fn touched(connection: &mut PgConnection) -> [i64; 3] {
    // The sessions report now and then; this waits until they have.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let row = sqlx::query(
        "SELECT (SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()),
                (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'buckets'),
                (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'units')",
    )
    .fetch_one(connection)
    .await
    .unwrap();
    [row.get(0), row.get(1), row.get(2)]
}
