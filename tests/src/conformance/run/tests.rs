//! The runner, put to an edge of this build's own, whole and with faults.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ropeline_edge::{Act, Answer, Forward, Reply, Request, Room, Settings, Upstream as To};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::raw::{Outcome, Raw, Response, find};

/// What an edge may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It lets everybody through.
    Forwards,
    /// It leaves forged fields in.
    Leaks,
    /// It does not say who was admitted.
    Tells,
    /// It adds a cookie of its own.
    SetsCookie,
    /// It lets caches keep a room under a protected path.
    LetsRoomsBeKept,
    /// It asks for rooms with all fields of the shopper's.
    TellsRooms,
    /// It asks the gateway where it has to ask the shop.
    AsksTheGateway,
    /// It has no page for a gateway that is away.
    HidesTheGateway,
    /// It follows redirects, after a fashion.
    ChangesStatus,
    /// It hands the shop's answer on as it is.
    RelaysAll,
}

/// An edge over HTTP/1.1, one request for each connection.
struct Edge(Option<Fault>);

struct Serving {
    settings: Settings,
    fault: Option<Fault>,
    gateway: SocketAddr,
    shop: SocketAddr,
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EdgeUnderTest for Edge {
    fn name(&self) -> &str {
        "this build over HTTP"
    }

    fn traits(&self) -> HostTraits {
        HostTraits { keeps_host: true, ..HostTraits::default() }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let settings = Settings::from_json(settings.as_bytes()).expect("settings");
        let serving = Arc::new(Serving { settings, fault: self.0, gateway, shop });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Ok(Running::new(address, Task(task)))
    }
}

/// A request as it was read.
struct Read {
    method: String,
    host: String,
    target: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

async fn serve(mut stream: TcpStream, serving: Arc<Serving>) {
    let mut bytes = Vec::new();
    let request = loop {
        match stream.read_buf(&mut bytes).await {
            Ok(1..) => {}
            _ => return,
        }
        if let Some(request) = read(&bytes) {
            break request;
        }
    };
    let response = respond(&request, &serving).await;
    let mut answer = format!("HTTP/1.1 {} Answer\r\n", response.status);
    for (name, value) in response.headers.iter().filter(|(name, _)| name != "content-length") {
        answer += &format!("{name}: {value}\r\n");
    }
    answer += &format!("content-length: {}\r\n\r\n", response.body.len());
    let _ = stream.write_all(answer.as_bytes()).await;
    if request.method != "HEAD" {
        let _ = stream.write_all(&response.body).await;
    }
}

fn read(bytes: &[u8]) -> Option<Read> {
    let end = find(bytes, b"\r\n\r\n")?;
    let mut lines =
        bytes[..end].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = String::from_utf8_lossy(lines.next()?).into_owned();
    let (method, rest) = line.split_once(' ')?;
    let (target, _) = rest.rsplit_once(' ')?;
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        fields.push((String::from_utf8_lossy(name).into_owned(), value[1..].trim_ascii().to_vec()));
    }
    let value = |wanted: &str| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let text = |wanted| value(wanted).map(|(_, value)| String::from_utf8_lossy(value).into_owned());
    let length: usize = text("content-length").map_or(0, |length| length.parse().expect("a length"));
    let body = bytes[end + 4..].get(..length)?.to_vec();
    let host = text("host")?;
    fields
        .retain(|(name, _)| !["host", "connection", "content-length"].contains(&&*name.to_ascii_lowercase()));
    Some(Read { method: method.to_owned(), host, target: target.to_owned(), fields, body })
}

async fn respond(request: &Read, serving: &Serving) -> Response {
    let headers: Vec<_> =
        request.fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let asked =
        Request { method: &request.method, host: &request.host, target: &request.target, headers: &headers };
    let plan = serving.settings.plan(&asked, now);
    let has = |fault| serving.fault == Some(fault);
    let mut response = match plan.act {
        Act::Room(_) | Act::Answer(_) if has(Fault::Forwards) => {
            send(serving.shop, request, &request.target, &request.fields).await.unwrap_or_else(away)
        }
        Act::Forward(forward) => forwarded(request, forward, serving).await,
        Act::Room(room) => {
            let fields: &[_] = if has(Fault::TellsRooms) { &request.fields } else { &[] };
            let fields: Vec<_> = fields.iter().filter(|(name, _)| name != CASE).cloned().collect();
            let asked =
                Read { method: "GET".to_owned(), body: Vec::new(), fields: Vec::new(), ..request.copy() };
            match send(serving.gateway, &asked, &room.path, &fields).await {
                Some(found) if found.status == 200 => in_place(&room, found, has(Fault::LetsRoomsBeKept)),
                _ => answer(Room::unreachable()),
            }
        }
        Act::Answer(made) => answer(made),
    };
    if has(Fault::SetsCookie) {
        response.headers.push(("set-cookie".to_owned(), "edge=1".to_owned()));
    }
    if has(Fault::ChangesStatus) && response.status == 302 {
        response.status = 200;
    }
    response
}

impl Read {
    fn copy(&self) -> Self {
        Self {
            method: self.method.clone(),
            host: self.host.clone(),
            target: self.target.clone(),
            fields: self.fields.clone(),
            body: self.body.clone(),
        }
    }
}

async fn forwarded(request: &Read, forward: Forward<'_>, serving: &Serving) -> Response {
    let has = |fault| serving.fault == Some(fault);
    let mut fields = request.fields.clone();
    fields.retain(|(name, _)| has(Fault::Leaks) || !forward.removes(name));
    if !has(Fault::Tells) {
        fields.retain(|(name, _)| !forward.set.iter().any(|(set, _)| name.eq_ignore_ascii_case(set)));
        fields
            .extend(forward.set.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into_bytes())));
    }
    let to_shop = forward.to == To::Shop && !has(Fault::AsksTheGateway);
    let address = if to_shop { serving.shop } else { serving.gateway };
    match send(address, request, &forward.target, &fields).await {
        Some(response) if has(Fault::RelaysAll) => response,
        Some(response) => mended(forward.reply(), response),
        None if forward.room && !has(Fault::HidesTheGateway) => answer(Room::unreachable()),
        None => away(),
    }
}

