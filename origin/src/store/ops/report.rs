//! What the payment service says, whoever brings it.

use super::expiry::end;
use super::{Operation, events};
use crate::checkout::{self, Payment, Report, StockMove};
use crate::model::Purchase;
use crate::store::Event;
use crate::store::tx::{Turn, Tx, WriteError};

/// Takes a report on a purchase. `None`: there is no such purchase.
#[derive(Clone, Debug)]
pub(in crate::store) struct TakeReport {
    pub(in crate::store) purchase: String,
    pub(in crate::store) report: Report,
    pub(in crate::store) reason: Option<String>,
}

/// Takes a webhook's event, once. `None`: it had come before, says nothing that counts, or there is no such purchase.
#[derive(Clone, Debug)]
pub(in crate::store) struct TakeEvent(pub(in crate::store) Event);

/// Notes what the payment service calls a purchase, and where the shopper has to confirm it. `None`: there is no such
/// purchase.
#[derive(Clone, Debug)]
pub(in crate::store) struct Note {
    pub(in crate::store) purchase: String,
    pub(in crate::store) provider_ref: Option<String>,
    pub(in crate::store) redirect_url: Option<String>,
}

impl Operation for TakeReport {
    type Output = Option<Purchase>;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Option<Purchase>, WriteError> {
        report(tx, &self.purchase, self.report, self.reason.as_deref()).await
    }
}

impl Operation for TakeEvent {
    type Output = Option<Purchase>;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Option<Purchase>, WriteError> {
        let Event { id, kind, purchase, report: said, reason } = &self.0;
        match said {
            Some(said) if tx.fresh(id, kind, purchase).await? => {
                report(tx, purchase, *said, reason.as_deref()).await
            }
            Some(_) => Ok(None),
            None => {
                tx.fresh(id, kind, purchase).await?;
                Ok(None)
            }
        }
    }
}

impl Operation for Note {
    type Output = Option<Purchase>;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Option<Purchase>, WriteError> {
        let Some(mut purchase) = tx.purchase(&self.purchase).await? else { return Ok(None) };
        end(tx, std::slice::from_mut(&mut purchase.reservation)).await?;
        // The first name counts: money may have been asked for under it.
        purchase.provider_ref = purchase.provider_ref.or_else(|| self.provider_ref.clone());
        purchase.redirect_url.clone_from(&self.redirect_url);
        tx.put_purchase(&purchase).await?;
        Ok(Some(purchase))
    }
}

async fn report<T: Tx>(
    tx: &mut T,
    id: &str,
    report: Report,
    reason: Option<&str>,
) -> Result<Option<Purchase>, WriteError> {
    let Some(mut purchase) = tx.purchase(id).await? else { return Ok(None) };
    end(tx, std::slice::from_mut(&mut purchase.reservation)).await?;
    let hold = &mut purchase.reservation;
    if let Some(again) = checkout::retake(hold.state, purchase.state, report)
        && tx.retake(hold).await?
    {
        hold.state = again;
    }
    let step = checkout::report(hold.state, purchase.state, report);
    if step.stock == StockMove::Sell && !tx.has_units(hold).await? {
        // Nobody is told of what is not theirs. The audit stops the product, and once the books are mended, whoever asks
        // the payment service next sells it.
        tracing::error!(
            purchase = id,
            reservation = hold.id,
            "what is paid for is not set aside; it is not sold yet"
        );
        return Ok(Some(purchase));
    }
    let moves = hold.state != step.hold || step.stock != StockMove::Stay;
    hold.state = step.hold;
    let mut event = None;
    if step.payment != purchase.state {
        if step.payment == Payment::Refunding {
            tracing::warn!(purchase = id, "money was captured without a hold; it is given back");
        }
        if checkout::is_refusal(hold.state, purchase.state, report) && purchase.reason.is_none() {
            purchase.reason =
                Some(reason.unwrap_or("The payment service did not take the payment.").to_owned());
        }
        purchase.state = step.payment;
        purchase.redirect_url = None;
        tx.put_purchase(&purchase).await?;
        if let Some(kind) = events::kind_of(step.payment) {
            let now = tx.now().await?;
            event = events::of_purchase(tx.settings(), kind, &mut purchase, now)?;
        }
    }
    if moves || event.is_some() {
        tx.put(&[Turn { reservation: purchase.reservation.clone(), units: step.stock }]).await?;
    }
    if let Some(event) = event {
        tx.emit(&[event]).await?;
    }
    // A hold that came back from capturing may have been due all the while.
    end(tx, std::slice::from_mut(&mut purchase.reservation)).await?;
    Ok(Some(purchase))
}
