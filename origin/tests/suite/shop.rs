//! The shopper's calls over HTTP, against a real shop with real tokens.

use crate::common::{Shop, said};
use serde_json::json;

#[tokio::test]
async fn a_shopper_goes_the_whole_way() {
    let shop = Shop::open(2).await;
    let seen = said(shop.get("ann", "/products/runner")).await;
    assert_eq!(seen.status, 200);
    assert_eq!(seen.body["available"], 2);
    assert_eq!(seen.header("ropeline-stock"), Some("2; held=0"));
    assert_eq!(seen.header("ropeline-lease"), None);

    let held = shop.reserve("ann", "k1").await;
    assert_eq!(held.status, 201, "{}", held.body);
    assert_eq!(held.body["state"], "held");
    assert_eq!(held.header("location"), held.body["links"]["self"].as_str());
    assert_eq!(held.header("ropeline-stock"), Some("1; held=1"));
    assert_eq!(held.header("ropeline-lease"), Some("hold"));
    assert_eq!(held.header("cache-control"), Some("private, no-store"));

    let paid = shop.pay("ann", "k2", &held.body, "4242 4242 4242 4242").await;
    assert_eq!(paid.status, 201, "{}", paid.body);
    assert_eq!(paid.body["state"], "sold");
    assert_eq!(paid.header("ropeline-lease"), Some("end"));
    assert_eq!(paid.header("ropeline-stock"), Some("1; held=0"));

    let path = paid.header("location").unwrap().to_owned();
    let purchase = said(shop.get("ann", &path)).await;
    assert_eq!((purchase.status.as_u16(), &purchase.body["state"]), (200, &json!("sold")));
    assert_eq!(purchase.header("ropeline-lease"), Some("end"));
    assert_eq!(shop.stock().await, (1, 0, 1));
}
