//! A product whose units are numbered: the next free, or chosen.

use ropeline_origin::config::{RawConfig, RawKind};
use serde_json::{Value, json};

use crate::common::{Said, Shop, said};

const RESERVE: &str = "/products/runner/reservations";

fn seats(raw: &mut RawConfig) {
    let product = &mut raw.products[0];
    product.kind = RawKind::Units;
    product.labels = ["A-1", "A-2", "A-3", "B-1", "B<2>"].map(str::to_owned).into();
}

async fn ask(shop: &Shop, visitor: &str, key: &str, body: Value) -> Said {
    said(shop.post(visitor, key, RESERVE, &body)).await
}

#[tokio::test]
async fn units_are_the_next_free_or_those_that_are_chosen() {
    let shop = Shop::open_with(5, seats).await;
    let seen = said(shop.get("ann", "/products/runner")).await;
    assert_eq!((&seen.body["kind"], &seen.body["available"]), (&json!("units"), &json!(5)));
    assert_eq!(seen.body["next_free"], json!(["A-1", "A-2", "A-3", "B-1", "B<2>"]));

    let chosen = ask(&shop, "ann", "k", json!({ "units": ["B-1", "A-2"] })).await;
    assert_eq!((chosen.status.as_u16(), &chosen.body["units"]), (201, &json!(["B-1", "A-2"])));
    assert_eq!((&chosen.body["quantity"], &chosen.body["amount_minor"]), (&json!(2), &json!(37_800)));
    let next = ask(&shop, "bob", "k", json!({ "quantity": 2 })).await;
    assert_eq!(next.body["units"], json!(["A-1", "A-3"]), "what is chosen is not given to others");
    let again = ask(&shop, "ann", "k", json!({ "units": ["B-1", "A-2"] })).await;
    assert_eq!((again.status, again.text), (chosen.status, chosen.text));
    let other = ask(&shop, "ann", "k", json!({ "units": ["B-1"] })).await;
    assert_eq!(other.code(), "idempotency_key_reused");

    let taken = ask(&shop, "cid", "k", json!({ "units": ["A-1", "B<2>", "B-1"] })).await;
    assert_eq!((taken.status.as_u16(), taken.code()), (409, "unit_taken"));
    assert_eq!(taken.body["taken"], json!(["A-1", "B-1"]), "those that are gone are named, and no other");
    assert_eq!(shop.stock().await, (1, 4, 0), "all or nothing");
    let rest = ask(&shop, "cid", "k2", json!({ "quantity": 2 })).await;
    assert_eq!((rest.status.as_u16(), rest.code()), (409, "not_enough"));

    let paid = shop.pay("ann", "pay", &chosen.body, "test_accepted").await;
    assert_eq!(paid.body["reservation"]["units"], json!(["B-1", "A-2"]));
    shop.let_holds_run_out().await;
    let back = ask(&shop, "cid", "k3", json!({ "units": ["A-1"] })).await;
    assert_eq!(back.status, 201, "the time of whoever had it is over: {}", back.text);
    let sold = ask(&shop, "dan", "k", json!({ "units": ["B-1"] })).await;
    assert_eq!(sold.code(), "unit_taken");
    assert_eq!(shop.stock().await, (2, 1, 2));
}

#[tokio::test]
async fn choices_that_cannot_be_made_are_told_what_to_mend() {
    let shop = Shop::open_with(5, |raw| {
        seats(raw);
        raw.products.push(crate::common::product("walker", 5));
    })
    .await;
    for (n, (body, status, code)) in [
        (json!({ "units": ["A-1", "Z-9"] }), 422, "unit_unknown"),
        (json!({ "units": [] }), 422, "units_none"),
        (json!({ "units": ["", " "] }), 422, "units_none"),
        (json!({ "units": ["A-1", "A-1"] }), 422, "unit_twice"),
        (json!({ "units": ["A-1"], "quantity": 1 }), 422, "quantity_and_units"),
        (json!({ "units": ["A-1", "A-2", "A-3", "B-1"] }), 422, "quantity_too_large"),
        (json!({ "units": "A-1" }), 400, "body_invalid"),
    ]
    .into_iter()
    .enumerate()
    {
        let said = ask(&shop, "ann", &format!("k{n}"), body.clone()).await;
        assert_eq!((said.status.as_u16(), said.code()), (status, code), "{body}: {}", said.text);
    }
    let unknown = ask(&shop, "ann", "unknown", json!({ "units": ["A-1", "Z-9"] })).await;
    assert_eq!(unknown.body["unknown"], json!(["Z-9"]));
    let many = ask(&shop, "ann", "many", json!({ "units": ["A-1", "A-2", "A-3", "B-1"] })).await;
    assert!(many.body["detail"].as_str().unwrap().starts_with("units: at most"), "{}", many.text);
    let walker =
        said(shop.post("ann", "w", "/products/walker/reservations", &json!({ "units": ["1"] }))).await;
    assert_eq!((walker.status.as_u16(), walker.code()), (422, "units_not_numbered"));
    assert_eq!(shop.stock().await, (5, 0, 0));
}

