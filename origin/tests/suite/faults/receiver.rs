//! Somebody who is told of events, and now and then does not take one, or takes it and does not say so.

use std::sync::Mutex;

use axum::response::IntoResponse;
use http::StatusCode;

use crate::outbox::is_signed;
use crate::receivers::{Received, Receiver};

/// What webhooks are signed with.
pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// Of a thousand events, those that are not taken. With an answer that tells nothing of the others: one that did would have
/// the service leave the receiver alone for longer than a run takes.
const REFUSED: u16 = 20;
/// Of a thousand events, those that are taken, and nobody says so.
const UNSAID: u16 = 20;

/// An event as it came.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) aggregate: String,
    pub(super) seq: i64,
    pub(super) kind: String,
    pub(super) body: String,
    /// Whether its receipt was said.
    pub(super) taken: bool,
}

/// What was received, and what was no event.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) events: Mutex<Vec<Event>>,
    pub(super) strange: Mutex<Vec<String>>,
}

/// Starts a receiver that fills an inbox.
pub(super) async fn start(inbox: std::sync::Arc<Inbox>, seed: u64) -> Receiver {
    let chance = Mutex::new(fastrand::Rng::with_seed(seed));
    Receiver::answering(move |webhook| {
        let luck = chance.lock().unwrap().u16(0..1_000);
        if luck < REFUSED {
            return StatusCode::NOT_FOUND.into_response();
        }
        let taken = luck >= REFUSED + UNSAID;
        match read(webhook, taken) {
            Some(event) => inbox.events.lock().unwrap().push(event),
            None => inbox.strange.lock().unwrap().push(webhook.body.clone()),
        }
        let status = if taken { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND };
        status.into_response()
    })
    .await
}

fn read(webhook: &Received, taken: bool) -> Option<Event> {
    let body = webhook.json();
    let text = |member: &str| body[member].as_str().map(str::to_owned);
    is_signed(webhook, SECRET).then_some(())?;
    Some(Event {
        id: text("id")?,
        aggregate: text("aggregate")?,
        seq: body["seq"].as_i64()?,
        kind: text("type")?,
        body: webhook.body.clone(),
        taken,
    })
}
