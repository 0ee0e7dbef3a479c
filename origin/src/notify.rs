//! Mails order confirmations: a reader of the outbox's stream, as an example of what reads it.
//!
//! Any number of workers share a consumer group. Each entry is confirmed after its mail was taken by the mail server, and
//! read again by whichever worker is there when that does not happen in time, so that every confirmation is sent at least
//! once. A repetition has the same `Message-ID`, which is made from the event's id. While the mail server is away, nothing
//! is counted against a mail; a mail that the server refuses too often ends in a stream of its own.

mod mail;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lettre::transport::smtp;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use redis::aio::ConnectionManager;
use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadReply};
use tokio::sync::watch;

use crate::config::{Config, NotifyConfig};
use crate::outbox::{OF_A_SINK, connection, pause_after};
use mail::Unfit;
pub(crate) use mail::mailbox;

/// How long is waited for new entries at a time.
const BLOCK: Duration = Duration::from_secs(1);
/// Longer than Redis takes to say that there are none.
const PATIENCE: Duration = Duration::from_secs(6);
/// Entries read at a time.
const AT_A_TIME: usize = 8;
/// All workers are one to the group: who reads an entry again never asks who had it before.
const CONSUMER: &str = "notify";

/// Why no mails can be sent.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The configuration says nothing of it.
    #[error("the configuration has no [notify] table")]
    NotConfigured,
    /// No client for Redis.
    #[error("no client for Redis: {0}")]
    Redis(#[from] redis::RedisError),
}

/// What came of an entry.
#[derive(Debug)]
enum Outcome {
    /// It was mailed, or there is nothing to mail.
    Done,
    /// The mail server does not want it.
    Refused(String),
    /// There can be no mail of it.
    Never(Unfit),
    /// The mail server is not there, or takes no mails from us.
    Away(String),
}

struct Worker {
    config: NotifyConfig,
    transport: AsyncSmtpTransport<Tokio1Executor>,
    redis: ConnectionManager,
    /// Where the look for entries that somebody left goes on.
    left: String,
    grouped: bool,
}

/// Mails confirmations until `shutdown`, and finishes the mail that it has begun.
///
/// # Errors
/// When the configuration does not say how.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), NotifyError> {
    let config = config.notify.ok_or(NotifyError::NotConfigured)?;
    let redis = connection(config.stream.server.clone(), PATIENCE)?;
    let (stopping, stopped) = watch::channel(());
    tracing::info!(stream = config.stream.stream, group = config.group, "mailing");
    let transport = config.transport.clone().build();
    let worker = Worker { config, transport, redis, left: "0-0".to_owned(), grouped: false };
    let work = worker.work(stopped);
    tokio::pin!(work);
    tokio::select! {
        () = &mut work => {}
        () = shutdown => {
            drop(stopping);
            work.await;
        }
    }
    Ok(())
}

// === impl Worker ===

impl Worker {
    async fn work(mut self, mut stopped: watch::Receiver<()>) {
        let mut failures = 0_u32;
        while stopped.has_changed().is_ok() {
            let why = match self.round().await {
                Ok(None) => {
                    failures = 0;
                    continue;
                }
                Ok(Some(away)) => format!("the mail server: {away}"),
                Err(error) => {
                    // Redis may have come back without its data.
                    self.grouped = false;
                    format!("redis: {error}")
                }
            };
            failures = failures.saturating_add(1);
            tracing::warn!(why, "no mail can be sent; will try again");
            // Ends early when the sender is dropped, which is the order to stop.
            let _ = tokio::time::timeout(pause_after(failures, OF_A_SINK), stopped.changed()).await;
        }
    }

    /// Reads and mails a few entries. `Some`: the mail server is not there.
    async fn round(&mut self) -> Result<Option<String>, redis::RedisError> {
        self.join().await?;
        let (mut entries, read_at) = (self.read().await?, Instant::now());
        // None of them stands in the way of the same others each time.
        fastrand::shuffle(&mut entries);
        for entry in entries {
            // Before somebody else reads them.
            if read_at.elapsed() > self.config.retry / 2 {
                break;
            }
            match self.mail(&entry).await {
                Outcome::Done => self.done(&entry).await?,
                Outcome::Never(why) => self.bury(&entry, &why.to_string()).await?,
                Outcome::Refused(why) => self.refused(&entry, &why).await?,
                Outcome::Away(why) => return Ok(Some(why)),
            }
        }
        Ok(None)
    }

    /// Makes the group, which is to read the stream from its beginning.
    async fn join(&mut self) -> Result<(), redis::RedisError> {
        if self.grouped {
            return Ok(());
        }
        let made = redis::cmd("XGROUP")
            .arg("CREATE")
            .arg(&self.config.stream.stream)
            .arg(&self.config.group)
            .arg("0")
            .arg("MKSTREAM")
            .query_async::<()>(&mut self.redis)
            .await;
        match made {
            Err(error) if error.code() != Some("BUSYGROUP") => return Err(error),
            _ => self.grouped = true,
        }
        Ok(())
    }

