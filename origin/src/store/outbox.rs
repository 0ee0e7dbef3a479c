//! Events that wait to be told: taken by lease, settled when they were told or not, looked at and sent again.

use serde::Serialize;

use super::{Books, Store, StoreError, on, ops};

/// An event that whoever took it may tell, until its lease is over.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Leased {
    /// Unique: who gets the event twice knows it by this.
    pub id: String,
    /// The reservation or product that it is about.
    pub aggregate: String,
    /// 1, 2, 3, … for each aggregate, without a gap.
    pub seq: i64,
    /// As `purchase.sold`.
    pub kind: String,
    /// What happened, in JSON.
    pub payload: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// How often it was taken, this time included.
    pub tries: i64,
    /// Unix milliseconds; tells this lease from any other of the event.
    pub leased_until: i64,
}

/// What became of an event that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was told: it is forgotten.
    Told,
    /// It was not, and is due again after so many milliseconds.
    Again {
        /// In milliseconds.
        wait_ms: i64,
        /// What went wrong.
        why: String,
        /// Whether this counts among its tries.
        tried: bool,
    },
    /// It is not tried any more, until somebody wants it sent again. Later ones of its aggregate go on.
    Dead {
        /// What went wrong.
        why: String,
    },
}

/// An event that was taken, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// As [`Leased::aggregate`].
    pub aggregate: String,
    /// As [`Leased::seq`].
    pub seq: i64,
    /// As [`Leased::leased_until`]: what became of it under another lease is that one's to say.
    pub leased_until: i64,
    /// What became of it.
    pub fate: Fate,
}

/// Which events are to be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// This one, to each sink that it waits for or is dead for.
    One(String),
    /// Every dead one.
    AllDead,
}

/// An event of the outbox as the operator sees it, without what it says: that is the shopper's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct OutboxEvent {
    /// To whom it is to be told: `redis`, or `webhook:` and a name.
    pub sink: String,
    /// Unique, but for the same event to another sink.
    pub id: String,
    /// The reservation or product that it is about.
    pub aggregate: String,
    /// Its place among the events of the aggregate.
    pub seq: i64,
    /// As `purchase.sold`.
    pub kind: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// How often it was tried.
    pub tries: i64,
    /// Unix milliseconds; of one that is being told right now, when it is taken to have failed.
    pub next_try: i64,
    /// Whether it is not tried any more.
    pub dead: bool,
    /// Why the last try came to nothing.
    pub failure: Option<String>,
}

/// What waits for a sink.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Backlog {
    /// To whom it is to be told.
    pub sink: String,
    /// Events that are told or tried.
    pub waiting: i64,
    /// How old the oldest of them is, in milliseconds; 0 if there is none.
    pub oldest_ms: i64,
    /// Events that are not tried any more.
    pub dead: i64,
}

impl Store {
    /// Takes up to `limit` events for `sink`, the longest due first, for `lease_ms` milliseconds: of each aggregate the
    /// first that is not dead, if it is due.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn take_events(
        &self,
        sink: &str,
        lease_ms: i64,
        limit: u32,
    ) -> Result<Vec<Leased>, StoreError> {
        self.change(ops::Lease { sink: sink.to_owned(), lease_ms, limit }).await
    }

    /// Notes what became of events that were taken for `sink`.
    ///
    /// # Errors
    /// When the books cannot be written; then their leases run out.
    pub(crate) async fn settle_events(&self, sink: &str, settled: Vec<Settled>) -> Result<(), StoreError> {
        self.change(ops::Settle { sink: sink.to_owned(), settled }).await
    }

    /// Has events sent again, as if never tried, to `sink` or to every one. How many rows they are; those that are being told
    /// right now are left to it.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub(crate) async fn send_again(&self, which: Again, sink: Option<String>) -> Result<u64, StoreError> {
        self.change(ops::SendAgain { which, sink }).await
    }

    /// Up to `limit` events that wait or are dead, the oldest first; only dead ones or of one sink, if that is wanted.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn outbox(
        &self,
        sink: Option<&str>,
        only_dead: bool,
        limit: u32,
    ) -> Result<Vec<OutboxEvent>, StoreError> {
        on!(self, books => books.outbox(sink, only_dead, limit).await)
    }

    /// What waits for each sink that is configured, or that something waits for.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub(crate) async fn backlog(&self) -> Result<Vec<Backlog>, StoreError> {
        let mut backlog = on!(self, books => books.backlog().await)?;
        for sink in &*self.sinks {
            if !backlog.iter().any(|one| one.sink == *sink) {
                backlog.push(Backlog { sink: sink.clone(), waiting: 0, oldest_ms: 0, dead: 0 });
            }
        }
        Ok(backlog)
    }
}
