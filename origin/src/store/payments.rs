//! What the checkout's state machine does to the books, and the keys of single calls.

use super::rows::{select_purchase, select_reservation};
use super::writer::{Moment, WriteError};
use super::{Begun, Event, KeyUse};
use crate::answer::Answer;
use crate::checkout::{self, Hold, Payment, Report, StockMove};
use crate::model::{Purchase, Reservation, new_id};

/// What a key stands for already.
enum Known {
    New,
    Answered(Answer),
    UnderWay(String),
}

async fn look_up(moment: &mut Moment<'_>, key: &KeyUse) -> Result<Known, WriteError> {
    let row: Option<(Vec<u8>, Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT fingerprint, purchase_id, answer FROM idempotency_keys WHERE visitor = ?1 AND key = ?2",
    )
    .bind(&key.visitor)
    .bind(&key.key)
    .fetch_optional(&mut *moment.tx)
    .await?;
    Ok(match row {
        None => Known::New,
        Some((fingerprint, ..)) if fingerprint != key.fingerprint => Known::Answered(Answer::key_reused()),
        Some((_, _, Some(answer))) => Known::Answered(serde_json::from_str(&answer)?),
        Some((_, Some(purchase), None)) => Known::UnderWay(purchase),
        // The table's check rules it out.
        Some((_, None, None)) => Known::New,
    })
}

