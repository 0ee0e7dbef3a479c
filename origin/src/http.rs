//! The shop over HTTP: what DESIGN calls the reservation service, for programs (JSON) and for browsers (pages).
//!
//! Every shopper call verifies the admission token, and whatever it is answered carries
//! `Ropeline-Stock` and, of a visitor who has or had a hold, `Ropeline-Lease`: `hold` while there is one, `end` when it is
//! bought, `open` when it is over and another may be taken; and `Ropeline-Load`, how busy the shop is. Every `POST` takes
//! an `Idempotency-Key`, as header or as the form field `idempotency_key`; keys of different visitors never meet. Its answer
//! is kept and repeated, but for a refusal with `Retry-After`: that changed nothing, and the same key may try again. Errors
//! are problem documents (RFC 9457), or plain pages where a browser asked.
//!
//! `/healthz`, `/audit` and `/metrics` are the operator's, who asks the shop directly: a request that was forwarded by the
//! gateway, or by any proxy that says so, is answered 404.

mod keys;
mod load;
mod metrics;
mod negotiate;
mod openapi;
mod pages;
mod request;
mod respond;
mod shop;
mod webhooks;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admission::Admission;
use crate::answer::Answer;
use crate::cashier::Cashier;
use crate::documents::Healthy;
use crate::model::Audit;
use crate::payments::Payments;
use crate::store::Store;
use keys::InFlight;
use load::Load;
use request::Flavour;

/// Headers by which a request is known to come from the public: the gateway sets the last three, other proxies one of the others.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// What every handler needs; cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) cashier: Cashier,
    pub(crate) payments: Arc<dyn Payments>,
    pub(crate) admission: Admission,
    /// Host and port under which shoppers see the shop.
    pub(crate) authority: Arc<str>,
    in_flight: InFlight,
    load: Load,
}

// === impl App ===

impl App {
    pub(crate) fn new(
        store: Store,
        cashier: Cashier,
        payments: Arc<dyn Payments>,
        admission: Admission,
        authority: &str,
        requests_at_once: NonZeroU32,
    ) -> Self {
        Self {
            store,
            cashier,
            payments,
            admission,
            authority: authority.into(),
            in_flight: InFlight::default(),
            load: Load::new(requests_at_once),
        }
    }

    /// Every route, with what is documented of it. The layers come with [`Self::router`].
    fn routes() -> OpenApiRouter<Self> {
        Self::shopper().merge(Self::operator()).merge(Self::public())
    }

    fn shopper() -> OpenApiRouter<Self> {
        OpenApiRouter::new()
            .routes(routes!(shop::product))
            .routes(routes!(shop::reserve))
            .routes(routes!(shop::reservation, shop::cancel))
            .routes(routes!(shop::cancel_form))
            .routes(routes!(shop::extend))
            .routes(routes!(shop::pay))
            .routes(routes!(shop::purchase))
            .routes(routes!(shop::returned))
            .routes(routes!(shop::checkout))
    }

    fn operator() -> OpenApiRouter<Self> {
        OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(audit)).routes(routes!(metrics::metrics))
    }

    fn public() -> OpenApiRouter<Self> {
        OpenApiRouter::new()
            .routes(routes!(webhooks::payment))
            .routes(routes!(pages::css))
            .routes(routes!(openapi::openapi))
    }

    pub(crate) fn router(self) -> Router {
        let (shopper, _) = Self::shopper().split_for_parts();
        let (operator, _) = Self::operator().split_for_parts();
        let (public, _) = Self::public().split_for_parts();
        Router::new()
            .merge(shopper.route_layer(middleware::from_fn_with_state(self.clone(), request::admit)))
            .merge(operator.route_layer(middleware::from_fn(not_forwarded)))
            .merge(public)
            .fallback(not_found)
            .method_not_allowed_fallback(not_allowed)
            .layer(DefaultBodyLimit::max(request::LARGEST_BODY))
            .with_state(self)
    }
}

/// Nothing is there for whoever comes through the gateway, which marks what it forwards.
async fn not_forwarded(flavour: Flavour, request: Request, next: Next) -> Response {
    if FORWARDED.iter().any(|name| request.headers().contains_key(*name)) {
        return not_found(flavour).await;
    }
    next.run(request).await
}

#[utoipa::path(get, path = "/healthz", tag = "operator",
    responses((status = 200, description = "Shoppers can be let in, and the books are written.", body = Healthy)))]
async fn healthz(State(app): State<App>) -> Response {
    if let Err(error) = app.store.health(Instant::now()).await {
        tracing::warn!(%error, "unhealthy");
        return respond::answer(Flavour::Program, &Answer::unavailable());
    }
    if !app.admission.is_ready() {
        let why = "No key set has been read yet, so no shopper can be let in.";
        let answer = Answer::problem(503, "keys_unavailable", "Nobody can be let in", why);
        return respond::answer(Flavour::Program, &answer);
    }
    respond::json(200, &serde_json::json!(Healthy { status: "ok" }))
}

#[utoipa::path(get, path = "/audit", tag = "operator",
    responses((status = 200, description = "The books of every product, of one moment.", body = Audit)))]
async fn audit(State(app): State<App>) -> Response {
    match app.store.audit().await {
        Ok(audit) => respond::json(200, &serde_json::json!(audit)),
        Err(_) => respond::answer(Flavour::Program, &Answer::unavailable()),
    }
}

async fn not_found(flavour: Flavour) -> Response {
    let answer = Answer::problem(404, "not_found", "Nothing here", "There is nothing at this address.");
    respond::answer(flavour, &answer)
}

async fn not_allowed(flavour: Flavour) -> Response {
    let answer = Answer::problem(
        405,
        "method_not_allowed",
        "Not that way",
        "This address does not take requests of this method.",
    );
    respond::answer(flavour, &answer)
}
