//! The store with a watch on it: every call to it is timed and counted here, and nowhere else.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use ropeline_queue::{
    Arrival, ChangeRefusal, ClaimRefusal, Claimed, Command, CommandDone, CommandRefusal, JoinRecord,
    JoinRefusal, Joined, LeaseEvent, LeaveRefusal, Position, SaleDefinition, SaleId, SaleView, Stock,
    TickInput,
};
use ropeline_store::{Join, QueueStore, StoreError, StoreReport};

use crate::metrics::Metrics;

/// Passes every call on to a store, and counts it.
pub struct MeasuredStore {
    inner: Arc<dyn QueueStore>,
    metrics: Arc<Metrics>,
}

impl MeasuredStore {
    /// Watches `inner`.
    pub fn new(inner: Arc<dyn QueueStore>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics }
    }

    async fn timed<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        let answer = call.await;
        // A wrong question is no fault of the store.
        let failed = match &answer {
            Ok(_) | Err(StoreError::UnknownSale(_) | StoreError::SaleExists(_)) => false,
            Err(error) => {
                // Whoever called says so where it matters.
                tracing::debug!(operation, %error, "store call failed");
                true
            }
        };
        self.metrics.stored(operation, started.elapsed(), failed);
        answer
    }
}

#[async_trait]
impl QueueStore for MeasuredStore {
    async fn sales(&self) -> Result<Vec<SaleId>, StoreError> {
        self.timed("sales", self.inner.sales()).await
    }

    async fn create(&self, definition: SaleDefinition, draw_secret: [u8; 32]) -> Result<(), StoreError> {
        self.timed("create", self.inner.create(definition, draw_secret)).await
    }

    async fn change(
        &self,
        definition: SaleDefinition,
        over: Option<Arc<SaleDefinition>>,
    ) -> Result<Result<(), ChangeRefusal>, StoreError> {
        self.timed("change", self.inner.change(definition, over)).await
    }

    async fn command(
        &self,
        sale: &SaleId,
        command: Command,
    ) -> Result<Result<CommandDone, CommandRefusal>, StoreError> {
        self.timed("command", self.inner.command(sale, command)).await
    }

    async fn join(
        &self,
        sale: &SaleId,
        joins: Vec<Join>,
    ) -> Result<Vec<Result<Joined, JoinRefusal>>, StoreError> {
        let answers = self.timed("join", self.inner.join(sale, joins)).await?;
        for answer in &answers {
            let outcome = match answer {
                Ok(joined) if joined.new => "new",
                Ok(_) => "known",
                Err(JoinRefusal::NotYetOpen) => "not_yet_open",
                Err(JoinRefusal::Closed) => "closed",
                Err(JoinRefusal::SoldOut) => "sold_out",
                Err(JoinRefusal::Full) => "full",
                Err(JoinRefusal::InvitationNeeded) => "invitation_needed",
                Err(JoinRefusal::InvitationUsed) => "invitation_used",
                Err(JoinRefusal::NoSuchLane) => "invitation_other_lane",
                Err(JoinRefusal::NotKnown) => "not_known",
            };
            self.metrics.joined(sale.as_str(), outcome);
        }
        Ok(answers)
    }

    async fn reenter(&self, sale: &SaleId, tickets: Vec<JoinRecord>) -> Result<(), StoreError> {
        self.timed("reenter", self.inner.reenter(sale, tickets)).await
    }

    async fn claim(
        &self,
        sale: &SaleId,
        position: Position,
    ) -> Result<Result<Claimed, ClaimRefusal>, StoreError> {
        let answer = self.timed("claim", self.inner.claim(sale, position)).await?;
        let outcome = match &answer {
            Ok(_) => "admitted",
            Err(ClaimRefusal::NotCalled) => "not_called",
            Err(ClaimRefusal::RecallPending) => "recall_pending",
            Err(ClaimRefusal::Lapsed) => "lapsed",
            Err(ClaimRefusal::Left) => "left",
            Err(ClaimRefusal::Ended) => "ended",
            Err(ClaimRefusal::SoldOut) => "sold_out",
            Err(ClaimRefusal::Closed) => "closed",
            Err(ClaimRefusal::Unknown) => "unknown",
        };
        self.metrics.claimed(sale.as_str(), outcome);
        Ok(answer)
    }

    async fn leave(&self, sale: &SaleId, position: Position) -> Result<Result<(), LeaveRefusal>, StoreError> {
        self.timed("leave", self.inner.leave(sale, position)).await
    }

    async fn lease(&self, sale: &SaleId, arrival: Arrival, event: LeaseEvent) -> Result<(), StoreError> {
        self.timed("lease", self.inner.lease(sale, arrival, event)).await
    }

    async fn stock(&self, sale: &SaleId, stock: Stock) -> Result<(), StoreError> {
        self.timed("stock", self.inner.stock(sale, stock)).await
    }

    async fn tick(&self, sale: &SaleId, input: TickInput) -> Result<Arc<SaleView>, StoreError> {
        let view = self.timed("tick", self.inner.tick(sale, input)).await?;
        self.metrics.sale(&view);
        Ok(view)
    }

    async fn view(&self, sale: &SaleId) -> Result<Arc<SaleView>, StoreError> {
        let view = self.timed("view", self.inner.view(sale)).await?;
        self.metrics.sale(&view);
        Ok(view)
    }

    async fn leave_mark(&self, sale: &SaleId) -> Result<(), StoreError> {
        self.inner.leave_mark(sale).await
    }

    async fn mark(&self, sale: &SaleId) -> Result<Option<u64>, StoreError> {
        self.inner.mark(sale).await
    }

    async fn part(&self) -> Result<(), StoreError> {
        self.inner.part().await
    }

    fn report(&self) -> Option<StoreReport> {
        self.inner.report()
    }
}
