//! Every call, over HTTP on a free port, against an embedded store in a temporary folder.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::{Method, Response};
use ropeline_queue::{
    Arrival, ChangeRefusal, ClaimRefusal, Claimed, Command, CommandDone, CommandRefusal, JoinRefusal, Joined,
    LeaseEvent, LeaveRefusal, Position, SaleDefinition, SaleView, Stock, TickInput, VisitorKey,
};
use ropeline_store::{EmbeddedStore, Join, StoreError, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::config::OperatorToken;
use crate::measured::MeasuredStore;

pub(crate) const TOKEN: &str = "operator-token-of-the-tests-0123456789";

/// What the operator listener asks of the gateway, written down.
#[derive(Default)]
pub(crate) struct Watched {
    refreshed: Mutex<Vec<String>>,
    trouble: Mutex<Option<String>>,
}

#[async_trait]
impl Gateway for Watched {
    async fn refresh(&self, sale: &SaleId) {
        self.refreshed.lock().unwrap().push(sale.to_string());
    }

    fn ready(&self) -> Result<Option<String>, String> {
        self.trouble.lock().unwrap().clone().map_or(Ok(None), Err)
    }

    fn edge_settings(&self, _upstream: Upstream) -> Result<Settings, NoSettings> {
        let refreshed: std::collections::BTreeSet<_> =
            self.refreshed.lock().unwrap().iter().cloned().collect();
        let sale = |sale| format!(r#"{{"sale":"{sale}","epoch":0,"gate":"queue","routes":[]}}"#);
        let sales = refreshed.iter().map(sale).collect::<Vec<_>>().join(",");
        let policy = format!(
            r#"{{"issuer":"test","api_prefix":"/api/v1/queue","secure_cookies":false,"sales":[{sales}]}}"#
        );
        let key = ropeline_token::SigningKey::from_seed([7; 32]).public_key();
        let keys = ropeline_token::KeySet::new([key]).unwrap();
        Ok(Settings::new(ropeline_decision::Policy::from_json(policy.as_bytes()).unwrap(), keys))
    }

    fn now_s(&self) -> u64 {
        1_800_000_000
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<dyn QueueStore>,
    watched: Arc<Watched>,
    _folder: TempDir,
}

pub(crate) async fn start(metrics_open: bool) -> Running {
    start_on(metrics_open, |store| store).await
}

/// The same, where the operator's calls reach the store by another way.
async fn start_on(
    metrics_open: bool,
    way: impl FnOnce(Arc<dyn QueueStore>) -> Arc<dyn QueueStore>,
) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    let store = EmbeddedStore::open(folder.path().join("queue.redb"), Arc::new(SystemClock::new())).unwrap();
    let store: Arc<dyn QueueStore> = Arc::new(MeasuredStore::new(Arc::new(store), Arc::clone(&metrics)));
    let watched = Arc::new(Watched::default());
    let operator = Operator {
        store: way(Arc::clone(&store)),
        metrics,
        gateway: Arc::clone(&watched) as Arc<dyn Gateway>,
        access: Arc::new(OperatorAccess { token: OperatorToken::parse(TOKEN).unwrap(), metrics_open }),
        api_prefix: "/api/v1/queue".into(),
        one_host: false,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, operator, std::future::pending()));
    Running { address, store, watched, _folder: folder }
}

/// A store that goes away as soon as it has done what it was ordered: before the answer comes, or after.
struct Vanishing {
    inner: Arc<dyn QueueStore>,
    gone: AtomicBool,
    answers: AtomicBool,
}

impl Vanishing {
    fn is_here(&self) -> Result<(), StoreError> {
        let away = || StoreError::Unavailable { reason: "the server has gone".into() };
        if self.gone.load(Ordering::SeqCst) { Err(away()) } else { Ok(()) }
    }

    fn ordered<T>(&self, outcome: T) -> Result<T, StoreError> {
        self.gone.store(true, Ordering::SeqCst);
        if self.answers.load(Ordering::SeqCst) { Ok(outcome) } else { self.is_here().map(|()| outcome) }
    }
}

#[async_trait]
impl QueueStore for Vanishing {
    async fn sales(&self) -> Result<Vec<SaleId>, StoreError> {
        self.is_here()?;
        self.inner.sales().await
    }

    async fn create(&self, definition: SaleDefinition, draw_secret: [u8; 32]) -> Result<(), StoreError> {
        self.inner.create(definition, draw_secret).await?;
        self.ordered(())
    }

    async fn change(
        &self,
        definition: SaleDefinition,
        over: Option<Arc<SaleDefinition>>,
    ) -> Result<Result<(), ChangeRefusal>, StoreError> {
        let outcome = self.inner.change(definition, over).await?;
        self.ordered(outcome)
    }

    async fn command(
        &self,
        sale: &SaleId,
        command: Command,
    ) -> Result<Result<CommandDone, CommandRefusal>, StoreError> {
        let outcome = self.inner.command(sale, command).await?;
        self.ordered(outcome)
    }

    async fn join(
        &self,
        sale: &SaleId,
        joins: Vec<Join>,
    ) -> Result<Vec<Result<Joined, JoinRefusal>>, StoreError> {
        self.inner.join(sale, joins).await
    }

    async fn claim(
        &self,
        sale: &SaleId,
        position: Position,
    ) -> Result<Result<Claimed, ClaimRefusal>, StoreError> {
        self.inner.claim(sale, position).await
    }

    async fn leave(&self, sale: &SaleId, position: Position) -> Result<Result<(), LeaveRefusal>, StoreError> {
        self.inner.leave(sale, position).await
    }

    async fn lease(&self, sale: &SaleId, arrival: Arrival, event: LeaseEvent) -> Result<(), StoreError> {
        self.inner.lease(sale, arrival, event).await
    }

    async fn stock(&self, sale: &SaleId, stock: Stock) -> Result<(), StoreError> {
        self.inner.stock(sale, stock).await
    }

    async fn tick(&self, sale: &SaleId, input: TickInput) -> Result<Arc<SaleView>, StoreError> {
        self.inner.tick(sale, input).await
    }

    async fn view(&self, sale: &SaleId) -> Result<Arc<SaleView>, StoreError> {
        self.is_here()?;
        self.inner.view(sale).await
    }
}

#[tokio::test]
async fn an_order_that_was_carried_out_is_not_said_to_have_failed_and_one_that_may_have_been_says_so() {
    let mut vanishing = None;
    let running = start_on(false, |inner| {
        let store = Arc::new(Vanishing { inner, gone: false.into(), answers: true.into() });
        vanishing = Some(Arc::clone(&store));
        store
    })
    .await;
    let vanishing = vanishing.unwrap();
    for answers in [true, false] {
        vanishing.answers.store(answers, Ordering::SeqCst);
        let id = if answers { "drop" } else { "next" };
        let path = format!("/api/v1/operator/sales/{id}");
        for (method, path, body, title) in [
            (Method::POST, "/api/v1/operator/sales", json!({ "id": id, "max_active": 10 }), ""),
            (Method::PATCH, &path, json!({ "title": "New shoes" }), "New shoes"),
            (Method::POST, &format!("{path}/pause"), json!({ "reason": "The till is down" }), "New shoes"),
            (Method::POST, &format!("{path}/resume"), Value::Null, "New shoes"),
        ] {
            vanishing.gone.store(false, Ordering::SeqCst);
            let (status, said) = running.call(method, path, (!body.is_null()).then_some(body)).await;
            if answers {
                assert!((200..300).contains(&status), "{path}: {said}");
                if said.get("called").is_some() {
                    assert_eq!((&said["called"], &said["sale"]), (&json!(0), &Value::Null), "{path}");
                } else {
                    assert_eq!(said["definition"]["title"], title, "{path}: {said}");
                }
            } else {
                assert_eq!((status, &said["code"]), (503, &json!("store_unavailable")), "{path}: {said}");
                let detail = said["detail"].as_str().unwrap();
                assert!(
                    detail.contains("the server has gone. Whether it took effect is not known"),
                    "{detail}"
                );
            }
        }
        vanishing.gone.store(false, Ordering::SeqCst);
        let (_, sale) = running.call(Method::GET, &path, None).await;
        assert_eq!((&sale["definition"]["title"], &sale["phase"]), (&json!("New shoes"), &json!("open")));
    }
    // Where nothing can have come of it, nothing else is said.
    vanishing.gone.store(false, Ordering::SeqCst);
    let (_, said) = running.call(Method::POST, "/api/v1/operator/sales/nobody/close", None).await;
    assert_eq!(
        (&said["code"], said["detail"].as_str().unwrap().contains("not known")),
        (&json!("sale_unknown"), false)
    );
}

impl Running {
    async fn send(&self, method: Method, path: &str, token: Option<&str>, body: Option<String>) -> Response {
        let client = crate::http_client::builder("http://").no_proxy().build().unwrap();
        let mut request = client.request(method, format!("http://{}{path}", self.address));
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        request.send().await.unwrap()
    }

    /// Changes a sale over the version that `if_match` names.
    async fn over(&self, method: Method, path: &str, if_match: &str, body: &Value) -> Response {
        let client = crate::http_client::builder("http://").no_proxy().build().unwrap();
        let request = client.request(method, format!("http://{}{path}", self.address));
        request.bearer_auth(TOKEN).header("if-match", if_match).json(body).send().await.unwrap()
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let token = format!("Bearer {TOKEN}");
        let response = self.send(method, path, Some(&token), body.map(|body| body.to_string())).await;
        let status = response.status().as_u16();
        assert_eq!(response.headers()["cache-control"], "no-store");
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let expected = if status < 400 { "application/json" } else { "application/problem+json" };
        assert_eq!(kind, expected, "{status}");
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call(Method::POST, path, Some(body)).await
    }

    async fn create(&self, id: &str) {
        let (status, body) = self.post("/api/v1/operator/sales", json!({ "id": id, "max_active": 10 })).await;
        assert_eq!(status, 201, "{body}");
    }
}

#[tokio::test]
async fn nothing_but_health_answers_without_the_right_token() {
    let running = start(false).await;
    let wrong = TOKEN.replace('9', "8");
    let tokens = [
        (None, "operator_token_missing"),
        (Some(format!("Basic {TOKEN}")), "operator_token_missing"),
        (Some("Bearer".to_owned()), "operator_token_missing"),
        (Some("Bearer ".to_owned()), "operator_token_missing"),
        (Some(format!("Bearer {wrong}")), "operator_token_wrong"),
        (Some(format!("Bearer {TOKEN}x")), "operator_token_wrong"),
    ];
    for (token, code) in &tokens {
        for (method, path) in [
            (Method::GET, "/api/v1/operator/sales"),
            (Method::POST, "/api/v1/operator/sales"),
            (Method::POST, "/api/v1/operator/sales/drop/open"),
            (Method::POST, "/api/v1/queue/admit"),
            (Method::GET, "/api/v1/queue/edge/settings"),
            (Method::GET, "/metrics"),
            (Method::GET, "/nothing"),
        ] {
            let response = running.send(method, path, token.as_deref(), None).await;
            assert_eq!(response.status(), 401, "{path} with {token:?}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"ropeline operator\"");
            let problem: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            if token.as_deref() != Some("Bearer ") {
                assert_eq!(problem["code"], *code);
            }
        }
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(running.send(Method::GET, path, None, None).await.status(), 200, "{path}");
    }
    // The scheme's name has no case (RFC 9110 section 11.1).
    let lower = format!("bearer {TOKEN}");
    assert_eq!(running.send(Method::GET, "/api/v1/operator/sales", Some(&lower), None).await.status(), 200);
}

#[tokio::test]
async fn readiness_says_why_not() {
    let running = start(false).await;
    *running.watched.trouble.lock().unwrap() = Some("the snapshot of drop is 9 s old".to_owned());
    let response = running.send(Method::GET, "/readyz", None, None).await;
    assert_eq!(response.status(), 503);
    assert!(response.text().await.unwrap().contains("9 s old"));
    assert_eq!(running.send(Method::GET, "/healthz", None, None).await.status(), 200);
}

#[tokio::test]
async fn metrics_show_what_happened_and_are_open_only_where_configured() {
    let running = start(true).await;
    running.create("drop").await;
    let id: SaleId = "drop".parse().unwrap();
    let join = Join::of(VisitorKey([1; 16]));
    running.store.join(&id, vec![join, join]).await.unwrap();
    running.store.view(&id).await.unwrap();
    let response = running.send(Method::GET, "/metrics", None, None).await;
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4");
    let text = response.text().await.unwrap();
    for line in [
        "ropeline_joins_total{outcome=\"new\",sale=\"drop\"} 1",
        "ropeline_joins_total{outcome=\"known\",sale=\"drop\"} 1",
        "ropeline_sale_phase{phase=\"open\",sale=\"drop\"} 1",
        "ropeline_sale_arrivals{sale=\"drop\"} 1",
        "ropeline_store_seconds_count{operation=\"join\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert_eq!(running.send(Method::GET, "/api/v1/operator/sales", None, None).await.status(), 401);
}

#[tokio::test]
async fn a_sale_is_created_once_listed_shown_and_changed() {
    let running = start(false).await;
    let token = format!("Bearer {TOKEN}");
    let body = json!({ "id": "drop", "title": "Drop", "max_active": 10, "protect": { "routes": ["/sale"] } });
    let response =
        running.send(Method::POST, "/api/v1/operator/sales", Some(&token), Some(body.to_string())).await;
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["location"], "/api/v1/operator/sales/drop");
    let (status, again) = running.post("/api/v1/operator/sales", body).await;
    assert_eq!((status, &again["code"]), (409, &json!("sale_exists")));

    let (status, list) = running.call(Method::GET, "/api/v1/operator/sales", None).await;
    assert_eq!((status, list["sales"].as_array().unwrap().len()), (200, 1));
    let (_, shown) = running.call(Method::GET, "/api/v1/operator/sales/drop", None).await;
    assert_eq!(shown["definition"]["title"], "Drop");

    // What is shown can be sent back, whole or in parts.
    let mut definition = shown["definition"].clone();
    definition["max_active"] = json!(20);
    let (status, put) =
        running.call(Method::PUT, "/api/v1/operator/sales/drop", Some(definition.clone())).await;
    assert_eq!((status, &put["definition"]["max_active"]), (200, &json!(20)));
    let patch = json!({ "lease_ms": 5_000, "pace": { "batch": null, "smooth": { "admit": 1, "per_ms": 1_000, "burst": 1 } } });
    let (status, patched) = running.call(Method::PATCH, "/api/v1/operator/sales/drop", Some(patch)).await;
    assert_eq!(status, 200, "{patched}");
    assert_eq!(patched["definition"]["max_active"], 20);
    assert_eq!(patched["definition"]["pace"]["smooth"]["per_ms"], 1_000);
    assert_eq!(*running.watched.refreshed.lock().unwrap(), ["drop"; 3]);

    definition["id"] = json!("other");
    let (status, other) = running.call(Method::PUT, "/api/v1/operator/sales/drop", Some(definition)).await;
    assert_eq!((status, &other["code"]), (409, &json!("sale_differs")));
}

#[tokio::test]
async fn of_two_operators_who_read_the_same_the_second_takes_nothing_back() {
    let running = start(false).await;
    running.create("drop").await;
    let path = "/api/v1/operator/sales/drop";
    let token = format!("Bearer {TOKEN}");
    let tag = |response: &Response| response.headers()["etag"].to_str().unwrap().to_owned();
    let read = tag(&running.send(Method::GET, path, Some(&token), None).await);
    let again = tag(&running.send(Method::GET, path, Some(&token), None).await);
    assert_eq!(read, again, "nothing has changed");
    assert!(read.starts_with('"') && read.ends_with('"') && read.len() > 20, "{read}");

    let first = running.over(Method::PATCH, path, &read, &json!({ "title": "First" })).await;
    assert_eq!(first.status(), 200);
    let written = tag(&first);
    assert_ne!(written, read);
    let whole = json!({ "id": "drop", "title": "Second", "max_active": 10 });
    for (method, body) in [(Method::PATCH, &json!({ "max_active": 11 })), (Method::PUT, &whole)] {
        for stale in [&read, &format!("W/{written}"), "", "x", &format!("{read}, \"x\"")] {
            let refused = running.over(method.clone(), path, stale, body).await;
            assert_eq!(refused.status(), 412, "{method} over {stale:?}");
            let problem: Value = serde_json::from_slice(&refused.bytes().await.unwrap()).unwrap();
            assert_eq!(problem["code"], "precondition_failed");
            assert!(problem["detail"].as_str().unwrap().contains("Read it again"), "{problem}");
        }
    }
    let (_, shown) = running.call(Method::GET, path, None).await;
    assert_eq!(
        (&shown["definition"]["title"], &shown["definition"]["max_active"]),
        (&json!("First"), &json!(10))
    );

    // What runs is not what is written: a sale that lives on can be changed over what was read.
    running.call(Method::POST, &format!("{path}/pause"), Some(json!({ "reason": "x" }))).await;
    for over in [&format!("\"x\", {written}"), "*"] {
        let done = running.over(Method::PATCH, path, over, &json!({ "title": "First" })).await;
        assert_eq!((done.status().as_u16(), tag(&done)), (200, written.clone()), "{over}");
    }
    assert_eq!(running.over(Method::PUT, path, &written, &whole).await.status(), 200);
    let none = running.over(Method::PATCH, "/api/v1/operator/sales/none", "*", &json!({})).await;
    assert_eq!(none.status(), 404);
}

#[tokio::test]
async fn changes_of_different_members_at_once_are_all_kept() {
    let running = start(false).await;
    running.create("drop").await;
    let path = "/api/v1/operator/sales/drop";
    let patches = [
        json!({ "title": "Drop" }),
        json!({ "max_active": 77 }),
        json!({ "lease_ms": 77_000 }),
        json!({ "claim_window_ms": 7_000 }),
        json!({ "entry_url": "/x" }),
    ];
    let calls = patches.iter().map(|patch| running.call(Method::PATCH, path, Some(patch.clone())));
    for (status, answer) in futures_util::future::join_all(calls).await {
        assert_eq!(status, 200, "{answer}");
    }
    let (_, shown) = running.call(Method::GET, path, None).await;
    for patch in &patches {
        for (member, value) in patch.as_object().unwrap() {
            assert_eq!(&shown["definition"][member], value, "{member} was overwritten");
        }
    }
}

#[tokio::test]
async fn a_reason_that_does_not_read_as_it_is_written_is_refused_and_named() {
    let running = start(false).await;
    running.create("drop").await;
    let path = "/api/v1/operator/sales/drop";
    for (body, named) in [
        (json!({ "reason": "Back\nsoon" }), ["reason: ", "character 5, U+000A"]),
        (json!({ "reason": "\0" }), ["reason: ", "character 1, U+0000"]),
        (json!({ "reason": "a\u{202e}b" }), ["reason: ", "character 2, U+202E"]),
        (json!({ "reason": "x", "translations": { "de": "a\u{2067}b" } }), ["translations.de: ", "U+2067"]),
        (json!({ "reason": "x", "translations": { "de": " " } }), ["translations.de: ", "1 to 500"]),
    ] {
        let (status, problem) = running.post(&format!("{path}/pause"), body).await;
        assert_eq!((status, &problem["code"]), (400, &json!("request_malformed")), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(named.iter().all(|part| detail.contains(part)), "{detail}");
    }
    let (status, problem) = running.call(Method::PATCH, path, Some(json!({ "title": "\u{202d}Drop" }))).await;
    assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!("title")));
    assert!(problem["detail"].as_str().unwrap().contains("U+202D"), "{problem}");
    let (status, paused) = running.post(&format!("{path}/pause"), json!({ "reason": "שוב בעוד רגע" })).await;
    assert_eq!((status, &paused["sale"]["phase"]), (200, &json!("paused")));
}

