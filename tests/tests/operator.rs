//! The operator's side of a running gateway: its listener, `ropeline sale`, and how the process ends.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test"
)]

use std::fs;
use std::process::Command;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::http;
use ropeline_tests::ports::Port;
use ropeline_tests::process::{Process, binary};
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

const SALES: &str = "/api/v1/operator/sales";

async fn open(sale: Sale) -> (Shop, Gateway) {
    with(sale, |settings| settings).await
}

async fn with(sale: Sale, change: impl FnOnce(Settings) -> Settings) -> (Shop, Gateway) {
    let shop = Shop::open().await;
    let gateway = Gateway::start(change(Settings::new(shop.address())), &[sale]).await;
    (shop, gateway)
}

async fn snapshot(gateway: &Gateway, sale: &str) -> Value {
    Visitor::new(gateway).fetch(&format!("/api/v1/queue/sales/{sale}/snapshot")).await.json()
}

async fn state(visitor: &Visitor, sale: &str) -> Value {
    visitor.status(sale).await.json()["state"].clone()
}

#[tokio::test]
async fn a_sale_lives_its_whole_life_over_the_operators_calls_and_shoppers_see_each_at_once() {
    let (shop, gateway) = open(Sale::new("drop", &["/sale"])).await;
    let visitor = Visitor::new(&gateway);
    assert_eq!(visitor.visit("/late").await.text(), BODY, "not protected yet");

    let definition = json!({
        "id": "late", "title": "Late", "max_active": 2, "joins_open_at": 0,
        "pace": { "batch": { "admit": 1, "every_ms": 100 } }, "protect": { "routes": ["/late"] },
    });
    let (status, created) = gateway.operator(Method::POST, SALES, Some(&definition)).await;
    assert_eq!((status, &created["phase"]), (StatusCode::CREATED, &json!("pre_queue")), "{created}");
    assert_ne!(visitor.visit("/late").await.text(), BODY, "protected from the moment it exists");
    let mut queue = Vec::new();
    for _ in 0..4 {
        let visitor = Visitor::new(&gateway);
        assert_eq!(visitor.join("late").await.status, StatusCode::OK);
        queue.push(visitor);
    }
    assert_eq!(state(&queue[0], "late").await, "waiting");

    let path = format!("{SALES}/late");
    let title = json!({ "title": "Later", "max_active": 1 });
    let (status, changed) = gateway.operator(Method::PATCH, &path, Some(&title)).await;
    assert_eq!((status, &changed["definition"]["max_active"]), (StatusCode::OK, &json!(1)), "{changed}");
    assert_eq!(snapshot(&gateway, "late").await["title"], "Later");

    gateway.command("late", "open", &Value::Null).await;
    until("the first is called", || async { (state(&queue[0], "late").await == "called").then_some(()) })
        .await;
    gateway.command("late", "pause", &json!({ "reason": "A van is unloaded" })).await;
    assert_eq!(snapshot(&gateway, "late").await["paused_reason"]["text"], "A van is unloaded");
    gateway.command("late", "resume", &Value::Null).await;
    assert_eq!(snapshot(&gateway, "late").await["phase"], "open");

    // By hand, beside the pace, and under the cap all the same.
    let admit = json!({ "sale": "late", "batch_size": 10, "lease_seconds": 60 });
    let (status, admitted) = gateway.operator(Method::POST, "/api/v1/queue/admit", Some(&admit)).await;
    assert_eq!((status, &admitted["called"]), (StatusCode::OK, &json!(0)), "{admitted}");
    gateway
        .operator(
            Method::PATCH,
            &path,
            Some(&json!({ "max_active": 3, "pace": { "batch": { "every_ms": 3_600_000 } } })),
        )
        .await;
    let (_, admitted) = gateway.operator(Method::POST, "/api/v1/queue/admit", Some(&admit)).await;
    assert_eq!(admitted["sale"]["unclaimed"], 3, "{admitted}");
    assert_eq!(state(&queue[2], "late").await, "called");
    assert_eq!(state(&queue[3], "late").await, "waiting");

    let claimed = queue[2].claim("late").await;
    assert_eq!(claimed.status, StatusCode::OK, "{}", claimed.text());
    assert_eq!(queue[2].visit("/late").await.text(), BODY);
    gateway.command("late", "revoke", &Value::Null).await;
    assert_eq!(queue[2].fetch("/late").await.problem(), "epoch_outdated");
    assert_eq!(snapshot(&gateway, "late").await["epoch"], 1);

    gateway.command("late", "sold-out", &Value::Null).await;
    assert_eq!(snapshot(&gateway, "late").await["phase"], "sold_out");
    gateway.command("late", "restock", &Value::Null).await;
    assert_eq!(snapshot(&gateway, "late").await["phase"], "open");
    gateway.command("late", "close", &Value::Null).await;
    assert_eq!(snapshot(&gateway, "late").await["phase"], "closed");
    assert_eq!(Visitor::new(&gateway).join("late").await.problem(), "closed");
    let (status, refused) = gateway.operator(Method::POST, &format!("{path}/open"), None).await;
    assert_eq!((status, &refused["code"]), (StatusCode::CONFLICT, &json!("sale_closed")), "{refused}");

    let (_, list) = gateway.operator(Method::GET, SALES, None).await;
    let ids: Vec<_> =
        list["sales"].as_array().unwrap().iter().map(|sale| &sale["definition"]["id"]).collect();
    assert_eq!(ids, ["drop", "late"]);
    assert_eq!(shop.requests().len(), 2);
}

