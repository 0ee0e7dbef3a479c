//! The support library itself: what the other suites rest on has to hold.

use std::time::Duration;

use ropeline_tests::raw::{self, Outcome, Raw};
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::wait::within;

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_shop_keeps_every_byte_and_answers_every_request() {
    let shop = Shop::open().await;
    let mut raw = Raw::connect(shop.address()).await;
    let two = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nX: y\r\n\r\n";
    raw.send(two).await;
    for _ in 0..2 {
        assert_eq!(raw.receive(SOON, false).await.answer().text(), BODY);
    }
    assert_eq!(shop.bytes(), [two]);
    let requests = shop.requests();
    assert_eq!(requests[0].body, b"abc");
    assert_eq!(requests[1].line, "GET /b HTTP/1.1");
    assert_eq!(requests[1].header("x"), ["y"]);
}

#[tokio::test]
async fn silence_and_closing_are_told_apart() {
    let shop = Shop::open().await;
    let outcome = raw::exchange(shop.address(), b"GET / HT", Duration::from_millis(50)).await;
    assert_eq!(outcome, Outcome::Silence(Vec::new()));
    let mut raw = Raw::connect(shop.address()).await;
    raw.send(b"GET / HT").await;
    raw.finish().await;
    assert_eq!(raw.receive(SOON, false).await, Outcome::Closed(Vec::new()));
}

/// A machine on which each look takes ten times as long as the pause between two has as many of them.
#[tokio::test(start_paused = true)]
async fn a_slow_machine_has_as_many_looks_as_a_quick_one() {
    let limit = Duration::from_secs(1);
    for slowness in [0, 200] {
        let mut looks = 0;
        within(limit, "it has looked often", || {
            looks += 1;
            let seen = (looks == 50).then_some(());
            async move {
                tokio::time::sleep(Duration::from_millis(slowness)).await;
                seen
            }
        })
        .await;
    }
}
