use std::collections::HashMap;

use proptest::prelude::*;
use sqlx::ConnectOptions;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

use super::*;
use crate::checkout::{self, Hold, Payment, StockMove};
use crate::model::{Kind, Product};

const MOST: i64 = 3;

fn seed(total: i64) -> ProductSeed {
    ProductSeed {
        product: Product {
            id: "runner".into(),
            name: "The runner".into(),
            description: String::new(),
            price_minor: 100,
            currency: "EUR".into(),
            max_quantity: MOST,
            kind: Kind::Count,
        },
        stock: SeedStock::Count(total),
    }
}

fn settings() -> Settings {
    Settings {
        hold_ms: 300_000,
        extension_ms: 0,
        units_per_visitor: None,
        sinks: Vec::new(),
        node: "here".into(),
        lease_ms: 60_000,
    }
}

async fn open(dir: &TempDir, total: i64) -> Store {
    Store::open_sqlite(&dir.path().join("shop.db"), &[seed(total)], settings()).await.unwrap()
}

async fn beside(dir: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(dir.path().join("shop.db"))
        .busy_timeout(Duration::from_secs(10))
        .connect()
        .await
        .unwrap()
}

fn key(visitor: &str, key: String) -> KeyUse {
    KeyUse { visitor: visitor.into(), fingerprint: [1; 32], key }
}

fn any(key: KeyUse, quantity: i64) -> Claim {
    Claim { key, product: "runner".into(), wanted: Wanted::Any(quantity) }
}

#[derive(Clone, Debug)]
enum Step {
    /// Claims that arrive together.
    Claim(Vec<(u8, i64)>),
    Cancel(u8),
    Begin(u8),
    Report(u8, Report),
    /// The holds of these visitors are over.
    Expire(Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let visitor = 0..6_u8;
    let report = prop::sample::select(vec![
        Report::Authorised,
        Report::Authorised,
        Report::Captured,
        Report::Declined,
        Report::CaptureRefused,
        Report::Voided,
        Report::Refunded,
        Report::NeverHeard,
    ]);
    let step = prop_oneof![
        4 => prop::collection::vec((visitor.clone(), 1..=MOST + 1), 1..5).prop_map(Step::Claim),
        1 => visitor.clone().prop_map(Step::Cancel),
        3 => visitor.clone().prop_map(Step::Begin),
        5 => (visitor.clone(), report).prop_map(|(visitor, report)| Step::Report(visitor, report)),
        1 => prop::collection::vec(visitor, 1..4).prop_map(Step::Expire),
    ];
    prop::collection::vec(step, 1..30)
}

/// One visitor's latest hold and its latest payment, as the pure machine has them.
struct Own {
    id: String,
    quantity: i64,
    state: Hold,
    payment: Option<(String, Payment)>,
    due: bool,
}

/// What the books must say, kept in the plainest way.
#[derive(Default)]
struct Model {
    available: i64,
    held: i64,
    sold: i64,
    own: HashMap<u8, Own>,
}

impl Model {
    fn shift(&mut self, stock: StockMove, quantity: i64) {
        match stock {
            StockMove::Stay => {}
            StockMove::Release => {
                self.held -= quantity;
                self.available += quantity;
            }
            StockMove::Sell => {
                self.held -= quantity;
                self.sold += quantity;
            }
        }
    }

    fn turn(&mut self, visitor: u8, hold: Hold, stock: StockMove) {
        let own = self.own.get_mut(&visitor).unwrap();
        own.state = hold;
        let quantity = own.quantity;
        self.shift(stock, quantity);
    }

    /// Every transaction begins with the end of what is due.
    fn expire(&mut self) {
        let due: Vec<(u8, Hold)> =
            self.own.iter().filter(|(_, own)| own.due).map(|(visitor, own)| (*visitor, own.state)).collect();
        for (visitor, state) in due {
            let (hold, stock) = checkout::expire(state);
            self.turn(visitor, hold, stock);
        }
    }

