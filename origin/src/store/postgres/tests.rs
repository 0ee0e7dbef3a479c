mod crossed;

use std::collections::HashSet;

use ropeline_test_postgres::Postgres as Server;
use sqlx::{ConnectOptions, Connection, PgConnection};

use super::*;
use crate::checkout::{Payment, Report};
use crate::model::{Kind, Product};
use crate::store::{Begun, KeyUse, SeedStock, Store, Wanted};

fn product(id: &str, kind: Kind) -> Product {
    Product {
        id: id.into(),
        name: format!("The {id}"),
        description: String::new(),
        price_minor: 100,
        currency: "EUR".into(),
        max_quantity: 4,
        kind,
    }
}

fn counted(total: i64) -> ProductSeed {
    ProductSeed { product: product("runner", Kind::Count), stock: SeedStock::Count(total) }
}

fn numbered(total: i64) -> ProductSeed {
    let labels = (1..=total).map(|number| format!("A-{number}")).collect();
    ProductSeed { product: product("seat", Kind::Units), stock: SeedStock::Units(labels) }
}

fn settings(node: &str, hold_ms: i64) -> Settings {
    Settings {
        hold_ms,
        extension_ms: 60_000,
        units_per_visitor: None,
        sinks: vec!["shop".into()],
        node: node.into(),
        lease_ms: 60_000,
    }
}

/// A server with the shop's tables, and their address.
async fn shop(server: &Server) -> String {
    let url = server.create("shop");
    Store::migrate_postgres(&url).await.unwrap();
    url
}

async fn open(url: &str, products: &[ProductSeed], hold_ms: i64) -> Store {
    Store::open_postgres(url, products, settings("here", hold_ms)).await.unwrap()
}

async fn beside(url: &str) -> PgConnection {
    connect::parse(url).unwrap().application_name("somebody else").connect().await.unwrap()
}

fn claim(visitor: &str, key: &str, product: &str, wanted: Wanted) -> Claim {
    let key = KeyUse { visitor: visitor.into(), key: key.into(), fingerprint: [1; 32] };
    Claim { key, product: product.into(), wanted }
}

