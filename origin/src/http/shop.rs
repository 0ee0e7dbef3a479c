//! The shopper's calls.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;

use super::request::{Call, Flavour, Id, Look};
use super::{App, keys, pages, respond};
use crate::answer::Answer;
use crate::checkout::{Hold, Payment};
use crate::config::LONGEST_LABEL;
use crate::documents::{Problem, ProductDocument, ProductLinks, PurchaseDocument, ReservationDocument};
use crate::model::{Kind, Purchase};
use crate::notify::mailbox;
use crate::store::{Begun, Claim, KeyUse, ProductView, StoreError, Wanted};

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

/// The units to reserve: so many, of numbered units the next free ones; or these.
#[derive(ToSchema)]
#[schema(as = Wish)]
#[serde(untagged, deny_unknown_fields)]
#[expect(dead_code, reason = "read as `ReserveContent`, whose refusals are plainer than those of an enum")]
pub(super) enum ReserveDocument {
    /// So many.
    Any {
        /// 1 by default, and no more than the product's `max_quantity`.
        #[schema(minimum = 1)]
        quantity: Option<u32>,
    },
    /// These, all or none.
    Chosen {
        /// Labels, each once.
        #[schema(min_items = 1)]
        units: Vec<String>,
    },
}

/// How to pay.
#[derive(ToSchema)]
#[schema(as = Payment)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read as `PayContent`, which also is what forms send")]
pub(super) struct PayDocument {
    /// The payment service's name for the means of payment.
    payment_method: String,
    /// The shopper's address for the confirmation.
    email: Option<String>,
}

/// An empty object.
#[derive(ToSchema)]
#[schema(as = Nothing)]
#[serde(deny_unknown_fields)]
pub(super) struct NothingDocument {}

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
                    if unit.contains(char::is_control) || unit.chars().count() > LONGEST_LABEL {
                        return refuse(
                            "unit_unknown",
                            "There is no such unit",
                            "units: no label is written so.",
                        );
                    }
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

/// An address for the confirmation: one that a mail can be sent to, written as it is and no other way, since a confirmation that
/// comes to nothing is noticed by nobody.
fn email(given: Option<&str>) -> Result<Option<String>, Answer> {
    let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) else { return Ok(None) };
    let plain = given.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"<>,;:\"()[]\\".contains(c));
    if plain && given.len() <= 254 && mailbox(given).is_some() {
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
#[utoipa::path(get, path = "/products/{id}", tag = "shopper", params(("id" = String, Path, description = "The product.")),
    responses(
        (status = 200, description = "The product, what is left, and the visitor's reservation of it.", body = ProductDocument),
        (status = 404, description = "`product_unknown`", body = Problem, content_type = "application/problem+json"),
    ))]
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
        Flavour::Program => respond::json(200, &serde_json::json!(document(&view))),
    }
}

fn document(view: &ProductView) -> ProductDocument {
    let ProductView { product, stopped, left, free, own, now } = view;
    let path = format!("/products/{}", product.id);
    ProductDocument {
        id: product.id.clone(),
        name: product.name.clone(),
        description: product.description.clone(),
        price_minor: product.price_minor,
        currency: product.currency.clone(),
        max_quantity: product.max_quantity,
        kind: product.kind,
        stopped: *stopped,
        available: left.available,
        held: left.held,
        reservation: own.as_ref().filter(|own| own.state != Hold::Expired).map(|own| own.document_at(*now)),
        next_free: (product.kind == Kind::Units).then(|| free.clone()),
        links: ProductLinks { reservations: format!("{path}/reservations"), this: path },
    }
}