    /// The status that a claim is answered with.
    fn claim(&self, visitor: u8, quantity: i64) -> u16 {
        match self.own.get(&visitor).map(|own| own.state) {
            _ if quantity > MOST => 422,
            Some(Hold::Sold) => 409,
            Some(Hold::Held | Hold::Paying | Hold::Capturing) => 200,
            _ if self.available >= quantity => 201,
            _ => 409,
        }
    }
}

async fn play(total: i64, steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, total).await;
    let mut beside = beside(&dir).await;
    let mut model = Model { available: total, ..Model::default() };
    for (turn, step) in steps.into_iter().enumerate() {
        match step {
            Step::Claim(claims) => {
                // A single-threaded runtime sends them in this order, before the writer sees the first.
                let sent: Vec<_> = claims
                    .iter()
                    .enumerate()
                    .map(|(index, (visitor, quantity))| {
                        let key = key(&visitor.to_string(), format!("claim-{turn}-{index}"));
                        let (store, quantity) = (store.clone(), *quantity);
                        tokio::spawn(async move { store.claim(any(key, quantity)).await })
                    })
                    .collect();
                model.expire();
                for ((visitor, quantity), answer) in claims.into_iter().zip(sent) {
                    let answer = answer.await.unwrap().unwrap();
                    assert_eq!(answer.status, model.claim(visitor, quantity), "{answer:?}");
                    if answer.status == 201 {
                        model.available -= quantity;
                        model.held += quantity;
                        let id = answer.text("id").to_owned();
                        model.own.insert(
                            visitor,
                            Own { id, quantity, state: Hold::Held, payment: None, due: false },
                        );
                    }
                }
            }
            Step::Cancel(visitor) => {
                model.expire();
                let Some(own) = model.own.get(&visitor) else { continue };
                let answer = store.cancel(visitor.to_string(), own.id.clone(), None).await.unwrap();
                match checkout::cancel(own.state) {
                    Ok((hold, stock)) => {
                        assert_eq!(answer.status, 204);
                        model.turn(visitor, hold, stock);
                    }
                    Err(_) => assert_eq!(answer.status, 409),
                }
            }
            Step::Begin(visitor) => {
                model.expire();
                let Some(own) = model.own.get_mut(&visitor) else { continue };
                let key = key(&visitor.to_string(), format!("pay-{turn}"));
                let begun = store.begin(key, own.id.clone(), "any".into(), None).await.unwrap();
                match (checkout::begin(own.state), begun) {
                    (Ok((hold, payment)), Begun::Started(id)) => {
                        own.state = hold;
                        own.payment = Some((id, payment));
                    }
                    (Err(_), Begun::Answered(answer)) => assert_eq!(answer.status, 409),
                    (expected, begun) => panic!("{expected:?}, not {begun:?}"),
                }
            }
            Step::Report(visitor, report) => {
                model.expire();
                let Some(own) = model.own.get_mut(&visitor) else { continue };
                let Some((id, payment)) = own.payment.clone() else { continue };
                if let Some(again) = checkout::retake(own.state, payment, report)
                    && model.available >= own.quantity
                {
                    own.state = again;
                    model.available -= own.quantity;
                    model.held += own.quantity;
                }
                let expected = checkout::report(own.state, payment, report);
                let purchase = store.report(id.clone(), report, None).await.unwrap();
                assert_eq!(purchase.unwrap().state, expected.payment);
                own.payment = Some((id, expected.payment));
                let due = own.due;
                model.turn(visitor, expected.hold, expected.stock);
                if due && expected.hold == Hold::Held {
                    let (hold, stock) = checkout::expire(Hold::Held);
                    model.turn(visitor, hold, stock);
                }
            }
            Step::Expire(visitors) => {
                for visitor in visitors {
                    if let Some(own) = model.own.get_mut(&visitor) {
                        own.due = true;
                        sqlx::query("UPDATE reservations SET expires_at = 1 WHERE id = ?1")
                            .bind(&own.id)
                            .execute(&mut beside)
                            .await
                            .unwrap();
                    }
                }
                model.expire();
                store.sweep().await.unwrap();
            }
        }
        // Even a step that came to nothing has ended what was due.
        store.sweep().await.unwrap();
        let left = store.stock();
        let audit = store.audit().await.unwrap();
        assert!(audit.balanced, "{audit:?}");
        let product = &audit.products[0];
        assert_eq!(product.total, product.available + product.held + product.sold, "{audit:?}");
        assert_eq!(
            (product.available, product.held, product.sold),
            (model.available, model.held, model.sold)
        );
        assert_eq!((left.available, left.held), (model.available, model.held));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_books_add_up_after_every_step_of_any_sale(total in 0..8_i64, steps in steps()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play(total, steps));
    }
}

