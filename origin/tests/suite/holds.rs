//! How long a hold lasts, and how much one visitor may have.

use serde_json::{Value, json};

use crate::common::{Said, Shop, product, said};

async fn extend(shop: &Shop, visitor: &str, key: &str, held: &Value) -> Said {
    said(shop.post(visitor, key, held["links"]["extension"].as_str().unwrap(), &json!({}))).await
}

fn ends(reservation: &Value) -> i64 {
    reservation["expires_at"].as_i64().unwrap()
}

#[tokio::test]
async fn a_hold_is_extended_once() {
    let mut shop = Shop::open_with(1, |raw| raw.hold_extension_seconds = 120).await;
    let held = shop.held("ann").await;
    let longer = extend(&shop, "ann", "e1", &held).await;
    assert_eq!((longer.status.as_u16(), ends(&longer.body)), (200, ends(&held) + 120_000), "{}", longer.text);
    assert_eq!(longer.body["extended"], true);
    shop.reopen().await;
    let again = extend(&shop, "ann", "e1", &held).await;
    assert_eq!((again.status, &again.text), (longer.status, &longer.text), "the stored answer");
    let second = extend(&shop, "ann", "e2", &held).await;
    assert_eq!((second.status.as_u16(), second.code()), (409, "extension_used"));
    let seen = said(shop.get("ann", held["links"]["self"].as_str().unwrap())).await;
    assert_eq!(ends(&seen.body), ends(&held) + 120_000);
    let stranger = extend(&shop, "bob", "e", &held).await;
    assert_eq!(stranger.code(), "reservation_unknown");
}

#[tokio::test]
async fn what_is_over_or_certain_is_not_extended() {
    let shop = Shop::open_with(2, |raw| raw.hold_extension_seconds = 120).await;
    let (ann, bob) = (shop.held("ann").await, shop.held("bob").await);
    assert_eq!(shop.pay("bob", "p", &bob, "test_accepted").await.status, 201);
    assert_eq!(extend(&shop, "bob", "e", &bob).await.code(), "extension_needless");
    shop.let_holds_run_out().await;
    assert_eq!(extend(&shop, "ann", "e", &ann).await.code(), "hold_over");
    assert_eq!(shop.stock().await, (1, 0, 1));
    let off = Shop::open(1).await;
    let held = off.held("ann").await;
    assert_eq!(extend(&off, "ann", "e", &held).await.code(), "extension_off");
}

#[tokio::test]
async fn who_gave_a_hold_back_is_told_so() {
    let shop = Shop::open_with(1, |raw| raw.hold_extension_seconds = 120).await;
    let held = shop.held("ann").await;
    let path = format!("{}/cancel", held["links"]["self"].as_str().unwrap());
    assert_eq!(said(shop.post("ann", "c", &path, &json!({}))).await.status, 204);
    for refused in
        [extend(&shop, "ann", "e", &held).await, shop.pay("ann", "p", &held, "test_accepted").await]
    {
        assert_eq!(refused.code(), "hold_over");
        assert!(refused.text.contains("You gave it back"), "{}", refused.text);
    }
}

#[tokio::test]
async fn what_is_sold_leads_to_its_purchase_and_to_no_payment() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let bought = shop.pay("ann", "p", &held, "test_accepted").await;
    let seen = said(shop.get("ann", held["links"]["self"].as_str().unwrap())).await;
    let links = &seen.body["links"];
    assert_eq!(links["purchase"], bought.body["links"]["self"], "{}", seen.text);
    assert_eq!((links.get("purchases"), links.get("extension")), (None, None), "{}", seen.text);
}

#[tokio::test]
async fn a_person_sees_the_time_left_and_asks_for_more_with_a_form() {
    let shop = Shop::open_with(1, |raw| raw.hold_extension_seconds = 120).await;
    let held = shop.held("ann").await;
    let checkout = held["links"]["checkout"].as_str().unwrap();
    let page = |path: &str| said(shop.get("ann", path).header("accept", "text/html"));
    let before = page(checkout).await;
    assert!(before.text.contains("left when this page was loaded"), "{}", before.text);
    assert!(before.text.contains("I need 2 min 0 s more"), "{}", before.text);
    let path = format!("{}/extension", held["links"]["self"].as_str().unwrap());
    assert!(before.text.contains(&format!("action=\"{path}\"")), "{}", before.text);
    let asked = said(shop.form("ann", &path, "idempotency_key=form-1")).await;
    assert_eq!((asked.status.as_u16(), asked.header("location")), (303, Some(checkout)));
    let after = page(checkout).await;
    assert!(!after.text.contains("more</button>"), "{}", after.text);
    let refresh: i64 = after.header("refresh").unwrap().parse().unwrap();
    assert!((301..=421).contains(&refresh), "{refresh}");
    let product = page("/products/runner").await;
    assert!(product.text.contains("left when this page was loaded"), "{}", product.text);
}

