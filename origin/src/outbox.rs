//! Tells the world what the books have to tell: each event to each sink at least once, and those of one reservation or
//! product in their order.
//!
//! Of each sink, a relay takes what is due by lease, delivers it outside of any transaction, and forgets what was taken.
//! Whoever dies in between leaves the event to the next, when the lease is over. The events are rows of the books, so
//! none is lost, and any number of nodes can share the work.

mod pauses;
pub(crate) mod signing;
mod stream;
mod webhook;

use std::fmt;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub(crate) use pauses::{OF_A_SINK, after as pause_after};
pub(crate) use stream::connection;

use crate::config::{OutboxConfig, StreamConfig};
use crate::store::{Fate, Leased, Settled, Store};
use stream::Stream;
use webhook::Webhook;

/// How often is looked for events when there were none.
const POLL: Duration = Duration::from_millis(250);
/// Beyond the longest delivery, what a lease leaves for taking and settling.
const MARGIN: Duration = Duration::from_secs(20);

/// Why events cannot be told to anybody.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// No HTTP client.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    /// No client for Redis.
    #[error("no client for Redis: {0}")]
    Redis(#[from] redis::RedisError),
}

/// What came of telling an event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was taken.
    Taken,
    /// It was not, this time.
    Failed {
        /// In a few words, nothing of a shopper in them.
        why: String,
        /// How long the sink wants to be left alone.
        after: Option<Duration>,
        /// Whether other events would fare no better.
        down: bool,
    },
    /// There was nobody to take it, so that no try of it is used up.
    Unreachable {
        /// In a few words.
        why: String,
    },
    /// It never will be.
    Never {
        /// In a few words.
        why: String,
    },
}

/// Who is told.
#[derive(Clone)]
enum Sink {
    Stream(Stream),
    Webhook(Webhook),
}

/// Tells one sink.
pub(crate) struct Relay {
    store: Store,
    name: String,
    sink: Sink,
    /// How often an event is tried before it is dead.
    tries: i64,
    health: Health,
}

/// Whether the sink is there. While it is not, it is tried with one event at a time, so that the others keep their tries; the
/// one keeps its own if there was nobody to take it.
#[derive(Debug, Default)]
struct Health {
    /// How often it was found to be down, in a row.
    downs: u32,
    /// When it may be tried again.
    rests_until: Option<Instant>,
}

// === impl Sink ===

impl Sink {
    async fn deliver(&self, event: &Leased) -> Outcome {
        match self {
            Self::Stream(stream) => stream.deliver(event).await,
            Self::Webhook(webhook) => webhook.deliver(event).await,
        }
    }

    fn patience(&self) -> Duration {
        match self {
            // A connection, a retry, a reply.
            Self::Stream(_) => stream::PATIENCE * 4,
            Self::Webhook(webhook) => webhook.patience(),
        }
    }

    /// Deliveries under way at a time.
    fn at_a_time(&self) -> usize {
        match self {
            Self::Stream(_) => 128,
            Self::Webhook(_) => 16,
        }
    }
}

// === impl Health ===

impl Health {
    fn may_try(&self, now: Instant) -> bool {
        self.rests_until.is_none_or(|until| until <= now)
    }

    fn note(&mut self, outcome: &Outcome, now: Instant) {
        let after = match outcome {
            Outcome::Failed { after, down: true, .. } => *after,
            Outcome::Unreachable { .. } => None,
            Outcome::Taken | Outcome::Never { .. } | Outcome::Failed { down: false, .. } => {
                *self = Self::default();
                return;
            }
        };
        // What was under way when it broke says nothing new.
        if self.may_try(now) {
            self.downs = self.downs.saturating_add(1);
            let pause = pause_after(self.downs, OF_A_SINK);
            let wanted = after.unwrap_or_default().min(pauses::OF_AN_EVENT);
            self.rests_until = Some(now + pause.max(wanted));
        }
    }
}

