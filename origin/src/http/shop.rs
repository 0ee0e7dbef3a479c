//! The shopper's calls.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::request::{Call, Flavour, Id, Look};
use super::{App, keys, pages, respond};
use crate::answer::Answer;
use crate::checkout::{Hold, Payment};
use crate::model::{Kind, Purchase};
use crate::store::{Begun, Claim, KeyUse, StoreError, Wanted};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReserveContent {
    quantity: Option<u32>,
    units: Option<Vec<String>>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PayContent {
    payment_method: String,
    email: Option<String>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyContent {
    idempotency_key: Option<String>,
}

impl ReserveContent {
    /// The units that are wished for. A form sends an empty choice along, so that none is told from no choice.
    fn wanted(&self) -> Result<Wanted, Answer> {
        let refuse = |code: &str, title: &str, detail: &str| Err(Answer::problem(422, code, title, detail));
        match (&self.units, self.quantity) {
            (None, Some(0)) => refuse(
                "quantity_zero",
                "None cannot be reserved",
                "quantity: ask for one or more, or leave it out for one.",
            ),
            (None, quantity) => Ok(Wanted::Any(quantity.map_or(1, i64::from))),
            (Some(_), Some(_)) => refuse(
                "quantity_and_units",
                "A number or a choice",
                "Send units to choose them, or a quantity to have the next free ones; not both.",
            ),
            (Some(units), None) => {
                let mut chosen = Vec::with_capacity(units.len());
                for unit in units.iter().map(|unit| unit.trim()).filter(|unit| !unit.is_empty()) {
                    if chosen.iter().any(|other| other == unit) {
                        return refuse("unit_twice", "One unit twice", "units: name each of them once.");
                    }
                    chosen.push(unit.to_owned());
                }
                if chosen.is_empty() {
                    return refuse(
                        "units_none",
                        "None was chosen",
                        "units: choose one or more, or send a quantity to have the next free ones.",
                    );
                }
                Ok(Wanted::Chosen(chosen))
            }
        }
    }
}

/// An address for the confirmation: enough of a look that it can be written to, and nothing else can.
fn email(given: Option<&str>) -> Result<Option<String>, Answer> {
    let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) else { return Ok(None) };
    let whole = given.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !host.is_empty() && !host.contains('@') && !host.starts_with('.')
    });
    let plain = given.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"<>,;:\"()[]\\".contains(c));
    if whole && plain && given.len() <= 254 {
        return Ok(Some(given.to_owned()));
    }
    Err(Answer::problem(
        422,
        "email_invalid",
        "This is no e-mail address",
        "email: write it as name@host, or leave it out.",
    ))
}

/// How long a shopper is kept waiting for a payment service that is slow, or does not answer and is asked again.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a call comes to.
type Outcome = Result<Answer, Answer>;

fn reply(flavour: Flavour, outcome: Outcome) -> Response {
    respond::answer(flavour, &outcome.unwrap_or_else(|refusal| refusal))
}

fn unavailable(_: StoreError) -> Answer {
    Answer::unavailable()
}

/// `GET /products/{id}`
pub(super) async fn product(State(app): State<App>, Id(id): Id, look: Look) -> Response {
    let view = match app.store.product(&id, &look.visitor).await {
        Ok(Some(view)) => view,
        Ok(None) => return respond::answer(look.flavour, &Answer::no_product()),
        Err(_) => return respond::answer(look.flavour, &Answer::unavailable()),
    };
    match look.flavour {
        Flavour::Browser => match pages::product(&view) {
            Ok(page) => respond::html(200, page, None),
            Err(_) => respond::answer(look.flavour, &Answer::unavailable()),
        },
        Flavour::Program => respond::json(
            200,
            &serde_json::json!({
                "id": view.product.id,
                "name": view.product.name,
                "description": view.product.description,
                "price_minor": view.product.price_minor,
                "currency": view.product.currency,
                "max_quantity": view.product.max_quantity,
                "kind": view.product.kind.as_str(),
                "stopped": view.stopped,
                "available": view.left.available,
                "held": view.left.held,
                "reservation": view.own.as_ref().filter(|own| own.state != Hold::Expired).map(|own| own.json_at(view.now)),
                "next_free": (view.product.kind == Kind::Units).then_some(&view.free),
                "links": { "self": format!("/products/{id}"), "reservations": format!("/products/{id}/reservations") },
            }),
        ),
    }
}

