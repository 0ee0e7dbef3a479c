//! HAProxy, with the files of `cdn-config/haproxy`: what is not plainly static goes through the gateway.

use std::net::SocketAddr;

use reqwest::{Method, StatusCode};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{addressed, deployed};
use ropeline_tests::shop::BODY;

use super::House;

async fn start(gateway: SocketAddr, shop: SocketAddr) -> Result<EdgeHost, Missing> {
    EdgeHost::start("haproxy", |address, _| {
        let addresses = [("127.0.0.1:8000", address), ("127.0.0.1:8080", gateway), ("127.0.0.1:8081", shop)];
        Launch::new()
            .file("haproxy.cfg", addressed("haproxy/haproxy.cfg", &addresses))
            .file("static.lst", deployed("haproxy/static.lst"))
            .file("closed.http", deployed("haproxy/closed.http"))
            .arguments(["-db", "-f", "haproxy.cfg"])
    })
    .await
}

a_host_that_asks!("haproxy", start);

/// The list of static paths opens no other.
#[tokio::test]
async fn what_is_static_needs_no_gateway_and_nothing_else_is_static() {
    let Some(mut house) = House::open(start).await else { return };
    static_paths(&mut house).await;
}

pub(super) async fn static_paths(house: &mut House) {
    house.gateway.process().kill();
    let visitor = house.visitor();
    let claims = [
        "Ropeline-Visitor",
        "Ropeline_Sale",
        "Forwarded",
        "X-Forwarded-Proto",
        "X-Forwarded-User",
        "True-Client-IP",
        "X-Original-URL",
        "X-HTTP-Method",
        "X_Method_Override",
    ];
    house.shop.say(&[("Ropeline-Stock", "3"), ("Ropeline-Lease", "hold"), ("X-Kept", "kept")]);
    let style = visitor
        .send(Method::GET, "/static/style.css?v=1", |request| {
            claims.iter().fold(request, |request, name| request.header(*name, "forged"))
        })
        .await;
    assert_eq!((style.status, style.text()), (StatusCode::OK, BODY.to_owned()));
    let said = ["x-kept", "ropeline-stock", "ropeline-lease"].map(|name| style.header(name));
    assert_eq!(said, [Some("kept"), None, None], "what the shop tells the queue is not for shoppers");
    let received = house.received("/static/style.css?v=1");
    let forged = received.iter().flat_map(|request| &request.headers).find(|(_, value)| value == "forged");
    assert_eq!((received.len(), forged), (1, None));
    for path in [
        "/static/%2e%2e/sale",
        "/static/..%2fsale",
        "/static//../sale",
        "/static/..;/sale",
        "/static/%2E./sale?x=/static/",
        "/static",
        "/sale?x=/static/a",
    ] {
        let answer = ropeline_tests::raw::exchange(
            house.host.address(),
            format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n").as_bytes(),
            std::time::Duration::from_secs(20),
        )
        .await
        .answer();
        assert_eq!(answer.status, 503, "{path} went to the shop without the gateway");
    }
    assert_eq!(visitor.post("/static/style.css", &serde_json::json!({})).await.status, 503);
    assert_eq!(house.shop.requests().len(), 1);
}
