//! Where hosts read settings from that take them from an address.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A document that whoever asks gets, whatever they ask for. It ends with this value.
pub(crate) struct Store {
    address: SocketAddr,
    document: Arc<Mutex<String>>,
    server: JoinHandle<()>,
}

impl Store {
    pub(crate) async fn open(document: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let document = Arc::new(Mutex::new(document));
        let kept = Arc::clone(&document);
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let (mut head, mut piece) = (Vec::new(), [0; 4_096]);
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        match stream.read(&mut piece).await {
                            Ok(count @ 1..) => head.extend_from_slice(&piece[..count]),
                            _ => return,
                        }
                    }
                    let document = kept.lock().expect("no panic while it is changed").clone();
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                         Connection: close\r\n\r\n{document}",
                        document.len()
                    );
                    // Whoever has left does not want it.
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { address, document, server }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn put(&self, document: &str) {
        document.clone_into(&mut self.document.lock().expect("no panic while it is changed"));
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.server.abort();
    }
}
