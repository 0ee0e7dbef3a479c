//! The shopper's calls over HTTP, against a real shop with real tokens.

use crate::common::{Gate, Shop, product, said, unix_seconds};
use reqwest::Method;
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

#[tokio::test]
async fn without_a_good_token_nothing_is_said() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let rsv = held["links"]["self"].as_str().unwrap();
    let paid = shop.pay("ann", "pay", &held, "test_accepted").await;
    let pur = paid.header("location").unwrap();
    let bad = |change: fn(&mut ropeline_token::AdmissionClaims)| {
        let mut claims = Gate::claims("ann");
        change(&mut claims);
        shop.gate.sign(&claims)
    };
    let tokens = [
        (None, "token_missing"),
        (Some(bad(|c| c.claims.aud = "other".into())), "audience_refused"),
        (Some(bad(|c| c.claims.iss = "https://else.example".into())), "issuer_refused"),
        (
            Some(bad(|c| {
                (c.claims.iat, c.claims.nbf, c.claims.exp) = (1, 1, unix_seconds() - 6);
            })),
            "token_expired",
        ),
        (Some(Gate::new(8).token("ann")), "key_unknown"),
        (Some("a.b".into()), "token_malformed"),
    ];
    let calls = [
        (Method::GET, "/products/runner".to_owned()),
        (Method::POST, "/products/runner/reservations".to_owned()),
        (Method::GET, rsv.to_owned()),
        (Method::DELETE, rsv.to_owned()),
        (Method::POST, format!("{rsv}/cancel")),
        (Method::POST, format!("{rsv}/purchases")),
        (Method::GET, pur.to_owned()),
        (Method::GET, rsv.replace("reservations", "checkout")),
    ];
    for (token, code) in &tokens {
        for (method, path) in &calls {
            let mut request = shop.request(method.clone(), path).header("idempotency-key", "k");
            if let Some(token) = token {
                request = request.header("ropeline-admission", token);
            }
            let said = said(request).await;
            assert_eq!((said.status.as_u16(), said.code()), (401, *code), "{method} {path}");
            assert_eq!(said.header("content-type"), Some("application/problem+json"));
            assert_eq!(said.header("ropeline-stock"), None);
        }
    }
    let twice = shop.get("ann", "/products/runner").header("ropeline-admission", shop.gate.token("bob"));
    assert_eq!(said(twice).await.code(), "token_ambiguous");
}

/// Digits moved from one field into the next, a claim changed, a signature from another token: none is taken.
#[tokio::test]
async fn a_token_altered_anywhere_is_refused() {
    let shop = Shop::open(1).await;
    let token = shop.gate.token("ann");
    let ask = |token: String| {
        said(shop.request(Method::GET, "/products/runner").header("ropeline-admission", token))
    };
    assert_eq!(ask(token.clone()).await.status, 200);
    for at in (0..token.len()).step_by(7) {
        let mut altered = token.clone().into_bytes();
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        let said = ask(String::from_utf8(altered).unwrap()).await;
        assert_eq!(said.status, 401, "byte {at}: {}", said.text);
    }
    let other = shop.gate.token("bob");
    let (claims, _) = token.rsplit_once('.').unwrap();
    let (_, signature) = other.rsplit_once('.').unwrap();
    assert_eq!(ask(format!("{claims}.{signature}")).await.code(), "signature_invalid");
}

#[tokio::test]
async fn a_revoked_epoch_is_refused() {
    let shop = Shop::open_with(1, |raw| raw.admission.min_epoch = 1).await;
    assert_eq!(said(shop.get("ann", "/products/runner")).await.code(), "epoch_outdated");
}

#[tokio::test]
async fn what_a_visitor_has_is_that_visitor_s_alone() {
    let shop = Shop::open(2).await;
    let held = shop.held("ann").await;
    let rsv = held["links"]["self"].as_str().unwrap();
    assert_eq!(said(shop.get("bob", rsv)).await.code(), "reservation_unknown");
    assert_eq!(said(shop.get("bob", &rsv.replace("reservations", "checkout"))).await.status, 404);
    let theft = shop.request(Method::DELETE, rsv).header("ropeline-admission", shop.gate.token("bob"));
    assert_eq!(said(theft).await.code(), "reservation_unknown");
    assert_eq!(shop.pay("bob", "k", &held, "test_accepted").await.code(), "reservation_unknown");
    let paid = shop.pay("ann", "k", &held, "test_accepted").await;
    assert_eq!(said(shop.get("bob", paid.header("location").unwrap())).await.code(), "purchase_unknown");
    assert_eq!(said(shop.get("ann", rsv)).await.body["state"], "sold");
}

