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
    connect::parse(url).unwrap().connect().await.unwrap()
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
