//! Those who join, ask and claim.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ropeline_tests::raw::{Outcome, Raw, Response};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::stage::{Drawn, SALE};

/// Connections to each gateway.
const CONNECTIONS: usize = 32;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many are asked whether their place is the draw's.
const SAMPLE: usize = 1_000;

/// An even stream of requests.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) a_second: u32,
    pub(crate) lasting: Duration,
}

/// How long answers took, and all of them together.
pub(crate) struct Waits {
    each: Vec<Duration>,
    took: Duration,
}

/// Visitors and what a browser keeps of each.
pub(crate) struct Crowd {
    /// Arrival and `Cookie` header.
    tickets: Vec<(u32, Box<str>)>,
    waits: Waits,
}

// === impl Waits ===

impl Waits {
    fn new(mut each: Vec<Duration>, took: Duration) -> Self {
        each.sort_unstable();
        Self { each, took }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.each.len() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.at(500)
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.at(990)
    }

    fn at(&self, thousandth: usize) -> f64 {
        let index = (self.each.len() * thousandth).div_ceil(1_000).max(1) - 1;
        self.each.get(index).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1_000.0)
    }
}

// === impl Crowd ===

impl Crowd {
    /// As many as lie between two numbers, each a visitor nobody has seen before.
    pub(crate) async fn join(gateways: &[SocketAddr], sale: &str, from: u32, to: u32) -> Self {
        let request: Arc<str> = post("join", sale, "").into();
        let (tickets, waits) = spread(
            gateways,
            to - from,
            move |_| Arc::clone(&request),
            |_, answer| {
                let document: Value = serde_json::from_slice(&answer.body).unwrap();
                let arrival = document["arrival"].as_u64().and_then(|arrival| arrival.try_into().ok());
                let arrival: u32 = arrival.unwrap_or_else(|| panic!("no arrival: {document}"));
                (arrival, cookies(answer))
            },
        )
        .await;
        Self { tickets, waits }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.waits.rate()
    }

    pub(crate) const fn waits(&self) -> &Waits {
        &self.waits
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.tickets.extend(other.tickets);
    }

    /// Each number from 0 on was given once.
    pub(crate) fn check_numbers(&mut self) {
        self.tickets.sort_unstable_by_key(|(arrival, _)| *arrival);
        for (expected, (found, _)) in (0..).zip(&self.tickets) {
            assert_eq!(*found, expected, "arrivals are dense, and none is given twice");
        }
    }

    /// Some of them ask, evenly spaced; a wait counts from the moment at which one was to ask.
    pub(crate) async fn poll(&self, gateways: &[SocketAddr], pace: Pace) -> Waits {
        let workers = u32::try_from(gateways.len() * CONNECTIONS).unwrap();
        let begun = Instant::now() + Duration::from_millis(100);
        let gap = Duration::from_secs(1) / pace.a_second;
        let polls = u32::try_from(pace.lasting.as_nanos() / gap.as_nanos()).unwrap();
        let asking = (0..workers).map(|worker| {
            let gateway = gateways[worker as usize % gateways.len()];
            let requests: Vec<String> = (worker..polls)
                .step_by(workers as usize)
                .map(|poll| {
                    let who = (poll as usize).wrapping_mul(7_919) % self.tickets.len();
                    status(&self.tickets[who].1)
                })
                .collect();
            tokio::spawn(async move {
                let mut connection = Raw::connect(gateway).await;
                let mut waits = Vec::with_capacity(requests.len());
                for (turn, request) in (0..).zip(&requests) {
                    let meant = begun + gap * (worker + turn * workers);
                    sleep_until(meant).await;
                    exchange(&mut connection, request).await;
                    waits.push(meant.elapsed());
                }
                waits
            })
        });
        let asking: Vec<_> = asking.collect();
        let mut each = Vec::new();
        for waits in asking {
            each.extend(waits.await.unwrap());
        }
        Waits::new(each, begun.elapsed())
    }

