//! What happens is told: to whom, in which order, and again when it was not taken.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::response::{IntoResponse, Response};
use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use http::StatusCode;
use reqwest::Method;
use ropeline_origin::config::{RawOutbox, RawWebhook};
use ropeline_origin::operator;
use ropeline_test_ports::Port;
use serde_json::{Value, json};
use sha2::Sha256;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::common::{ISSUER, SALE, SECRET, Shop, said, unix_seconds};
use crate::crash::Process;
use crate::receivers::{Received, Receiver, Redis, eventually};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn hook(base: &str, secrets: &[&str]) -> RawOutbox {
    let webhook = RawWebhook {
        name: "hook".into(),
        url: format!("{base}/events?key=1"),
        secrets: secrets.iter().map(|secret| (*secret).to_owned()).collect(),
        // What comes twice is not to come of a slow machine.
        timeout_seconds: 60,
    };
    RawOutbox { webhooks: vec![webhook], ..RawOutbox::default() }
}

async fn telling(base: &str) -> Shop {
    Shop::open_with(9, |raw| raw.outbox = hook(base, &[OLD])).await
}

/// Buys a unit; the reservation's id.
pub async fn buy(shop: &Shop, visitor: &str, email: Option<&str>) -> String {
    let held = shop.held(visitor).await;
    let path = held["links"]["purchases"].as_str().unwrap();
    let order = json!({ "payment_method": "test_accepted", "email": email });
    let bought = said(shop.post(visitor, "pay", path, &order)).await;
    assert_eq!(bought.status, 201, "{}", bought.text);
    held["id"].as_str().unwrap().to_owned()
}

async fn cancel(shop: &Shop, visitor: &str) -> String {
    let held = shop.held(visitor).await;
    let path = format!("{}/cancel", held["links"]["self"].as_str().unwrap());
    let said = said(shop.post(visitor, "cancel", &path, &json!({}))).await;
    assert!(said.status.is_success() || said.status.is_redirection(), "{}", said.text);
    held["id"].as_str().unwrap().to_owned()
}

/// Checks a signature as a receiver does who knows nothing but the scheme.
pub(crate) fn is_signed(webhook: &Received, secret: &str) -> bool {
    let key = Base64::decode_vec(secret.trim_start_matches("whsec_")).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let (id, time) = (webhook.header("webhook-id"), webhook.header("webhook-timestamp"));
    mac.update(format!("{id}.{time}.{}", webhook.body).as_bytes());
    let wanted = format!("v1,{}", Base64::encode_string(&mac.finalize().into_bytes()));
    webhook.header("webhook-signature").split(' ').any(|one| one == wanted)
}

async fn metric(shop: &Shop, name: &str) -> String {
    let metrics = said(shop.request(Method::GET, "/metrics")).await.text;
    let start = format!("ropeline_origin_{name}{{sink=\"webhook:hook\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {start} in {metrics}")).to_owned()
}

async fn number(shop: &Shop, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&mut shop.books().await).await.unwrap()
}

