//! What stands behind an edge under test: a gateway and a shop that tell what they received.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::shop::{Received, parse};

/// The field that every request of the runner bears, with the number of its case.
pub const CASE: &str = "x-conformance-case";

/// The field of every answer: its number, which no other answer of this upstream has.
pub(super) const SERIAL: &str = "x-serial";

/// The field of every answer that says who answered.
pub(super) const FROM: &str = "x-answered-by";

/// The body of every room.
pub(super) const ROOM: &str = "<!doctype html><title>The room</title><p>The same bytes for everyone.";

/// Fields of the room that belong to what an edge answers in a page's place, and their values.
pub(super) const ROOM_KEPT: [(&str, &str); 7] = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-language", "en"),
    ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("vary", "Accept-Encoding, Accept-Language"),
];

/// Fields of the room that belong to its own address alone.
pub(super) const ROOM_DROPPED: [(&str, &str); 2] = [("etag", "\"room\""), ("x-room-only", "yes")];

/// What every answer says to caches, rooms aside.
pub(super) const TO_CACHES: [(&str, &str); 4] = [
    ("cache-control", "public, max-age=3600"),
    ("cdn-cache-control", "max-age=3600"),
    ("surrogate-control", "max-age=3600"),
    ("expires", "Fri, 01 Jan 2100 00:00:00 GMT"),
];

/// What every answer of the shop's says to the queue.
pub(super) const TO_QUEUE: [(&str, &str); 2] = [("ropeline-stock", "3; held=2"), ("ropeline-lease", "hold")];

/// One of the two. It ends with this value.
///
/// Rooms are what the gateway serves: public for a second. Whatever else is asked for is answered with a document of
/// the request's line, fields and body, and invites every cache to keep it, which none may.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    name: &'static str,
    received: Mutex<Vec<Received>>,
    room_status: AtomicU16,
}

// === impl Upstream ===

impl Upstream {
    /// Opens on a free port of loopback. `name` is `gateway` or `shop`.
    pub async fn open(name: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared { name, received: Mutex::default(), room_status: AtomicU16::new(200) });
        let serving = Arc::clone(&shared);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Self { address, shared, server }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on rooms are answered with this status.
    pub fn answer_rooms_with(&self, status: u16) {
        self.shared.room_status.store(status, Ordering::Relaxed);
    }

    /// What it received for the case of that number, rooms aside.
    pub fn received(&self, case: usize) -> Vec<Received> {
        let number = case.to_string();
        let mut received = self.all();
        received.retain(|request| !is_room(request) && request.header(CASE) == [number.as_str()]);
        received
    }

    /// How it was asked for rooms.
    pub fn rooms(&self) -> Vec<Received> {
        let mut received = self.all();
        received.retain(is_room);
        received
    }

    fn all(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no panic while recording").clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The path that a request asked for, its query left out.
pub(crate) fn path(request: &Received) -> &str {
    target(request).split('?').next().unwrap_or_default()
}

/// The target that a request asked for.
pub(crate) fn target(request: &Received) -> &str {
    request.line.split(' ').nth(1).unwrap_or_default()
}

/// A browser's visit to the room's own address is one as well; an edge passes that on with all its fields.
fn is_room(request: &Received) -> bool {
    (request.line.starts_with("GET ") || request.line.starts_with("HEAD "))
        && path(request).contains("/sales/")
        && path(request).ends_with("/room")
        && request.header(CASE).is_empty()
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let (mut pending, mut buffer) = (Vec::new(), vec![0; 16_384]);
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        pending.extend_from_slice(&buffer[..count]);
        while let Some((request, used)) = parse(&pending) {
            pending.drain(..used);
            let answer = answer(&shared, request);
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

fn answer(shared: &Shared, request: Received) -> String {
    let room = is_room(&request);
    let status = if room {
        shared.room_status.load(Ordering::Relaxed).to_string()
    } else {
        // A redirect is the visitor's to follow, and a failure the visitor's to see.
        let asked = target(&request).split_once("answer-with=").map(|(_, status)| status);
        asked.and_then(|status| status.get(..3)).unwrap_or("200").to_owned()
    };
    let mut fields: Vec<(&str, String)> = Vec::new();
    let body = if room {
        fields
            .extend(ROOM_KEPT.iter().chain(&ROOM_DROPPED).map(|(name, value)| (*name, (*value).to_owned())));
        fields.push(("cache-control", "public, max-age=1".to_owned()));
        ROOM.to_owned()
    } else {
        fields.push(("content-type", "application/json".to_owned()));
        let to_queue: &[_] = if shared.name == "shop" { &TO_QUEUE } else { &[] };
        fields.extend(TO_CACHES.iter().chain(to_queue).map(|(name, value)| (*name, (*value).to_owned())));
        fields.push(("set-cookie", "first=1; Path=/".to_owned()));
        fields.push(("set-cookie", "second=2; Path=/".to_owned()));
        if status.starts_with('3') {
            fields.push(("location", "/somewhere-else".to_owned()));
        }
        json!({
            "upstream": shared.name,
            "line": request.line,
            "headers": request.headers,
            "body": String::from_utf8_lossy(&request.body),
        })
        .to_string()
    };
    let head = request.line.starts_with("HEAD ");
    let serial = {
        let mut received = shared.received.lock().expect("no panic while recording");
        received.push(request);
        received.len()
    };
    fields.push((SERIAL, format!("{}-{serial}", shared.name)));
    fields.push((FROM, shared.name.to_owned()));
    fields.push(("content-length", body.len().to_string()));
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} As Told\r\n{fields}\r\n{}", if head { "" } else { &body })
}
