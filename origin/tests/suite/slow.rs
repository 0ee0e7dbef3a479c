//! Clients that open a connection and do not get on with it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::Shop;

/// Sends `head`, then `drip` every second, and says how long the service puts up with it.
async fn patience(shop: &Shop, head: &[u8], drip: &[u8]) -> Duration {
    let mut client = TcpStream::connect(shop.base.trim_start_matches("http://")).await.unwrap();
    client.write_all(head).await.unwrap();
    // From here on by a clock that leaps to the next timer when there is nothing else to do.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    loop {
        let more = tokio::time::timeout(Duration::from_secs(1), client.read(&mut [0; 512])).await;
        if matches!(more, Ok(Ok(0) | Err(_))) || client.write_all(drip).await.is_err() {
            let time = began.elapsed();
            tokio::time::resume();
            return time;
        }
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let mut shop = Shop::open(1).await;
    for (head, drip) in [(&b""[..], &b""[..]), (b"GET /products/runner HTTP/1.1\r\nHost: a\r\nX-A: ", b"b")] {
        let patience = patience(&shop, head, drip).await;
        assert!(patience < Duration::from_secs(100), "{patience:?}");
    }
    shop.held("ann").await;
    shop.close().await;
}
