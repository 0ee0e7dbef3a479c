//! The cashier: drives a purchase on between the books and the payment service until it is settled.
//!
//! Whoever finds a purchase unsettled may drive it: the call that started it, a webhook, the reconciler after a crash.
//! Driving it twice at once is harmless, because the payment service does its work once for a purchase and the books
//! take a report that says nothing new as nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::checkout::{Hold, Payment, Report};
use crate::model::Purchase;
use crate::payments::{Charge, NoReply, Payments, Status};
use crate::store::{Store, StoreError};

/// How long one answer of the payment service is waited for.
const REPLY: Duration = Duration::from_secs(5);
/// A payment that the payment service has never heard of is given up only when no request for it can be under way any
/// more, in milliseconds.
const GIVE_UP: i64 = 15_000;
/// Purchases that changed this recently are left to whoever changed them, in milliseconds.
const IDLE: i64 = 1_000;
/// Purchases driven at a time, so that one slow answer does not keep the others waiting.
const AT_A_TIME: usize = 16;
/// More turns than a purchase can take, against a payment service that contradicts itself.
const TURNS: usize = 8;

/// Drives purchases; cheap to clone.
#[derive(Clone)]
pub(crate) struct Cashier {
    store: Store,
    payments: Arc<dyn Payments>,
}

// === impl Cashier ===

impl std::fmt::Debug for Cashier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cashier").finish_non_exhaustive()
    }
}

impl Cashier {
    /// A cashier between `store` and `payments`.
    #[must_use]
    pub(crate) fn new(store: Store, payments: Arc<dyn Payments>) -> Self {
        Self { store, payments }
    }

    /// Drives a purchase as far as it goes now. `None`: there is no such purchase.
    ///
    /// # Errors
    /// When the books cannot be read or written. What the payment service does not answer is no error: the purchase
    /// stays unsettled and is driven on later.
    pub(crate) async fn drive(&self, id: &str) -> Result<Option<Purchase>, StoreError> {
        let Some(mut purchase) = self.store.any_purchase(id).await? else { return Ok(None) };
        for _ in 0..TURNS {
            let Some((report, reason)) = self.ask(&purchase).await? else { return Ok(Some(purchase)) };
            let before = purchase.state;
            let Some(after) = self.store.report(id.to_owned(), report, reason).await? else {
                return Ok(None);
            };
            purchase = after;
            if purchase.state == before {
                return Ok(Some(purchase));
            }
        }
        tracing::error!(purchase = id, "the payment service contradicts itself");
        Ok(Some(purchase))
    }

    /// Asks the payment service for what the purchase needs next. `None`: nothing new.
    async fn ask(&self, purchase: &Purchase) -> Result<Option<(Report, Option<String>)>, StoreError> {
        let id = purchase.id.as_str();
        let reply = match purchase.state {
            Payment::Authorising if purchase.reservation.state == Hold::Paying => {
                let charge = Charge {
                    purchase: id.to_owned(),
                    amount_minor: purchase.reservation.amount_minor,
                    currency: purchase.reservation.currency.clone(),
                    method: purchase.method.clone(),
                };
                timely(self.payments.authorise(&charge)).await
            }
            Payment::Authorising => timely(self.payments.status(id)).await,
            Payment::Capturing => timely(self.payments.capture(id)).await,
            Payment::Voiding => timely(self.payments.void(id)).await,
            Payment::Refunding => timely(self.payments.refund(id)).await,
            Payment::Sold | Payment::Declined | Payment::Voided | Payment::Refunded => return Ok(None),
        };
        let status = match reply {
            Ok(status) => status,
            Err(error) => {
                tracing::info!(purchase = id, state = purchase.state.as_str(), %error, "will ask again");
                return Ok(None);
            }
        };
        Ok(match status {
            Status::Pending => None,
            Status::Unknown if self.store.age_ms(purchase).await? < GIVE_UP => None,
            Status::Unknown => Some((Report::NeverHeard, None)),
            Status::Authorised => Some((Report::Authorised, None)),
            Status::Declined(reason) => Some((Report::Declined, Some(reason))),
            Status::CaptureRefused(reason) => Some((Report::CaptureRefused, Some(reason))),
            Status::Captured => Some((Report::Captured, None)),
            Status::Voided => Some((Report::Voided, None)),
            Status::Refunded => Some((Report::Refunded, None)),
        })
    }

    /// Drives every purchase that nobody has touched for a while: after a crash, a lost reply, a webhook that never came.
    ///
    /// # Errors
    /// When the books cannot be read or written.
    pub(crate) async fn reconcile(&self) -> Result<(), StoreError> {
        let mut driving = JoinSet::new();
        let mut failed = Ok(());
        for id in self.store.unsettled(IDLE).await? {
            if driving.len() >= AT_A_TIME
                && let Some(Ok(Err(error))) = driving.join_next().await
            {
                failed = Err(error);
            }
            let cashier = self.clone();
            driving.spawn(async move { cashier.drive(&id).await.map(drop) });
        }
        while let Some(driven) = driving.join_next().await {
            if let Ok(Err(error)) = driven {
                failed = Err(error);
            }
        }
        failed
    }

    /// Reconciles every `every`, at once first, until it is dropped.
    pub(crate) async fn keep_reconciling(self, every: Duration) {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if let Err(error) = self.reconcile().await {
                tracing::warn!(%error, "could not reconcile; will try again");
            }
        }
    }
}

async fn timely(reply: impl Future<Output = Result<Status, NoReply>>) -> Result<Status, NoReply> {
    tokio::time::timeout(REPLY, reply).await.unwrap_or_else(|_| Err(NoReply("it took too long".to_owned())))
}