    /// Entries that somebody left, else new ones, after waiting for them for a while.
    async fn read(&mut self) -> Result<Vec<StreamId>, redis::RedisError> {
        let idle = u64::try_from(self.config.retry.as_millis()).unwrap_or(u64::MAX);
        let claimed: StreamAutoClaimReply = redis::cmd("XAUTOCLAIM")
            .arg(&self.config.stream.stream)
            .arg(&self.config.group)
            .arg(CONSUMER)
            .arg(idle)
            .arg(&self.left)
            .arg("COUNT")
            .arg(AT_A_TIME)
            .query_async(&mut self.redis)
            .await?;
        self.left = claimed.next_stream_id;
        if !claimed.claimed.is_empty() {
            return Ok(claimed.claimed);
        }
        let read: Option<StreamReadReply> = redis::cmd("XREADGROUP")
            .arg("GROUP")
            .arg(&self.config.group)
            .arg(CONSUMER)
            .arg("COUNT")
            .arg(AT_A_TIME)
            .arg("BLOCK")
            .arg(BLOCK.as_secs() * 1_000)
            .arg("STREAMS")
            .arg(&self.config.stream.stream)
            .arg(">")
            .query_async(&mut self.redis)
            .await?;
        Ok(read.into_iter().flat_map(|read| read.keys).flat_map(|key| key.ids).collect())
    }

    async fn mail(&self, entry: &StreamId) -> Outcome {
        let mail = match mail::confirmation(&self.config, &fields(entry)) {
            Ok(Some(mail)) => mail,
            Ok(None) => return Outcome::Done,
            Err(unfit) => return Outcome::Never(unfit),
        };
        match self.transport.send(mail).await {
            Ok(_) => {
                tracing::info!(event = field(entry, "id"), "mailed");
                Outcome::Done
            }
            Err(error) => match judge(&error) {
                // Where the server is well otherwise, this mail is what it cannot do with, or hangs up on; the others are not to
                // wait for it.
                Outcome::Away(why)
                    if error.status().is_none()
                        && self.transport.test_connection().await.is_ok_and(|well| well) =>
                {
                    Outcome::Refused(why)
                }
                outcome => outcome,
            },
        }
    }

    /// The key that counts refusals.
    fn refusals(&self) -> String {
        format!("{}:{}:refused", self.config.stream.stream, self.config.group)
    }

    async fn done(&mut self, entry: &StreamId) -> Result<(), redis::RedisError> {
        let NotifyConfig { stream, group, .. } = &self.config;
        redis::pipe()
            .xack(&stream.stream, group, &[&entry.id])
            .ignore()
            .hdel(self.refusals(), &entry.id)
            .ignore()
            .query_async(&mut self.redis)
            .await
    }

    async fn refused(&mut self, entry: &StreamId, why: &str) -> Result<(), redis::RedisError> {
        let key = self.refusals();
        let times: u32 =
            redis::cmd("HINCRBY").arg(key).arg(&entry.id).arg(1).query_async(&mut self.redis).await?;
        if times >= self.config.tries {
            return self.bury(entry, why).await;
        }
        tracing::warn!(event = field(entry, "id"), times, why, "a mail was refused; it is tried again");
        Ok(())
    }

    /// Moves an entry to the stream of the dead.
    async fn bury(&mut self, entry: &StreamId, why: &str) -> Result<(), redis::RedisError> {
        let NotifyConfig { stream, group, dead_stream, .. } = &self.config;
        let mut fields: Vec<(String, String)> = fields(entry).into_iter().collect();
        fields.sort();
        fields.push(("failure".to_owned(), why.to_owned()));
        redis::pipe()
            .atomic()
            .xadd(dead_stream, "*", &fields)
            .ignore()
            .xack(&stream.stream, group, &[&entry.id])
            .ignore()
            .hdel(self.refusals(), &entry.id)
            .ignore()
            .query_async::<()>(&mut self.redis)
            .await?;
        tracing::error!(event = field(entry, "id"), why, dead_stream, "a mail is dead");
        Ok(())
    }
}

/// What the mail server's words mean. They are not repeated: there may be an address in them.
fn judge(error: &smtp::Error) -> Outcome {
    let Some(code) = error.status().map(u16::from) else {
        let why = if error.is_timeout() {
            "no answer in time"
        } else if error.is_client() {
            // As a way to log in, or addresses in other letters than ASCII's.
            "it cannot do what is needed"
        } else {
            "no connection"
        };
        return Outcome::Away(why.to_owned());
    };
    let why = format!("status {code}");
    // Not of this mail: going away, or we are not who may send. RFC 5321, section 4.2.2, and RFC 4954, section 6.
    if matches!(code, 421 | 432 | 454 | 530 | 534 | 535 | 538) {
        Outcome::Away(why)
    } else {
        Outcome::Refused(why)
    }
}

fn field(entry: &StreamId, name: &str) -> String {
    entry.get(name).unwrap_or_default()
}

fn fields(entry: &StreamId) -> HashMap<String, String> {
    entry.map.keys().map(|name| (name.clone(), field(entry, name))).collect()
}
