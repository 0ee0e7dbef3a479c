//! The worker that mails order confirmations: as written, and as checked.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use http::Uri;
use lettre::message::Mailbox;
use lettre::transport::smtp::AsyncSmtpTransportBuilder;
use lettre::{AsyncSmtpTransport, Tokio1Executor};
use serde::Deserialize;

use super::outbox::is_key;
use super::{Faults, OutboxConfig, RawProduct, StreamConfig};
use crate::client::is_local;

/// The worker that mails order confirmations, as written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawNotify {
    /// `smtps://user:password@host`, or `smtp://user:password@host?tls=required` for STARTTLS.
    pub smtp_url: String,
    /// Whom the mails are from, as `Shop <orders@shop.example>`.
    pub from: String,
    /// The consumer group that reads the stream.
    #[serde(default = "default_group")]
    pub group: String,
    /// The stream for events whose mail was refused too often; by default the outbox's with `:dead` added.
    pub dead_stream: Option<String>,
    /// How often the mail server may refuse a mail.
    #[serde(default = "default_tries")]
    pub tries: u32,
    /// After how long a mail that was not sent is tried again, by this worker or another.
    #[serde(default = "default_retry_seconds")]
    pub retry_seconds: u64,
}

fn default_group() -> String {
    "ropeline-notify".to_owned()
}
fn default_tries() -> u32 {
    10
}
fn default_retry_seconds() -> u64 {
    120
}

// The address of the mail server has a password in it.
impl fmt::Debug for RawNotify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawNotify").field("from", &self.from).finish_non_exhaustive()
    }
}

/// The worker that mails order confirmations, as checked.
#[derive(Clone, Debug)]
pub(crate) struct NotifyConfig {
    /// Where events come from.
    pub(crate) stream: StreamConfig,
    /// The consumer group.
    pub(crate) group: String,
    /// Where those end whose mail was refused too often.
    pub(crate) dead_stream: String,
    /// How often that may be.
    pub(crate) tries: u32,
    /// When what was not sent is tried again.
    pub(crate) retry: Duration,
    /// How to get at the mail server.
    pub(crate) transport: AsyncSmtpTransportBuilder,
    /// Whom the mails are from.
    pub(crate) from: Mailbox,
    /// Where shoppers see the shop, without a slash at the end.
    pub(crate) shop: String,
    /// Products' names for people, by their ids.
    pub(crate) products: HashMap<String, String>,
}

/// How long one answer of the mail server is waited for.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) fn check(
    raw: &RawNotify,
    outbox: &OutboxConfig,
    public_url: &str,
    products: &[RawProduct],
    faults: &mut Faults,
) -> Option<NotifyConfig> {
    faults.check(
        outbox.stream.is_some() || faults.names("outbox.redis_url"),
        "notify",
        "reads the outbox's stream, but there is none: set outbox.redis_url, or take [notify] out",
    );
    let from = raw.from.parse::<Mailbox>();
    faults.check(from.is_ok(), "notify.from", "must be an address, as \"Shop <orders@shop.example>\"");
    let dead_stream = raw
        .dead_stream
        .clone()
        .or_else(|| outbox.stream.as_ref().map(|stream| format!("{}:dead", stream.stream)));
    for (field, name) in
        [("notify.group", Some(&raw.group)), ("notify.dead_stream", raw.dead_stream.as_ref())]
    {
        faults.check(
            name.is_none_or(|name| is_key(name)),
            field,
            "must be 1 to 200 characters without spaces",
        );
    }
    faults.check(
        (1..=1_000).contains(&raw.tries),
        "notify.tries",
        format!("must be from 1 to 1000, is {}", raw.tries),
    );
    let retry = faults.seconds("notify.retry_seconds", raw.retry_seconds, 1, 86_400);
    let transport = transport(&raw.smtp_url, retry);
    faults.check(
        transport.is_some(),
        "notify.smtp_url",
        "must be smtps://user:password@host, or smtp://user:password@host?tls=required for STARTTLS; only a server on \
         this machine may do without TLS",
    );
    Some(NotifyConfig {
        stream: outbox.stream.clone()?,
        group: raw.group.clone(),
        dead_stream: dead_stream?,
        tries: raw.tries,
        retry,
        transport: transport?,
        from: from.ok()?,
        shop: public_url.trim_end_matches('/').to_owned(),
        products: products.iter().map(|product| (product.id.clone(), product.name.clone())).collect(),
    })
}

/// A mail server; `None` if there is none of that address, or addresses and passwords would be sent to it in the clear.
fn transport(url: &str, retry: Duration) -> Option<AsyncSmtpTransportBuilder> {
    let uri = url.parse::<Uri>().ok()?;
    let protected = match uri.scheme_str() {
        Some("smtps") => true,
        Some("smtp") => uri.query() == Some("tls=required") || is_local(&uri),
        _ => false,
    };
    let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url).ok().filter(|_| protected)?;
    // What takes so long that somebody else may try the same mail is given up before.
    Some(builder.timeout(Some(ANSWER.min(retry / 2))))
}
