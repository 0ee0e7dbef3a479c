//! Redis goes, and comes back.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use ropeline_test_redis::{Durable, Server};
use ropeline_tests::gateway::{Gateway, Node, Sale, Servers, Settings, Store};
use ropeline_tests::http;
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::{PATIENCE, until, within};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::common::*;

const WORDS: &str = "memory cannot be reached at the moment";

/// A shop and two gateways on a Redis that keeps all that it is told.
struct Place {
    shop: Shop,
    gateway: Gateway,
    redis: Server,
}

impl Place {
    async fn open(sale: Sale) -> Self {
        let (shop, redis) = (Shop::open().await, Server::start(Durable::Always));
        let settings = Settings::new(shop.address()).on(Store::At(Servers::Single(redis.url()), 2));
        let settings = settings.set("operator", "metrics_open", "true");
        Self { gateway: Gateway::start(settings, &[sale]).await, shop, redis }
    }

    /// Every gateway says that the store is away, or that it is not.
    async fn all_say(&self, away: bool) {
        for node in self.gateway.nodes() {
            until("the gateway has noticed", || async {
                let shown = node.snapshot(SALE).await;
                (shown.is_object() && shown["store_away"].is_object() == away).then_some(())
            })
            .await;
        }
    }

    async fn metric(&self, name: &str) -> String {
        let url = format!("http://{}/metrics", self.gateway.operator_address());
        let text = http::client().get(url).send().await.unwrap().text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    }
}

#[tokio::test]
async fn while_redis_is_away_the_admitted_pass_the_others_keep_their_places_and_the_room_says_so() {
    let mut place = Place::open(sale_for_one()).await;
    let (inside, waiting) = {
        let inside = joined(&place.gateway).await;
        admitted(&inside).await;
        (inside, joined(&place.gateway).await)
    };
    let before = waiting.status(SALE).await.json();
    assert_eq!((&before["state"], &before["store_away"]), (&json!("waiting"), &json!(false)));
    assert_eq!(place.metric("ropeline_store_up{sale=\"drop\"}").await, "1");

    place.redis.kill();
    place.all_say(true).await;
    for _ in place.gateway.nodes() {
        assert_eq!(inside.visit(PAGE).await.text(), BODY, "an admitted shopper does not pass");
        let status = waiting.status(SALE).await.json();
        for (name, value) in
            [("state", &before["state"]), ("arrival", &before["arrival"]), ("place", &before["place"])]
        {
            assert_eq!(&status[name], value, "{status}");
        }
        assert_eq!((&status["store_away"], &status["eta"]), (&json!(true), &Value::Null));
        assert!(
            number(&status["as_of"]) + 1_000 > number(&before["as_of"]),
            "it says how old it is: {status}"
        );
        let page = waiting.visit(PAGE).await.text();
        assert!(page.contains(WORDS) && page.contains("Your place is safe"), "{page}");
        let stranger = Visitor::new(&place.gateway);
        let page = stranger.visit(PAGE).await;
        assert!(page.status == StatusCode::OK && page.text().contains(WORDS), "{}", page.text());
        for answer in [stranger.join(SALE).await, waiting.claim(SALE).await, waiting.leave(SALE).await] {
            let told = (answer.status, answer.problem());
            assert_eq!(told, (StatusCode::SERVICE_UNAVAILABLE, "queue_unavailable".to_owned()));
            assert!(answer.header("retry-after").is_some());
        }
        assert!(stranger.fetch(PAGE).await.problem() == "admission_missing");
    }
    assert_eq!(place.metric("ropeline_store_up{sale=\"drop\"}").await, "0");
    for node in place.gateway.nodes() {
        // If a balancer turned away from every gateway, nobody could pass.
        let (status, text) = node.readiness().await;
        assert!(status == StatusCode::OK && text.contains("store is away"), "{status} {text}");
    }

    place.redis.again();
    place.all_say(false).await;
    let after = waiting.status(SALE).await.json();
    assert_eq!((&after["arrival"], &after["place"]), (&before["arrival"], &before["place"]));
    let late = joined(&place.gateway).await;
    assert!(
        number(&late.status(SALE).await.json()["arrival"]) > number(&before["arrival"]),
        "a number was given twice"
    );
    inside.leave(SALE).await;
    admitted(&waiting).await;
    assert_eq!(waiting.visit(PAGE).await.text(), BODY);
    assert!(!place.shop.requests().is_empty());
}

