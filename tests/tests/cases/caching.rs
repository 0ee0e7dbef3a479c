//! What may be kept, and by whom; and what is known of what was kept too long: case 5.

use reqwest::{Method, StatusCode};
use ropeline_tests::ports::Port;
use ropeline_tests::raw;
use ropeline_tests::shop::BODY;
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};
use serde_json::{Value, json};
use std::time::Duration;

use crate::common::*;

const API: &str = "/api/v1/queue";
const FORM: &str = "application/x-www-form-urlencoded";

fn kept_by_nobody(what: &str, answer: &Answer) {
    let said = answer.header("cache-control").unwrap_or_else(|| panic!("{what} says nothing: {answer:?}"));
    let directives: Vec<_> = said.split(',').map(str::trim).collect();
    assert!(directives.contains(&"no-store") && directives.contains(&"private"), "{what}: {said}");
    assert!(!said.contains("public") && !said.contains("s-maxage"), "{what}: {said}");
}

fn kept_by_all(what: &str, answer: &Answer, said: &str) {
    assert_eq!((answer.status, answer.header("cache-control")), (StatusCode::OK, Some(said)), "{what}");
    assert!(answer.headers.get("set-cookie").is_none(), "{what} names a visitor: {answer:?}");
}

async fn form(visitor: &Visitor, call: &str) -> Answer {
    let body = format!("sale={SALE}&return=%2Fsale");
    let path = format!("{API}/{call}");
    visitor.send(Method::POST, &path, |request| request.header("content-type", FORM).body(body)).await
}

#[tokio::test]
async fn case_5_nothing_that_is_for_one_visitor_may_be_kept_by_a_shared_cache() {
    let house = House::open(sale_for_one()).await;
    // A shop that lets caches keep everything, as one may that knows nothing of a queue.
    house.shop.say(&[
        ("Cache-Control", "public, s-maxage=600"),
        ("CDN-Cache-Control", "max-age=600"),
        ("Surrogate-Control", "max-age=600"),
    ]);
    let (inside, waiting, outside) = (house.admitted().await, house.joined().await, house.visitor());
    let status = format!("{API}/status?sale={SALE}");
    let answers = [
        ("the page from inside", StatusCode::OK, inside.visit(PAGE).await),
        ("the page from the queue", StatusCode::OK, waiting.visit(PAGE).await),
        ("a HEAD from the queue", StatusCode::OK, head(&waiting, PAGE).await),
        ("a script from the queue", StatusCode::UNAUTHORIZED, waiting.fetch(PAGE).await),
        ("the page from outside", StatusCode::OK, outside.visit(PAGE).await),
        ("a script from outside", StatusCode::UNAUTHORIZED, outside.fetch(PAGE).await),
        ("status without a ticket", StatusCode::UNAUTHORIZED, outside.fetch(&status).await),
        ("claim without a ticket", StatusCode::UNAUTHORIZED, outside.claim(SALE).await),
        ("leave without a ticket", StatusCode::UNAUTHORIZED, outside.leave(SALE).await),
        ("join", StatusCode::OK, waiting.join(SALE).await),
        ("a form's join", StatusCode::SEE_OTHER, form(&waiting, "join").await),
        ("status", StatusCode::OK, waiting.status(SALE).await),
        ("a claim that is too early", StatusCode::CONFLICT, waiting.claim(SALE).await),
        ("claim", StatusCode::OK, inside.claim(SALE).await),
        ("a form's claim", StatusCode::SEE_OTHER, form(&inside, "claim").await),
        ("leave", StatusCode::NO_CONTENT, waiting.leave(SALE).await),
        ("a form's leave", StatusCode::SEE_OTHER, form(&inside, "leave").await),
        ("a sale there is not", StatusCode::NOT_FOUND, outside.join("other").await),
        ("no sale at all", StatusCode::BAD_REQUEST, outside.fetch(&format!("{API}/status")).await),
        (
            "a room there is not",
            StatusCode::NOT_FOUND,
            outside.visit(&format!("{API}/sales/other/room")).await,
        ),
        (
            "a draw there is not",
            StatusCode::NOT_FOUND,
            outside.fetch(&format!("{API}/sales/drop/draw")).await,
        ),
        ("an asset there is not", StatusCode::NOT_FOUND, outside.fetch(&format!("{API}/assets/x.js")).await),
        ("a call there is not", StatusCode::NOT_FOUND, outside.fetch(&format!("{API}/x")).await),
        ("a call the wrong way", StatusCode::METHOD_NOT_ALLOWED, outside.fetch(&format!("{API}/join")).await),
        ("what is no call", StatusCode::BAD_REQUEST, outside.post(&format!("{API}/join"), &json!([])).await),
    ];
    for (what, status, answer) in &answers {
        assert_eq!(answer.status, *status, "{what}: {}", answer.text());
        // A shop's own answer may stay in the visitor's browser, which asks each time.
        if answer.text() == BODY {
            assert_eq!(answer.header("cache-control"), Some("private, no-cache"), "{what}");
            assert!(answer.header("cdn-cache-control").is_none(), "{what}");
            assert!(answer.header("surrogate-control").is_none(), "{what}");
        } else {
            kept_by_nobody(what, answer);
        }
    }
    assert_eq!(answers[0].2.text(), BODY);

    let ambiguous = b"GET /sale%2Fx HTTP/1.1\r\nHost: shop.test\r\n\r\n";
    let refused = raw::exchange(house.gateway.address(), ambiguous, Duration::from_secs(10)).await.answer();
    assert_eq!((refused.status, refused.header("cache-control")), (400, Some("private, no-store")));

    // What is not protected is the shop's own affair.
    let open = outside.visit("/about").await;
    assert_eq!(open.header("cache-control"), Some("public, s-maxage=600"));
    assert_eq!(open.header("cdn-cache-control"), Some("max-age=600"));
}