/// A pass that was sold on and is used elsewhere at the same time brings no second unit.
#[tokio::test]
async fn one_visitor_holds_once_whoever_brings_the_token() {
    let shop = Shop::open(100).await;
    let first = shop.reserve("ann", "k0").await;
    assert_eq!(first.status, 201);
    let elsewhere: Vec<_> = (1..40)
        .map(|n| {
            let mut claims = Gate::claims("ann");
            claims.claims.jti = format!("copy-{n}");
            let request = shop
                .request(Method::POST, "/products/runner/reservations")
                .header("ropeline-admission", shop.gate.sign(&claims))
                .header("idempotency-key", format!("k{n}"))
                .json(&json!({ "quantity": 2 }));
            tokio::spawn(said(request))
        })
        .collect();
    for said in elsewhere {
        let said = said.await.unwrap();
        assert_eq!((said.status.as_u16(), &said.body["id"]), (200, &first.body["id"]), "{}", said.body);
    }
    assert_eq!(shop.stock().await, (99, 1, 0));
    shop.pay("ann", "pay", &first.body, "test_accepted").await;
    let again = shop.reserve("ann", "after").await;
    assert_eq!((again.status.as_u16(), again.code()), (409, "already_bought"));
    assert_eq!(shop.stock().await, (99, 0, 1));
}

#[tokio::test]
async fn a_thousand_claimers_of_the_last_unit_make_one_hold() {
    let shop = Shop::open(1).await;
    let claimers: Vec<_> = (0..1_000)
        .map(|n| {
            let visitor = format!("v{n}");
            tokio::spawn(said(shop.post(&visitor, "k", "/products/runner/reservations", &json!({}))))
        })
        .collect();
    let mut won = 0;
    for claimer in claimers {
        let said = claimer.await.unwrap();
        match said.status.as_u16() {
            201 => won += 1,
            409 => assert_eq!(said.code(), "all_held"),
            status => panic!("{status}: {}", said.body),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(shop.stock().await, (0, 1, 0));
}

#[tokio::test]
async fn the_last_units_are_spoken_of_as_they_are() {
    let shop = Shop::open(2).await;
    let held = shop.held("ann").await;
    let path = "/products/runner/reservations";
    let two = said(shop.post("bob", "k1", path, &json!({ "quantity": 2 }))).await;
    assert_eq!((two.code(), &two.body["available"]), ("not_enough", &json!(1)));
    shop.held("cid").await;
    let none = said(shop.post("bob", "k2", path, &json!({}))).await;
    assert_eq!((none.status.as_u16(), none.code()), (409, "all_held"));
    assert_eq!(none.header("retry-after"), Some("5"));
    assert_eq!(none.header("ropeline-stock"), Some("0; held=2"));
    shop.pay("ann", "p", &held, "test_accepted").await;
    let cid = shop.reserve("cid", "again").await;
    shop.pay("cid", "p", &cid.body, "test_accepted").await;
    let gone = said(shop.post("bob", "k3", path, &json!({}))).await;
    assert_eq!((gone.status.as_u16(), gone.code()), (409, "sold_out"));
    assert_eq!(gone.header("ropeline-stock"), Some("0; held=0"));
}

#[tokio::test]
async fn an_expired_hold_goes_to_whoever_asks_next() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    shop.let_holds_run_out().await;
    let bob = shop.reserve("bob", "k").await;
    assert_eq!(bob.status, 201, "{}", bob.body);
    let rsv = held["links"]["self"].as_str().unwrap();
    let over = said(shop.get("ann", rsv)).await;
    assert_eq!((&over.body["state"], over.header("ropeline-lease")), (&json!("expired"), Some("open")));
    let elsewhere = said(shop.get("ann", "/products/none")).await;
    assert_eq!(elsewhere.header("ropeline-lease"), Some("open"), "any answer tells it");
    assert_eq!(shop.pay("ann", "p", &held, "test_accepted").await.code(), "hold_over");
    assert_eq!(shop.stock().await, (0, 1, 0));
    assert_eq!(shop.reserve("ann", "once-more").await.code(), "all_held");
}

#[tokio::test]
async fn a_cancelled_hold_is_free_at_once_and_cancelling_is_its_own_retry() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let rsv = held["links"]["self"].as_str().unwrap();
    for _ in 0..2 {
        let gone =
            said(shop.request(Method::DELETE, rsv).header("ropeline-admission", shop.gate.token("ann")))
                .await;
        assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
        assert_eq!(gone.header("ropeline-stock"), Some("1; held=0"));
        assert_eq!(gone.header("ropeline-lease"), Some("open"), "the visitor is not done, and holds nothing");
    }
    assert_eq!(shop.stock().await, (1, 0, 0));
    assert_eq!(shop.reserve("ann", "again").await.status, 201);
}