#[tokio::test]
async fn a_redis_that_does_not_answer_holds_up_nobody_for_long() {
    let place = Place::open(sale_for_one()).await;
    let inside = joined(&place.gateway).await;
    admitted(&inside).await;
    place.redis.freeze();
    place.all_say(true).await;
    let mut times = Vec::new();
    for _ in 0..10 {
        let asked = Instant::now();
        assert_eq!(Visitor::new(&place.gateway).join(SALE).await.problem(), "queue_unavailable");
        times.push(asked.elapsed());
        assert_eq!(inside.visit(PAGE).await.text(), BODY);
    }
    // Whoever asked the store would wait for all of its patience. A moment of a busy machine makes no half of them late.
    assert!(median(&mut times) < STORE_PATIENCE, "{times:?}");
    place.redis.thaw();
    place.all_say(false).await;
    joined(&place.gateway).await;
}

/// How long a gateway waits for the store.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Longer than a gateway may go without trying to move a sale on before it is not ready.
const LONGER_THAN_STALE: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_with_many_sales_leaves_every_gateway_ready_and_every_sale_away() {
    let (shop, redis) = (Shop::open().await, Server::start(Durable::Always));
    let settings = Settings::new(shop.address()).on(Store::At(Servers::Single(redis.url()), 2));
    let names: Vec<String> = (1..8).map(|number| format!("sale-{number}")).collect();
    let routes: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
    let others = names.iter().zip(&routes).map(|(name, route)| Sale::new(name, &[route]));
    let sales: Vec<Sale> = [sale_for_one()].into_iter().chain(others).collect();
    let gateway = Gateway::start(settings, &sales).await;
    let inside = joined(&gateway).await;
    admitted(&inside).await;

    redis.freeze();
    let began = Instant::now();
    let clients: JoinSet<Vec<Duration>> = (gateway.nodes().iter())
        .flat_map(|node| names.iter().map(move |name| (node, name.clone())))
        .map(|(node, name)| {
            let visitor = Visitor::new(&gateway).only_at(node);
            async move {
                let mut times = Vec::new();
                while began.elapsed() < LONGER_THAN_STALE {
                    let asked = Instant::now();
                    assert_eq!(visitor.join(&name).await.problem(), "queue_unavailable");
                    times.push(asked.elapsed());
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                times
            }
        })
        .collect();
    until("every sale is away at every gateway", || async {
        for node in gateway.nodes() {
            for sale in names.iter().map(String::as_str).chain([SALE]) {
                if !node.snapshot(sale).await["store_away"].is_object() {
                    return None;
                }
            }
        }
        Some(())
    })
    .await;
    while began.elapsed() < LONGER_THAN_STALE {
        for node in gateway.nodes() {
            let (status, text) = node.readiness().await;
            assert_eq!(status, StatusCode::OK, "after {:?}: {text}", began.elapsed());
            assert_eq!(inside.visit(PAGE).await.text(), BODY);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Who waited for those of the other sales too, one after the other, would wait for as many times as long.
    let mut times = clients.join_all().await.concat();
    assert!(median(&mut times) < STORE_PATIENCE * 3, "{times:?}");
    redis.thaw();
    for node in gateway.nodes() {
        until("every sale is back", || async { (node.readiness().await.1 == "ready\n").then_some(()) }).await;
    }
    joined(&gateway).await;
}

/// Orders something at this gateway.
async fn order(gateway: &Gateway, node: &Node, command: &str) -> StatusCode {
    let url = format!("http://{}/api/v1/operator/sales/{SALE}/{command}", node.operator_address());
    let request = http::client().post(url).bearer_auth(gateway.operator_token()).json(&json!({}));
    request.send().await.unwrap().status()
}

/// Ways in which a Redis can be read and not written.
#[tokio::test]
async fn a_store_that_takes_no_writes_is_away_until_it_does() {
    let place = Place::open(sale_for_one()).await;
    let inside = joined(&place.gateway).await;
    admitted(&inside).await;
    let waiting = joined(&place.gateway).await;
    let mut before = waiting.status(SALE).await.json();
    let set = |name: &str, value: &str| {
        place.redis.ask(&["CONFIG", "SET", name, value]);
    };
    for (what, setting) in [("maxmemory", "maxmemory"), ("replicas", "min-replicas-to-write")] {
        set(setting, "1");
        for node in place.gateway.nodes() {
            // Whoever comes first finds out.
            until("a write comes to nothing", || async {
                let stranger = Visitor::new(&place.gateway).only_at(node);
                (stranger.join(SALE).await.status == StatusCode::SERVICE_UNAVAILABLE).then_some(())
            })
            .await;
        }
        place.all_say(true).await;
        assert_eq!(place.metric("ropeline_store_up{sale=\"drop\"}").await, "0", "{what}");
        for node in place.gateway.nodes() {
            let (status, text) = node.readiness().await;
            assert!(status == StatusCode::OK && text.contains("store is away"), "{what}: {status} {text}");
            assert!(text.contains(what), "{text}");
            let page = Visitor::new(&place.gateway).only_at(node).visit(PAGE).await;
            assert!(page.text().contains(WORDS), "{what}: {}", page.text());
            assert_eq!(inside.visit(PAGE).await.text(), BODY, "{what}");
        }

        // Nobody has to come for that to be over.
        set(setting, "0");
        place.all_say(false).await;
        assert_eq!(place.metric("ropeline_store_up{sale=\"drop\"}").await, "1", "{what}");
        let after = waiting.status(SALE).await.json();
        assert_eq!((&after["arrival"], &after["place"]), (&before["arrival"], &before["place"]), "{what}");
        let late = joined(&place.gateway).await.status(SALE).await.json();
        assert!(number(&late["arrival"]) > number(&before["arrival"]), "{what}: a number was given twice");
        before = after;
    }
    inside.leave(SALE).await;
    admitted(&waiting).await;
    assert_eq!(waiting.visit(PAGE).await.text(), BODY);
}

#[tokio::test]
async fn a_gateway_whose_checkpoint_hangs_ends_when_it_is_told_to() {
    let mut place = Place::open(sale_for_one()).await;
    // Nobody reads there: whoever opens it to write waits without end, as for a disk that does not answer.
    let hangs = place.gateway.folder().join("checkpoint/hat.lock");
    assert!(Command::new("mkfifo").arg(hangs).status().unwrap().success());
    for _ in 0..place.gateway.nodes().len() {
        let hat = json!({ "id": "hat", "max_active": 1 });
        let (status, said) =
            place.gateway.operator(reqwest::Method::POST, "/api/v1/operator/sales", Some(&hat)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{said}");
    }
    place.gateway.process().stop(PATIENCE).await;
}

/// The numbers that it allows are there, so nobody is in need of it but who orders something.
#[tokio::test]
async fn an_order_that_the_checkpoint_cannot_take_keeps_nobody_out_and_lets_nobody_in() {
    let place = Place::open(sale_for_one().set("store_away", r#"{ open_for = "1h" }"#)).await;
    let inside = joined(&place.gateway).await;
    admitted(&inside).await;
    let checkpoint = place.gateway.folder().join("checkpoint");
    let aside = place.gateway.folder().join("aside");
    std::fs::rename(&checkpoint, &aside).unwrap();
    for node in place.gateway.nodes() {
        assert_eq!(order(&place.gateway, node, "sold-out").await, StatusCode::SERVICE_UNAVAILABLE);
    }
    for node in place.gateway.nodes() {
        until("it says what it cannot read", || async {
            let (status, text) = node.readiness().await;
            (status == StatusCode::OK && text.contains("checkpoint")).then_some(())
        })
        .await;
    }
    for node in place.gateway.nodes() {
        let stranger = Visitor::new(&place.gateway).only_at(node);
        assert_eq!(stranger.join(SALE).await.status, StatusCode::OK);
        assert_ne!(stranger.visit(PAGE).await.text(), BODY, "somebody was let past the queue");
        assert!(node.snapshot(SALE).await["store_away"].is_null());
    }
    assert_eq!(place.metric("ropeline_store_up{sale=\"drop\"}").await, "1");
    std::fs::rename(&aside, &checkpoint).unwrap();
    for node in place.gateway.nodes() {
        until("it is ready", || async { (node.readiness().await.1 == "ready\n").then_some(()) }).await;
        until("an order is taken", || async {
            order(&place.gateway, node, "sold-out").await.is_success().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_gateway_that_starts_without_redis_shows_the_room_protects_everything_and_joins_when_it_comes_back()
{
    let mut place = Place::open(sale_for_one()).await;
    let inside = joined(&place.gateway).await;
    admitted(&inside).await;
    let waiting = joined(&place.gateway).await;
    let arrival = waiting.status(SALE).await.json()["arrival"].clone();
    place.redis.kill();
    place.gateway.kill_and_restart().await;
    for node in place.gateway.nodes() {
        let (status, text) = node.readiness().await;
        assert!(status == StatusCode::SERVICE_UNAVAILABLE && text.contains("not been reached"), "{text}");
    }
    for _ in place.gateway.nodes() {
        assert_eq!(inside.visit(PAGE).await.text(), BODY, "an admitted shopper does not pass");
        let page = Visitor::new(&place.gateway).visit(PAGE).await;
        assert!(page.status == StatusCode::OK && page.text().contains(WORDS), "{}", page.text());
        assert_eq!(waiting.status(SALE).await.problem(), "queue_unavailable", "nothing is made up");
        assert_eq!(waiting.join(SALE).await.problem(), "queue_unavailable");
        // Another sale of the store, of which nothing is known yet, may protect it.
        assert_eq!(waiting.visit("/elsewhere").await.status, StatusCode::SERVICE_UNAVAILABLE);
        let (status, settings) =
            place.gateway.operator(reqwest::Method::GET, "/api/v1/queue/edge/settings", None).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "an edge would let everybody pass: {settings}");
    }

    place.redis.again();
    place.all_say(false).await;
    for node in place.gateway.nodes() {
        until("it is ready", || async { (node.readiness().await.0 == StatusCode::OK).then_some(()) }).await;
    }
    assert_eq!(waiting.status(SALE).await.json()["arrival"], arrival);
    assert_eq!(waiting.join(SALE).await.json()["arrival"], arrival);
    assert_eq!(waiting.visit("/elsewhere").await.text(), BODY);
    joined(&place.gateway).await;
}

#[tokio::test]
async fn a_sale_that_cannot_be_read_keeps_a_gateway_from_no_other_and_its_pages_shut() {
    let (shop, redis) = (Shop::open().await, Server::start(Durable::Always));
    let settings = Settings::new(shop.address()).on(Store::At(Servers::Single(redis.url()), 2));
    let sales = [sale_for_one(), Sale::new("other", &["/other"])];
    let mut gateway = Gateway::start(settings, &sales).await;
    let inside = joined(&gateway).await;
    admitted(&inside).await;
    let document = gateway.folder().join("checkpoint/other.json");
    let whole = std::fs::read(&document).unwrap();
    std::fs::write(&document, &whole[1..]).unwrap();
    // It does not know of that sale from its own file either.
    let file = gateway.folder().join("gateway-1/ropeline.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let at = text.find("[[sale]]").unwrap();
    let ours = text[at..].split("[[sale]]").find(|sale| sale.contains("\"drop\"")).unwrap();
    std::fs::write(&file, format!("{}[[sale]]{ours}", &text[..at])).unwrap();
    let node = &mut gateway.nodes_mut()[1];
    node.process().kill();
    node.restart().await;

    let node = &gateway.nodes()[1];
    let (status, said) = node.readiness().await;
    assert!(status == StatusCode::OK && said.contains("sale other") && said.contains("other.json"), "{said}");
    assert_eq!(inside.only_at(node).visit(PAGE).await.text(), BODY);
    let stranger = Visitor::new(&gateway).only_at(node);
    assert_eq!(stranger.join(SALE).await.status, StatusCode::OK);
    assert_eq!(stranger.visit("/other").await.status, StatusCode::SERVICE_UNAVAILABLE, "nobody protects it");
    std::fs::write(&document, &whole).unwrap();
    until("it knows all sales", || async { (node.readiness().await.1 == "ready\n").then_some(()) }).await;
    assert_ne!(stranger.visit("/other").await.text(), BODY, "nobody protects it");
    assert_eq!(stranger.visit("/elsewhere").await.text(), BODY);
}

#[tokio::test]
async fn a_sale_may_let_everybody_in_while_its_store_is_away_for_at_most_so_long() {
    let open_for = sale_for_one().set("store_away", r#"{ open_for = "8s" }"#);
    let mut place = Place::open(open_for).await;
    let inside = joined(&place.gateway).await;
    admitted(&inside).await;
    let waiting = joined(&place.gateway).await;
    let settings = place.gateway.operator(reqwest::Method::GET, "/api/v1/queue/edge/settings", None).await.1;
    assert_eq!(settings["policy"]["sales"][0]["gate"], "open", "an edge in front leaves it to the gateway");

    place.redis.kill();
    place.all_say(true).await;
    let stranger = Visitor::new(&place.gateway);
    for (who, visitor) in [("a stranger", &stranger), ("who waits", &waiting)] {
        for _ in 0..3 {
            assert_eq!(visitor.visit(PAGE).await.text(), BODY, "{who}");
        }
    }
    assert_eq!(Visitor::new(&place.gateway).fetch(PAGE).await.problem(), "admission_missing");
    let asked =
        place.shop.requests().into_iter().filter(|request| request.header("ropeline-admission").len() == 1);
    assert_eq!(asked.count(), 6, "each with an admission that the shop can check");
    let snapshot = place.gateway.nodes()[0].snapshot(SALE).await;
    assert_eq!(snapshot["store_away"], json!({ "open": true }));
    let mut let_in = 0;
    for node in 0..place.gateway.nodes().len() {
        let url = place.gateway.nodes()[node].metrics_url();
        let text = http::client().get(url).send().await.unwrap().text().await.unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("ropeline_unqueued_admissions_total{sale=\"drop\"}"));
        let_in += line.map_or(0, |line| line.trim().parse::<u64>().unwrap());
    }
    assert_eq!(let_in, 2, "one admission for each who came");

    until("it is closed again", || async {
        (Visitor::new(&place.gateway).visit(PAGE).await.text() != BODY).then_some(())
    })
    .await;
    until("both say so", || async {
        for node in place.gateway.nodes() {
            if node.snapshot(SALE).await["store_away"] != json!({ "open": false }) {
                return None;
            }
        }
        Some(())
    })
    .await;
    assert!(Visitor::new(&place.gateway).visit(PAGE).await.text().contains(WORDS));
    assert_eq!(stranger.visit(PAGE).await.text(), BODY, "who was let in passes on");

    place.redis.again();
    place.all_say(false).await;
    assert_ne!(Visitor::new(&place.gateway).visit(PAGE).await.text(), BODY);
    assert_eq!(number(&waiting.join(SALE).await.json()["arrival"]), 1, "a place was lost");

    // A Redis that comes and goes does not begin the time anew.
    place.redis.kill();
    place.all_say(true).await;
    for node in place.gateway.nodes() {
        assert_eq!(node.snapshot(SALE).await["store_away"], json!({ "open": false }));
    }
    assert_ne!(Visitor::new(&place.gateway).visit(PAGE).await.text(), BODY);
}

/// The way of one gateway to Redis, which can be cut.
struct Way {
    listener: Arc<TcpListener>,
    open: Option<JoinHandle<()>>,
}

impl Way {
    async fn to(redis: &Server) -> Self {
        let listener = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
        let mut way = Self { listener, open: None };
        way.mend(redis);
        way
    }

    fn mend(&mut self, redis: &Server) {
        let (listener, port) = (Arc::clone(&self.listener), redis.port());
        self.open = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                connections.spawn(async move {
                    if let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                        let _ = copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        }));
    }

    /// Connections end, and new ones are not answered.
    fn cut(&mut self) {
        self.open.take().unwrap().abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_cut_off_alone_is_not_ready_and_is_when_all_are() {
    let mut place = Place::open(sale_for_one()).await;
    let inside = joined(&place.gateway).await;
    admitted(&inside).await;
    let mut way = Way::to(&place.redis).await;
    let detour = format!("redis://{}", way.listener.local_addr().unwrap());
    let file = place.gateway.folder().join("gateway-1/ropeline.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(&place.redis.url()));
    std::fs::write(&file, text.replace(&place.redis.url(), &detour)).unwrap();
    let other = &mut place.gateway.nodes_mut()[1];
    other.process().kill();
    other.restart().await;
    place.all_say(false).await;

    way.cut();
    let limit = Duration::from_secs(60);
    within(limit, "the one that is cut off alone is not ready", || async {
        let (status, text) = place.gateway.nodes()[1].readiness().await;
        (status == StatusCode::SERVICE_UNAVAILABLE && text.contains("others reach it")).then_some(())
    })
    .await;
    assert_eq!(place.gateway.nodes()[0].readiness().await, (StatusCode::OK, "ready\n".to_owned()));
    assert_eq!(inside.only_at(&place.gateway.nodes()[1]).visit(PAGE).await.text(), BODY);

    place.redis.kill();
    for node in place.gateway.nodes() {
        within(limit, "it is ready where nobody reaches the store", || async {
            let (status, text) = node.readiness().await;
            (status == StatusCode::OK && text.contains("store is away")).then_some(())
        })
        .await;
    }
    place.redis.again();
    way.mend(&place.redis);
    for node in place.gateway.nodes() {
        within(limit, "it is ready", || async { (node.readiness().await.1 == "ready\n").then_some(()) })
            .await;
    }
}