    /// Gateways tell the places that the published seed gives.
    pub(crate) async fn check_places(&self, gateways: &[SocketAddr], drawn: &Drawn) {
        let sample: Vec<(u64, String)> = self
            .tickets
            .iter()
            .step_by(self.tickets.len().div_ceil(SAMPLE))
            .map(|(arrival, cookies)| (drawn.place(*arrival), status(cookies)))
            .collect();
        let count = u32::try_from(sample.len()).unwrap();
        let sample = Arc::new(sample);
        let asked = Arc::clone(&sample);
        spread(
            gateways,
            count,
            move |index| asked[index as usize].1.clone().into(),
            move |index, answer| {
                let document: Value = serde_json::from_slice(&answer.body).unwrap();
                assert_eq!(document["place"].as_u64(), Some(sample[index as usize].0), "{document}");
            },
        )
        .await;
    }

    /// These claim.
    pub(crate) async fn claim(&self, gateways: &[SocketAddr], arrivals: &[u32]) -> Waits {
        let requests: Arc<[Arc<str>]> = arrivals
            .iter()
            .map(|arrival| post("claim", SALE, &self.tickets[*arrival as usize].1).into())
            .collect();
        let count = u32::try_from(requests.len()).unwrap();
        spread(gateways, count, move |index| Arc::clone(&requests[index as usize]), |_, _| ()).await.1
    }
}

/// Sends so many requests as fast as they are answered, over some connections to each gateway; each is answered 200.
async fn spread<T: Send + 'static>(
    gateways: &[SocketAddr],
    count: u32,
    request: impl Fn(u32) -> Arc<str> + Clone + Send + 'static,
    read: impl Fn(u32, &Response) -> T + Clone + Send + 'static,
) -> (Vec<T>, Waits) {
    let next = Arc::new(AtomicU32::new(0));
    let begun = Instant::now();
    let workers = gateways.iter().copied().cycle().take(gateways.len() * CONNECTIONS).map(|gateway| {
        let (next, request, read) = (Arc::clone(&next), request.clone(), read.clone());
        tokio::spawn(async move {
            let mut connection = Raw::connect(gateway).await;
            let (mut found, mut waits) = (Vec::new(), Vec::new());
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return (found, waits);
                }
                let asked = Instant::now();
                let answer = exchange(&mut connection, &request(index)).await;
                waits.push(asked.elapsed());
                found.push(read(index, &answer));
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let (mut found, mut waits) = (Vec::new(), Vec::new());
    for worker in workers {
        let (some, of_them) = worker.await.unwrap();
        found.extend(some);
        waits.extend(of_them);
    }
    (found, Waits::new(waits, begun.elapsed()))
}

async fn exchange(connection: &mut Raw, request: &str) -> Response {
    assert!(connection.send(request.as_bytes()).await, "the gateway has closed a connection in use");
    let answer = match connection.receive(PATIENCE, false).await {
        Outcome::Answer(answer) => answer,
        other => panic!("no answer: {other:?}"),
    };
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn post(call: &str, sale: &str, cookies: &str) -> String {
    let body = format!(r#"{{"sale":"{sale}"}}"#);
    let cookies = if cookies.is_empty() { String::new() } else { format!("Cookie: {cookies}\r\n") };
    format!(
        "POST /api/v1/queue/{call} HTTP/1.1\r\nHost: shop.test\r\nContent-Type: application/json\r\n{cookies}Content-Length: \
         {}\r\n\r\n{body}",
        body.len()
    )
}

fn status(cookies: &str) -> String {
    format!("GET /api/v1/queue/status?sale={SALE} HTTP/1.1\r\nHost: shop.test\r\nCookie: {cookies}\r\n\r\n")
}

/// What a browser sends back.
fn cookies(answer: &Response) -> Box<str> {
    let set = answer.headers.iter().filter(|(name, _)| name == "set-cookie");
    let pairs: Vec<&str> = set.filter_map(|(_, value)| value.split(';').next()).collect();
    pairs.join("; ").into()
}