#[tokio::test]
async fn the_sweep_s_statement_agrees_with_the_state_machine() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 10).await;
    let mut beside = beside(&dir).await;
    for hold in Hold::ALL {
        sqlx::query(
            "INSERT INTO reservations (id, product_id, visitor, quantity, amount_minor, currency, state, created_at,
             expires_at, changed_at) VALUES (?1, 'runner', ?1, 1, 1, 'EUR', ?1, 1, 1, 1)",
        )
        .bind(hold.as_str())
        .execute(&mut beside)
        .await
        .unwrap();
    }
    sqlx::query("UPDATE stock SET available = 6, held = 3, sold = 1").execute(&mut beside).await.unwrap();
    assert!(store.audit().await.unwrap().balanced);
    store.sweep().await.unwrap();
    assert_eq!(store.stock(), Stock { available: 8, held: 1 });
    for hold in Hold::ALL {
        let now: String = sqlx::query_scalar("SELECT state FROM reservations WHERE id = ?1")
            .bind(hold.as_str())
            .fetch_one(&mut beside)
            .await
            .unwrap();
        assert_eq!(now, checkout::expire(hold).0.as_str(), "{hold:?}");
    }
}

#[tokio::test]
async fn an_audit_sees_a_unit_that_went_astray() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 3).await;
    store.claim(any(key("ann", "k".into()), 2)).await.unwrap();
    assert!(store.audit().await.unwrap().balanced);
    let mut beside = beside(&dir).await;
    sqlx::query("UPDATE reservations SET quantity = 1").execute(&mut beside).await.unwrap();
    let audit = store.audit().await.unwrap();
    assert!(!audit.balanced && !audit.products[0].balanced, "{audit:?}");
    let lost = sqlx::query("UPDATE stock SET held = held - 1").execute(&mut beside).await;
    assert!(lost.is_err(), "the schema let a unit vanish");
}

#[tokio::test]
async fn a_total_can_grow_but_not_below_what_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 3).await;
    store.claim(any(key("ann", "k".into()), 2)).await.unwrap();
    drop(store);
    let store = open(&dir, 5).await;
    assert_eq!(store.stock(), Stock { available: 3, held: 2 }, "known before the first change");
    drop(store);
    let path = dir.path().join("shop.db");
    let refused = Store::open_sqlite(&path, &[seed(1)], settings()).await.unwrap_err();
    assert!(refused.to_string().contains("total = 1 is below the 2 units"), "{refused}");
}

#[tokio::test]
async fn a_writer_that_commits_no_more_is_unhealthy() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1).await;
    let opened = store.committed_at();
    assert!(store.health(opened + STUCK).await.is_ok());
    let late = opened + STUCK + Duration::from_millis(1);
    assert!(matches!(store.health(late).await, Err(StoreError::Failed)));
    store.sweep().await.unwrap();
    let committed = store.committed_at();
    assert!(committed > opened);
    assert!(store.health(committed + STUCK).await.is_ok());
}
