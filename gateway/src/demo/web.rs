//! Browsers for shoppers: each with its own cookies, all over one bounded pool of real connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use reqwest::header::{ACCEPT, COOKIE, HeaderMap, RETRY_AFTER, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::http_client;

/// Requests of the whole crowd at one instant. Each costs this process some four file descriptors, and common limits
/// are at 1,024.
const AT_ONCE: usize = 64;
/// Longest time for one answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How often a request that found the other side busy is sent again.
const TRIES: u32 = 8;
/// What a browser sends when a person goes to a page.
const FOR_PAGES: &str =
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
const FOR_DATA: &str = "application/json";

/// Reaches the shop; cheap to clone.
#[derive(Clone)]
pub(super) struct Web {
    client: Client,
    base: Arc<str>,
    slots: Arc<Semaphore>,
}

/// One shopper's browser.
pub(super) struct Browser {
    web: Web,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// What came back.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: u16,
    /// The headers.
    pub(super) headers: HeaderMap,
    /// The body.
    pub(super) body: Bytes,
    /// From sending to the last byte, time spent waiting for a free connection not counted.
    pub(super) took: Duration,
}

// === impl Web ===

impl Web {
    /// Reaches the shop at `base`, such as `http://127.0.0.1:8080`. Redirects are shown, not followed.
    ///
    /// # Errors
    /// When there is no HTTP client to be had.
    pub(super) fn new(base: &str) -> anyhow::Result<Self> {
        let client = http_client::builder(base)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .timeout(TIMEOUT)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(AT_ONCE)
            .build()?;
        Ok(Self { client, base: base.into(), slots: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// A browser nobody has seen before.
    #[must_use]
    pub(super) fn browser(&self) -> Browser {
        Browser { web: self.clone(), cookies: Mutex::default() }
    }
}

// === impl Browser ===

impl Browser {
    /// The same cookies but one, in a window of its own.
    #[must_use]
    pub(super) fn without(&self, cookie: &str) -> Self {
        let mut cookies = self.jar().clone();
        cookies.remove(cookie);
        Self { web: self.web.clone(), cookies: Mutex::new(cookies) }
    }

    /// The value of a cookie.
    #[must_use]
    pub(super) fn cookie(&self, name: &str) -> Option<String> {
        self.jar().get(name).cloned()
    }

    /// Goes to a page, as a person.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) async fn visit(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, |request| request.header(ACCEPT, FOR_PAGES)).await
    }

    /// Fetches a document, as a script.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) async fn fetch(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, |request| request.header(ACCEPT, FOR_DATA)).await
    }

    /// Sends a document, as a script.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) async fn post(&self, path: &str, document: &impl Serialize) -> anyhow::Result<Answer> {
        self.send(Method::POST, path, |request| request.header(ACCEPT, FOR_DATA).json(document)).await
    }

    /// Orders something of the shop: as `post`, once however often it is sent.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) async fn order(
        &self,
        path: &str,
        key: &str,
        document: &impl Serialize,
    ) -> anyhow::Result<Answer> {
        self.send(Method::POST, path, |request| {
            request.header(ACCEPT, FOR_DATA).header("idempotency-key", key).json(document)
        })
        .await
    }

    /// Gives something up.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::DELETE, path, |request| request.header(ACCEPT, FOR_DATA)).await
    }

    /// Sends a request; again, after a while, when the shop or the queue is busy. All that shoppers send here may be
    /// sent twice.
    async fn send(
        &self,
        method: Method,
        path: &str,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> anyhow::Result<Answer> {
        let mut trouble = String::new();
        for attempt in 1..=TRIES {
            let request = with(self.web.client.request(method.clone(), format!("{}{path}", self.web.base)));
            let wait = match self.send_once(request).await {
                Ok(answer) if !matches!(answer.status, 502..=504) => return Ok(answer),
                Ok(answer) => {
                    trouble = format!("{} {}", answer.status, answer.text());
                    answer.retry_after()
                }
                Err(error) => {
                    trouble = format!("{error:#}");
                    None
                }
            };
            tracing::debug!(%method, path, attempt, trouble, "sent again");
            tokio::time::sleep(wait.unwrap_or(Duration::from_millis(500) * attempt)).await;
        }
        bail!("{method} {path}: {TRIES} times in vain, at last {trouble}")
    }

    async fn send_once(&self, request: RequestBuilder) -> anyhow::Result<Answer> {
        let cookies: Vec<String> = self.jar().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) };
        let _slot = self.web.slots.acquire().await?;
        let sent = Instant::now();
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        self.keep(&headers);
        let body = response.bytes().await?;
        Ok(Answer { status, headers, body, took: sent.elapsed() })
    }

    fn keep(&self, headers: &HeaderMap) {
        let mut jar = self.jar();
        for line in headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok()) {
            let mut parts = line.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { continue };
            if parts.any(|attribute| attribute.eq_ignore_ascii_case("max-age=0")) {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    fn jar(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Answer ===

impl Answer {
    /// The body as text.
    #[must_use]
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as the document it should be.
    ///
    /// # Errors
    /// When it is another one.
    pub(super) fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_slice(&self.body).with_context(|| format!("cannot read {}", self.text()))
    }

    /// The same answer, when its status is one of `good`.
    ///
    /// # Errors
    /// When it is not; `what` was asked for.
    pub(super) fn expect(self, what: &str, good: &[u16]) -> anyhow::Result<Self> {
        ensure!(good.contains(&self.status), "{what}: answered {} {}", self.status, self.text());
        Ok(self)
    }

    /// The code of the problem document that it is, if it is one.
    #[must_use]
    pub(super) fn problem(&self) -> Option<String> {
        let document: Value = serde_json::from_slice(&self.body).ok()?;
        Some(document.get("code")?.as_str()?.to_owned())
    }

    /// When to ask again, if the answer says so.
    #[must_use]
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// A header's value, if it is text.
    #[must_use]
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether it is the waiting room's page.
    #[must_use]
    pub(super) fn is_room(&self) -> bool {
        self.text().contains("<main id=\"room\"")
    }
}