async fn head(visitor: &Visitor, path: &str) -> Answer {
    visitor.send(Method::HEAD, path, |request| request.header("accept", BROWSER_ACCEPT)).await
}

#[tokio::test]
async fn case_5_a_shop_that_is_away_is_not_remembered_as_away() {
    let nobody = Port::free();
    let shop = nobody.address().to_string();
    let house =
        House::with(sale(), |settings| settings.set("upstream", "address", &format!("{shop:?}"))).await;
    let visitor = house.admitted().await;
    let answer = visitor.visit(PAGE).await;
    assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::BAD_GATEWAY, "shop_unreachable"));
    kept_by_nobody("a shop that is away", &answer);
}

#[tokio::test]
async fn case_5_what_everybody_may_keep_is_the_same_for_everybody() {
    let house = House::open(sale_not_yet_open().set("draw_closes_at", "2100-01-01T00:00:00Z")).await;
    let (member, stranger) = (house.joined().await, house.visitor());
    let page = house.room().await;
    let asset = page.split('"').find(|part| part.starts_with("/api/v1/queue/assets/")).expect("an asset");
    let documents = [
        (format!("{API}/sales/{SALE}/snapshot"), "public, max-age=1"),
        (format!("{API}/sales/{SALE}/room"), "public, max-age=1"),
        (format!("{API}/sales/{SALE}/draw"), "public, max-age=1"),
        ("/.well-known/jwks.json".to_owned(), "public, max-age=60"),
        (asset.to_owned(), "public, max-age=31536000, immutable"),
    ];
    for (path, said) in &documents {
        let (one, other) = (member.fetch(path).await, stranger.fetch(path).await);
        kept_by_all(path, &one, said);
        kept_by_all(path, &other, said);
        let same = |answer: &Answer| match path.ends_with("/snapshot") {
            // The time at which it was true, and nothing else, moves on between the two.
            true => without_time(&answer.json()).to_string(),
            false => answer.text(),
        };
        assert_eq!(same(&one), same(&other), "{path} tells visitors apart");
    }
}

#[tokio::test]
async fn who_has_a_document_already_is_not_sent_it_again() {
    let house = House::open(sale_not_yet_open().set("draw_closes_at", "2100-01-01T00:00:00Z")).await;
    let visitor = house.visitor();
    for document in ["room", "draw"] {
        let path = format!("{API}/sales/{SALE}/{document}");
        let first = visitor.fetch(&path).await;
        let tag = first.header("etag").unwrap_or_else(|| panic!("{document} has no tag")).to_owned();
        let again = visitor
            .send(Method::GET, &path, |request| request.header("if-none-match", format!("\"x\", {tag}")))
            .await;
        assert_eq!((again.status, again.text().as_str()), (StatusCode::NOT_MODIFIED, ""), "{document}");
        assert_eq!(again.header("etag"), Some(tag.as_str()), "{document}");
        assert_eq!(again.header("cache-control"), Some("public, max-age=1"), "{document}");
        let other =
            visitor.send(Method::GET, &path, |request| request.header("if-none-match", "\"x\"")).await;
        assert_eq!((other.status, other.text()), (StatusCode::OK, first.text()), "{document}");
    }
}

fn without_time(snapshot: &Value) -> Value {
    let mut snapshot = snapshot.clone();
    snapshot.as_object_mut().unwrap().remove("as_of");
    snapshot
}

#[tokio::test]
async fn case_5_after_a_revocation_what_is_older_is_recognised_and_the_place_is_the_same() {
    let house = House::open(sale().set("pace", r#"{ admit = 2, every = "1h" }"#)).await;
    let inside = house.admitted().await;
    house.joined().await;
    let waiting = house.joined().await;
    assert_eq!(inside.visit(PAGE).await.text(), BODY);
    let before = (house.snapshot().await, waiting.status(SALE).await.json());
    assert_eq!((&before.0["epoch"], &before.1["epoch"]), (&json!(0), &json!(0)));

    house.gateway.command(SALE, "revoke", &Value::Null).await;
    assert_eq!(house.snapshot().await["epoch"], 1);
    for old in [&waiting, &inside] {
        let status = old.status(SALE).await;
        assert_eq!((status.status, status.problem().as_str()), (StatusCode::UNAUTHORIZED, "epoch_outdated"));
        assert_eq!(old.claim(SALE).await.problem(), "epoch_outdated");
    }
    assert_eq!(inside.fetch(PAGE).await.problem(), "epoch_outdated");
    assert_ne!(inside.visit(PAGE).await.text(), BODY);
    let forwarded = house.shop.requests().len();

    let joined = waiting.join(SALE).await.json();
    assert_eq!((&joined["arrival"], &joined["epoch"]), (&before.1["arrival"], &json!(1)), "{joined}");
    assert_eq!(waiting.status(SALE).await.json()["place"], before.1["place"]);
    assert_eq!(number(&inside.join(SALE).await.json()["arrival"]), 0);
    admitted(&inside).await;
    assert_eq!(inside.visit(PAGE).await.text(), BODY);
    assert_eq!(house.shop.requests().len(), forwarded + 1, "an outdated admission went through");
}