/// `POST /products/{id}/reservations`: 201 the hold, 200 the hold that the visitor has already, 409 nothing to hold.
pub(super) async fn reserve(State(app): State<App>, Id(product): Id, call: Call) -> Response {
    let outcome = async {
        let content: ReserveContent = call.content()?;
        let wanted = content.wanted().map_err(|refusal| refusal.page(format!("/products/{product}")))?;
        let key = keys::read(&call.headers, content.idempotency_key.as_deref())?;
        let key = match &wanted {
            Wanted::Any(quantity) => {
                keys::bind(&call.visitor, key, &["reserve", &product, &quantity.to_string()])
            }
            Wanted::Chosen(units) => {
                let named = ["reserve", &product, "units"].into_iter();
                let content: Vec<&str> = named.chain(units.iter().map(String::as_str)).collect();
                keys::bind(&call.visitor, key, &content)
            }
        };
        let _working = app.in_flight.enter(&key)?;
        app.store.claim(Claim { key, product, wanted }).await.map_err(unavailable)
    };
    reply(call.flavour, outcome.await)
}

/// `GET /reservations/{id}`
pub(super) async fn reservation(State(app): State<App>, Id(id): Id, look: Look) -> Response {
    let outcome = match app.store.reservation(&id, &look.visitor).await {
        Ok(Some(view)) => Answer {
            location: None,
            body: view.reservation.json_at(view.now),
            ..Answer::reservation(&view.reservation)
        },
        Ok(None) => Answer::no_reservation(),
        Err(_) => Answer::unavailable(),
    };
    respond::answer(look.flavour, &outcome)
}

/// `DELETE /reservations/{id}`: 204, also when it was over before. Its own retry, so no key is needed.
pub(super) async fn cancel(State(app): State<App>, Id(id): Id, call: Call) -> Response {
    reply(call.flavour, app.store.cancel(call.visitor, id, None).await.map_err(unavailable))
}

/// `POST /reservations/{id}/cancel`: the same for forms, which know no `DELETE`.
pub(super) async fn cancel_form(State(app): State<App>, Id(id): Id, call: Call) -> Response {
    let outcome = async {
        let content: KeyContent = call.content()?;
        let key = keys::read(&call.headers, content.idempotency_key.as_deref())?;
        let key = keys::bind(&call.visitor, key, &["cancel", &id]);
        let _working = app.in_flight.enter(&key)?;
        app.store.cancel(call.visitor.clone(), id, Some(key)).await.map_err(unavailable)
    };
    reply(call.flavour, outcome.await)
}

/// `POST /reservations/{id}/extension`: 200 with its new end, once, 409 when there is no more time to be had.
pub(super) async fn extend(State(app): State<App>, Id(id): Id, call: Call) -> Response {
    let outcome = async {
        let content: KeyContent = call.content()?;
        let key = keys::read(&call.headers, content.idempotency_key.as_deref())?;
        let key = keys::bind(&call.visitor, key, &["extend", &id]);
        let _working = app.in_flight.enter(&key)?;
        app.store.extend(key, id).await.map_err(unavailable)
    };
    reply(call.flavour, outcome.await)
}

/// `POST /reservations/{id}/purchases`: 201 sold, 202 under way, 402 declined, 409 too late.
pub(super) async fn pay(State(app): State<App>, Id(id): Id, call: Call) -> Response {
    let outcome = async {
        let content: PayContent = call.content()?;
        let method = app.payments.method(&content.payment_method).map_err(|why| {
            Answer::problem(422, "payment_method_unknown", "This means of payment is not known", why)
                .page(format!("/checkout/{id}"))
        })?;
        let key = keys::read(&call.headers, content.idempotency_key.as_deref())?;
        let email =
            email(content.email.as_deref()).map_err(|refusal| refusal.page(format!("/checkout/{id}")))?;
        let key = match &email {
            None => keys::bind(&call.visitor, key, &["pay", &id, &method]),
            Some(email) => keys::bind(&call.visitor, key, &["pay", &id, &method, email]),
        };
        let working = app.in_flight.enter(&key)?;
        // In a task of its own: a shopper who hangs up does not stop a payment half-way.
        let paying = tokio::spawn(async move {
            let outcome = pay_now(&app, key, id, method, email).await;
            drop(working);
            outcome
        });
        paying.await.map_err(|_| Answer::unavailable())?
    };
    reply(call.flavour, outcome.await)
}