#[tokio::test]
async fn nobody_runs_sales_without_the_operators_token_or_from_the_shops_side() {
    let (shop, gateway) = open(Sale::new("drop", &["/sale"])).await;
    let close = format!("http://{}{SALES}/drop/close", gateway.operator_address());
    let (token, wrong) = (gateway.operator_token(), "x".repeat(gateway.operator_token().len()));
    let attempts: [(&[String], &str); 6] = [
        (&[], "operator_token_missing"),
        (&[format!("Bearer {wrong}")], "operator_token_wrong"),
        (&[format!("Bearer {}", &token[..token.len() - 1])], "operator_token_wrong"),
        (&[format!("Basic {token}")], "operator_token_missing"),
        (&["Bearer".to_owned()], "operator_token_missing"),
        (&[format!("Bearer {token}"), format!("Bearer {token}")], "operator_token_missing"),
    ];
    for (lines, code) in attempts {
        let request = lines
            .iter()
            .fold(http::client().post(&close), |request, line| request.header("authorization", line));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{lines:?}");
        assert!(answer.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"), "{lines:?}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], code, "{lines:?}");
    }

    // On the shoppers' side the same calls are no calls at all.
    let shopper = Visitor::new(&gateway);
    let with_token = async |path: &str, document: &Value| {
        shopper.send(Method::POST, path, |request| request.bearer_auth(token).json(document)).await
    };
    let admit = with_token("/api/v1/queue/admit", &json!({ "sale": "drop", "batch_size": 1 })).await;
    assert_eq!((admit.status, admit.problem().as_str()), (StatusCode::NOT_FOUND, "call_unknown"));
    assert_eq!(
        with_token(&format!("{SALES}/drop/close"), &Value::Null).await.text(),
        BODY,
        "the shop's path"
    );
    assert_eq!(shop.requests().len(), 1);
    assert_eq!(snapshot(&gateway, "drop").await["phase"], "open");

    // Nor does the operator's side show a shopper anything but its health.
    let operator = format!("http://{}", gateway.operator_address());
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 401), ("/sale", 401)] {
        let answer = http::client().get(format!("{operator}{path}")).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
    }
}

#[tokio::test]
async fn wrong_input_is_told_with_what_mends_it_and_changes_nothing() {
    let (_shop, gateway) = open(Sale::new("drop", &["/sale"])).await;
    let before = gateway.sale("drop").await["definition"].clone();
    let whole = |id: &str, max_active: u32, route: &str| json!({ "id": id, "max_active": max_active, "protect": { "routes": [route] } });
    let admit = "/api/v1/queue/admit".to_owned();
    let drop = format!("{SALES}/drop");
    let calls = [
        (Method::POST, SALES.to_owned(), whole("Drop!", 1, "/x"), 400, "a-z"),
        (Method::POST, SALES.to_owned(), whole("drop", 1, "/x"), 409, "exist"),
        (Method::POST, SALES.to_owned(), whole("x", 0, "/x"), 422, "max_active: at least 1"),
        (Method::POST, SALES.to_owned(), whole("x", 0, "sale"), 422, "must be a path"),
        (Method::POST, SALES.to_owned(), json!({ "id": "x", "max_activ": 1 }), 400, "max_activ"),
        (Method::POST, SALES.to_owned(), json!([]), 400, "The body"),
        (Method::PUT, drop.clone(), whole("other", 1, "/x"), 409, "other sale"),
        (Method::PATCH, drop.clone(), json!({ "lease_ms": 1 }), 422, "1 s to 30 days"),
        (Method::PATCH, drop.clone(), json!("x"), 400, "must be an object"),
        (Method::PATCH, format!("{SALES}/none"), json!({}), 404, "none"),
        (Method::POST, format!("{drop}/pause"), json!({}), 400, "reason"),
        (Method::POST, format!("{drop}/stop"), json!({}), 404, "operator/sales"),
        (Method::DELETE, drop.clone(), json!({}), 405, "Allow"),
        (Method::POST, admit.clone(), json!({ "sale": "drop" }), 400, "batch_size"),
        (Method::POST, admit, json!({ "sale": "drop", "batch_size": 1, "lease_seconds": 0 }), 409, "lease"),
    ];
    for (method, path, document, status, mend) in calls {
        let (got, problem) = gateway.operator(method.clone(), &path, Some(&document)).await;
        assert_eq!(got, status, "{method} {path} {document}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(mend), "{method} {path} {document}: {detail:?} does not say {mend:?}");
    }
    // Every fault of a definition at once.
    let (_, problem) = gateway.operator(Method::POST, SALES, Some(&whole("x", 0, "sale"))).await;
    let fields: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
    assert_eq!(fields, ["protect.routes", "max_active"], "{problem}");
    assert_eq!(gateway.sale("drop").await["definition"], before);
}

/// `ropeline sale …` against this gateway: its exit code and what it wrote.
async fn ropeline(gateway: &Gateway, arguments: &[&str]) -> (i32, String) {
    let configuration = gateway.folder().join("ropeline.toml");
    let mut command = Command::new(binary("ropeline"));
    command.arg("sale").args(arguments).arg("--config").arg(configuration);
    let output = tokio::task::spawn_blocking(move || command.output().expect("ropeline sale")).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("an exit code"), String::from_utf8(text).expect("text"))
}

