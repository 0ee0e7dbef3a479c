//! Gateway and reservation service are killed (SIGKILL) at random instants of a running sale, twenty times in a row.
//! What was answered stays true, and no unit is lost.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test, and is printed with its output"
)]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reqwest::{Method, RequestBuilder, StatusCode};
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::http;
use ropeline_tests::origin::{Origin, Product};
use ropeline_tests::ports::Port;
use ropeline_tests::visitor::{Answer, Visitor};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const SALE: &str = "drop";
const UNITS: u32 = 5_000;
const KILLS: u32 = 20;
/// Shoppers who are under way at the same time.
const CROWD: usize = 16;
/// The longest time in which a shopper gets no answer: a restart or two, and a payment that is asked about anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shopper who has been through the sale, with all that was answered.
struct Shopper {
    visitor: Visitor,
    arrival: u64,
    ticket: Value,
    token: Value,
    hold: String,
    end: End,
}

enum End {
    Kept,
    Cancelled,
    Bought { purchase: String },
}

/// SplitMix64, so that the instants of a run can be told by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Sends the same request until it is answered, as a patient client does: whether an earlier one was carried out, it
/// cannot know.
async fn answered(
    visitor: &Visitor,
    method: Method,
    path: &str,
    change: impl Fn(RequestBuilder) -> RequestBuilder,
) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(answer) = visitor.try_send(method.clone(), path, &change).await {
            let later = match answer.status {
                StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                    true
                }
                StatusCode::CONFLICT => {
                    ["not_called", "request_in_flight"].contains(&answer.problem().as_str())
                }
                _ => false,
            };
            if !later {
                return answer;
            }
        }
        assert!(Instant::now() < deadline, "{method} {path} was not answered in {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ask(visitor: &Visitor, method: Method, path: &str, key: &str, document: &Value) -> Answer {
    answered(visitor, method, path, |request| {
        request.header("accept", "application/json").header("idempotency-key", key).json(document)
    })
    .await
}

async fn get(visitor: &Visitor, path: &str) -> Answer {
    answered(visitor, Method::GET, path, |request| request.header("accept", "application/json")).await
}

async fn queue(visitor: &Visitor, call: &str) -> Answer {
    ask(visitor, Method::POST, &format!("/api/v1/queue/{call}"), "", &json!({ "sale": SALE })).await
}

#[track_caller]
fn said(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    answer.json()
}

/// Once through the sale.
async fn shop(visitor: Visitor, number: u64) -> Shopper {
    // The page names the visitor, who keeps that name through everything that goes unanswered.
    answered(&visitor, Method::GET, "/products/drop", |request| request.header("accept", "text/html")).await;
    let joined = said(&queue(&visitor, "join").await, 200);
    let claimed = said(&queue(&visitor, "claim").await, 200);
    let reserved = ask(&visitor, Method::POST, "/products/drop/reservations", "hold", &json!({})).await;
    let hold = said(&reserved, 201)["id"].as_str().unwrap().to_owned();
    let path = format!("/reservations/{hold}");
    let end = match number % 3 {
        0 => End::Kept,
        1 => {
            let cancelled = ask(&visitor, Method::DELETE, &path, "", &json!({})).await;
            assert_eq!(cancelled.status, 204, "{}", cancelled.text());
            End::Cancelled
        }
        _ => {
            let card = json!({ "payment_method": "test_accepted" });
            let mut paid = ask(&visitor, Method::POST, &format!("{path}/purchases"), "pay", &card).await;
            let deadline = Instant::now() + PATIENCE;
            // Under way: its own address tells when it is done.
            while paid.json()["state"] != "sold" {
                assert!(paid.status.is_success() && Instant::now() < deadline, "{}", paid.text());
                let purchase = format!("/purchases/{}", paid.json()["id"].as_str().unwrap());
                tokio::time::sleep(Duration::from_millis(50)).await;
                paid = get(&visitor, &purchase).await;
            }
            End::Bought { purchase: paid.json()["id"].as_str().unwrap().to_owned() }
        }
    };
    Shopper {
        visitor,
        arrival: joined["arrival"].as_u64().unwrap(),
        ticket: joined["ticket"].clone(),
        token: claimed["admission_token"].clone(),
        hold,
        end,
    }
}

