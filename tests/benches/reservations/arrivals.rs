//! How long a shopper waits when so many arrive each second, whatever the answers take: the real service on PostgreSQL,
//! asked by itself, and with the real gateway in front, which calls, admits and forwards as many each second.
//!
//! Arrivals are evenly spaced, and a wait counts from the moment at which the shopper was to arrive: who could be sent only
//! behind a stalled one has waited, too. Each is another visitor with a token and an idempotency key of their own.
//! Connections are kept and shared, as those of a CDN are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, stream};
use reqwest::header::{COOKIE, HeaderMap, SET_COOKIE};
use reqwest::{Client, RequestBuilder, StatusCode};
use ropeline_test_postgres::Postgres;
use ropeline_tests::gateway::{Gateway, ISSUER, Sale, Settings};
use ropeline_tests::http;
use ropeline_tests::measure::{median, setting};
use ropeline_tests::origin::{Origin, Product, Tuning};
use ropeline_tests::ports::Port;
use ropeline_token::{AdmissionClaims, Claims, SigningKey};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::claims::visitor_and_key;

const SALE: &str = "drop";
/// What comes before each measurement, so that connections are there.
const WARM_UP_S: u32 = 1;
/// By how much the queue is ahead of its shoppers, so that each has been called on arrival.
const HEAD_START: Duration = Duration::from_secs(1);
/// Who joins at the same time, beforehand.
const JOINING: usize = 64;

/// The service and the gateway in front of it.
struct Shop {
    gateway: Gateway,
    origin: Origin,
    key: SigningKey,
    client: Client,
}

/// When shoppers arrive.
#[derive(Clone, Copy)]
struct Arrivals {
    rate: u32,
    seconds: u32,
}

/// One who has joined and is to claim, then to reserve.
struct Queued {
    cookies: String,
    claim: RequestBuilder,
    reservation: RequestBuilder,
}

/// What came of all who arrived in one round.
struct Round<T> {
    waits: Vec<T>,
    errors: BTreeMap<String, u32>,
    sent_per_second: f64,
}

/// Waits by what was waited for, round by round, and whatever went wrong.
#[derive(Default)]
struct Report {
    waits: BTreeMap<&'static str, Vec<Vec<Duration>>>,
    rates: Vec<f64>,
    errors: BTreeMap<String, u32>,
}

pub(crate) async fn at_a_constant_rate(server: &Postgres) {
    let rounds = setting("ROUNDS", 5_u32);
    let arrivals = Arrivals { rate: setting("RATE", 1_000), seconds: setting("SECONDS", 5) };
    let shop = Shop::open(server, arrivals.rate).await;
    let mut report = Report::default();
    for _ in 0..rounds {
        shop.alone(arrivals, &mut report).await;
        shop.behind_the_gateway(arrivals, &mut report).await;
    }
    let Arrivals { rate, seconds } = arrivals;
    println!(
        "waits in ms at {rate} shoppers a second; medians of {rounds} rounds of {seconds} s (least to most)"
    );
    report.print();
}

// === impl Shop ===

impl Shop {
    async fn open(server: &Postgres, rate: u32) -> Self {
        let port = Port::free();
        let sale = Sale::new(SALE, &["/products", "/reservations", "/purchases"])
            .set("pace", &format!("{{ admit = {rate}, per = \"1s\" }}"))
            .set("max_active", "1000000")
            .set("lease", "\"1h\"");
        let gateway = Gateway::start(Settings::new(port.address()), &[sale]).await;
        let product = Product { id: SALE.to_owned(), total: 1_000_000, hold_seconds: 3_600 };
        let tuning = Tuning { database: Some(server.create("reservations")), ..Tuning::default() };
        let origin = Origin::start_tuned(port, &gateway, &product, &gateway.url(""), tuning).await;
        let key = fs::read(gateway.folder().join("keys/admission.jwk")).unwrap();
        let key = SigningKey::from_jwk(&key).unwrap();
        Self { gateway, origin, key, client: http::client() }
    }

    /// Shoppers who come past the gateway, with tokens of its key.
    async fn alone(&self, arrivals: Arrivals, report: &mut Report) {
        let at = format!("http://{}", self.origin.address());
        let shoppers = (0..arrivals.all())
            .map(|_| self.reservation(&at).header("ropeline-admission", token(&self.key)))
            .collect();
        let round = arrivals.run(shoppers, reserve).await;
        report.note(&round);
        report.add("reservation, the service alone", round.waits);
    }

    /// Shoppers who queue, are called, are let in and reserve.
    async fn behind_the_gateway(&self, arrivals: Arrivals, report: &mut Report) {
        let shoppers = stream::iter(0..arrivals.all()).map(|_| self.join()).buffered(JOINING).collect().await;
        sleep(HEAD_START).await;
        let round = arrivals.run(shoppers, enter_and_reserve).await;
        report.note(&round);
        let each = |part: fn(&[Duration; 3]) -> Duration| round.waits.iter().map(part).collect();
        report.add("reservation, through the gateway", each(|waits| waits[1]));
        report.add("admission, through the gateway", each(|waits| waits[0]));
        report.add("both, one after the other", each(|waits| waits[2]));
    }

    async fn join(&self) -> Queued {
        let call = |name: &str| {
            let url = self.gateway.url(&format!("/api/v1/queue/{name}"));
            self.client.post(url).json(&json!({ "sale": SALE }))
        };
        let joined = expect(call("join"), StatusCode::OK).await.unwrap();
        let cookies = with_cookies(String::new(), &joined);
        let reservation = self.reservation(&self.gateway.url(""));
        Queued { claim: call("claim").header(COOKIE, &cookies), cookies, reservation }
    }

