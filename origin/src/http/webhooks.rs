//! Webhooks of the payment service: signed, deduplicated, in any order, and believed no further than they go.

use axum::extract::{Request, State};
use axum::response::Response;

use super::request::{self, Flavour};
use super::{App, respond};
use crate::answer::Answer;
use crate::checkout::{self, Report};
use crate::documents::{Problem, Received};
use crate::model::Purchase;
use crate::payments::signature::{self, SignatureError};
use crate::payments::{Message, Says, words};
use crate::store::{Event, StoreError};

/// `POST /webhooks/payments`. 200 once the event is on disk, also when it had come before or says nothing that counts.
#[utoipa::path(post, path = "/webhooks/payments", tag = "public",
    request_body(description = "An event of the payment service, signed by it.", content = serde_json::Value),
    responses(
        (status = 200, description = "It is on disk, now or before, or says nothing that counts.", body = Received),
        (status = 400, description = "`webhook_signature`, `body_invalid`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`body_too_slow`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`unavailable`: it has to come again.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn payment(State(app): State<App>, request: Request) -> Response {
    let answer = match take(&app, request).await {
        Ok(()) => return respond::json(200, &serde_json::json!(Received { received: true })),
        Err(answer) => answer,
    };
    respond::answer(Flavour::Program, &answer)
}

fn unavailable(_: StoreError) -> Answer {
    Answer::unavailable()
}

async fn take(app: &App, request: Request) -> Result<(), Answer> {
    let refuse = |error: SignatureError| {
        Answer::problem(400, "webhook_signature", "This webhook is not believed", format!("{error}."))
    };
    let mut lines = request.headers().get_all(app.payments.signature_header()).iter();
    let (Some(header), None) = (lines.next(), lines.next()) else {
        return Err(refuse(SignatureError::Missing));
    };
    let header = header.to_str().map_err(|_| refuse(SignatureError::Malformed))?.to_owned();
    let raw = request::read_webhook(request.into_body()).await?;
    signature::verify(app.payments.secrets(), &header, &raw, request::now()).map_err(refuse)?;
    let message = app.payments.read(&raw).map_err(|error| {
        Answer::problem(400, "body_invalid", "This webhook cannot be read", format!("{error}."))
    })?;
    if message.says != Says::Nothing && !message.is_plain() {
        let why = "Its names are of 1 to 255 characters, none of them a control character.";
        return Err(Answer::problem(400, "body_invalid", "This webhook cannot be read", why));
    }
    let purchase = match message.says {
        Says::Nothing => return Ok(()),
        Says::Told(report, ref reason) => {
            let reason = reason.clone();
            let Some(purchase) = message.purchase.clone() else { return Ok(()) };
            let event = event(message, purchase, Some(report), reason);
            app.store.event(event).await.map_err(unavailable)?
        }
        Says::Ask(report) => ask(app, message, Some(report)).await?,
        Says::Look => ask(app, message, None).await?,
    };
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

fn event(message: Message, purchase: String, report: Option<Report>, reason: Option<String>) -> Event {
    Event {
        id: message.id,
        kind: message.kind,
        purchase,
        report,
        reason: reason.map(|reason| words(&reason)),
    }
}

/// Asks the payment service, if what was said does not fit the books. Only what was answered is taken for so; the event is
/// noted after that, since a purchase that is settled has nobody else who would ask again.
async fn ask(app: &App, message: Message, report: Option<Report>) -> Result<Option<Purchase>, Answer> {
    let Some(purchase) = find(app, &message).await? else { return Ok(None) };
    let (state, hold) = (purchase.state, purchase.reservation.state);
    let news = report.is_none_or(|report| {
        let step = checkout::report(hold, state, report);
        (step.payment, step.hold) != (state, hold)
    });
    if news && !app.cashier.look(&purchase).await.map_err(unavailable)? {
        return Err(Answer::unavailable());
    }
    app.store.event(event(message, purchase.id.clone(), None, None)).await.map_err(unavailable)?;
    app.store.any_purchase(&purchase.id).await.map_err(unavailable)
}

/// The purchase that an event is about; `None`: it is about none of this shop's.
async fn find(app: &App, message: &Message) -> Result<Option<Purchase>, Answer> {
    let id = match (&message.purchase, &message.reference) {
        (Some(purchase), _) => Some(purchase.clone()),
        (None, Some(reference)) => app.payments.whose(reference).await.map_err(|_| Answer::unavailable())?,
        (None, None) => None,
    };
    let Some(id) = id else { return Ok(None) };
    let Some(purchase) = app.store.any_purchase(&id).await.map_err(unavailable)? else { return Ok(None) };
    // Another payment of that name, made when a reply was lost, is not the one that counts.
    let same = match (&purchase.provider_ref, &message.reference) {
        (Some(known), Some(told)) => known == told,
        (None, Some(_)) => false,
        (_, None) => true,
    };
    Ok(same.then_some(purchase))
}
