//! A shop that keeps every byte it is sent, to show what a gateway forwards and what it does not.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::raw::{find, unchunk};

/// What it answers to every request.
pub const BODY: &str = "the shop itself";

/// The recording shop. It ends with this value.
#[derive(Debug)]
pub struct Shop {
    address: SocketAddr,
    received: Arc<Mutex<Record>>,
    says: Arc<Mutex<String>>,
    /// False while every request waits for its answer.
    answers: watch::Sender<bool>,
    server: JoinHandle<()>,
}

/// What has come so far.
#[derive(Debug, Default)]
struct Record {
    /// Every byte, by connection.
    connections: Vec<Vec<u8>>,
    /// The whole requests, in the order in which they came: a gateway keeps several connections, so that theirs
    /// is another.
    requests: Vec<Received>,
}

/// A request as the shop read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The request line.
    pub line: String,
    /// The header lines, in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The bytes of the body as they came, chunk framing and all.
    pub body: Vec<u8>,
}

// === impl Shop ===

impl Shop {
    /// Opens on a free port of loopback.
    pub async fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let received = Arc::new(Mutex::new(Record::default()));
        let says = Arc::new(Mutex::new(String::new()));
        let (answers, answering) = watch::channel(true);
        let (record, words) = (Arc::clone(&received), Arc::clone(&says));
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (record, words) = (Arc::clone(&record), Arc::clone(&words));
                tokio::spawn(serve(stream, record, words, answering.clone()));
            }
        });
        Self { address, received, says, answers, server }
    }

    /// With false, requests are taken and not answered, until it is told true.
    pub fn answer(&self, answers: bool) {
        self.answers.send_replace(answers);
    }

    /// From now on its answers carry these headers as well.
    pub fn say(&self, headers: &[(&str, &str)]) {
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        *self.says.lock().expect("no panic while it speaks") = lines;
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every byte received so far, connection by connection; connections that sent nothing are left out.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        let received = self.received.lock().expect("no panic while recording");
        received.connections.iter().filter(|bytes| !bytes.is_empty()).cloned().collect()
    }

    /// The whole requests received so far, in the order in which they came; a beginning of one is not among them.
    pub fn requests(&self) -> Vec<Received> {
        self.received.lock().expect("no panic while recording").requests.clone()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.server.abort();
    }
}

// === impl Received ===

impl Received {
    /// The values of the header `name` (in lower case).
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    record: Arc<Mutex<Record>>,
    says: Arc<Mutex<String>>,
    mut answers: watch::Receiver<bool>,
) {
    let index = {
        let connections = &mut record.lock().expect("no panic while recording").connections;
        connections.push(Vec::new());
        connections.len() - 1
    };
    let (mut pending, mut buffer) = (Vec::new(), vec![0; 16_384]);
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        pending.extend_from_slice(&buffer[..count]);
        let mut bodies = Vec::new();
        {
            let mut record = record.lock().expect("no panic while recording");
            record.connections[index].extend_from_slice(&buffer[..count]);
            while let Some((request, used)) = parse(&pending) {
                pending.drain(..used);
                bodies.push(if request.line.starts_with("HEAD ") { "" } else { BODY });
                record.requests.push(request);
            }
        }
        for body in bodies {
            if answers.wait_for(|answers| *answers).await.is_err() {
                return;
            }
            let words = says.lock().expect("no panic while it speaks").clone();
            let answer = format!("HTTP/1.1 200 OK\r\n{words}Content-Length: {}\r\n\r\n{body}", BODY.len());
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The first request in `bytes` and its length there; `None` while it is incomplete. As trusting as a careless
/// shop would be: chunked wins over a length, and the last of several lengths counts.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Received, usize)> {
    let end = find(bytes, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let value = |wanted: &str| headers.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let coding = value("transfer-encoding").map(|coding| coding.to_ascii_lowercase());
    let length = if coding.is_some_and(|coding| coding.contains("chunked")) {
        unchunk(rest)?.1
    } else {
        value("content-length").map_or(Some(0), |length| length.parse().ok())?
    };
    let body = rest.get(..length)?.to_vec();
    Some((Received { line, headers, body }, end + 4 + length))
}
