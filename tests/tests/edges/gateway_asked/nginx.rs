//! nginx, with the files of `cdn-config/nginx`: it asks the gateway and sends on itself.

use std::net::SocketAddr;

use ropeline_tests::conformance::Upstream;
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{addressed, deployed};
use ropeline_tests::visitor::Visitor;
use tokio::task::JoinSet;

use super::{House, permitted};

pub(super) async fn start(gateway: SocketAddr, shop: SocketAddr) -> Result<EdgeHost, Missing> {
    EdgeHost::start("nginx", |address, folder| {
        let whole = [("127.0.0.1:8000", address), ("127.0.0.1:8081", shop)];
        Launch::new()
            .file("nginx.conf", addressed("nginx/nginx.conf", &whole))
            .file("ropeline-http.conf", addressed("nginx/ropeline-http.conf", &[("127.0.0.1:8080", gateway)]))
            .file("ropeline-server.conf", deployed("nginx/ropeline-server.conf"))
            .arguments(["-p", &format!("{}/", folder.display()), "-e", "stderr", "-c", "nginx.conf"])
            .arguments(["-g", "daemon off; master_process off;"])
    })
    .await
}

a_host_that_asks!("nginx", start);

/// What the shop tells the queue is not for shoppers.
#[tokio::test]
async fn what_the_shop_tells_the_queue_is_taken_off() {
    let Some(house) = House::open(start).await else { return };
    house.shop.say(&[("Ropeline-Stock", "7; held=1"), ("Ropeline-Lease", "end")]);
    let (visitor, _) = house.admitted().await;
    let answer = visitor.visit(super::PAGE).await;
    assert_eq!((answer.header("ropeline-stock"), answer.header("ropeline-lease")), (None, None));
}

/// A cache in front of nginx must not hand on what one shopper was answered.
#[tokio::test]
async fn what_is_answered_behind_an_admission_is_private() {
    let Some(house) = House::open(start).await else { return };
    let (visitor, _) = house.admitted().await;
    for (said, goes_out) in [
        ("public, max-age=600", "private, no-cache"),
        ("max-age=600", "private, no-cache"),
        ("private, max-age=60", "private, max-age=60"),
        ("no-store", "no-store"),
    ] {
        house.shop.say(&[("Cache-Control", said), ("CDN-Cache-Control", "max-age=600")]);
        let answer = visitor.visit(super::PAGE).await;
        assert_eq!(answer.header("cache-control"), Some(goes_out), "the shop says {said}");
        assert_eq!(answer.header("cdn-cache-control"), None);
    }
    house.shop.say(&[("Cache-Control", "public, max-age=600")]);
    assert_eq!(visitor.visit("/free").await.header("cache-control"), Some("public, max-age=600"));
}

/// Cookies as a shop of some years has them.
#[tokio::test]
async fn many_cookies_pass() {
    let Some(house) = House::open(start).await else { return };
    let (visitor, _) = house.admitted().await;
    for number in 0..4 {
        visitor.keep_cookie(&format!("basket-{number}"), &"x".repeat(3_000));
    }
    assert_eq!(visitor.visit(super::PAGE).await.text(), ropeline_tests::shop::BODY);
}

/// A crowd in the room costs the gateway one request a second.
#[tokio::test]
async fn the_room_comes_from_the_cache() {
    the_room_is_fetched_for_many_at_once(start).await;
}

pub(super) async fn the_room_is_fetched_for_many_at_once<F>(start: impl FnOnce(SocketAddr, SocketAddr) -> F)
where
    F: Future<Output = Result<EdgeHost, Missing>>,
{
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let Some(host) = permitted(start(gateway.address(), shop.address()).await) else { return };
    let mut crowd = JoinSet::new();
    for number in 0..40 {
        let visitor = Visitor::at(&host.url(""));
        visitor.keep_cookie("ropeline-visitor", &number.to_string());
        crowd.spawn(async move { visitor.visit("/api/v1/queue/sales/drop/room").await });
    }
    while let Some(answer) = crowd.join_next().await {
        let answer = answer.expect("an answer");
        assert_eq!(answer.header("cache-control"), Some("public, max-age=1"), "{}", answer.text());
        assert_eq!(answer.header("set-cookie"), None);
    }
    let rooms = gateway.rooms();
    assert!((1..40).contains(&rooms.len()), "the gateway was asked {} times", rooms.len());
    for room in rooms {
        assert_eq!(room.header("cookie"), Vec::<&str>::new());
    }
}
