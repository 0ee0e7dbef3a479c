//! A gateway in front of a shop, and the people who queue.

use reqwest::StatusCode;
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::origin::{Origin, Product, Tuning};
use ropeline_tests::ports::Port;
use ropeline_tests::shop::Shop;
use ropeline_tests::visitor::{Answer, Visitor};
use ropeline_tests::wait::until;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The sale of every test, and the page that it protects.
pub(crate) const SALE: &str = "drop";
pub(crate) const PAGE: &str = "/sale";
pub(crate) const VISITOR_COOKIE: &str = "ropeline-visitor";
pub(crate) const TICKET_COOKIE: &str = "ropeline-ticket-drop";
pub(crate) const ADMISSION_COOKIE: &str = "ropeline-admission-drop";

/// A gateway in front of a shop that records what reaches it.
pub(crate) struct House {
    pub(crate) shop: Shop,
    pub(crate) gateway: Gateway,
}

impl House {
    pub(crate) async fn open(sale: Sale) -> Self {
        Self::with(sale, |settings| settings).await
    }

    pub(crate) async fn with(sale: Sale, change: impl FnOnce(Settings) -> Settings) -> Self {
        let shop = Shop::open().await;
        let settings = Settings::new(shop.address()).on(crate::STORE);
        let gateway = Gateway::start(change(settings), &[sale]).await;
        Self { shop, gateway }
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::new(&self.gateway)
    }

    /// Somebody who has joined.
    pub(crate) async fn joined(&self) -> Visitor {
        joined(&self.gateway).await
    }

    /// Somebody who has joined, was called, and is in.
    pub(crate) async fn admitted(&self) -> Visitor {
        let visitor = self.joined().await;
        admitted(&visitor).await;
        visitor
    }

    pub(crate) async fn sale(&self) -> Value {
        self.gateway.sale(SALE).await
    }

    pub(crate) async fn snapshot(&self) -> Value {
        self.visitor().fetch(&format!("/api/v1/queue/sales/{SALE}/snapshot")).await.json()
    }

    pub(crate) async fn room(&self) -> String {
        self.visitor().visit(&format!("/api/v1/queue/sales/{SALE}/room")).await.text()
    }
}

/// A sale that is always on and calls everybody at once.
pub(crate) fn sale() -> Sale {
    Sale::new(SALE, &[PAGE])
}

/// A sale in which one is called and all others wait.
pub(crate) fn sale_for_one() -> Sale {
    sale().set("max_active", "1")
}

/// A sale that people join and that its operator opens.
pub(crate) fn sale_not_yet_open() -> Sale {
    sale().set("joins_open_at", "2026-01-01T00:00:00Z")
}

/// A gateway in front of the reservation service, which sells what `SALE` is about.
pub(crate) async fn with_origin(total: u32, sale: Sale) -> (Gateway, Origin) {
    with_origin_tuned(total, 300, Tuning::default(), sale).await
}

/// The same, where holds last `hold_seconds`, and with settings of its own.
pub(crate) async fn with_origin_tuned(
    total: u32,
    hold_seconds: u32,
    tuning: Tuning,
    sale: Sale,
) -> (Gateway, Origin) {
    let port = Port::free();
    let routes = r#"["/products", "/reservations", "/purchases", "/checkout"]"#;
    let settings = Settings::new(port.address()).on(crate::STORE);
    let gateway = Gateway::start(settings, &[sale.set("routes", routes)]).await;
    let product = Product { id: SALE.to_owned(), total, hold_seconds };
    let origin = Origin::start_tuned(port, &gateway, &product, &gateway.url(""), tuning).await;
    (gateway, origin)
}

pub(crate) async fn joined(gateway: &Gateway) -> Visitor {
    let visitor = Visitor::new(gateway);
    let answer = visitor.join(SALE).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    visitor
}

/// The answer to the claim of a visitor who is to be called.
pub(crate) async fn admitted(visitor: &Visitor) -> Answer {
    until("the visitor is called", || async {
        let answer = visitor.claim(SALE).await;
        (answer.status == StatusCode::OK).then_some(answer)
    })
    .await
}

pub(crate) async fn state(visitor: &Visitor) -> String {
    let answer = visitor.status(SALE).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    answer.json()["state"].as_str().expect("a state").to_owned()
}

/// Joins as so many new visitors, twenty at a time.
pub(crate) async fn crowd(gateway: &Gateway, size: usize) -> Vec<Visitor> {
    let mut crowd = Vec::with_capacity(size);
    while crowd.len() < size {
        let mut some: JoinSet<_> = (crowd.len()..size)
            .take(20)
            .map(|_| {
                let visitor = Visitor::new(gateway);
                async move {
                    let answer = visitor.join(SALE).await;
                    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
                    visitor
                }
            })
            .collect();
        while let Some(visitor) = some.join_next().await {
            crowd.push(visitor.expect("a join"));
        }
    }
    crowd
}

/// Reserves a unit of what the sale is about.
pub(crate) async fn reserve(visitor: &Visitor, key: &str) -> Answer {
    post_once(visitor, &format!("/products/{SALE}/reservations"), key, &json!({})).await
}

/// Posts to the reservation service under an idempotency key.
pub(crate) async fn post_once(visitor: &Visitor, path: &str, key: &str, document: &Value) -> Answer {
    visitor
        .send(reqwest::Method::POST, path, |request| request.header("idempotency-key", key).json(document))
        .await
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}