#[tokio::test]
async fn the_command_line_runs_a_sale_of_a_running_gateway() {
    let sale =
        Sale::new("drop", &["/sale"]).set("joins_open_at", "2026-01-01T00:00:00Z").set("max_active", "3");
    let (_shop, gateway) = open(sale.set("pace", r#"{ admit = 1, every = "1h" }"#)).await;
    for _ in 0..5 {
        Visitor::new(&gateway).join("drop").await;
    }
    let file = gateway.folder().join("ropeline.toml");
    let more = "\n[[sale]]\nid = \"late\"\nroutes = [\"/late\"]\nmax_active = 1\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();

    let german = "de=Die Kasse wird repariert";
    let lines: [(&[&str], i32, &[&str]); 20] = [
        (&["list"], 0, &["drop", "pre_queue", "5"]),
        (&["create", "late"], 0, &["created late (open)"]),
        (&["create", "late"], 1, &["sale_exists"]),
        (&["apply"], 0, &["unchanged drop", "unchanged late"]),
        (&["change", "drop", "--max-active", "2", "--title", "The drop"], 0, &["The drop", "0 of 2 active"]),
        (&["change", "drop", "--max-active", "0"], 1, &["definition_invalid", "max_active: at least 1"]),
        (&["change", "drop", "--pace", "fast"], 2, &["write 500/5s for batches"]),
        (&["change", "drop"], 2, &["--max-active"]),
        (&["apply", "drop"], 0, &["changed drop"]),
        (&["open", "drop"], 0, &["phase", "open"]),
        (&["pause", "drop"], 2, &["--reason"]),
        (&["pause", "drop", "--reason", "The till is mended", "--in", german], 0, &["The till is mended"]),
        (&["resume", "drop"], 0, &["open"]),
        (&["admit", "drop", "5", "--lease", "5m"], 0, &["called 2", "3 called and not yet in"]),
        (&["admit", "drop", "0"], 2, &["0"]),
        (&["sold-out", "drop"], 0, &["sold_out"]),
        (&["restock", "drop"], 0, &["open"]),
        (&["revoke", "drop"], 0, &["epoch 1"]),
        (&["close", "late"], 0, &["closed"]),
        (&["open", "late"], 1, &["sale_closed"]),
    ];
    for (arguments, code, words) in lines {
        let (got, text) = ropeline(&gateway, arguments).await;
        assert_eq!(got, code, "{arguments:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{arguments:?} does not say {word:?}: {text}");
        }
    }
    let (code, text) = ropeline(&gateway, &["show", "drop", "--json"]).await;
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &shown["epoch"], &shown["definition"]["max_active"]), (0, &json!(1), &json!(3)));

    let wrong = gateway.folder().join("wrong.token");
    fs::write(&wrong, "w".repeat(gateway.operator_token().len())).unwrap();
    let (code, text) = ropeline(&gateway, &["list", "--token-file", wrong.to_str().unwrap()]).await;
    assert!(code == 1 && text.contains("operator_token_wrong"), "{code}: {text}");
    let nobody = Port::free();
    let (code, text) =
        ropeline(&gateway, &["list", "--operator", &format!("http://{}", nobody.address())]).await;
    assert!(code == 3 && text.contains("is the gateway running"), "{code}: {text}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_at_the_start() {
    let (_shop, mut gateway) = open(Sale::new("drop", &["/sale"])).await;
    gateway.stop(Duration::from_secs(30)).await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let configuration = gateway.folder().join("ropeline.toml");
    let own = format!("{:?}", gateway.address().to_string());
    let taken = format!("{:?}", other.local_addr().unwrap().to_string());
    let text = fs::read_to_string(&configuration).unwrap();
    assert!(text.contains(&own), "{text}");
    fs::write(&configuration, text.replace(&own, &taken)).unwrap();
    let arguments = ["serve".as_ref(), "-c".as_ref(), configuration.as_os_str()];
    let mut second = Process::start("second", &binary("ropeline"), arguments, gateway.folder(), &[]);
    let status = second.ended(Duration::from_secs(30)).await;
    let said = second.log();
    assert!(!status.success() && said.contains("listen.shop: cannot listen on"), "{status}: {said}");
}

