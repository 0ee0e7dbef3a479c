//! The service on PostgreSQL, as it is configured and started.

use ropeline_origin::{Origin, RawConfig, operator};
use ropeline_test_postgres::Postgres;

use crate::common::Shop;

/// A shop whose books are on a server.
async fn shop_on(url: &str) -> Shop {
    Shop::open_with(3, |raw| on(raw, url)).await
}

pub(crate) fn on(raw: &mut RawConfig, url: &str) {
    raw.payments.test_database = Some(raw.database.clone());
    raw.database = url.into();
}

/// A server with the tables that a shop needs.
pub(crate) async fn migrated() -> (Postgres, String) {
    let server = Postgres::start();
    let url = server.create("shop");
    let mut probe = Shop::open(1).await;
    probe.close().await;
    on(&mut probe.raw, &url);
    operator::migrate(&probe.raw.clone().check().unwrap()).await.unwrap();
    (server, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_on_postgres_outlives_the_service_and_the_database() {
    let mut server = Postgres::start();
    let url = server.create("shop");
    let mut probe = Shop::open(3).await;
    probe.close().await;
    on(&mut probe.raw, &url);
    let refused = Origin::bind(probe.raw.clone().check().unwrap()).await.unwrap_err().to_string();
    assert!(refused.contains("run `ropeline-origin migrate`"), "{refused}");
    operator::migrate(&probe.raw.clone().check().unwrap()).await.unwrap();

    let mut shop = shop_on(&url).await;
    let held = shop.held("ann").await;
    let paid = shop.pay("ann", "buy", &held, "test_accepted").await;
    assert_eq!(paid.status, 201, "{}", paid.body);
    assert_eq!(paid.body["state"], "sold");
    server.kill();
    server.launch();
    shop.reopen().await;
    let again = shop.pay("ann", "buy", &held, "test_accepted").await;
    assert_eq!((again.status, again.body), (paid.status, paid.body));
    assert_eq!(shop.stock().await, (2, 0, 1));
    assert!(operator::audit(&shop.raw.clone().check().unwrap()).await.unwrap().balanced);
}

#[tokio::test]
async fn the_test_provider_needs_a_file_where_the_books_are_none() {
    let mut shop = Shop::open(1).await;
    shop.raw.database = "postgres://shop:hunter2@db.example/shop".into();
    let refused = shop.raw.clone().check().unwrap_err().to_string();
    assert!(refused.contains("payments.test_database") && !refused.contains("hunter2"), "{refused}");
    shop.raw.database = "mysql://db.example/shop".into();
    let refused = shop.raw.clone().check().unwrap_err().to_string();
    assert!(refused.contains("postgres://"), "{refused}");
    on(&mut shop.raw, "postgres://shop:hunter2@db.example/shop");
    let checked = format!("{:?}", shop.raw.clone().check().unwrap());
    assert!(!checked.contains("hunter2"), "the password is in what may be logged: {checked}");
}
