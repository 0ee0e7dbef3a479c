//! Clients that hold on to a connection without getting on.

use std::time::Duration;

use ropeline_tests::wait::PATIENCE;

use crate::Front;

/// Sends `head`, then `drop` again and again, and says whether the gateway ended it.
async fn dripping_ends(front: &Front, head: &[u8], drip: &[u8]) -> bool {
    let mut raw = front.connect().await;
    raw.send(head).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < deadline {
        // Often enough that no timeout for a single read ever ends it.
        if raw.closed(Duration::from_millis(200)).await {
            return true;
        }
        raw.send(drip).await;
    }
    false
}

#[tokio::test]
async fn a_head_in_drips_is_cut_off() {
    let front = Front::start().await;
    assert!(dripping_ends(&front, b"GET /free HTTP/1.1\r\nHost: shop.test\r\nX-A: ", b"a").await);
    assert!(dripping_ends(&front, b"GET /free HTTP/1.1\r\nHost: shop.test\r\n", b"X-A: b\r\n").await);
    assert_eq!(front.shop.bytes().concat(), b"");
    front.forwards().await;
}

#[tokio::test]
async fn a_body_in_drips_for_the_gateway_itself_is_cut_off() {
    let front = Front::start().await;
    let head = b"POST /api/v1/queue/join HTTP/1.1\r\nHost: shop.test\r\nContent-Type: application/json\r\n\
                 Content-Length: 1000\r\n\r\n";
    assert!(dripping_ends(&front, head, b" ").await);
    let head = b"POST /sale HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100000\r\n\r\n";
    assert!(dripping_ends(&front, head, b"a").await);
    assert_eq!(front.shop.bytes().concat(), b"");
    front.forwards().await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let front = Front::start().await;
    let (mut silent, mut started) = (front.connect().await, front.connect().await);
    started.send(b"GET /free HTTP/1.1\r\n").await;
    // By the gateway's own limit: a single read is given a minute by Pingora.
    let limit = PATIENCE;
    let (silent, started) = tokio::join!(silent.closed(limit), started.closed(limit));
    assert!(silent && started);
    assert_eq!(front.shop.bytes().concat(), b"");
    front.forwards().await;
}