/// Drives a purchase on for as long as a shopper can be kept waiting, and tells how it stands; it is driven on after that.
async fn drive(app: &App, id: String) -> Result<Option<Purchase>, StoreError> {
    let (cashier, driven) = (app.cashier.clone(), id.clone());
    let driving = tokio::spawn(async move { cashier.drive(&driven).await });
    match tokio::time::timeout(PATIENCE, driving).await {
        Ok(Ok(purchase)) => purchase,
        Ok(Err(_)) => Err(StoreError::Failed),
        Err(_) => app.store.any_purchase(&id).await,
    }
}

async fn pay_now(
    app: &App,
    key: KeyUse,
    reservation: String,
    method: String,
    email: Option<String>,
) -> Outcome {
    let begun = app.store.begin(key.clone(), reservation, method, email).await.map_err(unavailable)?;
    let purchase = match begun {
        Begun::Answered(answer) => return Ok(answer),
        Begun::Started(purchase) => purchase,
    };
    let purchase = drive(app, purchase).await.map_err(unavailable)?.ok_or_else(Answer::no_purchase)?;
    app.store.finish(key, Answer::purchased(&purchase)).await.map_err(unavailable)
}

/// `GET /purchases/{id}`
pub(super) async fn purchase(State(app): State<App>, Id(id): Id, look: Look) -> Response {
    let found = match app.store.purchase(&id, &look.visitor).await {
        Ok(Some(found)) => found,
        Ok(None) => return respond::answer(look.flavour, &Answer::no_purchase()),
        Err(_) => return respond::answer(look.flavour, &Answer::unavailable()),
    };
    if look.flavour == Flavour::Program {
        return respond::answer(look.flavour, &Answer::purchase(&found));
    }
    let name = match app.store.product(&found.reservation.product, &look.visitor).await {
        Ok(Some(view)) => view.product.name,
        Ok(None) => found.reservation.product.clone(),
        Err(_) => return respond::answer(look.flavour, &Answer::unavailable()),
    };
    let waiting = matches!(found.state, Payment::Authorising | Payment::Capturing);
    // Who has to go to the bank is given the time to read so.
    let refresh = if found.redirect_url.is_some() { 10 } else { 2 };
    respond::html(200, pages::purchase(&found, &name), waiting.then_some(refresh))
}

/// `GET /purchases/{id}/return`: where the bank sends the shopper back to. What it adds to the address is not looked at: the
/// payment service is asked, and the browser goes on to an address that has nothing added.
pub(super) async fn returned(State(app): State<App>, Id(id): Id, look: Look) -> Response {
    match app.store.purchase(&id, &look.visitor).await {
        Ok(Some(found)) => {
            if let Err(error) = app.cashier.drive(&found.id).await {
                tracing::warn!(%error, purchase = found.id, "left to the reconciler");
            }
            respond::see_other(&found.path())
        }
        Ok(None) => respond::answer(look.flavour, &Answer::no_purchase()),
        Err(_) => respond::answer(look.flavour, &Answer::unavailable()),
    }
}

/// `GET /checkout/{reservation}`: a page, whoever asks.
pub(super) async fn checkout(State(app): State<App>, Id(id): Id, look: Look) -> Response {
    let view = match app.store.reservation(&id, &look.visitor).await {
        Ok(Some(view)) => view,
        Ok(None) => return respond::answer(Flavour::Browser, &Answer::no_reservation()),
        Err(_) => return respond::answer(Flavour::Browser, &Answer::unavailable()),
    };
    match (view.reservation.state, &view.purchase) {
        (Hold::Paying | Hold::Capturing | Hold::Sold, Some(purchase)) => respond::see_other(&purchase.path()),
        _ => match pages::checkout(&view, &app.payments.till(), app.store.extension_ms()) {
            Ok((page, refresh)) => respond::html(200, page, refresh),
            Err(_) => respond::answer(Flavour::Browser, &Answer::unavailable()),
        },
    }
}
