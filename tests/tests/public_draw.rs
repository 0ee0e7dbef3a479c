//! A draw by a public beacon: the real gateway, on the day on which drand published the round, relays that lie, are behind or
//! are honest, and the verifier on what was published.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::{Method, StatusCode};
use ropeline_test_postgres::Clock;
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::http;
use ropeline_tests::process::binary;
use ropeline_tests::shop::Shop;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const SALE: &str = "drop";
/// Round 1,000 of quicknet, as drand published it on 23 August 2023 at 15:59:24 UTC (drand's documentation, "quicknet").
const ROUND: u64 = 1_000;
const ROUND_AT: i64 = 1_692_806_364;
const CHAIN: &str = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971";
const SIGNATURE: &str =
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39";
const RANDOMNESS: &str = "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd";
/// That of round 123.
const OTHER_SIGNATURE: &str =
    "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
const OTHER_RANDOMNESS: &str = "fb8f7bc29bf24db51871ec8c79f3a1e4bd0557bc0dfcee9ed1d924e69d1c60dc";

/// Before joining, while people join, after the closing, and after the round: seconds after it.
const SCHEDULED: i64 = -1_300;
const JOINING: i64 = -900;
const CLOSED: i64 = -400;
const PUBLISHED: i64 = 5;
/// The operator may decide.
const OVERDUE: i64 = 90;

/// A relay that says the same to everybody, with a status.
struct Relay {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Relay {
    async fn open(status: &'static str, answer: Value) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let line = serve(stream, status, &answer.to_string()).await;
                noted.lock().unwrap().extend(line);
            }
        });
        Self { address, asked, server }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers one request; its first line.
async fn serve(mut stream: TcpStream, status: &str, body: &str) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.ok()?;
    Some(String::from_utf8_lossy(&head).lines().next()?.to_owned())
}

fn round(signature: &str, randomness: &str) -> Value {
    json!({ "round": ROUND, "randomness": randomness, "signature": signature })
}

async fn honest() -> Relay {
    Relay::open("200 OK", round(SIGNATURE, RANDOMNESS)).await
}

/// Hands out what the beacon signed for another round, as that of this one.
async fn liar() -> Relay {
    Relay::open("200 OK", round(OTHER_SIGNATURE, OTHER_RANDOMNESS)).await
}

/// Does not have the round.
async fn behind() -> Relay {
    Relay::open("404 Not Found", json!({ "message": "not there yet" })).await
}

/// A sale that is drawn by the round, and what it needs.
struct House {
    gateway: Gateway,
    clock: Clock,
    folder: TempDir,
    _shop: Shop,
}

