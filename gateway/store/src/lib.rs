//! Where the state of the sales lives.
//!
//! [`QueueStore`] is what a gateway talks to; it hides where the state is and who else shares it.
//! [`EmbeddedStore`] keeps it in this process, durably, in one file; `RedisStore` (feature `redis`)
//! shares it between any number of gateways. The rules of a sale are not
//! here: both the embedded store and any other run the state machine of [`ropeline_queue`].
//!
//! One clock decides for each store. It is the store's own, so no call takes the time as a
//! parameter, and two gateways with different clocks cannot disagree about a lease.

mod clock;
#[cfg(any(test, feature = "contract-suite"))]
pub mod contract;
mod embedded;
mod error;
mod records;
#[cfg(feature = "redis")]
mod redis;

use std::sync::Arc;

use async_trait::async_trait;
use ropeline_queue::{
    Arrival, ChangeRefusal, ClaimRefusal, Claimed, Command, CommandDone, CommandRefusal, Invited,
    JoinOptions, JoinRecord, JoinRefusal, Joined, LeaseEvent, LeaveRefusal, Position, SaleDefinition, SaleId,
    SaleView, Stock, TickInput, VisitorKey,
};

pub use clock::{Clock, SystemClock};
pub use embedded::EmbeddedStore;
pub use error::StoreError;
#[cfg(feature = "redis")]
pub use redis::{
    RedisCheckpoint, RedisClientCertificate, RedisKeys, RedisReport, RedisServers, RedisSettings, RedisStore,
    RedisTls,
};

/// One visitor's wish to join a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Who.
    pub visitor: VisitorKey,
    /// Whether a visitor whose turn is over asks for a new arrival at the back. Nobody is
    /// re-queued without asking.
    pub again: bool,
    /// The invitation they show, which the gateway has checked.
    pub invited: Option<Invited>,
    /// Asks for the number that the visitor has already; nobody new is given one.
    pub known_only: bool,
}

// === impl Join ===

impl Join {
    /// A visitor's first wish, without an invitation.
    #[must_use]
    pub const fn of(visitor: VisitorKey) -> Self {
        Self { visitor, again: false, invited: None, known_only: false }
    }

    /// The same as the queue takes it.
    #[must_use]
    pub const fn options(&self) -> JoinOptions {
        JoinOptions { again: self.again, invited: self.invited, known_only: self.known_only }
    }
}

/// What a store on a server has done since it was opened, for whoever watches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// Commands sent to the server; a script is one.
    pub commands: u64,
    /// Batches of calls that changed something.
    pub commits: u64,
    /// Batches that were run again because another gateway was faster.
    pub conflicts: u64,
    /// Times that a sale went on after the server was restarted or replaced, or had lost a part of it.
    pub recoveries: u64,
    /// Another gateway has been found to sign with keys that this one does not have, or the other way round, or to keep
    /// another checkpoint.
    pub disagrees: bool,
}

/// The state of all sales, shared by every gateway that opens the same store.
///
/// Two layers of result: the outer [`StoreError`] says that the store could not do its work (or
/// knows no such sale), the inner refusal is the queue's answer to the visitor or operator and as
/// final as a success. Either way an answer is given only once it is durable: what was answered
/// survives the loss of the process.
///
/// After an error the caller does not know whether the call took effect. Every call may then be
/// repeated: join, claim, leave and tick are idempotent.
#[async_trait]
pub trait QueueStore: Send + Sync + 'static {
    /// The sales of this store, in the order of their ids.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn sales(&self) -> Result<Vec<SaleId>, StoreError>;

    /// Creates a sale. `draw_secret` must come from the operating system's random source; it
    /// stays in the store until the draw is over.
    ///
    /// # Errors
    /// [`StoreError::SaleExists`] leaves the existing sale as it is; [`StoreError::Unavailable`].
    async fn create(&self, definition: SaleDefinition, draw_secret: [u8; 32]) -> Result<(), StoreError>;

    /// Replaces the definition of the sale that has the definition's id; with `over`, only if that
    /// is the definition in force.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`]. The inner refusal: the change
    /// would take back what visitors were promised, or another change that came first.
    async fn change(
        &self,
        definition: SaleDefinition,
        over: Option<Arc<SaleDefinition>>,
    ) -> Result<Result<(), ChangeRefusal>, StoreError>;

    /// An operator's command.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`]. The inner refusal: the command
    /// does not fit the sale's phase.
    async fn command(
        &self,
        sale: &SaleId,
        command: Command,
    ) -> Result<Result<CommandDone, CommandRefusal>, StoreError>;

    /// Joins many visitors at once; the answers stand in the order of `joins`. The same visitor
    /// gets the same arrival, however often and from however many gateways it comes.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`], for the whole batch.
    async fn join(
        &self,
        sale: &SaleId,
        joins: Vec<Join>,
    ) -> Result<Vec<Result<Joined, JoinRefusal>>, StoreError>;

    /// Takes in tickets that visitors show and the store may have lost: who holds a number that was passed over after a
    /// loss gets it back, with its place in the queue. To be called for a visitor whose ticket says another number than
    /// [`join`](Self::join) does, or that is unknown. A store that loses nothing has nothing to take back.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`].
    async fn reenter(&self, _sale: &SaleId, _tickets: Vec<JoinRecord>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Takes the admission of a called visitor; the same answer again until the lease ends.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`]. The inner refusal: why the
    /// visitor is not admitted.
    async fn claim(
        &self,
        sale: &SaleId,
        position: Position,
    ) -> Result<Result<Claimed, ClaimRefusal>, StoreError>;

    /// Gives up a place or an admission for good.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`].
    async fn leave(&self, sale: &SaleId, position: Position) -> Result<Result<(), LeaveRefusal>, StoreError>;

    /// What the shop says about an admitted visitor. News of a lease that is over is ignored.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`].
    async fn lease(&self, sale: &SaleId, arrival: Arrival, event: LeaseEvent) -> Result<(), StoreError>;

    /// What the shop says about its stock.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`].
    async fn stock(&self, sale: &SaleId, stock: Stock) -> Result<(), StoreError>;

    /// Moves the sale on to the store's present time: ends leases, lapses calls, changes phase,
    /// draws, calls. Atomic, and idempotent at one instant: any number of gateways may tick as
    /// often as they like, together they call what time has earned. A tick that changes nothing
    /// costs no write.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`], [`StoreError::Unavailable`].
    async fn tick(&self, sale: &SaleId, input: TickInput) -> Result<Arc<SaleView>, StoreError>;

    /// Where the sale stood after the last change or tick, in one read. Never waits for a write
    /// in progress; `as_of` in the view says how old it is.
    ///
    /// # Errors
    /// [`StoreError::UnknownSale`]; [`StoreError::Unavailable`] where the store is remote.
    async fn view(&self, sale: &SaleId) -> Result<Arc<SaleView>, StoreError>;

    /// Leaves a new mark for gateways that cannot reach the store themselves: this one does. It stands where they may reach
    /// it all the same, and is nothing where there is no such place.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::Io`].
    async fn leave_mark(&self, _sale: &SaleId) -> Result<(), StoreError> {
        Ok(())
    }

    /// The latest mark of any gateway, no two being alike; none if there is none, or no place for it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::Io`].
    async fn mark(&self, _sale: &SaleId) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Tells the others that share the store that this gateway is no more among them. It makes no calls after that.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: they take note of it after a while all the same.
    async fn part(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// What the store has done so far; none where it has no server to talk to.
    fn report(&self) -> Option<StoreReport> {
        None
    }
}