/// Everything that this shopper was ever answered is true.
async fn holds_true(shopper: Shopper) {
    let Shopper { visitor, arrival, ticket, token, hold, end } = shopper;
    let joined = said(&queue(&visitor, "join").await, 200);
    assert_eq!((&joined["arrival"], &joined["ticket"]), (&json!(arrival), &ticket), "the place is another");
    let claimed = queue(&visitor, "claim").await;
    let over = claimed.status == StatusCode::GONE && claimed.problem() == "ended";
    if !(over && matches!(end, End::Bought { .. })) {
        assert_eq!(said(&claimed, 200)["admission_token"], token, "the admission is another");
    }

    // The admission passes the gateway and the shop.
    let product = said(&get(&visitor, "/products/drop").await, 200);
    let state = &said(&get(&visitor, &format!("/reservations/{hold}")).await, 200)["state"];
    match end {
        End::Kept => {
            assert_eq!((state, &product["reservation"]["id"]), (&json!("held"), &json!(hold)));
            let again = ask(&visitor, Method::POST, "/products/drop/reservations", "again", &json!({})).await;
            assert_eq!(said(&again, 200)["id"], json!(hold), "nobody holds twice");
        }
        End::Cancelled => assert_eq!(state, "cancelled"),
        End::Bought { purchase } => {
            assert_eq!(state, "sold");
            assert_eq!(said(&get(&visitor, &format!("/purchases/{purchase}")).await, 200)["state"], "sold");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_at_random_instants_lose_no_answered_join_and_no_unit() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    println!("seed {seed}");
    let mut random = Random(seed);
    let port = Port::free();
    let routes = r#"["/products", "/reservations", "/purchases"]"#;
    let sale = Sale::new(SALE, &[])
        .set("routes", routes)
        .set("pace", r#"{ admit = 100, per = "1s", burst = 100 }"#)
        .set("max_active", "100000");
    let mut gateway = Gateway::start(Settings::new(port.address()), &[sale]).await;
    let product = Product { id: SALE.to_owned(), total: UNITS, hold_seconds: 3_600 };
    let mut origin = Origin::start(port, &gateway, &product).await;

    let (over, numbers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let gateway_address = gateway.url("");
    let mut crowd: JoinSet<Vec<Shopper>> = (0..CROWD)
        .map(|_| {
            let (over, numbers, base) = (Arc::clone(&over), Arc::clone(&numbers), gateway_address.clone());
            async move {
                let mut done = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    done.push(shop(Visitor::at(&base), number).await);
                }
                done
            }
        })
        .collect();

    for kill in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(20 + random.below(500))).await;
        let (gateway_too, origin_too) =
            [(true, false), (false, true), (true, true)][usize::try_from(random.below(3)).unwrap()];
        println!("kill {kill}: gateway {gateway_too}, reservation service {origin_too}");
        if origin_too {
            origin.process().kill();
        }
        if gateway_too {
            gateway.kill_and_restart().await;
        }
        if origin_too {
            origin.kill_and_restart().await;
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut shoppers = Vec::new();
    while let Some(some) = crowd.join_next().await {
        shoppers.extend(some.expect("a shopper gave up"));
    }

    let count = |wanted: fn(&End) -> bool| shoppers.iter().filter(|shopper| wanted(&shopper.end)).count();
    let (held, sold) =
        (count(|end| matches!(end, End::Kept)), count(|end| matches!(end, End::Bought { .. })));
    println!("{} shoppers: {held} hold, {sold} have bought", shoppers.len());
    assert!(held >= 20 && sold >= 20, "the sale never got going");
    let arrivals: HashSet<_> = shoppers.iter().map(|shopper| shopper.arrival).collect();
    assert_eq!(arrivals.len(), shoppers.len(), "a number was given to two visitors");
    let sale = gateway.sale(SALE).await;
    assert_eq!(sale["totals"]["claimed"], json!(shoppers.len()), "one admission for each ticket: {sale}");
    assert!(arrivals.iter().all(|arrival| *arrival < sale["arrivals"].as_u64().unwrap()), "{sale}");

    let audit = http::client().get(format!("http://{}/audit", origin.address())).send().await.unwrap();
    let audit: Value = audit.json().await.unwrap();
    let books = &audit["products"][0];
    let units = |name: &str| usize::try_from(books[name].as_u64().unwrap()).unwrap();
    assert_eq!(audit["balanced"], true, "{audit}");
    assert_eq!(
        units("available") + units("held") + units("sold"),
        usize::try_from(UNITS).unwrap(),
        "{audit}"
    );
    assert_eq!((units("held"), units("sold")), (held, sold), "{audit}");

    let mut checks = JoinSet::new();
    for shopper in shoppers {
        if checks.len() >= CROWD {
            checks.join_next().await.unwrap().unwrap();
        }
        checks.spawn(holds_true(shopper));
    }
    checks.join_all().await;
}