impl House {
    async fn open(relays: &[&Relay], fallback: bool) -> Self {
        let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
        let clock = Clock::new(folder.path().join("clock"));
        clock.step(difference(SCHEDULED));
        let relays: Vec<_> = relays.iter().map(|relay| format!("http://{}", relay.address)).collect();
        let mut dressed = Command::new("");
        clock.wear(&mut dressed, true);
        let settings =
            Settings::new(shop.address()).set("draw", "beacons", &format!("{relays:?}")).dressed_as(&dressed);
        let sale = Sale::new(SALE, &["/sale"])
            .set("joins_open_at", r#""2023-08-23T15:40:00Z""#)
            .set("draw_closes_at", r#""2023-08-23T15:50:00Z""#)
            .set("draw_beacon", r#""drand-quicknet""#)
            .set("draw_round", &ROUND.to_string())
            .set("draw_fallback", &fallback.to_string())
            .set("opens_at", r#""2023-08-23T15:59:25Z""#);
        let gateway = Gateway::start(settings, &[sale]).await;
        Self { gateway, clock, folder, _shop: shop }
    }

    /// So many seconds after the round. The gateway is killed, and starts at that time.
    async fn go_to(&mut self, after: i64) {
        self.gateway.process().kill();
        self.clock.step(difference(after));
        self.gateway.nodes_mut()[0].restart().await;
    }

    async fn joined(&self) -> Visitor {
        let visitor = Visitor::new(&self.gateway);
        let answer = visitor.join(SALE).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        visitor
    }

    async fn snapshot(&self) -> Value {
        self.gateway.nodes()[0].snapshot(SALE).await
    }

    /// Waits until the number of arrivals is fixed.
    async fn frozen(&self) -> Value {
        until("the number is fixed", async || {
            Some(self.snapshot().await).filter(|shown| shown["draw"]["size"].is_u64())
        })
        .await
    }

    async fn drawn(&self) -> Value {
        until("the draw", async || {
            Some(self.snapshot().await).filter(|shown| shown["draw"]["seed"].is_string())
        })
        .await
    }

    async fn metric(&self, relay: &Relay, result: &str) -> bool {
        let metrics = http::client().get(self.gateway.nodes()[0].metrics_url());
        let metrics = metrics.bearer_auth(self.gateway.operator_token()).send().await.unwrap();
        let line =
            format!("ropeline_beacon_fetches_total{{relay=\"{}\",result=\"{result}\"}}", relay.address);
        metrics.text().await.unwrap().contains(&line)
    }

    /// Keeps what is published of the draw at this moment; the file's name.
    async fn keep(&self, name: &str) -> String {
        let answer = Visitor::new(&self.gateway).fetch(&format!("/api/v1/queue/sales/{SALE}/draw")).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let path = self.folder.path().join(name);
        std::fs::write(&path, &answer.body).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// What `ropeline draw verify` says of the draw as it is published now, and whether it ends well.
    fn verify(&self, earlier: &[&str], tickets: &[String]) -> (bool, String) {
        let mut command = Command::new(binary("ropeline"));
        command.args(["draw", "verify", &self.gateway.url(&format!("/api/v1/queue/sales/{SALE}/draw"))]);
        for copy in earlier {
            command.args(["--earlier", copy]);
        }
        for ticket in tickets {
            command.args(["--ticket", ticket]);
        }
        let done = command.output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(said).unwrap())
    }
}

/// From the machine's time to so many seconds after the round, in seconds.
fn difference(after: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    ROUND_AT + after - i64::try_from(now).unwrap()
}

fn ticket(visitor: &Visitor) -> String {
    visitor.cookies().remove(&format!("ropeline-ticket-{SALE}")).expect("a ticket")
}

async fn standing(visitor: &Visitor) -> Value {
    visitor.status(SALE).await.json()
}

#[tokio::test]
async fn a_round_that_drand_published_draws_and_everybody_can_recompute_it() {
    let (liar, behind, honest) = (liar().await, behind().await, honest().await);
    let mut house = House::open(&[&liar, &behind, &honest], false).await;
    assert_eq!(house.snapshot().await["draw"]["beacon"]["round"], ROUND);
    let promised = house.keep("promised").await;

    house.go_to(JOINING).await;
    let mut early = Vec::new();
    for _ in 0..20 {
        early.push(house.joined().await);
    }
    house.go_to(CLOSED).await;
    let frozen = house.frozen().await;
    assert_eq!((&frozen["draw"]["size"], &frozen["draw"]["seed"]), (&json!(20), &Value::Null), "{frozen}");
    let late = house.joined().await;
    assert_eq!(standing(&late).await["arrival"], 20);
    assert_eq!(standing(&early[0]).await["place"], Value::Null, "nobody knows a place before the round");
    let fixed = house.keep("fixed").await;
    let (good, said) = house.verify(&[&promised], &[]);
    assert!(good && said.contains("not yet"), "{said}");
    assert_eq!(honest.asked(), Vec::<String>::new(), "a round is not asked for before its time");

    house.go_to(PUBLISHED).await;
    let drawn = house.drawn().await;
    assert_eq!(drawn["draw"]["beacon"]["signature"], SIGNATURE, "{drawn}");
    assert_eq!(drawn["draw"]["trust"], "beacon", "{drawn}");
    assert_eq!(honest.asked()[0], format!("GET /{CHAIN}/public/{ROUND} HTTP/1.1"));
    for (relay, result) in [(&liar, "wrong"), (&behind, "not_yet"), (&honest, "good")] {
        assert!(house.metric(relay, result).await, "a relay's answer was not counted as {result}");
    }

    let mut places = Vec::new();
    for visitor in &early {
        places.push(standing(visitor).await["place"].as_u64().expect("a place"));
    }
    let mut sorted = places.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..20).collect::<Vec<_>>(), "each place once");
    assert_ne!(sorted, places, "nobody was moved");
    assert_eq!(standing(&late).await["place"], 20, "who joins after the closing stands behind");
    let tickets: Vec<String> = early.iter().chain([&late]).map(ticket).collect();
    let (good, said) = house.verify(&[&promised, &fixed], &tickets);
    assert!(good && !said.contains("BAD") && !said.contains("TRUST"), "{said}");
    for (number, place) in (1..).zip(&places) {
        let told = |line: &str| {
            line.contains(&format!(" ticket {number}: ")) && line.ends_with(&format!(" place {place}"))
        };
        assert!(said.lines().any(told), "ticket {number} has place {place}: {said}");
    }
}

#[tokio::test]
async fn when_no_relay_has_the_round_the_operator_decides_in_public_or_all_wait() {
    let (liar, behind) = (liar().await, behind().await);
    let mut house = House::open(&[&liar, &behind], true).await;
    let promised = house.keep("promised").await;
    house.go_to(JOINING).await;
    let visitors = [house.joined().await, house.joined().await, house.joined().await];
    house.go_to(CLOSED).await;
    house.frozen().await;
    let decide = json!({ "reason": "No relay has it." });
    let path = format!("/api/v1/operator/sales/{SALE}/draw-by-secret");
    let (status, refused) = house.gateway.operator(Method::POST, &path, Some(&decide)).await;
    assert_eq!(status, StatusCode::CONFLICT, "decided before the round is overdue: {refused}");

    house.go_to(OVERDUE).await;
    let late = until("it is late", async || {
        Some(house.snapshot().await).filter(|shown| shown["draw"]["beacon"]["late"] == true)
    });
    let late = late.await;
    assert_eq!((&late["phase"], &late["draw"]["seed"]), (&json!("drawing"), &Value::Null), "{late}");
    until("both relays are asked", async || {
        (!liar.asked().is_empty() && !behind.asked().is_empty()).then_some(())
    })
    .await;
    assert_eq!(house.snapshot().await["draw"]["seed"], Value::Null, "it drew with what a liar said");

    house.gateway.command(SALE, "draw-by-secret", &decide).await;
    let drawn = house.drawn().await;
    assert_eq!(drawn["draw"]["trust"], "operator", "{drawn}");
    assert_eq!(drawn["draw"]["fallback"]["reason"], "No relay has it.", "{drawn}");
    for visitor in &visitors {
        assert!(standing(visitor).await["place"].is_u64());
    }
    let tickets: Vec<String> = visitors.iter().map(ticket).collect();
    let (good, said) = house.verify(&[&promised], &tickets);
    assert!(good && said.contains("TRUST") && said.contains("No relay has it."), "{said}");
}