#[tokio::test]
async fn told_to_stop_it_turns_new_shoppers_away_and_lets_those_under_way_finish() {
    let sale = Sale::new("drop", &["/sale"]);
    let (shop, mut gateway) =
        with(sale, |settings| settings.set("limits", "shutdown_grace", r#""16s""#)).await;
    let visitor = Visitor::new(&gateway);
    visitor.join("drop").await;
    until("the visitor is in", || async { (visitor.claim("drop").await.status == 200).then_some(()) }).await;
    let (ready, shopper) = (format!("http://{}/readyz", gateway.operator_address()), gateway.address());
    let readiness = || async { http::client().get(&ready).send().await.ok().map(|answer| answer.status()) };
    assert_eq!(readiness().await, Some(StatusCode::OK));

    shop.answer(false);
    let (slow, other) = (visitor.another_tab(), visitor.another_tab());
    let under_way = tokio::spawn(async move { slow.visit("/sale").await });
    until("the shop has the request", || async { (shop.requests().len() == 1).then_some(()) }).await;
    gateway.process().terminate();
    until("load balancers are told", || async { (readiness().await != Some(StatusCode::OK)).then_some(()) })
        .await;
    assert_eq!(other.status("drop").await.status, StatusCode::OK, "it serves until they have heard");
    until("nobody else is let in", || async { TcpStream::connect(shopper).await.is_err().then_some(()) })
        .await;
    shop.answer(true);
    let answer = under_way.await.expect("an answer");
    assert_eq!((answer.status, answer.text().as_str()), (StatusCode::OK, BODY));
    let status = gateway.process().ended(Duration::from_secs(15)).await;
    assert!(status.success(), "it ended with {status}");
}

#[tokio::test]
async fn told_to_stop_twice_it_ends_at_once() {
    for (second, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let sale = Sale::new("drop", &["/sale"]);
        let (_shop, mut gateway) =
            with(sale, |settings| settings.set("limits", "shutdown_grace", r#""10m""#)).await;
        let ready = format!("http://{}/readyz", gateway.operator_address());
        gateway.process().terminate();
        until("it is stopping", || async {
            let answer = http::client().get(&ready).send().await.ok()?;
            (answer.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(())
        })
        .await;
        gateway.process().signal(second);
        let status = gateway.process().ended(Duration::from_secs(15)).await;
        assert_eq!(status.code(), Some(code), "{status}");
    }
}

#[tokio::test]
async fn told_to_stop_it_ends_in_time_even_when_the_shop_never_answers() {
    let sale = Sale::new("drop", &["/sale"]);
    let (shop, mut gateway) =
        with(sale, |settings| settings.set("limits", "shutdown_grace", r#""2s""#)).await;
    let visitor = Visitor::new(&gateway);
    shop.answer(false);
    let never = tokio::spawn(async move { visitor.try_send(Method::GET, "/about", |request| request).await });
    until("the shop has the request", || async { (shop.requests().len() == 1).then_some(()) }).await;
    gateway.stop(Duration::from_secs(15)).await;
    // Whatever it was told, it was told something.
    let _ = never.await.expect("the request has come to an end");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_takes_no_request_down() {
    let (_shop, mut gateway) = open(Sale::new("drop", &["/sale"])).await;
    gateway.process().kill();
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"exec "$0" serve -c "$1" 2>/dev/full"#])
        .arg(binary("ropeline"))
        .arg(gateway.folder().join("ropeline.toml"))
        .env("RUST_LOG", "trace");
    let mut full = Process::spawn("full", command, gateway.folder());
    full.listening(gateway.address()).await;
    let visitor = Visitor::new(&gateway);
    visitor.join("drop").await;
    until("the visitor is in", || async { (visitor.claim("drop").await.status == 200).then_some(()) }).await;
    let answer = visitor.visit("/sale").await;
    assert_eq!((answer.status, answer.text().as_str()), (StatusCode::OK, BODY));
    assert!(full.running());
    assert!(!full.log().contains("panicked"), "{}", full.log());
}