#[tokio::test]
async fn programs_are_told_the_time_left_where_it_is_looked_up() {
    let shop = Shop::open(2).await;
    let held = shop.held("ann").await;
    let rsv = held["links"]["self"].as_str().unwrap();
    let seen = said(shop.get("ann", rsv)).await;
    let left = seen.body["time_left_ms"].as_i64().unwrap();
    assert!((1..=300_000).contains(&left), "{left}");
    let seen = said(shop.get("ann", "/products/runner")).await;
    assert!(seen.body["reservation"]["time_left_ms"].as_i64().unwrap() <= left);
    shop.pay("ann", "p", &held, "test_accepted").await;
    let seen = said(shop.get("ann", rsv)).await;
    assert_eq!(seen.body["time_left_ms"], Value::Null, "what is sold has no end");
}

#[tokio::test]
async fn a_visitor_has_no_more_than_the_limit_of_everything_together() {
    let shop = Shop::open_with(9, |raw| {
        raw.limits.units_per_visitor = Some(4);
        raw.products.push(product("walker", 9));
        raw.products.push(product("stroller", 9));
    })
    .await;
    let ask = |visitor: &'static str, key: &'static str, product: &'static str, quantity: u32| {
        let path = format!("/products/{product}/reservations");
        said(shop.post(visitor, key, &path, &json!({ "quantity": quantity })))
    };
    let first = ask("ann", "k1", "runner", 3).await;
    assert_eq!(first.status, 201);
    let more = ask("ann", "k2", "walker", 2).await;
    assert_eq!((more.status.as_u16(), more.code()), (409, "visitor_limit"), "{}", more.text);
    assert_eq!((&more.body["units_per_visitor"], &more.body["has"]), (&json!(4), &json!(3)));
    assert_eq!(ask("ann", "k3", "walker", 1).await.status, 201);
    assert_eq!(ask("bob", "k", "walker", 3).await.status, 201, "others have a limit of their own");
    assert_eq!(shop.pay("ann", "p", &first.body, "test_accepted").await.status, 201);
    assert_eq!(ask("ann", "k4", "stroller", 1).await.code(), "visitor_limit", "what is sold counts");
    shop.let_holds_run_out().await;
    assert_eq!(ask("ann", "k5", "stroller", 1).await.status, 201, "what ran out does not");
}

/// Claims of one visitor that are served by one transaction count together.
#[tokio::test]
async fn the_limit_holds_for_claims_at_the_same_time() {
    let shop = Shop::open_with(9, |raw| {
        raw.limits.units_per_visitor = Some(1);
        raw.products.extend((0..20).map(|n| product(&format!("other-{n}"), 9)));
    })
    .await;
    let asked: Vec<_> = (0..20)
        .map(|n| {
            let path = format!("/products/other-{n}/reservations");
            tokio::spawn(said(shop.post("ann", &format!("k{n}"), &path, &json!({}))))
        })
        .collect();
    let mut held = 0;
    for said in asked {
        held += u32::from(said.await.unwrap().status == 201);
    }
    assert_eq!(held, 1);
}

#[tokio::test]
async fn an_address_for_the_confirmation_is_taken_if_it_looks_like_one() {
    let shop = Shop::open(2).await;
    let held = shop.held("ann").await;
    let path = held["links"]["purchases"].as_str().unwrap();
    let pay = |key: &str, email: &str| {
        said(shop.post("ann", key, path, &json!({ "payment_method": "test_accepted", "email": email })))
    };
    for bad in ["ann", "ann@", "@shop.example", "a@b@c", "ann@shop.example\r\nBcc: x@y", "a b@c", "<a@b>"] {
        let refused = pay("k", bad).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "email_invalid"), "{bad:?}");
    }
    assert_eq!(pay("k", " ann@shop.example ").await.status, 201);
    let kept: Option<String> =
        sqlx::query_scalar("SELECT email FROM purchases").fetch_one(&mut shop.books().await).await.unwrap();
    assert_eq!(kept.as_deref(), Some("ann@shop.example"));
    let said = said(shop.get("ann", held["links"]["self"].as_str().unwrap())).await;
    assert!(!said.text.contains("ann@shop"), "{}", said.text);
}
