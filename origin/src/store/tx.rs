//! What an open transaction offers to the operations in [`super::ops`]: the primitives that each back end writes once.
//!
//! **Order of locks**, the same everywhere: keys → visitors → product → buckets or units → reservations → purchases. A
//! back end on which one transaction excludes all others has them all from its beginning. Every method that is said to
//! lock holds what it locked until the transaction ends.
//!
//! **Time** is the database's, and [`Tx::now`] is asked for after the locks are held: only then is it certain that what
//! is found not to be due cannot have been ended, or taken, by somebody else meanwhile.

use serde_json::Value;

use super::outbox::{Again, Leased, Settled};
use super::{KeyUse, Settings};
use crate::answer::Answer;
use crate::checkout::StockMove;
use crate::model::{Purchase, Reservation};

/// Why a transaction failed: every change in it is undone, and nobody is told that it was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The database said no, or was lost.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// What is kept as JSON could not be written or read.
    #[error("an answer could not be kept or read: {0}")]
    Answer(#[from] serde_json::Error),
    /// The operating system has no randomness to give.
    #[error("no randomness for a name: {0}")]
    Random(#[from] getrandom::Error),
}

/// What an idempotency key stands for already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// SHA-256 over the call and its content.
    pub fingerprint: Vec<u8>,
    /// How far the call is.
    pub standing: Standing,
}

/// How far a call with a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was answered.
    Answered(Answer),
    /// A purchase is being driven.
    UnderWay {
        /// The purchase.
        purchase: String,
        /// Whose node drives it, and until when (Unix milliseconds) nobody else may; `None`: whoever drove it is gone.
        lease: Option<(String, i64)>,
    },
}

/// A reservation that is to be written anew, and where its units go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// As it is from now on. Only `state`, `expires_at`, `extended` and `version` are written.
    pub reservation: Reservation,
    /// What happens to its units.
    pub units: StockMove,
}

/// An event for the outbox.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewEvent {
    /// Unique: who gets the event twice knows it by this.
    pub id: String,
    /// The reservation or product that it is about.
    pub aggregate: String,
    /// 1, 2, 3, … for each aggregate, without a gap.
    pub seq: i64,
    /// As `purchase.sold`.
    pub kind: &'static str,
    /// What happened.
    pub payload: Value,
}

/// A product's row as far as operations change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Halt {
    /// Since when its sale is stopped (Unix milliseconds) and why.
    pub stopped: Option<(i64, String)>,
    /// Events told of it so far.
    pub version: i64,
}

/// An open transaction. Methods return when the database has answered; the commit is the back end's.
///
/// Each returns a future that may move between threads, so that operations can run wherever the back end runs them; an
/// implementation writes plain `async fn`s.
pub(crate) trait Tx: Send {
    /// What operations are to go by.
    fn settings(&self) -> &Settings;

    /// Unix milliseconds of the database's clock. Asked for after locking (see above); may be the same throughout.
    fn now(&mut self) -> impl Future<Output = Result<i64, WriteError>> + Send;

    /// Looks a key up and locks it, whether or not it is there: until this transaction ends no other gets past this call
    /// with the same visitor and key. The first lock of an operation that has a key.
    fn key(&mut self, key: &KeyUse) -> impl Future<Output = Result<Option<Known>, WriteError>> + Send;