async fn keep(
    moment: &mut Moment<'_>,
    key: &KeyUse,
    purchase: Option<&str>,
    answer: Option<&Answer>,
) -> Result<(), WriteError> {
    let answer = answer.map(serde_json::to_string).transpose()?;
    sqlx::query(
        "INSERT INTO idempotency_keys (visitor, key, fingerprint, purchase_id, answer, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(&key.visitor)
    .bind(&key.key)
    .bind(key.fingerprint.as_slice())
    .bind(purchase)
    .bind(answer)
    .bind(moment.now)
    .execute(&mut *moment.tx)
    .await?;
    Ok(())
}

async fn own(moment: &mut Moment<'_>, visitor: &str, id: &str) -> Result<Option<Reservation>, WriteError> {
    Ok(sqlx::query_as(select_reservation!("WHERE r.id = ?1 AND r.visitor = ?2"))
        .bind(id)
        .bind(visitor)
        .fetch_optional(&mut *moment.tx)
        .await?)
}

/// Writes the hold's new state and moves its units.
async fn turn(
    moment: &mut Moment<'_>,
    hold: &mut Reservation,
    to: Hold,
    units: StockMove,
) -> Result<(), WriteError> {
    if hold.state != to {
        sqlx::query("UPDATE reservations SET state = ?2, changed_at = ?3 WHERE id = ?1")
            .bind(&hold.id)
            .bind(to.as_str())
            .bind(moment.now)
            .execute(&mut *moment.tx)
            .await?;
        hold.state = to;
    }
    match units {
        StockMove::Stay => Ok(()),
        StockMove::Release => moment.release(&hold.product, hold.quantity).await,
        StockMove::Sell => {
            sqlx::query("UPDATE stock SET held = held - ?2, sold = sold + ?2 WHERE product_id = ?1")
                .bind(&hold.product)
                .bind(hold.quantity)
                .execute(&mut *moment.tx)
                .await?;
            Ok(())
        }
    }
}

pub(super) async fn cancel(
    moment: &mut Moment<'_>,
    visitor: &str,
    id: &str,
    key: Option<&KeyUse>,
) -> Result<Answer, WriteError> {
    if let Some(key) = key {
        match look_up(moment, key).await? {
            Known::New => {}
            Known::Answered(answer) => return Ok(answer),
            Known::UnderWay(_) => return Ok(Answer::in_flight()),
        }
    }
    let Some(mut hold) = own(moment, visitor, id).await? else { return Ok(Answer::no_reservation()) };
    let answer = match checkout::cancel(hold.state) {
        Ok((to, units)) => {
            turn(moment, &mut hold, to, units).await?;
            Answer::cancelled(&hold)
        }
        Err(why) => Answer::cannot_cancel(why, &hold),
    };
    if let Some(key) = key {
        keep(moment, key, None, Some(&answer)).await?;
    }
    Ok(answer)
}

pub(super) async fn begin(
    moment: &mut Moment<'_>,
    key: &KeyUse,
    id: &str,
    method: &str,
) -> Result<Begun, WriteError> {
    match look_up(moment, key).await? {
        Known::New => {}
        Known::Answered(answer) => return Ok(Begun::Answered(answer)),
        Known::UnderWay(purchase) => return Ok(Begun::Started(purchase)),
    }
    let Some(mut hold) = own(moment, &key.visitor, id).await? else {
        return Ok(Begun::Answered(Answer::no_reservation()));
    };
    let (to, payment) = match checkout::begin(hold.state) {
        Ok(started) => started,
        Err(why) => {
            let answer = Answer::cannot_pay(why, &hold);
            if !answer.is_passing() {
                keep(moment, key, None, Some(&answer)).await?;
            }
            return Ok(Begun::Answered(answer));
        }
    };
    turn(moment, &mut hold, to, StockMove::Stay).await?;
    let purchase = new_id("pur_")?;
    sqlx::query(
        "INSERT INTO purchases (id, reservation_id, state, method, created_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
    )
    .bind(&purchase)
    .bind(&hold.id)
    .bind(payment.as_str())
    .bind(method)
    .bind(moment.now)
    .execute(&mut *moment.tx)
    .await?;
    keep(moment, key, Some(&purchase), None).await?;
    Ok(Begun::Started(purchase))
}

pub(super) async fn finish(
    moment: &mut Moment<'_>,
    key: &KeyUse,
    answer: Answer,
) -> Result<Answer, WriteError> {
    if let Known::Answered(first) = look_up(moment, key).await? {
        return Ok(first);
    }
    sqlx::query("UPDATE idempotency_keys SET answer = ?3 WHERE visitor = ?1 AND key = ?2")
        .bind(&key.visitor)
        .bind(&key.key)
        .bind(serde_json::to_string(&answer)?)
        .execute(&mut *moment.tx)
        .await?;
    Ok(answer)
}

pub(super) async fn report(
    moment: &mut Moment<'_>,
    id: &str,
    report: Report,
    reason: Option<&str>,
) -> Result<Option<Purchase>, WriteError> {
    let found: Option<Purchase> =
        sqlx::query_as(select_purchase!("WHERE p.id = ?1")).bind(id).fetch_optional(&mut *moment.tx).await?;
    let Some(mut purchase) = found else { return Ok(None) };
    let step = checkout::report(purchase.reservation.state, purchase.state, report);
    if step.payment == Payment::Refunding && purchase.state != Payment::Refunding {
        tracing::warn!(purchase = id, "money was captured without a hold; it is given back");
    }
    turn(moment, &mut purchase.reservation, step.hold, step.stock).await?;
    if step.payment != purchase.state {
        // The reason tells a refusal of the payment service from a hold that was over; see `Answer::purchased`.
        if matches!(report, Report::Declined | Report::NeverHeard | Report::CaptureRefused | Report::Voided)
            && purchase.reason.is_none()
            && purchase.state != Payment::Voiding
        {
            purchase.reason =
                Some(reason.unwrap_or("The payment service did not take the payment.").to_owned());
        }
        purchase.state = step.payment;
        sqlx::query("UPDATE purchases SET state = ?2, reason = ?3, changed_at = ?4 WHERE id = ?1")
            .bind(id)
            .bind(purchase.state.as_str())
            .bind(&purchase.reason)
            .bind(moment.now)
            .execute(&mut *moment.tx)
            .await?;
    }
    // A hold that came back from capturing may have been due all the while.
    if purchase.reservation.state == Hold::Held && purchase.reservation.expires_at <= moment.now {
        let (to, units) = checkout::expire(Hold::Held);
        turn(moment, &mut purchase.reservation, to, units).await?;
    }
    Ok(Some(purchase))
}

pub(super) async fn event(moment: &mut Moment<'_>, event: &Event) -> Result<Option<Purchase>, WriteError> {
    let fresh = sqlx::query(
        "INSERT INTO payment_events (id, kind, purchase_id, received_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )
    .bind(&event.id)
    .bind(&event.kind)
    .bind(&event.purchase)
    .bind(moment.now)
    .execute(&mut *moment.tx)
    .await?;
    match event.report {
        Some(said) if fresh.rows_affected() == 1 => {
            report(moment, &event.purchase, said, event.reason.as_deref()).await
        }
        _ => Ok(None),
    }
}
