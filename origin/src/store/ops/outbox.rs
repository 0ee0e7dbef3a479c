//! Events on their way out of the books.

use super::Operation;
use crate::store::outbox::{Again, Leased, Settled};
use crate::store::tx::{Tx, WriteError};

/// Takes events of a sink that are due.
#[derive(Clone, Debug)]
pub(in crate::store) struct Lease {
    pub(in crate::store) sink: String,
    pub(in crate::store) lease_ms: i64,
    pub(in crate::store) limit: u32,
}

/// Notes what became of events that were taken.
#[derive(Clone, Debug)]
pub(in crate::store) struct Settle {
    pub(in crate::store) sink: String,
    pub(in crate::store) settled: Vec<Settled>,
}

/// Has events sent again.
#[derive(Clone, Debug)]
pub(in crate::store) struct SendAgain {
    pub(in crate::store) which: Again,
    pub(in crate::store) sink: Option<String>,
}

impl Operation for Lease {
    type Output = Vec<Leased>;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Vec<Leased>, WriteError> {
        tx.lease(&self.sink, self.lease_ms, self.limit).await
    }
}

impl Operation for Settle {
    type Output = ();

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<(), WriteError> {
        tx.settle(&self.sink, &self.settled).await
    }
}

impl Operation for SendAgain {
    type Output = u64;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<u64, WriteError> {
        tx.send_again(&self.which, self.sink.as_deref()).await
    }
}