#[tokio::test]
async fn a_route_that_another_sale_has_already_is_refused() {
    let running = start(false).await;
    let sale =
        |id: &str, route: &str| json!({ "id": id, "max_active": 10, "protect": { "routes": [route] } });
    let create = async |id: &str, route: &str| running.post("/api/v1/operator/sales", sale(id, route)).await;
    assert_eq!(create("hat", "/sale").await.0, 201);
    let (status, problem) = create("tee", "/SALE").await;
    assert_eq!((status, &problem["code"]), (422, &json!("definition_invalid")));
    let said = "\"/SALE\" is a route of \"hat\" too: all who come there wait for \"hat\"; give each sale paths of its own";
    assert!(problem["errors"][0]["message"].as_str().unwrap().starts_with(said), "{problem}");
    assert_eq!(problem["errors"][0]["field"], "protect.routes");

    assert_eq!(create("tee", "/tee").await.0, 201);
    let put = async |route: &str| {
        running.call(Method::PUT, "/api/v1/operator/sales/tee", Some(sale("tee", route))).await
    };
    assert_eq!(put("/sale").await.0, 422);
    assert_eq!(put("/tee/new").await.0, 200, "its own routes are in its way");

    // A sale that is over is left alone by those before it, and can take nobody from those who come to it first.
    assert_eq!(running.call(Method::POST, "/api/v1/operator/sales/hat/close", None).await.0, 200);
    assert_eq!(create("cap", "/sale").await.0, 201);
    assert_eq!(create("vest", "/sale").await.0, 422);
}

