//! Gateway, shop and browser on one stage, and what the tests look at and do there.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fantoccini::Locator;
use reqwest::Method;
use ropeline_tests::browser::{Browser, Setup};
use ropeline_tests::edge_hosts::{EdgeHost, permitted};
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::origin::{Origin, Product};
use ropeline_tests::ports::Port;
use ropeline_tests::process::binary;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::PATIENCE;
use ropeline_tests::{guests, http};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cache::Cache;

/// The sale, and the product sold in it.
pub(crate) const SALE: &str = "runner";

/// Where the shopper wants to go: a query that any second encoding, or a lost one, would show in.
pub(crate) const WANTED: &str = "/products/runner?size=42&colour=dark%20blue&from=%2Fmail%3Fa%3D1";

/// Between two looks at a page: each takes the browser's time from what the page itself does.
const PAUSE: Duration = Duration::from_millis(100);

const HOUR_MS: u64 = 3_600_000;

/// All of it, running.
pub(crate) struct Stage {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) browser: Browser,
    /// Where shoppers reach the shop.
    pub(crate) public: String,
    _origin: Arc<Origin>,
    /// Between the edge and the gateway.
    pub(crate) cache: Option<Arc<Cache>>,
    _edge: Option<Arc<EdgeHost>>,
}

/// A sale that calls one visitor at its start and nobody after, unless the operator does.
pub(crate) fn sale() -> Sale {
    Sale::new(SALE, &["/products", "/reservations", "/checkout", "/purchases"])
        .set("title", r#""Runner No. 1""#)
        .set("pace", r#"{ admit = 1, every = "1h" }"#)
}

/// The same with a draw; [`Stage::announce`] sets its times.
pub(crate) fn drawn_sale() -> Sale {
    sale()
        .set("joins_open_at", r#""2099-01-01T10:00:00Z""#)
        .set("draw_closes_at", r#""2099-01-01T11:00:00Z""#)
        .set("opens_at", r#""2099-01-01T12:00:00Z""#)
}

/// So many units, held for five minutes.
pub(crate) fn product(total: u32) -> Product {
    Product { id: SALE.to_owned(), total, hold_seconds: 300 }
}

/// The settings for an edge, as the operator exports them from the running gateway.
fn exported(gateway: &Gateway, edge: &str) -> String {
    let mut export = Command::new(binary("ropeline"));
    export.args(["edge", "export", "--for", edge, "-c"]).arg(gateway.folder().join("ropeline.toml"));
    let done = export.current_dir(gateway.folder()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

impl Stage {
    /// Starts everything. The browser comes first: the clocks of a sale run from the gateway's start.
    pub(crate) async fn set(setup: Setup, sale: Sale, product: Product) -> Self {
        Self::set_with(setup, sale, product, |settings| settings).await
    }

    /// The same with settings of its own.
    pub(crate) async fn set_with(
        setup: Setup,
        sale: Sale,
        product: Product,
        change: impl FnOnce(Settings) -> Settings,
    ) -> Self {
        let browser = Browser::open(setup).await;
        let port = Port::free();
        let gateway = Gateway::start(change(Settings::new(port.address())), &[sale]).await;
        let origin = Origin::start(port, &gateway, &product).await;
        let public = gateway.url("");
        Self { gateway: gateway.into(), browser, public, _origin: origin.into(), cache: None, _edge: None }
    }

    /// The same with Cloudflare's runtime in front of the gateway, where it is to be had, and a shared cache between the two.
    pub(crate) async fn set_behind_workerd(setup: Setup, sale: Sale, product: Product) -> Option<Self> {
        let browser = Browser::open(setup).await;
        let port = Port::free();
        let gateway = Gateway::start(Settings::new(port.address()), &[sale]).await;
        let settings = exported(&gateway, "cloudflare");
        let cache = Cache::before(gateway.address()).await?;
        let edge = EdgeHost::start("workerd", |address, _| {
            guests::workerd(address, cache.address(), port.address(), &settings)
        });
        let edge = permitted(edge.await)?;
        let public = edge.url("");
        let origin = Origin::start_behind(port, &gateway, &product, &public).await;
        Some(Self {
            gateway: gateway.into(),
            browser,
            public,
            _origin: origin.into(),
            cache: Some(cache.into()),
            _edge: Some(edge.into()),
        })
    }

    /// Another browser before the same sale.
    pub(crate) async fn beside(&self, setup: Setup) -> Self {
        Self {
            gateway: Arc::clone(&self.gateway),
            browser: Browser::open(setup).await,
            public: self.public.clone(),
            _origin: Arc::clone(&self._origin),
            cache: self.cache.clone(),
            _edge: self._edge.clone(),
        }
    }

    /// The address of `path` for a shopper.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.public)
    }

    // --- the operator and the crowd ---

    async fn operator(&self, method: Method, path: &str, document: &Value) -> Value {
        let (status, answer) = self.gateway.operator(method, path, Some(document)).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// The sale as the operator sees it.
    pub(crate) async fn sale(&self) -> Value {
        self.gateway.sale(SALE).await
    }

    /// Opens joining after so many ms from now, and draws after so many; the opening stays an hour off.
    pub(crate) async fn announce(&self, joins_in_ms: u64, draw_in_ms: u64) {
        let now = self.snapshot().await["as_of"].as_u64().unwrap();
        let times = json!({
            "joins_open_at": now + joins_in_ms,
            "draw": { "closes_at": now + draw_in_ms },
            "opens_at": now + draw_in_ms + HOUR_MS,
        });
        self.operator(Method::PATCH, &format!("/api/v1/operator/sales/{SALE}"), &times).await;
    }

    /// Has the operator call so many visitors.
    pub(crate) async fn admit(&self, count: u64) {
        let document = json!({ "sale": SALE, "batch_size": count });
        let done = self.operator(Method::POST, "/api/v1/queue/admit", &document).await;
        assert_eq!(done["called"], count, "{done}");
    }

    /// Carries out an operator's command.
    pub(crate) async fn command(&self, command: &str, document: Value) {
        self.gateway.command(SALE, command, &document).await;
    }

    /// So many others join, all at once.
    pub(crate) async fn crowd(&self, count: usize) -> Vec<Visitor> {
        let mut joins = JoinSet::new();
        for _ in 0..count {
            let visitor = Visitor::new(&self.gateway);
            joins.spawn(async move {
                let joined = visitor.join(SALE).await;
                assert_eq!(joined.status, 200, "{}", joined.text());
                visitor
            });
        }
        joins.join_all().await
    }

    /// The public snapshot.
    pub(crate) async fn snapshot(&self) -> Value {
        let url = self.gateway.url(&format!("/api/v1/queue/sales/{SALE}/snapshot"));
        http::client().get(url).send().await.unwrap().json().await.unwrap()
    }

    /// How many requests were decided upon in this way.
    pub(crate) async fn decided(&self, verdict: &str) -> u64 {
        let url = format!("http://{}/metrics", self.gateway.operator_address());
        let request = http::client().get(url).bearer_auth(self.gateway.operator_token());
        let text = request.send().await.unwrap().text().await.unwrap();
        let label = format!("verdict=\"{verdict}\"");
        let counts = text.lines().filter(|line| line.starts_with("ropeline_requests_total{"));
        let counts = counts.filter(|line| line.contains(&label));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    // --- the browser ---

    /// Goes to the wanted page.
    pub(crate) async fn visit(&self) {
        self.browser.client.goto(&self.url(WANTED)).await.unwrap();
    }

    /// Runs a script of the test's own in the page. A page on its way out gives nothing.
    pub(crate) async fn ask(&self, script: &str) -> Option<Value> {
        self.browser.client.execute(script, Vec::new()).await.ok().filter(|value| !value.is_null())
    }

    /// The room's state, when the page is the room.
    pub(crate) async fn state(&self) -> Option<String> {
        let state = self.ask("return document.getElementById('room')?.dataset.state").await?;
        state.as_str().map(str::to_owned)
    }

    /// Waits for a condition of the page, and tells what is there instead if it never holds.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        mut condition: impl FnMut() -> F,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            if Instant::now() > deadline {
                let page = self.ask("return [location.href, document.body.innerText]").await;
                let console = self.browser.console().await;
                panic!("waited {PATIENCE:?} in vain until {what}; instead: {page:#?}, console: {console:#?}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until the room is in this state.
    pub(crate) async fn until_state(&self, state: &str) {
        self.until(&format!("the room is {state}"), || async {
            (self.state().await.as_deref() == Some(state)).then_some(())
        })
        .await;
    }

    /// What a reader sees of an element; nothing when it is hidden.
    pub(crate) async fn text(&self, id: &str) -> String {
        let script = format!(
            "const node = document.getElementById('{id}');
             return node?.checkVisibility({{ visibilityProperty: true }}) ? node.innerText : ''"
        );
        let text = self.ask(&script).await.unwrap_or_default();
        text.as_str().unwrap_or_default().trim().to_owned()
    }

    /// A number that the page shows.
    pub(crate) async fn number(&self, id: &str) -> u64 {
        let text = self.text(id).await;
        text.replace(',', "").parse().unwrap_or_else(|_| panic!("{id} shows {text:?}"))
    }

    /// Waits until the page at this path has this heading.
    pub(crate) async fn until_page(&self, path: &str, heading: &str) {
        self.until(&format!("{heading:?} is shown at {path}"), || async {
            let seen = self.ask("return [location.href, document.querySelector('h1')?.innerText]").await?;
            let at = seen[0].as_str()?.strip_prefix(&self.public)?.starts_with(path);
            (at && seen[1] == heading).then_some(())
        })
        .await;
    }

    /// Waits until the shopper is at the wanted page itself: the very address, and the shop's page there.
    pub(crate) async fn until_in_the_shop(&self) {
        self.until_page(WANTED, "Product runner").await;
        assert_eq!(self.address().await, self.url(WANTED));
    }

    /// The address in the address bar.
    pub(crate) async fn address(&self) -> String {
        self.browser.client.current_url().await.unwrap().to_string()
    }

    /// Clicks what the selector finds.
    pub(crate) async fn click(&self, selector: &str) {
        let element = self.browser.client.find(Locator::Css(selector)).await;
        element.unwrap_or_else(|error| panic!("{selector}: {error}")).click().await.unwrap();
    }

    /// Reserves on the product's page.
    pub(crate) async fn reserve(&self) {
        self.click("form[action$='/reservations'] button").await;
        self.until_page("/checkout/", "Checkout").await;
    }

    /// Pays with the card of this number.
    pub(crate) async fn pay(&self, number: &str) {
        let label = format!("//label[contains(., '{number}')]");
        self.browser.client.find(Locator::XPath(&label)).await.unwrap().click().await.unwrap();
        self.click("form[action$='/purchases'] button").await;
    }

    /// Buys with a good card and sees that it is theirs.
    pub(crate) async fn buy(&self, name: &str) {
        self.browser.screenshot(&format!("{name}-product")).await;
        self.reserve().await;
        self.browser.screenshot(&format!("{name}-checkout")).await;
        self.pay("4242 4242 4242 4242").await;
        self.until_page("/purchases/", "It is yours").await;
        self.browser.screenshot(&format!("{name}-bought")).await;
    }

    /// Nothing was written to the console but what is expected: whoever has no ticket is told so by a 401, and some by a
    /// status of their own.
    pub(crate) async fn console_is_clean(&self, but_for: Option<u16>) {
        for entry in self.browser.console().await {
            let message = entry["message"].as_str().unwrap_or_default();
            let told = |status: u16| message.contains(&format!("status of {status} "));
            let expected = entry["source"] == "network"
                && (message.contains("/status?sale=") && told(401) || but_for.is_some_and(told));
            assert!(expected, "in the console: {entry}");
        }
    }
}