fn one(visitor: &str, product: &str) -> Claim {
    claim(visitor, product, product, Wanted::Any(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_claim_is_answered_is_answered_again() {
    let server = Server::start();
    let url = shop(&server).await;
    let store = open(&url, &[counted(10), numbered(10)], 300_000).await;
    for product in ["runner", "seat"] {
        let first = store.claim(claim("ann", product, product, Wanted::Any(2))).await.unwrap();
        assert_eq!(first.status, 201, "{first:?}");
        let again = store.claim(claim("ann", product, product, Wanted::Any(2))).await.unwrap();
        assert_eq!(first, again);
        let other = KeyUse { visitor: "ann".into(), key: product.into(), fingerprint: [2; 32] };
        let other = store.claim(Claim { key: other, product: product.into(), wanted: Wanted::Any(1) }).await;
        assert_eq!(other.unwrap().status, 422);
        let id = first.text("id").to_owned();
        let key = KeyUse { visitor: "ann".into(), key: format!("extend {product}"), fingerprint: [1; 32] };
        assert_eq!(store.extend(key, id.clone()).await.unwrap().status, 200);
        let after = store.claim(claim("ann", product, product, Wanted::Any(2))).await.unwrap();
        assert_eq!(first, after, "an extension changed an answer that had been given");
        assert_eq!(store.cancel("ann".into(), id, None).await.unwrap().status, 204);
        let after = store.claim(claim("ann", product, product, Wanted::Any(2))).await.unwrap();
        assert_eq!(first, after, "a cancellation changed an answer that had been given");
    }
    assert_eq!(store.stock(), Stock { available: 20, held: 0 });
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
}

async fn buy(store: &Store, visitor: &str, reservation: &str) -> Payment {
    let key = KeyUse { visitor: visitor.into(), key: "buy".into(), fingerprint: [3; 32] };
    let begun = store.begin(key, reservation.into(), "card".into(), None).await.unwrap();
    let Begun::Started(purchase) = begun else { panic!("{begun:?}") };
    store.report(purchase.clone(), Report::Authorised, None).await.unwrap().unwrap();
    store.report(purchase, Report::Captured, None).await.unwrap().unwrap().state
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_unit_goes_to_one_of_a_thousand() {
    let server = Server::start();
    let url = shop(&server).await;
    let store = open(&url, &[counted(1), numbered(1)], 300_000).await;
    let node = Store::open_postgres(&url, &[], settings("there", 300_000)).await.unwrap();
    for product in ["runner", "seat"] {
        let asked: Vec<_> = (0..1_000)
            .map(|visitor| {
                let store = if visitor % 2 == 0 { store.clone() } else { node.clone() };
                tokio::spawn(async move { store.claim(one(&format!("visitor {visitor}"), product)).await })
            })
            .collect();
        let mut held = Vec::new();
        for asked in asked {
            let answer = asked.await.unwrap().unwrap();
            match answer.status {
                201 => held.push(answer.text("id").to_owned()),
                status => assert_eq!((status, answer.text("code")), (409, "all_held"), "{answer:?}"),
            }
        }
        assert_eq!(held.len(), 1, "{held:?}");
        let audit = store.audit().await.unwrap();
        assert!(audit.balanced, "{audit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_unit_is_sold_once_by_nodes_side_by_side() {
    const UNITS: i64 = 300;
    let server = Server::start();
    let url = shop(&server).await;
    let store = open(&url, &[counted(UNITS), numbered(UNITS)], 300_000).await;
    let node = Store::open_postgres(&url, &[], settings("there", 300_000)).await.unwrap();
    let asked: Vec<_> = (0..2 * UNITS)
        .map(|visitor| {
            let store = if visitor % 2 == 0 { store.clone() } else { node.clone() };
            tokio::spawn(async move {
                let (mut units, visitor) = (Vec::new(), format!("visitor {visitor}"));
                for product in ["runner", "seat"] {
                    let answer =
                        store.claim(claim(&visitor, product, product, Wanted::Any(1))).await.unwrap();
                    if answer.status != 201 {
                        continue;
                    }
                    units.extend(
                        answer.body["units"].as_array().into_iter().flatten().map(ToString::to_string),
                    );
                    if product == "runner" {
                        assert_eq!(buy(&store, &visitor, answer.text("id")).await, Payment::Sold);
                    }
                }
                units
            })
        })
        .collect();
    let mut units = HashSet::new();
    for asked in asked {
        for unit in asked.await.unwrap() {
            assert!(units.insert(unit.clone()), "{unit} was given away twice");
        }
    }
    assert_eq!(units.len(), 300);
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
    let runner = &audit.products[0];
    assert_eq!((runner.available, runner.held, runner.sold), (0, 0, UNITS), "{audit:?}");
    let seat = &audit.products[1];
    assert_eq!((seat.available, seat.held, seat.sold), (0, UNITS, 0), "{audit:?}");
    let mut beside = beside(&url).await;
    let told: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM outbox WHERE kind = 'purchase.sold'")
        .fetch_one(&mut beside)
        .await
        .unwrap();
    assert_eq!(told, UNITS);
    beside.close().await.unwrap();
}

/// As a shopper does whose call was not answered: again and again, with the same key.
async fn insist(store: &Store, claim: Claim) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match store.claim(claim.clone()).await {
            Ok(answer) if answer.status != 503 => return answer,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn number(url: &str, sql: &'static str) -> i64 {
    let mut beside = beside(url).await;
    let number = sqlx::query_scalar(sql).fetch_one(&mut beside).await.unwrap();
    beside.close().await.unwrap();
    number
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_killed_between_commit_and_reply_makes_one_hold_of_the_same_key() {
    let mut server = Server::start();
    let url = shop(&server).await;
    for (round, seed) in [counted(600), numbered(600)].into_iter().enumerate() {
        let product = seed.product.id.clone();
        let store = open(&url, &[seed], 300_000).await;
        let asked: Vec<_> = (0..200)
            .map(|visitor| {
                let (store, product) = (store.clone(), product.clone());
                tokio::spawn(async move {
                    let mut held = Vec::new();
                    for _ in 0..3 {
                        let visitor = format!("visitor {visitor}-{}", held.len());
                        held.push(insist(&store, one(&visitor, &product)).await);
                    }
                    held
                })
            })
            .collect();
        // Among so many, some are killed after their commit and before they heard of it.
        for _ in 0..3 {
            let sold = || async { number(&url, "SELECT COUNT(*) FROM reservations").await };
            let before = sold().await;
            while sold().await == before && before < 600 * (i64::try_from(round).unwrap() + 1) {}
            server.kill();
            server.launch();
        }
        let mut reservations = HashSet::new();
        for asked in asked {
            for answer in asked.await.unwrap() {
                assert!((200..=201).contains(&answer.status), "{answer:?}");
                assert!(reservations.insert(answer.text("id").to_owned()), "{answer:?} was given twice");
            }
        }
        assert_eq!(reservations.len(), 600);
        let audit = store.audit().await.unwrap();
        assert!(audit.balanced, "{audit:?}");
    }
    assert_eq!(number(&url, "SELECT COUNT(*) FROM reservations").await, 1_200);
    assert_eq!(number(&url, "SELECT COUNT(*) FROM idempotency_keys").await, 1_200);
}

/// Unix milliseconds of the database's clock.
const NOW: &str = concat!("SELECT ", transaction::clock!());

#[tokio::test(flavor = "multi_thread")]
async fn a_claimer_that_is_paused_past_its_time_neither_blocks_a_reclaim_nor_sells_twice() {
    let server = Server::start();
    let url = shop(&server).await;
    let store = open(&url, &[counted(8)], 500).await;
    let node = Store::open_postgres(&url, &[], settings("there", 500)).await.unwrap();
    // The claimer's transaction is caught before it writes its hold: somebody has the table.
    let mut pause = beside(&url).await;
    let mut pause = pause.begin().await.unwrap();
    sqlx::query("LOCK TABLE reservations IN SHARE MODE").execute(&mut *pause).await.unwrap();
    let paused = {
        let store = store.clone();
        tokio::spawn(async move { insist(&store, claim("slow", "k", "runner", Wanted::Any(1))).await })
    };
    let waits = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted";
    while number(&url, waits).await == 0 {}
    // Past the time of the hold that it is about to write, by the clock that the hold goes by.
    let over = number(&url, NOW).await + 500;
    while number(&url, NOW).await <= over {}
    pause.commit().await.unwrap();
    let slow = paused.await.unwrap();
    assert_eq!(slow.status, 201);
    // What it wrote was over before it was written; all eight are to be had.
    for visitor in 0..8 {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = node.claim(one(&format!("visitor {visitor}"), "runner")).await.unwrap();
            if answer.status == 201 {
                break;
            }
            assert_eq!(answer.text("code"), "all_held", "{answer:?}");
            assert!(Instant::now() < deadline, "a unit never came back");
            // Those before may have run out as well, so it cannot be counted upon to be the slow one's.
        }
    }
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
    let slow = store.reservation(slow.text("id"), "slow").await.unwrap().unwrap();
    assert_eq!(slow.reservation.state, crate::checkout::Hold::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_books_add_up_however_the_clock_is_stepped() {
    let server = Server::start_with_clock();
    let url = shop(&server).await;
    let store = open(&url, &[counted(6), numbered(6)], 60_000).await;
    for (turn, step) in [0, 3_600, 0, -3_600, 0].into_iter().enumerate() {
        server.step_clock(step);
        for product in ["runner", "seat"] {
            for visitor in 0..6 {
                let visitor = format!("visitor {turn}-{visitor}");
                let answer = store.claim(claim(&visitor, product, product, Wanted::Any(1))).await.unwrap();
                assert!(matches!(answer.status, 201 | 409), "{answer:?}");
                if answer.status == 409 {
                    assert_eq!(answer.text("code"), "all_held", "nothing is sold, and yet: {answer:?}");
                }
            }
        }
        store.sweep().await.unwrap();
        let audit = store.audit().await.unwrap();
        assert!(audit.balanced, "{audit:?}");
        assert!(audit.products.iter().all(|product| product.held <= 6), "{audit:?}");
    }
    // An hour back, everybody waits the hour that the clock was set back by, and no longer.
    server.step_clock(3_700);
    for product in ["runner", "seat"] {
        let answer = store.claim(claim("last", product, product, Wanted::Any(4))).await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    assert!(store.audit().await.unwrap().balanced);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_units_are_put_on_sale_again_before_a_statement_is_given_up() {
    let server = Server::start();
    let url = shop(&server).await;
    for units in [40_000, 40_001] {
        let store = open(&url, &[numbered(units)], 300_000).await;
        assert_eq!(store.stock(), Stock { available: units, held: 0 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_takes_over_goes_on_where_the_primary_was() {
    let mut primary =
        Server::start_with(&[("synchronous_standby_names", "*"), ("synchronous_commit", "local")]);
    let url = primary.create("shop");
    let standby = primary.standby();
    primary.configure(&[("synchronous_commit", "on")]);
    primary.psql("postgres", "SELECT pg_reload_conf()");
    Store::migrate_postgres(&url).await.unwrap();
    // The service knows one address, and finds behind it whoever is the primary.
    let door = tempfile::tempdir().unwrap();
    let link = door.path().join(".s.PGSQL.5432");
    std::os::unix::fs::symlink(primary.socket().join(".s.PGSQL.5432"), &link).unwrap();
    let url = format!("postgres://postgres@localhost/shop?host={}", door.path().display());
    let store = open(&url, &[counted(100), numbered(100)], 300_000).await;
    for product in ["runner", "seat"] {
        for visitor in 0..10 {
            assert_eq!(insist(&store, one(&format!("visitor {visitor}"), product)).await.status, 201);
        }
    }
    primary.kill();
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { insist(&store, one("in between", "runner")).await })
    };
    standby.promote();
    standby.psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''");
    standby.psql("postgres", "SELECT pg_reload_conf()");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(standby.socket().join(".s.PGSQL.5432"), &link).unwrap();
    assert_eq!(waiting.await.unwrap().status, 201);
    for product in ["runner", "seat"] {
        for visitor in 0..20 {
            let answer = insist(&store, one(&format!("visitor {visitor}"), product)).await;
            assert_eq!(answer.status, 201, "the first ten are answered as they were: {answer:?}");
        }
    }
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced, "{audit:?}");
    assert_eq!(audit.products.iter().map(|product| product.held).collect::<Vec<_>>(), [21, 20]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfit_server_is_refused_and_says_how_to_mend_it() {
    let mut server = Server::start();
    let url = server.create("shop");
    let refusal = async |url: &str| match Store::open_postgres(url, &[], settings("here", 1_000)).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    assert!(refusal(&url).await.contains("run `ropeline-origin migrate`"));
    Store::migrate_postgres(&url).await.unwrap();
    open(&url, &[counted(1)], 1_000).await;

    for (change, back, mend) in [
        (
            "ALTER DATABASE shop SET synchronous_commit = off",
            "ALTER DATABASE shop RESET ALL",
            "ALTER DATABASE",
        ),
        ("ALTER ROLE postgres SET synchronous_commit = local", "ALTER ROLE postgres RESET ALL", "ALTER ROLE"),
        (
            "ALTER DATABASE shop SET default_transaction_read_only = on",
            "ALTER DATABASE shop RESET ALL",
            "read alone",
        ),
    ] {
        server.psql("postgres", change);
        let refused = refusal(&url).await;
        assert!(refused.contains(mend), "{change}: {refused}");
        server.psql("postgres", back);
    }
    server.psql(
        "shop",
        "INSERT INTO _sqlx_migrations SELECT 99990101000000, description, now(), success, checksum, \
                         execution_time FROM _sqlx_migrations LIMIT 1",
    );
    assert!(refusal(&url).await.contains("newer ropeline-origin"));
    server.psql("shop", "DELETE FROM _sqlx_migrations WHERE version = 99990101000000");

    let standby = server.standby();
    assert!(refusal(&standby.url("shop")).await.contains("standby"));
    drop(standby);
    for (name, mend) in [
        ("synchronous_commit", "synchronous_commit is off"),
        ("full_page_writes", "full_page_writes is off"),
        ("fsync", "fsync is off"),
    ] {
        server.stop();
        server.configure(&[(name, "off")]);
        server.launch();
        let refused = refusal(&url).await;
        assert!(refused.contains(mend) && refused.contains("postgresql.conf"), "{refused}");
        server.configure(&[(name, "on")]);
    }
    server.stop();
    server.launch();
    open(&url, &[counted(1)], 1_000).await;
}

/// As behind a pooler that passes on nothing of what a session asks for, where the database has a default of its own.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_another_isolation_are_refused_and_ours_are_read_committed_whatever_the_default() {
    let server = Server::start();
    let url = shop(&server).await;
    server.psql("postgres", "ALTER DATABASE shop SET default_transaction_isolation = serializable");
    let refused = connect::refuse_isolation(&mut beside(&url).await).await.unwrap_err().to_string();
    assert!(refused.contains("serializable") && refused.contains("pooler"), "{refused}");
    let store = open(&url, &[counted(1)], 60_000).await;
    assert_eq!(store.claim(one("ann", "runner")).await.unwrap().status, 201);
}

/// Ends every session of the service, but that of `spared`. A session tells what it has read when it ends; before, only now
/// and then. The service opens others.
async fn end_sessions(beside: &mut PgConnection, spared: i32) {
    let sessions: Vec<i32> = sqlx::query_scalar(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
         AND pid NOT IN (pg_backend_pid(), $1)",
    )
    .bind(spared)
    .fetch_all(&mut *beside)
    .await
    .unwrap();
    let left = async |beside: &mut PgConnection| -> i64 {
        sqlx::query_scalar(
            "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = ANY ($1)",
        )
        .bind(&sessions)
        .fetch_one(beside)
        .await
        .unwrap()
    };
    while left(&mut *beside).await > 0 {}
}

/// What a search touches does not grow with what happened before it, though a transaction elsewhere, begun before
/// everything, keeps each old version of each row alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_stays_open_makes_no_claim_dearer() {
    const PART: i64 = 20_000;
    let server = Server::start_with(&[("autovacuum_naptime", "1s")]);
    let url = shop(&server).await;
    let store = open(&url, &[counted(10 * PART), numbered(10 * PART)], 3_600_000).await;
    let mut open_since = beside(&url).await;
    let its_pid: i32 =
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut open_since).await.unwrap();
    let mut open_since = open_since.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SELECT COUNT(*) FROM products").execute(&mut *open_since).await.unwrap();
    let mut read: Vec<std::collections::BTreeMap<String, i64>> = Vec::new();
    let mut before = std::collections::BTreeMap::new();
    for part in 0..3 {
        let asked: Vec<_> = (0..100)
            .map(|shopper| {
                let store = store.clone();
                tokio::spawn(async move {
                    for turn in 0..PART / 100 {
                        let visitor = format!("visitor {part}-{shopper}-{turn}");
                        for product in ["runner", "seat"] {
                            let answer = store.claim(one(&visitor, product)).await.unwrap();
                            assert_eq!(answer.status, 201, "{answer:?}");
                            // Every tenth comes back, so that units are given out again as well.
                            if turn % 10 == 0 {
                                let id = answer.text("id").to_owned();
                                store.cancel(visitor.clone(), id, None).await.unwrap();
                            }
                        }
                    }
                })
            })
            .collect();
        for asked in asked {
            asked.await.unwrap();
        }
        let mut beside = beside(&url).await;
        end_sessions(&mut beside, its_pid).await;
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT indexrelname::text, idx_tup_read FROM pg_stat_user_indexes WHERE idx_tup_read > 0 ORDER BY 1",
        )
        .fetch_all(&mut beside)
        .await
        .unwrap();
        beside.close().await.unwrap();
        let total: std::collections::BTreeMap<String, i64> = rows.into_iter().collect();
        read.push(
            total.iter().map(|(index, all)| (index.clone(), all - before.get(index).unwrap_or(&0))).collect(),
        );
        before = total;
    }
    // A claim with its share of cancellations reads a handful, in the last part as in the first: what is left of the
    // parts before it is stepped over by nobody. Counting what is left, now and then, is another matter, and goes by
    // the first two of these; the third is looked at for every unit that is put on sale.
    for part in &read {
        for (index, entries) in part {
            let counted = ["reservations_open", "units_free", "products_pkey"].contains(&index.as_str());
            assert!(counted || *entries < 2 * PART * 4, "{index} in one part: {entries}, of {read:#?}");
        }
    }
    open_since.rollback().await.unwrap();
    assert!(store.audit().await.unwrap().balanced);
}