/// Without scripts: boxes to tick, and a field for what is not listed.
#[tokio::test]
async fn a_person_chooses_with_forms_alone() {
    let shop = Shop::open_with(5, seats).await;
    let page = said(shop.get("ann", "/products/runner").header("accept", "text/html")).await;
    let boxes = page.text.matches("type=\"checkbox\"").count();
    assert_eq!((boxes, page.text.matches("<label for=\"unit-").count()), (5, 5), "{}", page.text);
    assert!(page.text.contains("value=\"B&lt;2&gt;\"") && !page.text.contains("B<2>"), "{}", page.text);
    let none = said(shop.form("ann", RESERVE, "units=&idempotency_key=k")).await;
    assert_eq!(none.status, 422);
    assert!(none.text.contains("None was chosen"), "{}", none.text);
    let two = said(shop.form("ann", RESERVE, "units=A-2&units=B%3C2%3E&units=&idempotency_key=k")).await;
    assert_eq!(two.status, 303, "{}", two.text);
    let checkout = said(shop.get("ann", two.header("location").unwrap()).header("accept", "text/html")).await;
    assert!(checkout.text.contains("2 units (A-2, B&lt;2&gt;)"), "{}", checkout.text);
    let gone = said(shop.form("bob", RESERVE, "units=A-2&units=A-1&units=&idempotency_key=k")).await;
    assert_eq!(gone.status, 409);
    assert!(gone.text.contains("A-2 cannot be had any more"), "{}", gone.text);
    let next = said(shop.form("bob", RESERVE, "quantity=1&idempotency_key=k2")).await;
    assert_eq!(next.status, 303, "{}", next.text);
    assert_eq!(shop.stock().await, (2, 3, 0));
}

#[tokio::test]
async fn more_units_than_a_page_lists_are_named_in_a_field() {
    let shop = Shop::open_with(300, |raw| raw.products[0].kind = RawKind::Units).await;
    let page = said(shop.get("ann", "/products/runner").header("accept", "text/html")).await;
    assert_eq!(page.text.matches("type=\"checkbox\"").count(), 200);
    assert!(page.text.contains("<label for=\"unit-other\">"), "{}", page.text);
    let far = said(shop.form("ann", RESERVE, "units=299&idempotency_key=k")).await;
    assert_eq!(far.status, 303, "{}", far.text);
    assert_eq!(shop.stock().await, (299, 1, 0));
}

/// Everybody wants the same two seats, and each has one place to stand.
#[tokio::test]
async fn a_seat_is_held_once_however_many_choose_it() {
    let shop = Shop::open_with(5, seats).await;
    let asked: Vec<_> = (0..50)
        .map(|n| {
            let body =
                if n % 2 == 0 { json!({ "units": ["A-1", "A-2"] }) } else { json!({ "units": ["A-2"] }) };
            tokio::spawn(said(shop.post(&format!("visitor-{n}"), "k", RESERVE, &body)))
        })
        .collect();
    let mut held = Vec::new();
    for said in asked {
        let said = said.await.unwrap();
        match said.status.as_u16() {
            201 => held.push(said.body["units"].clone()),
            409 => assert_eq!(said.code(), "unit_taken"),
            status => panic!("{status}: {}", said.text),
        }
    }
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(shop.stock().await.1, i64::try_from(held[0].as_array().unwrap().len()).unwrap());
}

#[tokio::test]
async fn labels_may_be_added_and_free_ones_taken_away_but_none_that_somebody_has() {
    let mut shop = Shop::open_with(5, seats).await;
    let held = ask(&shop, "ann", "k", json!({ "units": ["A-2"] })).await;
    assert_eq!(held.status, 201);
    shop.close().await;
    shop.raw.products[0].labels = ["A-2", "C-1"].map(str::to_owned).into();
    shop.raw.products[0].total = 2;
    shop.reopen().await;
    assert_eq!(shop.stock().await, (1, 1, 0));
    assert_eq!(ask(&shop, "bob", "k", json!({ "quantity": 1 })).await.body["units"], json!(["C-1"]));
    shop.close().await;
    for (label, kind) in [("C-1", RawKind::Units), ("", RawKind::Count)] {
        let mut raw = shop.raw.clone();
        raw.products[0].labels.retain(|one| one == label);
        (raw.products[0].kind, raw.products[0].total) = (kind, 1);
        let refused = ropeline_origin::Origin::bind(raw.check().unwrap()).await.unwrap_err().to_string();
        assert!(refused.contains("A-2") || refused.contains("kind = \"units\""), "{refused}");
    }
}