// === impl Relay ===

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Relay {
    /// One for each sink that is configured.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub(crate) fn all(store: &Store, config: OutboxConfig) -> Result<Vec<Self>, RelayError> {
        let OutboxConfig { tries, stream, webhooks } = config;
        let mut relays = Vec::new();
        let mut add = |name: String, sink: Sink| {
            relays.push(Self { store: store.clone(), name, sink, tries, health: Health::default() });
        };
        if let Some(config) = stream {
            add(StreamConfig::SINK.to_owned(), Sink::Stream(Stream::new(config)?));
        }
        for config in webhooks {
            add(config.sink(), Sink::Webhook(Webhook::new(config)?));
        }
        Ok(relays)
    }

    /// Tells whatever there is to tell, until it is dropped. What is under way then is told again after the lease.
    pub(crate) async fn keep_delivering(mut self) {
        let mut under_way: JoinSet<(Leased, Outcome)> = JoinSet::new();
        let mut settled = Vec::new();
        loop {
            while let Some(done) = under_way.try_join_next() {
                settled.extend(done.ok().map(|(event, outcome)| self.settle(&event, outcome)));
            }
            if !settled.is_empty() {
                match self.store.settle_events(&self.name, settled.clone()).await {
                    Ok(()) => settled.clear(),
                    // Kept, to be noted with the next; if the lease is over by then, it is told again.
                    Err(error) => tracing::warn!(sink = self.name, %error, "could not note what was told"),
                }
            }
            if settled.is_empty() {
                self.take(&mut under_way).await;
            }
            tokio::select! {
                Some(done) = under_way.join_next() => {
                    settled.extend(done.ok().map(|(event, outcome)| self.settle(&event, outcome)));
                }
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Takes what is due and sends it on its way.
    async fn take(&self, under_way: &mut JoinSet<(Leased, Outcome)>) {
        if !self.health.may_try(Instant::now()) {
            return;
        }
        let most = if self.health.downs == 0 { self.sink.at_a_time() } else { 1 };
        let room = u32::try_from(most.saturating_sub(under_way.len())).unwrap_or_default();
        if room == 0 {
            return;
        }
        let lease = self.sink.patience() + MARGIN;
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 2);
        match self.store.take_events(&self.name, lease_ms, room).await {
            Ok(events) => {
                for event in events {
                    let sink = self.sink.clone();
                    under_way.spawn(async move {
                        let outcome = sink.deliver(&event).await;
                        (event, outcome)
                    });
                }
            }
            Err(error) => {
                tracing::warn!(sink = self.name, %error, "could not look for events; will try again");
            }
        }
    }

    /// What becomes of an event.
    fn settle(&mut self, event: &Leased, outcome: Outcome) -> Settled {
        self.health.note(&outcome, Instant::now());
        let Leased { id, kind, tries, .. } = event;
        let fate = match outcome {
            Outcome::Taken => Fate::Told,
            Outcome::Never { why } => Fate::Dead { why },
            Outcome::Failed { why, .. } if *tries >= self.tries => Fate::Dead { why },
            Outcome::Failed { why, after, .. } => {
                let times = u32::try_from(*tries).unwrap_or(u32::MAX);
                let pause = pause_after(times, pauses::OF_AN_EVENT).max(after.unwrap_or_default());
                Fate::Again {
                    wait_ms: i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 2),
                    why,
                    tried: true,
                }
            }
            // The sink rests, so the event need not.
            Outcome::Unreachable { why } => Fate::Again { wait_ms: 0, why, tried: false },
        };
        match &fate {
            Fate::Told => tracing::debug!(sink = self.name, id, kind, "told"),
            Fate::Again { why, .. } => {
                tracing::warn!(
                    sink = self.name,
                    id,
                    kind,
                    tries,
                    why,
                    "an event was not taken; it is tried again"
                );
            }
            Fate::Dead { why } => {
                tracing::error!(
                    sink = self.name,
                    id,
                    kind,
                    tries,
                    why,
                    "an event is dead; `outbox resend` sends it again"
                );
            }
        }
        Settled { aggregate: event.aggregate.clone(), seq: event.seq, leased_until: event.leased_until, fate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_is_down_rests_longer_each_time_and_is_well_at_once() {
        let down = |after| Outcome::Failed { why: String::new(), after, down: true };
        let (mut health, mut now) = (Health::default(), Instant::now());
        for round in 1..10 {
            assert!(health.may_try(now));
            for _ in 0..16 {
                health.note(&down(None), now);
            }
            assert_eq!(health.downs, round, "sixteen that broke together are one");
            assert!(!health.may_try(now));
            now += OF_A_SINK;
        }
        health.note(&down(Some(Duration::from_secs(600))), now);
        assert!(!health.may_try(now + Duration::from_secs(599)));
        assert!(health.may_try(now + Duration::from_secs(600)));
        health.note(&Outcome::Failed { why: String::new(), after: None, down: false }, now);
        assert_eq!((health.downs, health.may_try(now)), (0, true), "it answers");
    }
}
