//! Webhooks of the payment service: signed, deduplicated, in any order.

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Deserialize;

use super::request::{self, Flavour};
use super::{App, respond};
use crate::answer::Answer;
use crate::checkout::Report;
use crate::payments::signature::{self, SignatureError};
use crate::store::Event;

/// Members that are not named are the payment service's own business and are passed over.
#[derive(Deserialize)]
struct Body {
    id: String,
    r#type: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    purchase: String,
    reason: Option<String>,
}

/// `POST /webhooks/payments`. 200 once the event is on disk, also when it had come before or says nothing that counts.
pub(super) async fn payment(State(app): State<App>, request: Request) -> Response {
    let answer = match take(&app, request).await {
        Ok(()) => return respond::json(200, &serde_json::json!({ "received": true })),
        Err(answer) => answer,
    };
    respond::answer(Flavour::Program, &answer)
}

async fn take(app: &App, request: Request) -> Result<(), Answer> {
    let refuse = |error: SignatureError| {
        Answer::problem(400, "webhook_signature", "This webhook is not believed", format!("{error}."))
    };
    let mut lines = request.headers().get_all(signature::HEADER).iter();
    let (Some(header), None) = (lines.next(), lines.next()) else {
        return Err(refuse(SignatureError::Missing));
    };
    let header = header.to_str().map_err(|_| refuse(SignatureError::Malformed))?.to_owned();
    let raw = request::read_body(request.into_body()).await?;
    app.secret.verify(&header, &raw, request::now()).map_err(refuse)?;
    let body: Body = serde_json::from_slice(&raw).map_err(|error| {
        Answer::problem(400, "body_invalid", "This webhook cannot be read", format!("{error}."))
    })?;
    let report = match body.r#type.as_str() {
        "payment.authorised" => Some(Report::Authorised),
        "payment.declined" => Some(Report::Declined),
        "payment.captured" => Some(Report::Captured),
        "payment.voided" => Some(Report::Voided),
        "payment.refunded" => Some(Report::Refunded),
        _ => None,
    };
    let Object { purchase, reason } = body.data.object;
    let event = Event { id: body.id, kind: body.r#type, purchase, report, reason };
    let purchase = app.store.event(event).await.map_err(|_| Answer::unavailable())?;
    if let Some(purchase) = purchase.filter(|purchase| !purchase.state.is_settled()) {
        // The payment service waits for no more than the event to be on disk; what follows from it can be made up for.
        let cashier = app.cashier.clone();
        tokio::spawn(async move {
            if let Err(error) = cashier.drive(&purchase.id).await {
                tracing::warn!(%error, purchase = purchase.id, "left to the reconciler");
            }
        });
    }
    Ok(())
}