fn mended(reply: Reply, mut response: Response) -> Response {
    let said = response.headers.iter().filter(|(name, _)| name == "cache-control");
    let set = reply.sets(said.map(|(_, value)| value.as_bytes()));
    response.headers.retain(|(name, _)| !reply.removes(name) && set.is_none_or(|(set, _)| name != set));
    response.headers.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    response
}

fn in_place(room: &Room, found: Response, kept: bool) -> Response {
    let mut headers = found.headers;
    headers.retain(|(name, _)| Room::keeps(name));
    if !kept {
        headers.extend(Room::SETS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    headers.extend(room.retry_after_s().map(|seconds| ("retry-after".to_owned(), seconds.to_string())));
    Response { status: room.status, headers, body: found.body }
}

fn answer(made: Answer) -> Response {
    let headers = made.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Response { status: made.status, headers, body: made.body.into_bytes() }
}

fn away() -> Response {
    Response { status: 502, headers: Vec::new(), body: Vec::new() }
}

async fn send(
    to: SocketAddr,
    request: &Read,
    target: &str,
    fields: &[(String, Vec<u8>)],
) -> Option<Response> {
    TcpStream::connect(to).await.ok()?;
    let mut bytes =
        format!("{} {target} HTTP/1.1\r\nhost: {}\r\n", request.method, request.host).into_bytes();
    for (name, value) in fields {
        bytes.extend_from_slice(format!("{name}: ").as_bytes());
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", request.body.len()).as_bytes());
    bytes.extend_from_slice(&request.body);
    let mut raw = Raw::connect(to).await;
    raw.send(&bytes).await;
    match raw.receive(LIMIT, request.method == "HEAD").await {
        Outcome::Answer(response) => Some(response),
        _ => None,
    }
}

async fn report(fault: Fault) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let (edge, mut report) = (Edge(Some(fault)), Report::default());
    let mut vectors = generate(now);
    vectors.settings.retain(|name, _| name == WITHOUT_GATEWAY);
    run_all(&edge, &vectors, &mut report).await.expect("it is here");
    report
}

#[tokio::test]
async fn an_edge_that_does_as_it_is_told_agrees_in_all() {
    let report = run(&Edge(None)).await;
    assert!(report.agree > 1_000 && report.without_gateway > 100, "{report}");
    assert!(report.safe.is_empty(), "{:?}", report.safe);
}

#[tokio::test]
async fn whatever_an_edge_does_wrong_is_found() {
    for (fault, word) in [
        (Fault::Forwards, "requests to the shop"),
        (Fault::Leaks, "ropeline-visitor"),
        (Fault::Tells, "ropeline-visitor"),
        (Fault::SetsCookie, "set-cookie"),
        (Fault::LetsRoomsBeKept, "cache-control"),
        (Fault::TellsRooms, "a room was asked for with"),
        (Fault::AsksTheGateway, "requests to the other upstream"),
        (Fault::HidesTheGateway, "status: 502, and not 503"),
        (Fault::ChangesStatus, "\"302\""),
        (Fault::RelaysAll, "public, max-age=3600"),
        (Fault::RelaysAll, "ropeline-stock"),
    ] {
        let report = report(fault).await;
        let found = report
            .differences
            .iter()
            .any(|(_, differences)| differences.iter().any(|text| text.contains(word)));
        assert!(found, "{fault:?}: {:?}", report.differences.iter().take(5).collect::<Vec<_>>());
    }
}