/// The queue hears of stock from answers alone, so an answer without it may be the one that mattered.
#[tokio::test]
async fn every_answer_to_whoever_was_let_in_tells_the_stock() {
    let shop = Shop::open(3).await;
    let held = shop.held("ann").await;
    let rsv = held["links"]["self"].as_str().unwrap();
    let pay = held["links"]["purchases"].as_str().unwrap();
    let paid = shop.pay("ann", "p", &held, "test_slow").await;
    let pur = paid.header("location").unwrap();
    let reserve = "/products/runner/reservations";
    let html = |path: &str| shop.get("ann", path).header("accept", "text/html");
    for (status, request) in [
        (200, shop.get("ann", "/products/runner")),
        (200, html("/products/runner")),
        (404, shop.get("ann", "/products/none")),
        (400, shop.get("ann", "/products/%ff")),
        (200, shop.get("ann", rsv)),
        (404, shop.get("bob", rsv)),
        (200, shop.get("ann", pur)),
        (200, html(pur)),
        (303, html(&rsv.replace("reservations", "checkout"))),
        (200, shop.post("ann", "again", reserve, &json!({}))),
        (422, shop.post("bob", "k", reserve, &json!({ "quantity": 9 }))),
        (400, shop.post("bob", "k", reserve, &json!({ "quantity": "x" }))),
        (413, shop.post("bob", "k", reserve, &json!({ "quantity": "9".repeat(20_000) }))),
        (403, shop.post("bob", "k", reserve, &json!({})).header("origin", "https://evil.example")),
        (409, shop.post("ann", "p2", pay, &json!({ "payment_method": "test_accepted" }))),
    ] {
        let said = said(request).await;
        assert_eq!(said.status, status, "{}", said.text);
        assert_eq!(said.header("ropeline-stock"), Some("2; held=1"), "{}", said.text);
    }
}

