//! The cashier: drives a purchase on between the books and the payment service until it is settled.
//!
//! Whoever finds a purchase unsettled may drive it: the call that started it, a webhook, the reconciler after a crash.
//! Driving it twice at once is harmless, because the payment service does its work once for a purchase and the books
//! take a report that says nothing new as nothing.

mod patience;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::checkout::{Hold, Payment, Report};
use crate::model::Purchase;
use crate::payments::{Charge, Opened, Payments, Status};
use crate::store::{Store, StoreError};
pub(crate) use patience::Patience;

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

/// What asking the payment service came to.
enum Asked {
    /// Nothing new.
    Nothing,
    /// This, to be taken into the books.
    Said(Report, Option<String>),
    /// The purchase has been noted anew, and is to be asked about again.
    Noted(Box<Purchase>),
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
            let (report, reason) = match self.ask(&purchase).await? {
                Asked::Nothing => return self.store.any_purchase(id).await,
                Asked::Said(report, reason) => (report, reason),
                Asked::Noted(noted) => {
                    purchase = *noted;
                    continue;
                }
            };
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

    /// Asks the payment service how a purchase stands, settled or not, and takes that into the books. `false`: it did not
    /// answer.
    ///
    /// # Errors
    /// When the books cannot be read or written.
    pub(crate) async fn look(&self, purchase: &Purchase) -> Result<bool, StoreError> {
        let status = match self.payments.status(&charge(purchase)).await {
            Ok(status) => status,
            Err(error) => {
                tracing::info!(purchase = purchase.id, %error, "a webhook will have to come again");
                return Ok(false);
            }
        };
        self.point(purchase, &status).await?;
        if let Some((report, reason)) = status.report() {
            self.store.report(purchase.id.clone(), report, reason).await?;
        }
        Ok(true)
    }

    /// Notes where the shopper has to confirm the payment.
    async fn point(&self, purchase: &Purchase, status: &Status) -> Result<(), StoreError> {
        if let Status::Pending { redirect } = status
            && purchase.state == Payment::Authorising
            && *redirect != purchase.redirect_url
        {
            self.store.note(purchase.id.clone(), None, redirect.clone()).await?;
        }
        Ok(())
    }

    /// Asks the payment service for what the purchase needs next.
    async fn ask(&self, purchase: &Purchase) -> Result<Asked, StoreError> {
        let id = purchase.id.as_str();
        let charge = charge(purchase);
        let reply = match purchase.state {
            Payment::Authorising if purchase.provider_ref.is_none() => {
                match self.payments.open(&charge).await {
                    Ok(Opened::Nameless) if purchase.reservation.state == Hold::Paying => {
                        self.payments.authorise(&charge).await
                    }
                    Ok(Opened::Nameless) => self.payments.void(&charge).await,
                    Ok(Opened::Named(name)) => {
                        let noted = self.store.note(id.to_owned(), Some(name), None).await?;
                        return Ok(noted.map_or(Asked::Nothing, |noted| Asked::Noted(Box::new(noted))));
                    }
                    Ok(Opened::Refused(reason)) => Ok(Status::Declined(reason)),
                    Err(error) => Err(error),
                }
            }
            Payment::Authorising if purchase.reservation.state == Hold::Paying => {
                match self.payments.status(&charge).await {
                    Ok(Status::Opened) => self.payments.authorise(&charge).await,
                    reply => reply,
                }
            }
            // Nobody wants it any more: it is shut, lest it be confirmed after all.
            Payment::Authorising => self.payments.void(&charge).await,
            Payment::Capturing => self.payments.capture(&charge).await,
            Payment::Voiding => self.payments.void(&charge).await,
            Payment::Refunding => self.payments.refund(&charge).await,
            Payment::Sold | Payment::Declined | Payment::Voided | Payment::Refunded => {
                return Ok(Asked::Nothing);
            }
        };
        let status = match reply {
            Ok(status) => status,
            Err(error) => {
                tracing::info!(purchase = id, state = purchase.state.as_str(), %error, "will ask again");
                return Ok(Asked::Nothing);
            }
        };
        if status == Status::Unknown && self.store.age_ms(purchase).await? >= GIVE_UP {
            return Ok(Asked::Said(Report::NeverHeard, None));
        }
        self.point(purchase, &status).await?;
        Ok(status.report().map_or(Asked::Nothing, |(report, reason)| Asked::Said(report, reason)))
    }

    /// Drives the purchases that nobody has touched for a while: after a crash, a lost reply, a webhook that never came, an
    /// authorisation that ran out. Those that could not be driven on are left alone for longer and longer.
    ///
    /// # Errors
    /// When the books cannot be read or written.
    pub(crate) async fn reconcile(&self, patience: &mut Patience) -> Result<(), StoreError> {
        let unsettled = self.store.unsettled(IDLE).await?;
        let mut driving = JoinSet::new();
        let mut failed = Ok(());
        for id in patience.due(unsettled, Instant::now()) {
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
        let mut patience = Patience::default();
        loop {
            tick.tick().await;
            if let Err(error) = self.reconcile(&mut patience).await {
                tracing::warn!(%error, "could not reconcile; will try again");
            }
        }
    }
}

fn charge(purchase: &Purchase) -> Charge {
    Charge {
        purchase: purchase.id.clone(),
        reference: purchase.provider_ref.clone(),
        amount_minor: purchase.reservation.amount_minor,
        currency: purchase.reservation.currency.clone(),
        method: purchase.method.clone(),
    }
}