/// Waits until nothing is to be told any more.
async fn all_told(shop: &Shop) {
    eventually("an empty outbox", || async {
        (number(shop, "SELECT count(*) FROM outbox").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_sale_is_told_in_a_signed_webhook() {
    let receiver = Receiver::start().await;
    let shop = telling(&receiver.base).await;
    let id = buy(&shop, "ann", Some("ann@example.org")).await;
    let webhook = receiver.first(1).await.remove(0);
    let body = webhook.json();
    assert_eq!(
        (&body["type"], &body["aggregate"], &body["seq"]),
        (&json!("purchase.sold"), &json!(id), &json!(1))
    );
    assert_eq!(body["data"]["purchase"]["reservation"]["id"], json!(id));
    assert_eq!(body["data"]["email"], "ann@example.org");
    assert!(body["timestamp"].as_str().unwrap().ends_with('Z'), "{body}");
    assert_eq!(body["id"], webhook.header("webhook-id"));
    assert_eq!(webhook.header("content-type"), "application/json");
    let time: u64 = webhook.header("webhook-timestamp").parse().unwrap();
    assert!(unix_seconds().abs_diff(time) < 60, "{time}");
    assert!(is_signed(&webhook, OLD) && !is_signed(&webhook, NEW), "{webhook:?}");
    all_told(&shop).await;
    assert_eq!(
        (metric(&shop, "outbox_waiting").await.as_str(), metric(&shop, "outbox_dead").await.as_str()),
        ("0", "0")
    );
    assert_eq!(metric(&shop, "outbox_oldest_seconds").await, "0.000");
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn while_a_secret_is_replaced_both_sign() {
    let receiver = Receiver::start().await;
    let mut shop = telling(&receiver.base).await;
    buy(&shop, "ann", None).await;
    receiver.first(1).await;
    for (visitor, secrets, signed) in
        [("bob", vec![NEW, OLD], [true, true]), ("cid", vec![NEW], [true, false])]
    {
        shop.raw.outbox = hook(&receiver.base, &secrets);
        shop.reopen().await;
        let before = receiver.received().len();
        buy(&shop, visitor, None).await;
        let webhook = receiver.first(before + 1).await.pop().unwrap();
        assert_eq!([NEW, OLD].map(|secret| is_signed(&webhook, secret)), signed, "{visitor}");
    }
}

#[tokio::test]
async fn a_receiver_that_was_away_is_told_everything_in_its_order() {
    let port = Port::free();
    let shop = telling(&format!("http://{}", port.address())).await;
    // A late payment is given back: two events of one reservation.
    let held = shop.held("ann").await;
    let path = held["links"]["purchases"].as_str().unwrap().to_owned();
    let paying = said(shop.post("ann", "pay", &path, &json!({ "payment_method": "test_slow" }))).await;
    assert_eq!(paying.status, 202, "{}", paying.text);
    shop.let_holds_run_out().await;
    eventually("the end of the hold", || async {
        (number(&shop, "SELECT count(*) FROM outbox WHERE kind = 'reservation.expired'").await == 1)
            .then_some(())
    })
    .await;
    shop.let_the_bank_decide().await;
    shop.settled("ann", paying.body["links"]["self"].as_str().unwrap(), &["voided"]).await;
    buy(&shop, "bob", None).await;
    eventually("a failure", || async {
        (number(&shop, "SELECT count(*) FROM outbox WHERE failure IS NOT NULL").await > 0).then_some(())
    })
    .await;
    assert_eq!(metric(&shop, "outbox_waiting").await, "3");
    assert_ne!(metric(&shop, "outbox_oldest_seconds").await, "0.000");
    // As if for a day: each event has failed many times and is not due for an hour.
    sqlx::query(
        "UPDATE outbox SET tries = 40, leased_until = NULL, next_try = unixepoch() * 1000 + 3600000,
                created_at = created_at - 86400000",
    )
    .execute(&mut shop.books().await)
    .await
    .unwrap();
    let age: f64 = metric(&shop, "outbox_oldest_seconds").await.parse().unwrap();
    assert!((86_400.0..90_000.0).contains(&age), "{age}");
    let receiver = Receiver::at(port.address(), |_| StatusCode::OK.into_response()).await;
    sqlx::query("UPDATE outbox SET next_try = 1").execute(&mut shop.books().await).await.unwrap();
    let told = receiver.first(3).await;
    all_told(&shop).await;
    let of_ann: Vec<Value> =
        told.iter().map(Received::json).filter(|body| body["aggregate"] == held["id"]).collect();
    let order: Vec<_> = of_ann.iter().map(|body| (body["seq"].clone(), body["type"].clone())).collect();
    assert_eq!(
        order,
        [(json!(1), json!("reservation.expired")), (json!(2), json!("purchase.voided"))],
        "{told:?}"
    );
}

#[tokio::test]
async fn an_event_keeps_its_tries_while_nobody_is_there_to_take_it() {
    let port = Port::free();
    let outbox = RawOutbox { tries: 1, ..hook(&format!("http://{}", port.address()), &[OLD]) };
    let shop = Shop::open_with(9, |raw| raw.outbox = outbox).await;
    buy(&shop, "ann", None).await;
    eventually("a try that found nobody", || async {
        (number(&shop, "SELECT count(*) FROM outbox WHERE tries = 0 AND failure LIKE 'no connection%'").await
            == 1)
            .then_some(())
    })
    .await;
    assert_eq!(metric(&shop, "outbox_dead").await, "0");
    let receiver = Receiver::at(port.address(), |_| StatusCode::OK.into_response()).await;
    receiver.first(1).await;
    all_told(&shop).await;
}

#[tokio::test]
async fn a_redirect_is_no_receipt_and_is_not_followed() {
    let receiver = Receiver::answering(|_| {
        (StatusCode::TEMPORARY_REDIRECT, [("location", "/elsewhere")]).into_response()
    })
    .await;
    let shop = telling(&receiver.base).await;
    cancel(&shop, "ann").await;
    let failure: String = eventually("a failure", || async {
        sqlx::query_scalar("SELECT failure FROM outbox WHERE failure IS NOT NULL")
            .fetch_optional(&mut shop.books().await)
            .await
            .unwrap()
    })
    .await;
    assert_eq!(failure, "status 307");
    assert!(receiver.received().iter().all(|one| one.path == "/events"));
}

#[tokio::test]
async fn a_receiver_that_names_a_time_is_left_alone_until_then() {
    let receiver =
        Receiver::answering(|_| (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "3000")]).into_response())
            .await;
    let shop = telling(&receiver.base).await;
    cancel(&shop, "ann").await;
    let left: i64 = eventually("a failure", || async {
        sqlx::query_scalar("SELECT next_try - unixepoch() * 1000 FROM outbox WHERE failure = 'status 503'")
            .fetch_optional(&mut shop.books().await)
            .await
            .unwrap()
    })
    .await;
    assert!((2_900_000..3_010_000).contains(&left), "{left}");
    cancel(&shop, "bob").await;
    // Whoever looks for events does so several times a second; a shopper's call goes through the same writer.
    for turn in 0..20 {
        shop.reserve(&format!("shopper {turn}"), "k").await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(receiver.received().len(), 1, "other events wait, too");
}

/// Of each reservation, the events as they came.
fn orders(received: &[Received]) -> std::collections::HashMap<String, Vec<i64>> {
    let mut orders = std::collections::HashMap::<String, Vec<i64>>::new();
    for body in received.iter().map(Received::json) {
        let of = orders.entry(body["aggregate"].as_str().unwrap().to_owned()).or_default();
        of.push(body["seq"].as_i64().unwrap());
    }
    orders
}

/// Puts four events of each of ten reservations into the outbox.
fn ten_aggregates() -> String {
    let rows: Vec<String> = (0..10)
        .flat_map(|aggregate| (1..=4).map(move |seq| (aggregate, seq)))
        .map(|(aggregate, seq)| {
            format!("('webhook:hook', 'rsv_{aggregate}', {seq}, 'evt_{aggregate}_{seq}', 'k', '{{}}', 1, 1)")
        })
        .collect();
    let rows = rows.join(", ");
    format!(
        "INSERT INTO outbox (sink, aggregate, seq, id, kind, payload, created_at, next_try) VALUES {rows}"
    )
}

#[tokio::test]
async fn a_receiver_that_fails_now_and_then_is_told_in_order() {
    let chance = Mutex::new(fastrand::Rng::with_seed(7));
    let taken = Arc::new(Mutex::new(Vec::new()));
    let kept = taken.clone();
    let receiver = Receiver::answering(move |webhook| -> Response {
        if chance.lock().unwrap().u8(..3) == 0 {
            return StatusCode::BAD_REQUEST.into_response();
        }
        kept.lock().unwrap().push(webhook.clone());
        StatusCode::OK.into_response()
    })
    .await;
    let shop = telling(&receiver.base).await;
    let sql = ten_aggregates();
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut shop.books().await).await.unwrap();
    eventually("an empty outbox", || async {
        // Nobody has to wait for the pauses.
        sqlx::query("UPDATE outbox SET next_try = 1 WHERE leased_until IS NULL")
            .execute(&mut shop.books().await)
            .await
            .unwrap();
        (number(&shop, "SELECT count(*) FROM outbox").await == 0).then_some(())
    })
    .await;
    let orders = orders(&taken.lock().unwrap());
    assert_eq!(orders.len(), 10);
    assert!(orders.values().all(|order| *order == [1, 2, 3, 4]), "{orders:?}");
}

fn write_config(shop: &Shop, path: &Path) {
    let text = format!(
        "listen = \"127.0.0.1:0\"\ndatabase = {:?}\npublic_url = \"https://shop.example\"\n\
         [admission]\njwks_file = {:?}\nissuer = {ISSUER:?}\naudience = {SALE:?}\n\
         [payments]\nwebhook_secret = {SECRET:?}\n\
         [[outbox.webhooks]]\nname = \"hook\"\nurl = {:?}\nsecrets = [{OLD:?}]\n\
         [[products]]\nid = \"runner\"\nname = \"The runner\"\nprice_minor = 18900\ncurrency = \"EUR\"\ntotal = 9\n",
        shop.raw.database,
        shop.raw.admission.jwks_file.as_ref().unwrap(),
        shop.raw.outbox.webhooks[0].url,
    );
    std::fs::write(path, text).unwrap();
}

fn command(arguments: &[&str], config: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
        .arg("outbox")
        .args(arguments)
        .arg("--config")
        .arg(config)
        .output()
        .unwrap()
}

fn listed(arguments: &[&str], config: &Path) -> Vec<Value> {
    let out = command(arguments, config);
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dead_is_listed_and_sent_again_by_command() {
    let gone = Arc::new(AtomicBool::new(true));
    let answer = gone.clone();
    let receiver = Receiver::answering(move |_| {
        let code = if answer.load(Ordering::Relaxed) { StatusCode::GONE } else { StatusCode::OK };
        code.into_response()
    })
    .await;
    let shop = telling(&receiver.base).await;
    for visitor in ["ann", "bob"] {
        buy(&shop, visitor, Some("ann@example.org")).await;
    }
    eventually("the dead", || async { (metric(&shop, "outbox_dead").await == "2").then_some(()) }).await;
    assert_eq!(receiver.received().len(), 2, "410 is said once");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    let dead = listed(&["list", "--dead"], &config);
    assert_eq!(dead.len(), 2);
    for event in &dead {
        assert_eq!(
            (&event["sink"], &event["failure"], &event["dead"]),
            (&json!("webhook:hook"), &json!("status 410"), &json!(true))
        );
        assert!(!event.to_string().contains("ann@example.org"), "{event}");
    }
    assert!(!command(&["list", "--sink", "redis"], &config).status.success(), "there is no such sink");
    gone.store(false, Ordering::Relaxed);
    let first = dead[0]["id"].as_str().unwrap();
    assert!(command(&["resend", first], &config).status.success());
    let again = receiver.first(3).await.pop().unwrap();
    assert_eq!(again.header("webhook-id"), first, "the same event has the same name");
    let unknown = command(&["resend", "evt_unknown"], &config);
    assert!(!unknown.status.success());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no event of that id"), "{unknown:?}");
    assert_eq!(command(&["resend"], &config).status.code(), Some(2));
    let all = command(&["resend", "--all-dead"], &config);
    assert_eq!(String::from_utf8_lossy(&all.stdout), "1 to be sent again\n");
    receiver.first(4).await;
    all_told(&shop).await;
    assert!(listed(&["list"], &config).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_between_delivery_and_receipt_tells_it_again_by_the_same_name() {
    let process = Arc::new(Mutex::new(None::<Process>));
    let running = process.clone();
    // SIGKILL with the event in hand: what is answered now finds nobody.
    let receiver = Receiver::answering(move |_| {
        drop(running.lock().unwrap().take());
        StatusCode::OK.into_response()
    })
    .await;
    let mut shop = telling(&receiver.base).await;
    shop.close().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    let started = Process::start(&config);
    shop.base.clone_from(&started.base);
    *process.lock().unwrap() = Some(started);
    // The service may be gone before it has answered.
    let held = shop.held("ann").await;
    let path = format!("{}/cancel", held["links"]["self"].as_str().unwrap());
    let _ = shop.post("ann", "cancel", &path, &json!({})).send().await;
    receiver.first(1).await;
    eventually("the end of the process", || async { process.lock().unwrap().is_none().then_some(()) }).await;
    assert_eq!(number(&shop, "SELECT count(*) FROM outbox").await, 1, "nobody said that it was told");
    let restarted = Process::start(&config);
    let told = receiver.first(2).await;
    all_told(&shop).await;
    assert_eq!(told[0].header("webhook-id"), told[1].header("webhook-id"));
    assert_eq!(told[0].body, told[1].body);
    drop(restarted);
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn a_stream_has_every_event_though_redis_was_away() {
    let mut redis = Redis::start().await;
    let url = redis.url();
    let shop = Shop::open_with(9, |raw| {
        raw.outbox = RawOutbox { redis_url: Some(url), stream: "shop".into(), ..RawOutbox::default() };
    })
    .await;
    let ann = buy(&shop, "ann", None).await;
    let entry = redis.first("shop", 1).await.remove(0);
    assert_eq!(
        (entry["kind"].as_str(), entry["aggregate"].as_str(), entry["seq"].as_str()),
        ("purchase.sold", ann.as_str(), "1")
    );
    let payload: Value = serde_json::from_str(&entry["payload"]).unwrap();
    assert_eq!(payload["purchase"]["reservation"]["id"], json!(ann));
    assert!(entry["id"].starts_with("evt_") && entry["created_at"].parse::<u64>().is_ok(), "{entry:?}");
    redis.stop();
    let bob = cancel(&shop, "bob").await;
    eventually("a failure", || async {
        (number(&shop, "SELECT count(*) FROM outbox WHERE failure LIKE 'redis: %'").await > 0).then_some(())
    })
    .await;
    redis.again().await;
    let entries = redis.first("shop", 2).await;
    assert_eq!(
        (entries[0]["id"].as_str(), entries[1]["aggregate"].as_str()),
        (entry["id"].as_str(), bob.as_str())
    );
    all_told(&shop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_on_postgres_share_the_events_and_keep_their_order() {
    let server = ropeline_test_postgres::Postgres::start();
    let url = server.create("shop");
    let (chance, taken) = (Mutex::new(fastrand::Rng::with_seed(3)), Arc::new(Mutex::new(Vec::new())));
    let kept = taken.clone();
    let receiver = Receiver::answering(move |webhook| -> Response {
        if webhook.json()["seq"] == 4 {
            return StatusCode::GONE.into_response();
        }
        if chance.lock().unwrap().u8(..3) == 0 {
            return StatusCode::BAD_REQUEST.into_response();
        }
        kept.lock().unwrap().push(webhook.clone());
        StatusCode::OK.into_response()
    })
    .await;
    let mut probe = Shop::open(1).await;
    probe.close().await;
    let on = |raw: &mut ropeline_origin::RawConfig| {
        raw.payments.test_database = Some(raw.database.clone());
        raw.database = url.clone().into();
        raw.outbox = hook(&receiver.base, &[OLD]);
    };
    on(&mut probe.raw);
    let config = probe.raw.clone().check().unwrap();
    operator::migrate(&config).await.unwrap();
    let nodes = [Shop::open_with(1, on).await, Shop::open_with(1, on).await];
    let mut books = url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
    let sql = ten_aggregates();
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut books).await.unwrap();
    let mut waiting = 40_i64;
    for _ in 0..1_200 {
        // Nobody has to wait for the pauses.
        sqlx::query("UPDATE outbox SET next_try = 1 WHERE leased_until IS NULL AND NOT dead")
            .execute(&mut books)
            .await
            .unwrap();
        waiting = sqlx::query_scalar("SELECT count(*) FROM outbox WHERE NOT dead")
            .fetch_one(&mut books)
            .await
            .unwrap();
        if waiting == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(waiting, 0);
    let told = orders(&taken.lock().unwrap());
    assert_eq!(told.len(), 10);
    assert!(told.values().all(|order| *order == [1, 2, 3]), "{told:?}");
    for node in &nodes {
        assert_eq!(metric(node, "outbox_dead").await, "10");
    }
    let dead = operator::outbox(&config, Some("webhook:hook"), true, 100).await.unwrap();
    assert_eq!(dead.iter().filter(|event| event.failure.as_deref() == Some("status 410")).count(), 10);
    let before = receiver.received().len();
    assert_eq!(operator::resend(&config, Some(&dead[0].id), None).await.unwrap(), 1);
    receiver.first(before + 1).await;
    assert_eq!(receiver.received()[before].header("webhook-id"), dead[0].id);
}
