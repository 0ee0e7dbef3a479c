//! The events that are told of the books, and what they say.

use serde_json::json;

use crate::checkout::Payment;
use crate::model::{Purchase, Reservation, new_id};
use crate::store::Settings;
use crate::store::tx::NewEvent;

pub(super) const RESERVATION_CANCELLED: &str = "reservation.cancelled";
pub(super) const RESERVATION_EXPIRED: &str = "reservation.expired";
const PRODUCT_STOPPED: &str = "product.stopped";

/// What is told of a payment that has come to this state.
pub(super) fn kind_of(payment: Payment) -> Option<&'static str> {
    match payment {
        Payment::Sold => Some("purchase.sold"),
        Payment::Declined => Some("purchase.declined"),
        Payment::Voided => Some("purchase.voided"),
        Payment::Refunded => Some("purchase.refunded"),
        Payment::Authorising | Payment::Capturing | Payment::Voiding | Payment::Refunding => None,
    }
}

/// An event of a reservation, and its version counted up; `None` when nobody is to be told.
pub(super) fn of_hold(
    settings: &Settings,
    kind: &'static str,
    hold: &mut Reservation,
    now: i64,
) -> Result<Option<NewEvent>, getrandom::Error> {
    if settings.sinks.is_empty() {
        return Ok(None);
    }
    hold.version += 1;
    let payload = json!({ "reservation": hold.document(), "visitor": hold.visitor });
    let (id, aggregate) = (new_id("evt_", now)?, hold.id.clone());
    Ok(Some(NewEvent { id, aggregate, seq: hold.version, kind, payload }))
}

/// An event of a purchase, and its reservation's version counted up; `None` when nobody is to be told.
pub(super) fn of_purchase(
    settings: &Settings,
    kind: &'static str,
    purchase: &mut Purchase,
    now: i64,
) -> Result<Option<NewEvent>, getrandom::Error> {
    let hold = &mut purchase.reservation;
    if settings.sinks.is_empty() {
        return Ok(None);
    }
    hold.version += 1;
    let (id, aggregate, seq) = (new_id("evt_", now)?, hold.id.clone(), hold.version);
    let payload = json!({ "purchase": purchase.document(), "visitor": purchase.reservation.visitor, "email": purchase.email });
    Ok(Some(NewEvent { id, aggregate, seq, kind, payload }))
}

/// That a product's sale is stopped; `None` when nobody is to be told.
pub(super) fn of_stop(
    settings: &Settings,
    product: &str,
    why: &str,
    version: &mut i64,
    now: i64,
) -> Result<Option<NewEvent>, getrandom::Error> {
    if settings.sinks.is_empty() {
        return Ok(None);
    }
    *version += 1;
    let payload = json!({ "product": product, "why": why });
    let (id, aggregate) = (new_id("evt_", now)?, product.to_owned());
    Ok(Some(NewEvent { id, aggregate, seq: *version, kind: PRODUCT_STOPPED, payload }))
}
