//! Who is told of what happens: as written, and as checked.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use redis::IntoConnectionInfo as _;
use serde::Deserialize;

use super::{Faults, address, is_confidential};
use crate::outbox::signing::Secret;

/// Sinks of events, as written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawOutbox {
    /// `redis://` or `rediss://` address of the server with the stream; without it there is none.
    pub redis_url: Option<String>,
    /// The stream that events are added to.
    #[serde(default = "default_stream")]
    pub stream: String,
    /// About how many entries the stream keeps; 0: all.
    #[serde(default = "default_stream_max_len")]
    pub stream_max_len: u64,
    /// How often an event is tried before it is dead.
    #[serde(default = "default_tries")]
    pub tries: u32,
    /// Addresses that events are sent to.
    #[serde(default)]
    pub webhooks: Vec<RawWebhook>,
}

/// An address that events are sent to, as written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawWebhook {
    /// Its name: `a-z`, `0-9`, `-`. What waits for it, waits for this name.
    pub name: String,
    /// The address; `https`, or on this machine `http`.
    pub url: String,
    /// `whsec_` and 24 to 64 bytes in base64. Two while one is being replaced by the other.
    pub secrets: Vec<String>,
    /// How long an answer is waited for.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u64,
}

fn default_stream() -> String {
    "ropeline:events".to_owned()
}
fn default_stream_max_len() -> u64 {
    1_000_000
}
fn default_tries() -> u32 {
    80
}
fn default_timeout_seconds() -> u64 {
    10
}

// What may have a password in it is not written out.
impl fmt::Debug for RawOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawOutbox").field("webhooks", &self.webhooks).finish_non_exhaustive()
    }
}

impl fmt::Debug for RawWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawWebhook").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Default for RawOutbox {
    fn default() -> Self {
        Self {
            redis_url: None,
            stream: default_stream(),
            stream_max_len: default_stream_max_len(),
            tries: default_tries(),
            webhooks: Vec::new(),
        }
    }
}

/// Sinks of events, as checked.
#[derive(Clone, Debug)]
pub(crate) struct OutboxConfig {
    /// How often an event is tried before it is dead.
    pub(crate) tries: i64,
    /// The stream.
    pub(crate) stream: Option<StreamConfig>,
    /// The addresses.
    pub(crate) webhooks: Vec<WebhookConfig>,
}

/// A Redis stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamConfig {
    /// The server.
    pub(crate) server: redis::ConnectionInfo,
    /// The stream's key.
    pub(crate) stream: String,
    /// About how many entries it keeps; 0: all.
    pub(crate) max_len: u64,
}

/// An address that events are sent to.
#[derive(Clone, Debug)]
pub(crate) struct WebhookConfig {
    /// Unique among the webhooks.
    pub(crate) name: String,
    /// The address.
    pub(crate) url: String,
    /// Each signs.
    pub(crate) secrets: Vec<Secret>,
    /// How long an answer is waited for.
    pub(crate) timeout: Duration,
}

// === impl OutboxConfig ===

impl OutboxConfig {
    /// The names that events wait under, the same at each start.
    #[must_use]
    pub(crate) fn sinks(&self) -> Vec<String> {
        let stream = self.stream.iter().map(|_| StreamConfig::SINK.to_owned());
        stream.chain(self.webhooks.iter().map(WebhookConfig::sink)).collect()
    }
}

// === impl StreamConfig ===

impl StreamConfig {
    /// What waits for the stream, waits under this name.
    pub(crate) const SINK: &str = "redis";
}

// === impl WebhookConfig ===

impl WebhookConfig {
    /// What waits for the address, waits under this name.
    #[must_use]
    pub(crate) fn sink(&self) -> String {
        format!("webhook:{}", self.name)
    }
}

/// Whether events may be sent there.
fn is_address(url: &str) -> bool {
    address(url).is_some_and(|uri| is_confidential(&uri)) && !url.contains('#')
}

/// Whether it can be the name of a key in Redis that people have to type.
pub(super) fn is_key(name: &str) -> bool {
    (1..=200).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(super) fn check(raw: RawOutbox, faults: &mut Faults) -> OutboxConfig {
    faults.check(
        (1..=10_000).contains(&raw.tries),
        "outbox.tries",
        format!("must be from 1 to 10000, is {}", raw.tries),
    );
    faults.check(
        is_key(&raw.stream),
        "outbox.stream",
        format!("{:?} must be 1 to 200 characters without spaces, as \"ropeline:events\"", raw.stream),
    );
    let server = raw.redis_url.map(|url| url.into_connection_info());
    faults.check(
        !matches!(server, Some(Err(_))),
        "outbox.redis_url",
        "is no address of a Redis server, as \"rediss://user:password@redis.example:6379/0\"",
    );
    let believes_anybody = |server: &redis::ConnectionInfo| {
        matches!(server.addr(), redis::ConnectionAddr::TcpTls { insecure: true, .. })
    };
    faults.check(
        !server.as_ref().and_then(|server| server.as_ref().ok()).is_some_and(believes_anybody),
        "outbox.redis_url",
        "must not end in #insecure, by which any server is believed; have the system trust the authority of its certificate",
    );
    let mut names = HashSet::new();
    let mut webhooks = Vec::new();
    for (index, webhook) in raw.webhooks.into_iter().enumerate() {
        let at = format!("outbox.webhooks[{index}]");
        faults.check(
            names.insert(webhook.name.clone()),
            &format!("{at}.name"),
            format!("{:?} is there twice; give each webhook a name of its own", webhook.name),
        );
        webhooks.push(check_webhook(webhook, &at, faults));
    }
    let stream = server.and_then(Result::ok).map(|server| StreamConfig {
        server,
        stream: raw.stream,
        max_len: raw.stream_max_len,
    });
    OutboxConfig { tries: raw.tries.into(), stream, webhooks }
}

fn check_webhook(raw: RawWebhook, at: &str, faults: &mut Faults) -> WebhookConfig {
    let name_good = (1..=40).contains(&raw.name.len())
        && raw.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    faults.check(
        name_good,
        &format!("{at}.name"),
        format!("{:?} must be 1 to 40 characters of a-z, 0-9 and -", raw.name),
    );
    faults.check(
        is_address(&raw.url),
        &format!("{at}.url"),
        "must be an https:// address without user, password or fragment; http:// is for this machine alone, since what \
         is sent there tells of shoppers",
    );
    let secrets: Vec<Secret> = raw.secrets.iter().filter_map(|secret| Secret::parse(secret)).collect();
    faults.check(
        (1..=4).contains(&secrets.len()) && secrets.len() == raw.secrets.len(),
        &format!("{at}.secrets"),
        "must list one to four secrets, each \"whsec_\" and 24 to 64 random bytes in base64; make one with: \
         echo \"whsec_$(openssl rand -base64 32)\"",
    );
    let timeout = faults.seconds(&format!("{at}.timeout_seconds"), raw.timeout_seconds, 1, 60);
    WebhookConfig { name: raw.name, url: raw.url, secrets, timeout }
}
