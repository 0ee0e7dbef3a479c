//! Hosts without WebAssembly, which leave the verdict to the gateway, each in front of the real one.

/// What every host that asks the gateway is put to, started by this function.
macro_rules! a_host_that_asks {
    ($name:literal, $start:path) => {
        #[tokio::test]
        async fn a_visitor_waits_is_called_and_buys() {
            let Some(house) = super::House::open($start).await else { return };
            super::a_visitor_waits_is_called_and_buys(&house).await;
        }

        #[tokio::test]
        async fn what_a_shopper_claims_reaches_nobody() {
            let Some(house) = super::House::open($start).await else { return };
            super::what_a_shopper_claims_reaches_nobody(&house).await;
        }

        #[tokio::test]
        async fn nobody_passes_while_the_gateway_is_away_or_silent() {
            let Some(mut house) = super::House::open($start).await else { return };
            super::nobody_passes_while_the_gateway_is_away_or_silent(&mut house).await;
        }

        #[tokio::test]
        async fn nobody_sees_what_another_was_answered() {
            let Some(house) = super::House::open($start).await else { return };
            super::nobody_sees_what_another_was_answered(&house).await;
        }

        #[tokio::test]
        async fn the_policy_changes_under_traffic() {
            let Some(house) = super::House::open($start).await else { return };
            super::changes::the_policy_changes_under_traffic(&house).await;
        }

        #[tokio::test]
        async fn keys_rotate() {
            let Some(mut house) = super::House::open($start).await else { return };
            super::changes::keys_rotate(&mut house).await;
        }

        #[tokio::test]
        async fn every_spelling_is_read_as_the_gateway_reads_it() {
            super::spellings::are_read_as_the_gateway_reads_them($name, $start).await;
        }
    };
}

mod changes;
mod haproxy;
mod nginx;
mod spellings;
mod varnish;

use std::net::SocketAddr;

use reqwest::{Method, StatusCode};
use ropeline_edge::Room;
use ropeline_tests::edge_hosts::{EdgeHost, Missing, permitted};
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::shop::{BODY, Received, Shop};
use ropeline_tests::visitor::{Answer, Visitor};
use ropeline_tests::wait::until;
use serde_json::json;

const SALE: &str = "drop";
const PAGE: &str = "/sale";
const ADMISSION_COOKIE: &str = "ropeline-admission-drop";

/// What every edge says while the gateway is away.
pub(crate) const CLOSED: &str = "The queue is not answering right now.";

/// A shop, the gateway that knows it, and the host that is asked.
struct House {
    shop: Shop,
    gateway: Gateway,
    host: EdgeHost,
}

