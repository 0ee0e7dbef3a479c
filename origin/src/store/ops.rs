//! What each operation means, once for every back end: the look at its key, the step of [`crate::checkout`], the units
//! moved, the events written and the answer. The primitives are those of [`super::tx::Tx`].

mod checkout;
pub(super) mod claim;
mod events;
mod expiry;
mod halt;
mod outbox;
mod report;

pub(super) use checkout::{Begin, Cancel, Extend, Finish};
pub(super) use expiry::{Sweep, end};
pub(super) use halt::{Resume, Stop};
pub(super) use outbox::{Lease, SendAgain, Settle};
pub(super) use report::{Note, TakeEvent, TakeReport};

use super::tx::{Tx, WriteError};

/// A change of the books. It may run more than once, where a transaction came to nothing; so it does nothing but through
/// `tx`.
pub(super) trait Operation: Clone + Send + Sync + 'static {
    /// What the asker is told.
    type Output: Send + 'static;

    /// Does it.
    fn run<T: Tx>(&self, tx: &mut T) -> impl Future<Output = Result<Self::Output, WriteError>> + Send;
}
