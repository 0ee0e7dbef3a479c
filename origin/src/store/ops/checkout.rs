//! The shopper's calls on a reservation, each with its key.

use super::expiry::own;
use super::{Operation, events};
use crate::answer::Answer;
use crate::checkout::{self, StockMove};
use crate::model::{Purchase, new_id};
use crate::store::tx::{Known, Standing, Turn, Tx, WriteError};
use crate::store::{Begun, KeyUse};

/// Gives the units of a reservation back. Without a key the call is its own retry.
#[derive(Clone, Debug)]
pub(in crate::store) struct Cancel {
    pub(in crate::store) visitor: String,
    pub(in crate::store) reservation: String,
    pub(in crate::store) key: Option<KeyUse>,
}

/// Makes a hold last longer, once.
#[derive(Clone, Debug)]
pub(in crate::store) struct Extend {
    pub(in crate::store) reservation: String,
    pub(in crate::store) key: KeyUse,
}

/// Starts a payment for a reservation, or takes up the one that the key started.
#[derive(Clone, Debug)]
pub(in crate::store) struct Begin {
    pub(in crate::store) key: KeyUse,
    pub(in crate::store) reservation: String,
    pub(in crate::store) method: String,
    pub(in crate::store) email: Option<String>,
}

/// Keeps the answer of a purchase call with its key, and gives the answer that is kept: the first.
#[derive(Clone, Debug)]
pub(in crate::store) struct Finish {
    pub(in crate::store) key: KeyUse,
    pub(in crate::store) answer: Answer,
}

/// What is to be done about a call with a key.
enum Turned {
    /// It is new.
    New,
    /// This is its answer.
    Answered(Answer),
    /// It is under way, and nobody else is at it.
    TakenOver(String),
    /// It is under way on another node.
    Elsewhere(String),
}

async fn look_up<T: Tx>(tx: &mut T, key: &KeyUse) -> Result<Turned, WriteError> {
    let Some(Known { fingerprint, standing }) = tx.key(key).await? else { return Ok(Turned::New) };
    if fingerprint != key.fingerprint {
        return Ok(Turned::Answered(Answer::key_reused()));
    }
    let (purchase, lease) = match standing {
        Standing::Answered(answer) => return Ok(Turned::Answered(answer)),
        Standing::UnderWay { purchase, lease } => (purchase, lease),
    };
    let now = tx.now().await?;
    Ok(match lease {
        // One that would last longer than any does is of a time before the clock was set back.
        Some((owner, until))
            if until > now
                && until <= now.saturating_add(tx.settings().lease_ms)
                && owner != tx.settings().node =>
        {
            Turned::Elsewhere(purchase)
        }
        _ => Turned::TakenOver(purchase),
    })
}

/// This node drives the purchase from now on.
async fn lease<T: Tx>(tx: &mut T, key: &KeyUse, purchase: String) -> Result<Begun, WriteError> {
    let until = tx.now().await?.saturating_add(tx.settings().lease_ms);
    let lease = Some((tx.settings().node.clone(), until));
    tx.keep_key(key, &Standing::UnderWay { purchase: purchase.clone(), lease }).await?;
    Ok(Begun::Started(purchase))
}

impl Operation for Cancel {
    type Output = Answer;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Answer, WriteError> {
        if let Some(key) = &self.key {
            match look_up(tx, key).await? {
                Turned::New => {}
                Turned::Answered(answer) => return Ok(answer),
                Turned::TakenOver(_) | Turned::Elsewhere(_) => return Ok(Answer::in_flight()),
            }
        }
        let Some(mut hold) = own(tx, &self.visitor, &self.reservation).await? else {
            return Ok(Answer::no_reservation());
        };
        let answer = match checkout::cancel(hold.state) {
            Ok((to, units)) => {
                if hold.state != to {
                    hold.state = to;
                    let now = tx.now().await?;
                    // That it is over was told when its time was.
                    let event = match units {
                        StockMove::Release => {
                            events::of_hold(tx.settings(), events::RESERVATION_CANCELLED, &mut hold, now)?
                        }
                        StockMove::Stay | StockMove::Sell => None,
                    };
                    tx.put(&[Turn { reservation: hold.clone(), units }]).await?;
                    if let Some(event) = event {
                        tx.emit(&[event]).await?;
                    }
                }
                Answer::cancelled(&hold)
            }
            Err(why) => Answer::cannot_cancel(why, &hold),
        };
        if let Some(key) = &self.key {
            tx.keep_key(key, &Standing::Answered(answer.clone())).await?;
        }
        Ok(answer)
    }
}

