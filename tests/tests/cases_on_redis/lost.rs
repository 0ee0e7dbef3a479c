//! Redis comes back with nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use ropeline_tests::gateway::{Gateway, Settings, Store};
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::{PATIENCE, until, within};
use serde_json::{Value, json};

use crate::common::*;

/// How long whoever joins after a loss may be kept waiting for those whom it has passed over.
const MISSING: Duration = Duration::from_secs(75);

/// Fifteen who wait behind three who are inside, and what each was told.
struct Crowd {
    inside: Vec<Visitor>,
    waiting: Vec<(Visitor, Value)>,
}

async fn open() -> (Shop, Gateway, Crowd) {
    let shop = Shop::open().await;
    let sale = sale().set("max_active", "3").set("pace", r#"{ admit = 10, every = "100ms" }"#);
    let gateway = Gateway::start(Settings::new(shop.address()).on(Store::Redis(2)), &[sale]).await;
    let mut inside = Vec::new();
    for _ in 0..3 {
        let visitor = joined(&gateway).await;
        admitted(&visitor).await;
        inside.push(visitor);
    }
    let mut waiting = Vec::new();
    for visitor in crowd(&gateway, 15).await {
        let status = visitor.status(SALE).await.json();
        assert_eq!(status["state"], "waiting", "{status}");
        waiting.push((visitor, status));
    }
    (shop, gateway, Crowd { inside, waiting })
}

impl Crowd {
    /// Everybody has the place that they had; whoever comes now is behind all of them, and goes in after them, each once.
    async fn goes_on_as_it_was(self, gateway: &Gateway) {
        let mut last = 0;
        for (visitor, before) in &self.waiting {
            let after = visitor.status(SALE).await.json();
            assert_eq!(
                (&after["arrival"], &after["place"]),
                (&before["arrival"], &before["place"]),
                "{after}"
            );
            // A gateway that has not found Redis again yet says so, and is asked again.
            let joined = until("the visitor can join again", || async {
                let answer = visitor.join(SALE).await;
                (answer.status == StatusCode::OK).then(|| answer.json())
            })
            .await;
            assert_eq!(joined["arrival"], before["arrival"], "another number: {joined}");
            last = last.max(number(&before["arrival"]));
        }
        let late = joined(gateway).await;
        let behind = number(&late.status(SALE).await.json()["arrival"]);
        assert!(behind > last, "{behind} was given before");
        for visitor in &self.inside {
            assert_eq!(visitor.visit(PAGE).await.text(), BODY, "an admitted shopper does not pass");
        }
        let mut places = BTreeSet::new();
        let mut leaving: Vec<Visitor> = self.inside;
        let mut waiting: Vec<Visitor> = self.waiting.into_iter().map(|(visitor, _)| visitor).collect();
        waiting.push(late);
        while !waiting.is_empty() {
            for visitor in leaving.drain(..) {
                assert_eq!(visitor.leave(SALE).await.status, StatusCode::NO_CONTENT);
            }
            let (at, claimed) = within(MISSING + PATIENCE, "somebody else is called", || async {
                let sale = gateway.sale(SALE).await;
                let busy = number(&sale["active"]) + number(&sale["unclaimed"]);
                assert!(busy <= 3, "the cap does not hold: {sale}");
                for (at, visitor) in waiting.iter().enumerate() {
                    let answer = visitor.claim(SALE).await;
                    if answer.status == StatusCode::OK {
                        return Some((at, answer.json()));
                    }
                }
                None
            })
            .await;
            let visitor = waiting.remove(at);
            let arrival = number(&visitor.status(SALE).await.json()["arrival"]);
            assert!(places.insert(arrival), "{arrival} went in twice: {claimed}");
            leaving.push(visitor);
        }
        assert_eq!(places.last(), Some(&behind), "{places:?}");
    }
}

#[tokio::test]
async fn a_redis_that_was_emptied_is_told_again_and_everybody_keeps_the_place() {
    let (_shop, mut gateway, crowd) = open().await;
    gateway.redis().again_empty();
    until("the sale goes on", || async {
        let answer = gateway.operator(Method::GET, "/api/v1/operator/sales/drop", None).await;
        (answer.0 == StatusCode::OK).then_some(())
    })
    .await;
    until("it is shown to go on", || async {
        for node in gateway.nodes() {
            if !node.snapshot(SALE).await["store_away"].is_null() {
                return None;
            }
        }
        Some(())
    })
    .await;
    crowd.goes_on_as_it_was(&gateway).await;
}

#[tokio::test]
async fn what_is_flushed_under_running_gateways_is_told_again() {
    let (_shop, mut gateway, crowd) = open().await;
    gateway.redis().ask(&["FLUSHALL"]);
    crowd.goes_on_as_it_was(&gateway).await;
}

#[tokio::test]
async fn when_redis_and_every_gateway_have_lost_everything_the_tickets_bring_it_back() {
    let (_shop, mut gateway, crowd) = open().await;
    for node in gateway.nodes_mut() {
        node.process().kill();
    }
    gateway.redis().again_empty();
    for node in gateway.nodes_mut() {
        node.restart().await;
    }
    // First they ask each other: somebody might know more.
    for node in gateway.nodes() {
        until("a loss is told", async || node.snapshot(SALE).await["losses"].is_u64().then_some(())).await;
    }
    let Crowd { inside, waiting } = crowd;
    for visitor in &inside {
        assert_eq!(visitor.visit(PAGE).await.text(), BODY, "an admitted shopper does not pass");
    }
    // A stranger who is quicker than all of them comes after them.
    let stranger = joined(&gateway).await;
    let behind = number(&stranger.status(SALE).await.json()["arrival"]);
    // A look at the page is enough to be on record again; so is joining.
    let (looking, joining) = waiting.split_at(10);
    for (visitor, _) in looking {
        visitor.status(SALE).await;
    }
    let serving = until("those who have looked are on record", || async {
        let sale = gateway.sale(SALE).await;
        (number(&sale["waiting"]) >= 11).then(|| number(&sale["serving"]))
    })
    .await;
    let first = waiting.iter().map(|(_, before)| number(&before["place"])).min();
    assert_eq!(Some(serving), first, "somebody was passed over who had no time to show up");
    for (visitor, before) in joining.iter().chain(looking) {
        assert!(number(&before["arrival"]) < behind);
        let joined = visitor.join(SALE).await.json();
        assert_eq!(joined["arrival"], before["arrival"], "another number: {joined}");
    }
    // There is room for nobody as long as those three may be inside.
    let sale = gateway.sale(SALE).await;
    assert_eq!((number(&sale["serving"]), number(&sale["recalls"])), (serving, 0), "{sale}");
    for (visitor, before) in &waiting {
        let after = visitor.status(SALE).await.json();
        assert_eq!((&after["state"], &after["place"]), (&"waiting".into(), &before["place"]), "{after}");
    }
}

#[tokio::test]
async fn a_sale_that_was_made_by_a_call_is_protected_when_redis_and_every_gateway_have_lost_everything() {
    const OWN: &str = "/made-by-a-call";
    let shop = Shop::open().await;
    let settings = Settings::new(shop.address()).on(Store::Redis(2));
    let mut gateway = Gateway::start(settings, &[sale_for_one()]).await;
    let made = json!({ "id": "made", "max_active": 1, "protect": { "routes": [OWN] } });
    let (status, answer) = gateway.operator(Method::POST, "/api/v1/operator/sales", Some(&made)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    for node in gateway.nodes() {
        until("it knows the sale", || async {
            node.snapshot("made").await["phase"].is_string().then_some(())
        })
        .await;
    }
    let visitor = Visitor::new(&gateway);
    assert_eq!(visitor.join("made").await.status, StatusCode::OK);
    until("the visitor is called", || async {
        (visitor.claim("made").await.status == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(visitor.visit(OWN).await.text(), BODY);

    for node in gateway.nodes_mut() {
        node.process().kill();
    }
    gateway.redis().again_empty();
    let passed = shop.requests().len();
    // Strangers knock from before the gateways listen until both know all sales.
    let strangers: Vec<_> = gateway.nodes().iter().map(|node| Visitor::at(&node.url(""))).collect();
    let (known, knows) = tokio::sync::watch::channel(false);
    let knocking = tokio::spawn(async move {
        let mut answered = 0;
        while !*knows.borrow() {
            for stranger in &strangers {
                let asked =
                    stranger.try_send(Method::GET, OWN, |request| request.header("accept", "text/html"));
                answered += usize::from(asked.await.is_ok());
            }
        }
        answered
    });
    for node in gateway.nodes_mut() {
        node.restart().await;
    }
    for node in gateway.nodes() {
        until("it shows the sale", || async {
            (node.snapshot("made").await["losses"].is_u64()).then_some(())
        })
        .await;
    }
    known.send_replace(true);
    assert!(knocking.await.unwrap() > 0, "nobody knocked");
    let page = Visitor::new(&gateway).visit(OWN).await.text();
    assert!(page != BODY && page.contains("made"), "{page}");
    assert_eq!(shop.requests().len(), passed, "a stranger went past the room");
    assert_eq!(visitor.visit(OWN).await.text(), BODY, "an admitted shopper does not pass");
    assert_eq!(gateway.sale("made").await["definition"]["max_active"], 1);
}