#[tokio::test]
async fn a_wrong_definition_is_refused_with_every_fault() {
    let running = start(false).await;
    let wrong = json!({
        "id": "drop", "max_active": 0, "lease_ms": 1,
        "protect": { "routes": ["nowhere", "/../x", "/api/v1/queue"], "page_status": 404, "other_status": 404 },
    });
    let (status, problem) = running.post("/api/v1/operator/sales", wrong).await;
    assert_eq!((status, &problem["code"]), (422, &json!("definition_invalid")));
    let fields: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "protect.routes",
            "protect.routes",
            "protect.routes",
            "protect.page_status",
            "protect.other_status",
            "max_active",
            "lease_ms"
        ]
    );

    running.create("drop").await;
    for (method, path, body, status) in [
        (Method::POST, "/api/v1/operator/sales", "", 400),
        (Method::POST, "/api/v1/operator/sales", "{", 400),
        (Method::POST, "/api/v1/operator/sales", r#"{"id":"x","max_active":1,"maxactive":2}"#, 400),
        (Method::POST, "/api/v1/operator/sales", r#"{"id":"X","max_active":1}"#, 400),
        (Method::PATCH, "/api/v1/operator/sales/drop", "[]", 400),
        (Method::PATCH, "/api/v1/operator/sales/drop", r#"{"max_active":null}"#, 400),
        (Method::PATCH, "/api/v1/operator/sales/drop", r#"{"max_active":0}"#, 422),
        (Method::PATCH, "/api/v1/operator/sales/none", "{}", 404),
        (Method::GET, "/api/v1/operator/sales/none", "", 404),
        (Method::GET, "/api/v1/operator/sales/NO%20SALE", "", 400),
        (Method::DELETE, "/api/v1/operator/sales/drop", "", 405),
        (Method::POST, "/api/v1/operator/sales/drop/explode", "", 404),
        (Method::POST, "/api/v1/operator/sales/none/open", "", 404),
        (Method::POST, "/api/v1/operator/sales/drop/pause", "{}", 400),
        (Method::POST, "/api/v1/operator/sales/drop/pause", r#"{"reason":" "}"#, 400),
        (
            Method::POST,
            "/api/v1/operator/sales/drop/pause",
            r#"{"reason":"x","translations":{"no tag":"x"}}"#,
            400,
        ),
        (Method::POST, "/api/v1/queue/admit", r#"{"sale":"drop"}"#, 400),
        (Method::POST, "/api/v1/queue/admit", r#"{"sale":"drop","batch_size":-1}"#, 400),
        (Method::POST, "/api/v1/queue/admit", r#"{"sale":"none","batch_size":1}"#, 404),
        (Method::POST, "/api/v1/queue/admit", r#"{"sale":"drop","batch_size":1,"lease_seconds":0}"#, 409),
    ] {
        let token = format!("Bearer {TOKEN}");
        let response = running.send(method.clone(), path, Some(&token), Some(body.to_owned())).await;
        assert_eq!(response.status(), status, "{method} {path} {body}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    let huge = json!({ "id": "drop", "max_active": 1, "title": "x".repeat(MAX_BODY) });
    assert_eq!(running.post("/api/v1/operator/sales", huge).await.0, 413);
}

#[tokio::test]
async fn the_settings_for_edges_are_given_out_and_asked_for_again_only_when_they_have_changed() {
    let running = start(false).await;
    let token = format!("Bearer {TOKEN}");
    let get = async |query: &str, tag: Option<&str>| {
        let client = crate::http_client::builder("http://").no_proxy().build().unwrap();
        let url = format!("http://{}/api/v1/queue/edge/settings{query}", running.address);
        let mut request = client.get(url).header("authorization", &token);
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        request.send().await.unwrap()
    };
    let first = get("?send_to=shop&expires_in=1h&past_expiry=open", None).await;
    assert_eq!(
        (first.status().as_u16(), &first.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let settings = Settings::from_json(&first.bytes().await.unwrap()).unwrap();
    assert_eq!(settings.upstream(), Upstream::Shop);
    assert_eq!(settings.expires_at(), Some(1_800_000_000 + 3_600));
    assert!(settings.policy().sales.is_empty());

    let query = "?send_to=shop&expires_in=1h&past_expiry=open";
    let again = get(query, Some(&format!("\"other\", W/{tag}"))).await;
    assert_eq!((again.status().as_u16(), again.headers()["etag"].to_str().unwrap()), (304, tag.as_str()));
    assert_eq!(get("", Some(&tag)).await.status(), 200, "other settings have the same tag");
    running.create("drop").await;
    let changed = get(query, Some(&tag)).await;
    assert_eq!(changed.status(), 200);
    let settings = Settings::from_json(&changed.bytes().await.unwrap()).unwrap();
    assert_eq!(settings.policy().sales[0].sale.as_str(), "drop");

    for wrong in ["?send_to=nobody", "?expires_in=5", "?past_expiry=open", "?color=red"] {
        let (status, problem) =
            running.call(Method::GET, &format!("/api/v1/queue/edge/settings{wrong}"), None).await;
        assert_eq!((status, &problem["code"]), (400, &json!("request_malformed")), "{wrong}: {problem}");
    }
}

#[tokio::test]
async fn every_command_moves_the_sale() {
    let running = start(false).await;
    let far = 4_000_000_000_000_u64;
    let sale = json!({ "id": "drop", "max_active": 10, "opens_at": far, "joins_open_at": 0 });
    assert_eq!(running.post("/api/v1/operator/sales", sale).await.0, 201);
    let id: SaleId = "drop".parse().unwrap();
    let joins = (0..5).map(|n| Join::of(VisitorKey([n; 16]))).collect();
    running.store.tick(&id, Default::default()).await.unwrap();
    running.store.join(&id, joins).await.unwrap();

    let path = |command: &str| format!("/api/v1/operator/sales/drop/{command}");
    let (status, refused) = running.post(&path("pause"), json!({ "reason": "x" })).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sale_not_open")));

    let (status, open) = running.call(Method::POST, &path("open"), None).await;
    assert_eq!((status, &open["sale"]["phase"]), (200, &json!("open")), "{open}");
    let pause = json!({ "reason": "The till is down", "translations": { "de": "Die Kasse steht" } });
    let (_, paused) = running.post(&path("pause"), pause).await;
    assert_eq!(paused["sale"]["phase"], "paused");
    assert_eq!(paused["sale"]["paused_reason"]["translations"]["de"], "Die Kasse steht");
    let (status, refused) = running.call(Method::POST, &path("open"), None).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sale_paused")));
    assert!(refused["detail"].as_str().unwrap().contains("resume"), "{refused}");
    let (_, resumed) = running.call(Method::POST, &path("resume"), None).await;
    assert_eq!(
        (&resumed["sale"]["phase"], &resumed["sale"]["paused_reason"]),
        (&json!("open"), &Value::Null)
    );

    let waiting = resumed["sale"]["waiting"].as_u64().unwrap();
    let (status, admitted) = running
        .post("/api/v1/queue/admit", json!({ "sale": "drop", "batch_size": 2, "lease_seconds": 60 }))
        .await;
    assert_eq!(status, 200, "{admitted}");
    assert_eq!(admitted["called"], waiting.min(2));

    let (_, revoked) = running.call(Method::POST, &path("revoke"), None).await;
    assert_eq!(revoked["sale"]["epoch"], 1);
    assert_eq!(running.call(Method::POST, &path("sold-out"), None).await.1["sale"]["phase"], "sold_out");
    assert_eq!(running.call(Method::POST, &path("restock"), None).await.1["sale"]["phase"], "open");
    assert_eq!(running.call(Method::POST, &path("close"), None).await.1["sale"]["phase"], "closed");
    let (status, refused) = running.call(Method::POST, &path("open"), None).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sale_closed")));
    // Every command that was carried out was shown at once.
    assert_eq!(running.watched.refreshed.lock().unwrap().len(), 9);
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let running = start(false).await;
    for head in [&b""[..], b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: "] {
        let mut client = tokio::net::TcpStream::connect(running.address).await.unwrap();
        client.write_all(head).await.unwrap();
        // From here on by a clock that leaps to the next timer when there is nothing else to do.
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let ended = tokio::time::timeout(TIME_LIMIT * 2, client.read(&mut [0; 512])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?} after {:?}", began.elapsed());
        tokio::time::resume();
    }
    assert_eq!(running.send(Method::GET, "/healthz", None, None).await.status(), 200);
}