    /// Writes what a key stands for from now on, new or not. It is locked already.
    fn keep_key(
        &mut self,
        key: &KeyUse,
        standing: &Standing,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Forgets the keys that were made before `before` (Unix milliseconds), but none whose call is still under way. May skip
    /// those that are locked.
    fn forget_keys(&mut self, before: i64) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Forgets the events of the payment service that came before `before` (Unix milliseconds).
    fn forget_events(&mut self, before: i64) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Reads a reservation and locks it, and before it the bucket that its units belong to, since [`Self::put`] may give
    /// them back.
    fn reservation(
        &mut self,
        id: &str,
    ) -> impl Future<Output = Result<Option<Reservation>, WriteError>> + Send;

    /// Up to `limit` holds that are held or paying and whose time was over at the database's time, locked as
    /// [`Self::reservation`] does; those that others have locked may be left out.
    fn due(&mut self, limit: u32) -> impl Future<Output = Result<Vec<Reservation>, WriteError>> + Send;

    /// Writes reservations that are locked, with the moment of the change, and moves their units: on
    /// [`StockMove::Release`] from held to available, each to the bucket it came from, numbered ones to nobody; on
    /// [`StockMove::Sell`] from held to sold. However many they are, few statements.
    fn put(&mut self, turns: &[Turn]) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Sets units aside once more for a reservation that is over and locked: as many of a counted product; of a numbered
    /// product the very same ones, or, if one of them is gone and the visitor did not choose them, the next free ones;
    /// from available to held, as if its hold had not ended. `false`, and nothing is changed: they are not to be had, or
    /// the visitor has another live reservation of the product. `bucket` and `units` are what they come from and are now,
    /// and written. Only at the end of an operation, since it locks buckets or units late: it must not
    /// wait for them, but skip what is locked.
    fn retake(
        &mut self,
        reservation: &mut Reservation,
    ) -> impl Future<Output = Result<bool, WriteError>> + Send;

    /// Whether the units that a numbered reservation names are all set aside for it, as they are unless somebody else was at
    /// the books. The reservation is locked and live; one of a counted product has no units that could be another's.
    fn has_units(
        &mut self,
        reservation: &Reservation,
    ) -> impl Future<Output = Result<bool, WriteError>> + Send;

    /// Reads a purchase and locks it, and before it its reservation as [`Self::reservation`] does.
    fn purchase(&mut self, id: &str) -> impl Future<Output = Result<Option<Purchase>, WriteError>> + Send;

    /// Writes a new purchase of a reservation that is locked.
    fn add_purchase(&mut self, purchase: &Purchase) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Writes the state, reason, `provider_ref` and `redirect_url` of a purchase that is locked, with the moment of the
    /// change. Its reservation is written by [`Self::put`].
    fn put_purchase(&mut self, purchase: &Purchase) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Notes an event of the payment service. `false`: it had come before. Before any lock of a reservation; two that
    /// bring the same event wait for each other here.
    fn fresh(
        &mut self,
        id: &str,
        kind: &str,
        purchase: &str,
    ) -> impl Future<Output = Result<bool, WriteError>> + Send;

    /// Reads whether a product's sale is stopped, and locks its row; `None`: there is no such product.
    fn halt(&mut self, product: &str) -> impl Future<Output = Result<Option<Halt>, WriteError>> + Send;

    /// Writes it. Claims that are decided from now on see it.
    fn put_halt(&mut self, product: &str, halt: &Halt)
    -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Puts events into the outbox, a row for each sink of [`Settings::sinks`], to be tried from now on. The aggregates'
    /// rows are locked, and their versions written, by this transaction. However many they are, few statements.
    fn emit(&mut self, events: &[NewEvent]) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Takes up to `limit` events of a sink that are due, for `lease_ms` milliseconds, and counts the try. Of an aggregate
    /// only the first that is not dead is taken, and nothing while that one is taken or not due. Those that others have
    /// locked are left out.
    fn lease(
        &mut self,
        sink: &str,
        lease_ms: i64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Leased>, WriteError>> + Send;

    /// Notes what became of events of a sink, where they are still under the lease they were taken by. However many they
    /// are, few statements.
    fn settle(
        &mut self,
        sink: &str,
        settled: &[Settled],
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Makes events due, as if they had never been tried, for one sink or for all; but those under a lease. How many rows
    /// that are.
    fn send_again(
        &mut self,
        which: &Again,
        sink: Option<&str>,
    ) -> impl Future<Output = Result<u64, WriteError>> + Send;
}
