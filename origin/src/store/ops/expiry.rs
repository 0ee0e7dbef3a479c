//! The end of holds whose time is over.

use super::{Operation, events};
use crate::checkout;
use crate::model::Reservation;
use crate::store::tx::{Turn, Tx, WriteError};

/// How long a key is remembered, in milliseconds.
const KEY_LIFE: i64 = 3 * 24 * 3_600 * 1_000;
/// How long it is remembered that an event of the payment service came, in milliseconds: ten times as long as Stripe goes
/// on sending one.
const EVENT_LIFE: i64 = 30 * 24 * 3_600 * 1_000;
/// Holds that one sweep ends at most.
const AT_A_TIME: u32 = 1_000;

/// Ends holds that are due and forgets old keys and events.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Sweep;

impl Operation for Sweep {
    type Output = ();

    async fn run<T: Tx>(&self, tx: &mut T) -> Result<(), WriteError> {
        let now = tx.now().await?;
        tx.forget_keys(now - KEY_LIFE).await?;
        tx.forget_events(now - EVENT_LIFE).await?;
        let mut due = tx.due(AT_A_TIME).await?;
        end(tx, &mut due).await
    }
}

/// Ends those of `holds` that are due, all at once; they are locked. Each is left as it is from then on.
pub(in crate::store) async fn end<T: Tx>(tx: &mut T, holds: &mut [Reservation]) -> Result<(), WriteError> {
    if holds.is_empty() {
        return Ok(());
    }
    let now = tx.now().await?;
    let (mut turns, mut told) = (Vec::new(), Vec::new());
    for hold in holds.iter_mut().filter(|hold| hold.expires_at <= now) {
        let (to, units) = checkout::expire(hold.state);
        if to == hold.state {
            continue;
        }
        hold.state = to;
        told.extend(events::of_hold(tx.settings(), events::RESERVATION_EXPIRED, hold, now)?);
        turns.push(Turn { reservation: hold.clone(), units });
    }
    if !turns.is_empty() {
        tx.put(&turns).await?;
    }
    if !told.is_empty() {
        tx.emit(&told).await?;
    }
    Ok(())
}

/// A visitor's own reservation, locked, and ended if it is due.
pub(super) async fn own<T: Tx>(
    tx: &mut T,
    visitor: &str,
    id: &str,
) -> Result<Option<Reservation>, WriteError> {
    let Some(mut hold) = tx.reservation(id).await?.filter(|hold| hold.visitor == visitor) else {
        return Ok(None);
    };
    end(tx, std::slice::from_mut(&mut hold)).await?;
    Ok(Some(hold))
}
