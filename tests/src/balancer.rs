//! A load balancer in front of several gateways, as platforms have: it turns to those that say that they are ready, and
//! hands bytes on.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::gateway::{Gateway, Node};
use crate::raw::{Outcome, Raw};

/// How often each gateway is asked whether it is ready.
const EVERY: Duration = Duration::from_millis(50);
/// How long its answer, or a connection to it, may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// A running load balancer. It and its connections end with this value.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Backend {
    shop: SocketAddr,
    operator: SocketAddr,
    ready: AtomicBool,
}

// === impl Balancer ===

impl Balancer {
    /// Opens in front of all that a gateway consists of, on a free port of loopback.
    pub async fn before(gateway: &Gateway) -> Self {
        let backend = |node: &Node| Backend {
            shop: node.address(),
            operator: node.operator_address(),
            ready: AtomicBool::new(true),
        };
        let backends: Arc<[Backend]> = gateway.nodes().iter().map(backend).collect();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let mut tasks = JoinSet::new();
        for index in 0..backends.len() {
            let backends = Arc::clone(&backends);
            tasks.spawn(async move { backends[index].watch().await });
        }
        tasks.spawn(async move {
            let (turn, mut connections) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(hand_on(client, Arc::clone(&backends), Arc::clone(&turn)));
            }
        });
        Self { address, _tasks: tasks }
    }

    /// The address of `path` for a shopper.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

// === impl Backend ===

impl Backend {
    async fn watch(&self) {
        let question = b"GET /readyz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n";
        loop {
            let mut is_ready = false;
            if let Ok(Ok(stream)) = timeout(PATIENCE, TcpStream::connect(self.operator)).await {
                let mut asked = Raw::over(stream);
                asked.send(question).await;
                let said = asked.receive(PATIENCE, false).await;
                is_ready = matches!(said, Outcome::Answer(answer) if answer.status == 200);
            }
            self.ready.store(is_ready, Ordering::Relaxed);
            sleep(EVERY).await;
        }
    }
}

/// Connects to the next that is ready; where none is, to any that takes it.
async fn hand_on(mut client: TcpStream, backends: Arc<[Backend]>, turn: Arc<AtomicUsize>) {
    let first = turn.fetch_add(1, Ordering::Relaxed);
    let in_turn = || (0..backends.len()).map(|step| &backends[(first + step) % backends.len()]);
    let is_ready = |backend: &&Backend| backend.ready.load(Ordering::Relaxed);
    for backend in in_turn().filter(is_ready).chain(in_turn().filter(|backend| !is_ready(backend))) {
        if let Ok(Ok(mut server)) = timeout(PATIENCE, TcpStream::connect(backend.shop)).await {
            let _ = client.set_nodelay(true);
            let _ = server.set_nodelay(true);
            // Ends when either side does.
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
