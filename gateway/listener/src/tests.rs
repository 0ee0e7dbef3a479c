use std::net::SocketAddr;

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

const HEAD_TIME: Duration = Duration::from_secs(30);

async fn start() -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let router = Router::new().route("/", get(async || "here"));
    let server = tokio::spawn(serve(listener, router, HEAD_TIME, async {
        let _ = stopped.await;
    }));
    (address, stop, server)
}

/// Sends `drip` every second until the other side closes.
async fn dripped(mut client: TcpStream, drip: &[u8]) -> Duration {
    let began = Instant::now();
    loop {
        let more = tokio::time::timeout(Duration::from_secs(1), client.read(&mut [0; 512])).await;
        if matches!(more, Ok(Ok(0) | Err(_))) || client.write_all(drip).await.is_err() {
            return began.elapsed();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_connection() {
    let (address, _stop, _server) = start().await;
    for (head, drip) in
        [(&b""[..], &b""[..]), (b"GET / HTTP/1.1\r\nHost: a\r\nX-A: ", b"b"), (b"GET / HTT", b"")]
    {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(head).await.unwrap();
        let time = dripped(client, drip).await;
        assert!((HEAD_TIME..HEAD_TIME * 2).contains(&time), "{time:?}");
    }
}

#[tokio::test]
async fn requests_are_answered_and_those_open_at_the_end_finished() {
    let (address, stop, server) = start().await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let mut buffer = [0; 512];
    for _ in 0..2 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let length = client.read(&mut buffer).await.unwrap();
        assert!(buffer[..length].ends_with(b"here"));
    }
    stop.send(()).unwrap();
    server.await.unwrap();
    assert_eq!(client.read(&mut buffer).await.unwrap(), 0);
    assert!(TcpStream::connect(address).await.is_err());
}