    fn reservation(&self, at: &str) -> RequestBuilder {
        let (_, key) = visitor_and_key();
        let request = self.client.post(format!("{at}/products/{SALE}/reservations"));
        request.header("idempotency-key", key).json(&json!({ "quantity": 1 }))
    }
}

// === impl Arrivals ===

impl Arrivals {
    fn all(self) -> u32 {
        self.rate * (WARM_UP_S + self.seconds)
    }

    /// Lets all of them arrive, each when it is to.
    async fn run<S, T, F>(self, shoppers: Vec<S>, shop: impl Fn(S, Instant) -> F) -> Round<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, String>> + Send + 'static,
    {
        let begun = Instant::now() + Duration::from_millis(50);
        let mut inside = Vec::with_capacity(shoppers.len());
        for (number, shopper) in (0..).zip(shoppers) {
            let meant = begun + Duration::from_secs(1) * number / self.rate;
            sleep_until(meant).await;
            inside.push((number, tokio::spawn(shop(shopper, meant))));
        }
        let sent_per_second = f64::from(self.all()) / begun.elapsed().as_secs_f64();
        let mut round = Round { waits: Vec::new(), errors: BTreeMap::new(), sent_per_second };
        for (number, shopper) in inside {
            match shopper.await.unwrap() {
                Ok(waits) if number >= self.rate * WARM_UP_S => round.waits.push(waits),
                Ok(_) => {}
                Err(error) => *round.errors.entry(error).or_default() += 1,
            }
        }
        round
    }
}

async fn reserve(reservation: RequestBuilder, meant: Instant) -> Result<Duration, String> {
    expect(reservation, StatusCode::CREATED).await?;
    Ok(meant.elapsed())
}

/// How long admission took, then the reservation, and both.
async fn enter_and_reserve(shopper: Queued, meant: Instant) -> Result<[Duration; 3], String> {
    let admitted = expect(shopper.claim, StatusCode::OK).await?;
    let claim = meant.elapsed();
    let cookies = with_cookies(shopper.cookies, &admitted);
    expect(shopper.reservation.header(COOKIE, cookies), StatusCode::CREATED).await?;
    let both = meant.elapsed();
    Ok([claim, both - claim, both])
}

/// Sends a request and reads the whole answer, which is to have this status.
async fn expect(request: RequestBuilder, status: StatusCode) -> Result<HeaderMap, String> {
    let answer = request.send().await.map_err(|error| format!("no answer: {error}"))?;
    let (found, headers) = (answer.status(), answer.headers().clone());
    let body = answer.text().await.map_err(|error| format!("half an answer: {error}"))?;
    if found == status { Ok(headers) } else { Err(format!("{found}: {body}")) }
}

/// The `Cookie` header of who has these cookies and gets those of the answer.
fn with_cookies(mut cookies: String, answer: &HeaderMap) -> String {
    for value in answer.get_all(SET_COOKIE) {
        let pair = value.to_str().unwrap().split(';').next().unwrap();
        let separator = if cookies.is_empty() { "" } else { "; " };
        write!(cookies, "{separator}{pair}").unwrap();
    }
    cookies
}

/// The admission token of a visitor nobody has seen before.
fn token(key: &SigningKey) -> String {
    let (visitor, _) = visitor_and_key();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = Claims {
        iss: ISSUER.to_owned(),
        aud: SALE.to_owned(),
        jti: format!("{SALE}-0-{visitor}"),
        sub: visitor,
        iat: now,
        nbf: now,
        exp: now + 3_600,
        epoch: 0,
        arrival: 1,
    };
    key.sign_admission(&AdmissionClaims { claims, place: 1 }).unwrap()
}

// === impl Report ===

impl Report {
    fn note<T>(&mut self, round: &Round<T>) {
        self.rates.push(round.sent_per_second);
        for (error, times) in &round.errors {
            *self.errors.entry(error.clone()).or_default() += times;
        }
    }

    fn add(&mut self, name: &'static str, mut waits: Vec<Duration>) {
        waits.sort();
        self.waits.entry(name).or_default().push(waits);
    }

    /// # Panics
    /// When anybody got anything else than a reservation.
    fn print(mut self) {
        for (name, rounds) in &self.waits {
            print!("  {name:34}");
            for (label, thousandth) in [("p50", 500), ("p90", 900), ("p99", 990), ("max", 1_000)] {
                let mut found: Vec<_> = rounds.iter().map(|waits| millis_at(waits, thousandth)).collect();
                let middle = median(&mut found);
                print!("  {label} {middle:.1} ({:.1} to {:.1})", found[0], found[found.len() - 1]);
            }
            println!();
        }
        self.rates.sort_by(f64::total_cmp);
        println!(
            "  sent {:.1} a second in the slowest round; errors: {}",
            self.rates[0],
            self.errors.values().sum::<u32>()
        );
        assert!(self.errors.is_empty(), "{:#?}", self.errors);
    }
}

/// The wait that so many of a thousand did not exceed.
fn millis_at(waits: &[Duration], thousandth: usize) -> f64 {
    let index = (waits.len() * thousandth).div_ceil(1_000).max(1) - 1;
    waits.get(index).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1_000.0)
}
