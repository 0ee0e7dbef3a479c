//! A visitor: an HTTP client that keeps its cookies as a browser does, and shows what it was answered.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, COOKIE, HeaderMap, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::gateway::{Gateway, Node};
use crate::http;

/// What a browser sends when a person goes to a page.
pub const BROWSER_ACCEPT: &str =
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

/// One visitor with one set of cookies. Redirects are shown, not followed.
#[derive(Debug)]
pub struct Visitor {
    /// Where each request goes in its turn.
    bases: Vec<String>,
    turn: AtomicUsize,
    client: Client,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

// === impl Visitor ===

impl Visitor {
    /// A visitor nobody has seen before.
    pub fn new(gateway: &Gateway) -> Self {
        let bases: Vec<_> = gateway.nodes().iter().map(|node| node.url("")).collect();
        let turn = AtomicUsize::new(fastrand::usize(..bases.len()));
        Self { bases, turn, client: http::client(), cookies: Mutex::default() }
    }

    /// The same, of whatever is at the address `base`: scheme, host and port.
    pub fn at(base: &str) -> Self {
        let bases = vec![base.to_owned()];
        Self { bases, turn: AtomicUsize::new(0), client: http::client(), cookies: Mutex::default() }
    }

    /// The same visitor, who waits so long for an answer.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { client: http::client_within(limit), ..self }
    }

    /// The same visitor in another tab: the same cookies, a connection of its own.
    #[must_use]
    pub fn another_tab(&self) -> Self {
        Self {
            bases: self.bases.clone(),
            turn: AtomicUsize::new(fastrand::usize(..self.bases.len())),
            client: http::client(),
            cookies: Mutex::new(self.cookies()),
        }
    }

    /// The same visitor, who from now on asks only this gateway.
    #[must_use]
    pub fn only_at(&self, node: &Node) -> Self {
        Self { bases: vec![node.url("")], ..self.another_tab() }
    }

    /// The cookies it holds.
    pub fn cookies(&self) -> BTreeMap<String, String> {
        self.cookies.lock().expect("no panic while held").clone()
    }

    /// Keeps a cookie that the shop, or somebody else, has put there.
    pub fn keep_cookie(&self, name: &str, value: &str) {
        self.cookies.lock().expect("no panic while held").insert(name.to_owned(), value.to_owned());
    }

    /// Loses a cookie.
    pub fn lose_cookie(&self, name: &str) {
        self.cookies.lock().expect("no panic while held").remove(name);
    }

    /// Sends a request; `change` adds to it. Cookies are sent and kept.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Answer {
        self.try_send(method, path, change).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The same where nobody may answer.
    ///
    /// # Errors
    /// When no whole answer came. What it would have said may have been done.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, reqwest::Error> {
        let base = &self.bases[self.turn.fetch_add(1, Ordering::Relaxed) % self.bases.len()];
        let mut request = self.client.request(method, format!("{base}{path}"));
        let cookies = self.cookies();
        if !cookies.is_empty() {
            let pairs: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header(COOKIE, pairs.join("; "));
        }
        let response = change(request).send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await?.to_vec();
        self.keep(&headers);
        Ok(Answer { status, headers, body })
    }

    fn keep(&self, headers: &HeaderMap) {
        let mut cookies = self.cookies.lock().expect("no panic while held");
        for line in headers.get_all(SET_COOKIE) {
            let line = line.to_str().expect("a cookie of visible ASCII");
            let mut parts = line.split(';').map(str::trim);
            let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).expect("name=value");
            let over = parts.any(|attribute| attribute.eq_ignore_ascii_case("max-age=0"));
            if over {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// Goes to a page, as a person in a browser.
    pub async fn visit(&self, path: &str) -> Answer {
        self.send(Method::GET, path, |request| request.header(ACCEPT, BROWSER_ACCEPT)).await
    }

    /// Fetches a document, as a script or an app.
    pub async fn fetch(&self, path: &str) -> Answer {
        self.send(Method::GET, path, |request| request.header(ACCEPT, "application/json")).await
    }

    /// Joins the sale.
    pub async fn join(&self, sale: &str) -> Answer {
        self.call("join", sale).await
    }

    /// Claims admission to the sale.
    pub async fn claim(&self, sale: &str) -> Answer {
        self.call("claim", sale).await
    }

    /// Leaves the sale.
    pub async fn leave(&self, sale: &str) -> Answer {
        self.call("leave", sale).await
    }

    /// Asks where it stands in the sale.
    pub async fn status(&self, sale: &str) -> Answer {
        self.fetch(&format!("/api/v1/queue/status?sale={sale}")).await
    }

    async fn call(&self, call: &str, sale: &str) -> Answer {
        self.post(&format!("/api/v1/queue/{call}"), &json!({ "sale": sale })).await
    }

    /// Posts a document, as a script or an app.
    pub async fn post(&self, path: &str, document: &Value) -> Answer {
        self.send(Method::POST, path, |request| request.header(ACCEPT, "application/json").json(document))
            .await
    }
}

// === impl Answer ===

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The value of a header, when there is exactly one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next().and_then(|value| value.to_str().ok());
        first.filter(|_| values.next().is_none())
    }

    /// The code of the problem document that it is.
    ///
    /// # Panics
    /// When it is none (RFC 9457).
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        self.json()["code"].as_str().expect("a code").to_owned()
    }
}