/// Settings of a gateway that stands behind a host on this machine.
pub(crate) fn behind(shop: SocketAddr) -> Settings {
    Settings::new(shop).set("listen", "trusted_proxies", r#"["127.0.0.1/32"]"#)
}

impl House {
    async fn open<F>(start: impl FnOnce(SocketAddr, SocketAddr) -> F) -> Option<Self>
    where
        F: Future<Output = Result<EdgeHost, Missing>>,
    {
        let shop = Shop::open().await;
        let gateway = Gateway::start(behind(shop.address()), &[Sale::new(SALE, &[PAGE])]).await;
        let host = permitted(start(gateway.address(), shop.address()).await)?;
        Some(Self { shop, gateway, host })
    }

    fn visitor(&self) -> Visitor {
        Visitor::at(&self.host.url(""))
    }

    /// Somebody who has joined, was called, and is in; and the token.
    async fn admitted(&self) -> (Visitor, String) {
        let visitor = self.visitor();
        let joined = visitor.join(SALE).await;
        assert_eq!(joined.status, StatusCode::OK, "{}", joined.text());
        let claimed = until("the visitor is called", || async {
            let answer = visitor.claim(SALE).await;
            (answer.status == StatusCode::OK).then_some(answer)
        })
        .await;
        let token = claimed.json()["admission_token"].as_str().expect("a token").to_owned();
        (visitor, token)
    }

    /// What the shop received for a path.
    fn received(&self, path: &str) -> Vec<Received> {
        let target = |request: &Received| request.line.split(' ').nth(1) == Some(path);
        self.shop.requests().into_iter().filter(target).collect()
    }
}

/// From the room to the purchase.
async fn a_visitor_waits_is_called_and_buys(house: &House) {
    let waiting = house.visitor();
    let page = waiting.visit(PAGE).await;
    assert_eq!((page.status, page.text().contains("Sale drop")), (StatusCode::OK, true), "{}", page.text());
    assert_eq!(page.header("cache-control"), Some("private, no-store"));
    assert_eq!(page.header("www-authenticate"), None);
    let call = waiting.fetch("/sale/stock").await;
    assert_eq!((call.status, call.problem()), (StatusCode::UNAUTHORIZED, "admission_missing".to_owned()));
    assert_eq!(call.header("www-authenticate"), Some("Ropeline realm=\"sale\""));
    let order = waiting.post("/sale/orders", &json!({ "count": 1 })).await;
    assert_eq!(order.problem(), "admission_missing");
    assert_eq!(house.shop.requests(), [], "nobody was admitted yet");

    let (visitor, token) = house.admitted().await;
    assert_eq!(visitor.visit(PAGE).await.text(), BODY);
    let order = visitor.post("/sale/orders?now", &json!({ "count": 2 })).await;
    assert_eq!((order.status, order.text()), (StatusCode::OK, BODY.to_owned()));
    let received = house.received("/sale/orders?now");
    let [order] = received.as_slice() else { panic!("{received:?}") };
    assert!(String::from_utf8_lossy(&order.body).contains(r#"{"count":2}"#), "{order:?}");
    assert_eq!(order.header("ropeline-admission"), [token.as_str()]);
    assert_eq!(order.header("ropeline-sale"), [SALE]);
    assert_eq!(order.header("ropeline-visitor").len(), 1);
    assert_eq!(order.header("x-forwarded-for"), ["127.0.0.1"]);

    // A pass that was handed on opens nothing.
    let thief = house.visitor();
    thief.keep_cookie(ADMISSION_COOKIE, &token);
    assert_eq!(thief.fetch(PAGE).await.problem(), "admission_missing");
    assert_ne!(thief.visit(PAGE).await.text(), BODY);

    // Nor does an own one after its visitor has left.
    let left = visitor.leave(SALE).await;
    assert_eq!(left.status, StatusCode::NO_CONTENT);
    visitor.keep_cookie(ADMISSION_COOKIE, &token);
    assert_eq!(visitor.fetch(PAGE).await.problem(), "admission_missing");
}

/// Sends what a shopper may not say, to a path that nothing protects and to one that is protected.
async fn what_a_shopper_claims_reaches_nobody(house: &House) {
    let forged = [
        ("Ropeline-Admission", "forged"),
        ("Ropeline-Sale", "forged"),
        ("Ropeline-Visitor", "forged"),
        ("Ropeline-Ticket", "forged"),
        ("Ropeline-Target", "/forged"),
        ("Ropeline_Visitor", "forged"),
        ("ropeline_admission", "forged"),
        ("X-Forwarded-For", "203.0.113.66"),
        ("X-Forwarded-Host", "forged.test"),
        ("X-Forwarded-Uri", "/forged"),
        ("X-Forwarded-Method", "forged"),
        ("X-Original-URI", "/forged"),
        ("X-Original-Method", "forged"),
        ("X-Original-URL", "/forged"),
        ("X-HTTP-Method-Override", "forged"),
        ("Forwarded", "for=203.0.113.66;forged"),
        ("X-Forwarded-User", "forged"),
        ("True-Client-IP", "203.0.113.66"),
        ("Client-IP", "203.0.113.66"),
        ("X-HTTP-Method", "forged"),
        ("X-Host", "forged.test"),
    ];
    let send = |path: &'static str| async move {
        house
            .visitor()
            .send(Method::GET, path, |request| {
                forged.iter().fold(request, |request, (name, value)| request.header(*name, *value))
            })
            .await
    };
    assert_eq!(send("/free").await.text(), BODY);
    let received = house.received("/free");
    let [free] = received.as_slice() else { panic!("{received:?}") };
    for (name, value) in &free.headers {
        assert!(!value.contains("forged") && !value.contains("203.0.113.66"), "{name}: {value}");
        assert!(!name.starts_with("ropeline"), "{name}: {value}");
    }
    assert_eq!(free.header("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(send(PAGE).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(house.received(PAGE), []);
}

/// Whoever asks while the gateway is away is told, and nobody passes.
async fn nobody_passes_while_the_gateway_is_away_or_silent(house: &mut House) {
    let (visitor, _) = house.admitted().await;
    assert_eq!(visitor.visit(PAGE).await.text(), BODY);
    house.gateway.process().kill();
    let asked: [Answer; 4] = [
        visitor.visit(PAGE).await,
        house.visitor().visit(PAGE).await,
        visitor.join(SALE).await,
        visitor.visit("/free").await,
    ];
    asked.iter().for_each(is_closed);
    assert_eq!(house.received(PAGE).len(), 1);
    house.gateway.kill_and_restart().await;
    // Hosts leave an address alone for a moment after it has refused them.
    until("it goes on as before", || async { (visitor.visit(PAGE).await.text() == BODY).then_some(()) })
        .await;

    // It takes connections and says nothing.
    house.gateway.process().pause();
    is_closed(&visitor.status(SALE).await);
    is_closed(&visitor.join(SALE).await);
    house.gateway.process().resume();
    until("it goes on as before", || async { (visitor.visit(PAGE).await.text() == BODY).then_some(()) })
        .await;
}

/// The very page that an edge answers with when it cannot reach the gateway.
fn is_closed(answer: &Answer) {
    let page = Room::unreachable();
    assert_eq!((answer.status.as_u16(), answer.text()), (page.status, page.body));
    for (name, value) in &page.headers {
        assert_eq!(answer.header(name), Some(value.as_str()), "{name}");
    }
}

/// Two visitors at once, in front of a shop that invites every cache to keep its answers.
async fn nobody_sees_what_another_was_answered(house: &House) {
    house.shop.say(&[("Cache-Control", "public, max-age=3600"), ("Set-Cookie", "session=own; Path=/")]);
    let (one, _) = house.admitted().await;
    let (two, _) = house.admitted().await;
    for _ in 0..5 {
        for path in [PAGE, "/free", "/sale/account.css"] {
            let (first, second) = tokio::join!(one.visit(path), two.visit(path));
            assert_eq!((first.text(), second.text()), (BODY.to_owned(), BODY.to_owned()));
        }
    }
    for path in [PAGE, "/free", "/sale/account.css"] {
        assert_eq!(house.received(path).len(), 10, "an answer to {path} came from a cache");
    }
    for path in [PAGE, "/sale/account.css"] {
        let mut visitors: Vec<_> =
            house.received(path).iter().map(|request| request.header("ropeline-visitor").concat()).collect();
        visitors.sort();
        visitors.dedup();
        assert_eq!(visitors.len(), 2, "{visitors:?}");
    }
    // One who waits does not get what they got, nor do they get the room.
    assert_ne!(house.visitor().visit(PAGE).await.text(), BODY);
    assert_eq!(one.visit(PAGE).await.text(), BODY);
}