#[tokio::test]
async fn bad_requests_are_told_what_to_mend() {
    let shop = Shop::open(5).await;
    let held = shop.held("ann").await;
    let pay = held["links"]["purchases"].as_str().unwrap();
    let reserve = "/products/runner/reservations";
    for (path, body, status, code, mend) in [
        (reserve, r#"{"quantity":0}"#, 422, "quantity_zero", "quantity"),
        (reserve, r#"{"quantity":4}"#, 422, "quantity_too_large", "at most 3"),
        (reserve, r#"{"quantity":-1}"#, 400, "body_invalid", "u32"),
        (reserve, r#"{"quantity":99999999999}"#, 400, "body_invalid", "u32"),
        (reserve, r#"{"quantity":1,"quantity":2}"#, 400, "body_invalid", "duplicate field"),
        (reserve, r#"{"colour":"red"}"#, 400, "body_invalid", "colour"),
        (reserve, r#"["#, 400, "body_invalid", "JSON"),
        ("/products/none/reservations", "{}", 404, "product_unknown", ""),
        (pay, "{}", 400, "body_invalid", "payment_method"),
        (pay, r#"{"payment_method":"4111"}"#, 422, "payment_method_unknown", "test_accepted"),
        (
            "/reservations/none/purchases",
            r#"{"payment_method":"test_accepted"}"#,
            404,
            "reservation_unknown",
            "",
        ),
    ] {
        let request = shop
            .request(Method::POST, path)
            .header("ropeline-admission", shop.gate.token("bob"))
            .header("idempotency-key", "k")
            .header("content-type", "application/json")
            .body(body);
        let said = said(request).await;
        assert_eq!((said.status.as_u16(), said.code()), (status, code), "{path} {body}: {}", said.text);
        assert_eq!(said.header("content-type"), Some("application/problem+json"));
        assert!(said.body["detail"].as_str().unwrap().contains(mend), "{}", said.text);
        assert_eq!(said.body["status"], status);
        assert_eq!(said.body["type"], format!("urn:ropeline:problem:{code}"));
    }
    let xml = shop.post("bob", "k", reserve, &json!({})).header("content-type", "text/xml");
    assert_eq!(said(xml.body("<x/>")).await.status, 400, "two content types");
    let long = shop.post("bob", "k", reserve, &json!({ "quantity": "9".repeat(20_000) }));
    assert_eq!(said(long).await.code(), "body_too_large");
    assert_eq!(said(shop.get("bob", "/products/%ff")).await.code(), "path_invalid");
    assert_eq!(said(shop.get("bob", "/nowhere")).await.code(), "not_found");
    assert_eq!(said(shop.request(Method::PUT, "/products/runner")).await.code(), "method_not_allowed");
    assert_eq!(shop.stock().await, (4, 1, 0));
}

#[tokio::test]
async fn another_site_cannot_act_in_a_visitor_s_name() {
    let shop = Shop::open(1).await;
    let post = || shop.post("ann", "k", "/products/runner/reservations", &json!({}));
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        assert_eq!(said(post().header(name, value)).await.code(), "cross_site", "{name}: {value}");
    }
    assert_eq!(shop.stock().await, (1, 0, 0));
    assert_eq!(said(post().header("origin", "https://shop.example")).await.status, 201);
    let host = shop.base.clone();
    assert_eq!(
        said(post().header("origin", host)).await.status,
        201,
        "the stored answer, by the address listened on"
    );
}

#[tokio::test]
async fn several_products_are_counted_apart_and_told_together() {
    let shop = Shop::open_with(1, |raw| raw.products.push(product("walker", 5))).await;
    let held = said(shop.post("ann", "k", "/products/walker/reservations", &json!({ "quantity": 2 }))).await;
    assert_eq!(
        held.header("ropeline-stock"),
        Some("4; held=2"),
        "the sale is not over while one product is left"
    );
    assert_eq!(held.body["amount_minor"], 37_800);
    let audit = said(shop.request(Method::GET, "/audit")).await;
    assert_eq!(audit.body["balanced"], true);
    assert_eq!(
        audit.body["products"][1],
        json!({ "id": "walker", "total": 5, "available": 3, "held": 2, "sold": 0, "balanced": true, "differs": [], "stopped": false })
    );
    assert_eq!(said(shop.request(Method::GET, "/healthz")).await.body["status"], "ok");
}

#[tokio::test]
async fn the_operator_s_addresses_are_not_there_for_the_public() {
    let shop = Shop::open(1).await;
    for path in ["/audit", "/healthz", "/metrics"] {
        assert_eq!(said(shop.request(Method::GET, path)).await.status, 200, "{path}");
        for (name, value) in [
            ("x-forwarded-for", "198.51.100.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "shop.example"),
            ("forwarded", "for=198.51.100.7"),
        ] {
            let forwarded = said(shop.request(Method::GET, path).header(name, value)).await;
            assert_eq!((forwarded.status.as_u16(), forwarded.code()), (404, "not_found"), "{path} {name}");
        }
        let insider = said(shop.get("ann", path).header("x-forwarded-for", "198.51.100.7")).await;
        assert_eq!(insider.status, 404, "{path}: a token opens it to nobody");
    }
    let forwarded = shop.get("ann", "/products/runner").header("x-forwarded-for", "198.51.100.7");
    assert_eq!(said(forwarded).await.status, 200, "shoppers do come through the gateway");
}

/// It takes no place in the queue for the writer, who may be waiting for the disk.
#[tokio::test]
async fn health_is_told_while_the_writer_is_busy() {
    let shop = Shop::open(1).await;
    let mut books = shop.books().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut books).await.unwrap();
    assert_eq!(said(shop.request(Method::GET, "/healthz")).await.status, 200);
}