impl Operation for Extend {
    type Output = Answer;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Answer, WriteError> {
        match look_up(tx, &self.key).await? {
            Turned::New => {}
            Turned::Answered(answer) => return Ok(answer),
            Turned::TakenOver(_) | Turned::Elsewhere(_) => return Ok(Answer::in_flight()),
        }
        let Some(mut hold) = own(tx, &self.key.visitor, &self.reservation).await? else {
            return Ok(Answer::no_reservation());
        };
        let by = tx.settings().extension_ms;
        let answer = match checkout::extend(hold.state, hold.extended, by > 0) {
            Ok(()) => {
                hold.extended = true;
                hold.expires_at = hold.expires_at.saturating_add(by);
                tx.put(&[Turn { reservation: hold.clone(), units: StockMove::Stay }]).await?;
                Answer::reservation(&hold)
            }
            Err(why) => Answer::cannot_extend(why, &hold),
        };
        tx.keep_key(&self.key, &Standing::Answered(answer.clone())).await?;
        Ok(answer)
    }
}

impl Operation for Begin {
    type Output = Begun;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Begun, WriteError> {
        match look_up(tx, &self.key).await? {
            Turned::New => {}
            Turned::Answered(answer) => return Ok(Begun::Answered(answer)),
            Turned::TakenOver(purchase) => return lease(tx, &self.key, purchase).await,
            // The other node may be dead, and the payment settled meanwhile by the reconciler: then there is nothing to
            // wait for. Should it be alive, whoever is first keeps the answer for both.
            Turned::Elsewhere(id) => {
                let settled = tx.purchase(&id).await?.is_some_and(|purchase| purchase.state.is_settled());
                return if settled {
                    lease(tx, &self.key, id).await
                } else {
                    Ok(Begun::Answered(Answer::in_flight()))
                };
            }
        }
        let Some(mut hold) = own(tx, &self.key.visitor, &self.reservation).await? else {
            return Ok(Begun::Answered(Answer::no_reservation()));
        };
        let (to, payment) = match checkout::begin(hold.state) {
            Ok(started) => started,
            Err(why) => {
                let answer = Answer::cannot_pay(why, &hold);
                if !answer.is_passing() {
                    tx.keep_key(&self.key, &Standing::Answered(answer.clone())).await?;
                }
                return Ok(Begun::Answered(answer));
            }
        };
        hold.state = to;
        tx.put(&[Turn { reservation: hold.clone(), units: StockMove::Stay }]).await?;
        let now = tx.now().await?;
        let purchase = Purchase {
            id: new_id("pur_", now)?,
            state: payment,
            method: self.method.clone(),
            reason: None,
            created_at: now,
            provider_ref: None,
            redirect_url: None,
            email: self.email.clone(),
            reservation: hold,
        };
        tx.add_purchase(&purchase).await?;
        lease(tx, &self.key, purchase.id).await
    }
}

impl Operation for Finish {
    type Output = Answer;

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<Answer, WriteError> {
        if let Turned::Answered(first) = first(tx, &self.key).await? {
            return Ok(first);
        }
        tx.keep_key(&self.key, &Standing::Answered(self.answer.clone())).await?;
        Ok(self.answer.clone())
    }
}

/// As [`look_up`], whoever has the lease: an answer is an answer.
async fn first<T: Tx>(tx: &mut T, key: &KeyUse) -> Result<Turned, WriteError> {
    Ok(match tx.key(key).await? {
        Some(known) if known.fingerprint != key.fingerprint => Turned::Answered(Answer::key_reused()),
        Some(Known { standing: Standing::Answered(answer), .. }) => Turned::Answered(answer),
        Some(Known { standing: Standing::UnderWay { purchase, .. }, .. }) => Turned::TakenOver(purchase),
        None => Turned::New,
    })
}
