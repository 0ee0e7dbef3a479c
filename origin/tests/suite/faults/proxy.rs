//! A network that loses replies: it takes connections, hands them on to wherever a node listens now, and cuts some after
//! the request was sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Of a thousand requests, those whose connection is cut before the service can have answered.
const CUT_AT_ONCE: u16 = 8;
/// Of a thousand answers, those that are lost altogether.
const ANSWER_LOST: u16 = 20;
/// Of a thousand answers, those of which a half comes.
const ANSWER_BROKEN: u16 = 6;

/// Where the node behind a proxy listens; 0 while it is down.
pub(super) type Port = Arc<AtomicU16>;

/// What a network does, shared by its proxies.
#[derive(Debug, Default)]
pub(super) struct Weather {
    /// Whether nothing is cut any more.
    pub(super) calm: AtomicBool,
    /// Connections that were cut.
    pub(super) cut: AtomicUsize,
}

/// Starts a proxy to `port` for as long as the runtime runs; its address.
pub(super) async fn start(port: Port, weather: Arc<Weather>, seed: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut chance = fastrand::Rng::with_seed(seed);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (port, weather, chance) = (port.clone(), weather.clone(), chance.fork());
            tokio::spawn(async move {
                let port = port.load(Ordering::Relaxed);
                if port == 0 {
                    return;
                }
                if let Ok(service) = TcpStream::connect(("127.0.0.1", port)).await {
                    carry(client, service, &weather, chance).await;
                }
            });
        }
    });
    address
}

/// Carries bytes both ways until either end closes, or the connection is cut.
async fn carry(mut client: TcpStream, mut service: TcpStream, weather: &Weather, mut chance: fastrand::Rng) {
    let _ = (client.set_nodelay(true), service.set_nodelay(true));
    let (mut asked, mut answered) = (vec![0; 16 * 1024], vec![0; 64 * 1024]);
    loop {
        let mut happens = |share| !weather.calm.load(Ordering::Relaxed) && chance.u16(0..1_000) < share;
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                if service.write_all(&asked[..length]).await.is_err() {
                    return;
                }
                if happens(CUT_AT_ONCE) {
                    weather.cut.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
            read = service.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                let (lost, broken) = (happens(ANSWER_LOST), happens(ANSWER_BROKEN));
                let passed = if lost { 0 } else if broken { length / 2 } else { length };
                if client.write_all(&answered[..passed]).await.is_err() {
                    return;
                }
                if lost || broken {
                    weather.cut.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}