/// `POST /products/{id}/reservations`: 201 the hold, 200 the hold that the visitor has already, 409 nothing to hold.
#[utoipa::path(post, path = "/products/{id}/reservations", tag = "shopper", params(("id" = String, Path, description = "The product.")),
    request_body = ReserveDocument,
    responses(
        (status = 200, description = "The reservation that the visitor has already.", body = ReservationDocument,
            headers(("Location" = String, description = "The reservation."))),
        (status = 201, description = "The reservation that was made.", body = ReservationDocument,
            headers(("Location" = String, description = "The reservation."))),
        (status = 404, description = "`product_unknown`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`not_enough`, `all_held`, `sold_out`, `unit_taken`, `visitor_limit`, `already_bought`, `request_in_flight`",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn reserve(State(app): State<App>, Id(product): Id, call: Call) -> Response {
    let outcome = async {
        let content: ReserveContent = call.content()?;
        let key = keys::read(&call.headers, content.idempotency_key.as_deref())?;
        let wanted = content.wanted().map_err(|refusal| refusal.page(format!("/products/{product}")))?;
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
#[utoipa::path(get, path = "/reservations/{id}", tag = "shopper", params(("id" = String, Path, description = "The reservation.")),
    responses(
        (status = 200, description = "The reservation, with the time that is left.", body = ReservationDocument),
        (status = 303, description = "A browser goes on to the checkout.", headers(("Location" = String, description = "The page."))),
        (status = 404, description = "`reservation_unknown`", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn reservation(State(app): State<App>, Id(id): Id, look: Look) -> Response {
    let outcome = match app.store.reservation(&id, &look.visitor).await {
        Ok(Some(view)) => {
            let mut document = view.reservation.document_at(view.now);
            document.links.purchase = view.purchase.as_ref().map(Purchase::path);
            let body = serde_json::json!(document);
            Answer { location: None, body, ..Answer::reservation(&view.reservation) }
        }
        Ok(None) => Answer::no_reservation(),
        Err(_) => Answer::unavailable(),
    };
    respond::answer(look.flavour, &outcome)
}

/// `DELETE /reservations/{id}`: 204, also when it was over before. Its own retry, so no key is needed.
#[utoipa::path(delete, path = "/reservations/{id}", tag = "shopper", params(("id" = String, Path, description = "The reservation.")),
    responses(
        (status = 204, description = "It is over, now or before, and its units are the others' again."),
        (status = 404, description = "`reservation_unknown`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`payment_capturing`, `already_bought`", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn cancel(State(app): State<App>, Id(id): Id, call: Call) -> Response {
    reply(call.flavour, app.store.cancel(call.visitor, id, None).await.map_err(unavailable))
}

/// `POST /reservations/{id}/cancel`: the same for forms, which know no `DELETE`.
#[utoipa::path(post, path = "/reservations/{id}/cancel", tag = "shopper", params(("id" = String, Path, description = "The reservation.")),
    request_body = NothingDocument,
    responses(
        (status = 204, description = "It is over, now or before, and its units are the others' again."),
        (status = 404, description = "`reservation_unknown`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`payment_capturing`, `already_bought`, `request_in_flight`",
            body = Problem, content_type = "application/problem+json"),
    ))]
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
#[utoipa::path(post, path = "/reservations/{id}/extension", tag = "shopper", params(("id" = String, Path, description = "The reservation.")),
    request_body = NothingDocument,
    responses(
        (status = 200, description = "The reservation with its later end.", body = ReservationDocument,
            headers(("Location" = String, description = "The reservation."))),
        (status = 404, description = "`reservation_unknown`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`extension_used`, `extension_off`, `extension_needless`, `hold_over`, `request_in_flight`",
            body = Problem, content_type = "application/problem+json"),
    ))]
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
#[utoipa::path(post, path = "/reservations/{id}/purchases", tag = "shopper", params(("id" = String, Path, description = "The reservation.")),
    request_body = PayDocument,
    responses(
        (status = 201, description = "It is sold to the visitor.", body = PurchaseDocument,
            headers(("Location" = String, description = "The purchase."))),
        (status = 202, description = "The payment is under way; look at the purchase.", body = PurchaseDocument,
            headers(("Location" = String, description = "The purchase."), ("Retry-After" = u32, description = "Seconds."))),
        (status = 402, description = "`payment_declined`", body = Problem, content_type = "application/problem+json",
            headers(("Location" = String, description = "The purchase."))),
        (status = 404, description = "`reservation_unknown`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`payment_too_late`, `payment_running`, `hold_over`, `already_bought`, `request_in_flight`",
            body = Problem, content_type = "application/problem+json",
            headers(("Location" = String, description = "The purchase that came too late."))),
    ))]
pub(super) async fn pay(State(app): State<App>, Id(id): Id, call: Call) -> Response {
    let outcome = async {
        let content: PayContent = call.content()?;
        let key = keys::read(&call.headers, content.idempotency_key.as_deref())?;
        let method = app.payments.method(&content.payment_method).map_err(|why| {
            Answer::problem(422, "payment_method_unknown", "This means of payment is not known", why)
                .page(format!("/checkout/{id}"))
        })?;
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
#[utoipa::path(get, path = "/purchases/{id}", tag = "shopper", params(("id" = String, Path, description = "The purchase.")),
    responses(
        (status = 200, description = "The purchase as it stands.", body = PurchaseDocument,
            headers(("Retry-After" = u32, description = "Seconds after which to look again, while it is under way."))),
        (status = 404, description = "`purchase_unknown`", body = Problem, content_type = "application/problem+json"),
    ))]
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
#[utoipa::path(get, path = "/purchases/{id}/return", tag = "shopper", params(("id" = String, Path, description = "The purchase.")),
    responses(
        (status = 303, description = "To the purchase.", headers(("Location" = String, description = "The purchase."))),
        (status = 404, description = "`purchase_unknown`", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn returned(State(app): State<App>, Id(id): Id, look: Look) -> Response {
    match app.store.purchase(&id, &look.visitor).await {
        Ok(Some(found)) => {
            if let Err(error) = drive(&app, found.id.clone()).await {
                tracing::warn!(%error, purchase = found.id, "left to the reconciler");
            }
            respond::see_other(&found.path())
        }
        Ok(None) => respond::answer(look.flavour, &Answer::no_purchase()),
        Err(_) => respond::answer(look.flavour, &Answer::unavailable()),
    }
}

/// `GET /checkout/{reservation}`: a page, whoever asks.
#[utoipa::path(get, path = "/checkout/{id}", tag = "shopper", params(("id" = String, Path, description = "The reservation.")),
    responses(
        (status = 200, description = "The page on which to pay.", body = String, content_type = "text/html"),
        (status = 303, description = "To the purchase, when there is one.", headers(("Location" = String, description = "The purchase."))),
        (status = 404, description = "There is no such reservation.", body = String, content_type = "text/html"),
        (status = 503, description = "Try again later.", body = String, content_type = "text/html"),
    ))]
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
