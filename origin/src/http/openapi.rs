//! `GET /openapi.json`: the OpenAPI 3.1 document, made from the handlers and the types that they answer with. Open to
//! everybody: it says nothing that the source does not.

use std::sync::LazyLock;

use axum::response::Response;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, InfoBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder};

use super::{App, keys, respond};
use crate::admission;
use crate::documents::Problem;

const ABOUT: &str = "Holds, checkout and purchases of a sale. Shoppers' calls need the admission token that the gateway adds. \
    Every POST takes an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): repeated with the same content it has \
    the same answer. Errors are problem documents (RFC 9457). Browsers that ask for pages and send forms have pages and \
    redirects instead, at the same addresses.";
const PROBLEM: &str = "application/problem+json";
const PAGE: &str = "text/html";
const TOKEN: &str = "admission";

/// The document, as JSON.
static DOCUMENT: LazyLock<serde_json::Value> = LazyLock::new(|| serde_json::json!(document()));

/// What the gateway learns from any answer to a shopper.
const FEEDBACK: [(&str, &str); 3] = [
    ("Ropeline-Stock", "What is left of the sale, as `3; held=2`."),
    ("Ropeline-Lease", "`hold`, `open` or `end`; of a visitor who has or had a reservation."),
    ("Ropeline-Load", "How busy the shop is, in percent of what it wants to have at once."),
];

/// Where to go on from an answer, with the `id` that it has: the operation, its statuses, and the operations that follow.
const ONWARD: [(&str, &[&str], &[&str]); 3] = [
    ("reserve", &["200", "201"], OF_A_RESERVATION),
    ("extend", &["200"], OF_A_RESERVATION),
    ("pay", &["201", "202"], &["purchase", "returned"]),
];
const OF_A_RESERVATION: &[&str] = &["reservation", "extend", "pay", "cancel", "cancel_form", "checkout"];

#[utoipa::path(get, path = "/openapi.json", tag = "public",
    responses((status = 200, description = "This document.", body = serde_json::Value)))]
pub(super) async fn openapi() -> Response {
    respond::json(200, &DOCUMENT)
}

fn document() -> OpenApi {
    let mut document = App::routes().into_openapi();
    document.info = InfoBuilder::new()
        .title("Ropeline reservation service")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .build();
    for item in document.paths.paths.values_mut() {
        for (method, operation) in operations(item) {
            complete(method, operation);
        }
    }
    let components = document.components.get_or_insert_default();
    let token = ApiKeyValue::with_description(admission::HEADER, "The admission token.");
    components.add_security_scheme(TOKEN, SecurityScheme::ApiKey(ApiKey::Header(token)));
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, post, delete, .. } = item;
    [("get", get), ("post", post), ("delete", delete)]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Adds what is the same for all operations of its kind.
fn complete(method: &str, operation: &mut Operation) {
    let tagged = |tag: &str| operation.tags.as_ref().is_some_and(|tags| tags.iter().any(|one| one == tag));
    let (shopper, operator) = (tagged("shopper"), tagged("operator"));
    if operator {
        problem(
            operation,
            "404",
            "`not_found`: the request was forwarded; only the operator is answered here.",
        );
        problem(operation, "503", "`unavailable`, `keys_unavailable`");
    }
    if !shopper {
        return;
    }
    operation.security = Some(vec![SecurityRequirement::new(TOKEN, [] as [&str; 0])]);
    problem(operation, "400", "The request cannot be read.");
    problem(operation, "401", "The token is missing or not good; `code` says why.");
    problem(operation, "503", "`unavailable`, `keys_unavailable`, `product_stopped`: try again later.");
    if method != "get" {
        problem(operation, "403", "`cross_site`: the request came from a page of another site.");
        problem(operation, "408", "`body_too_slow`");
        problem(operation, "413", "`body_too_large`");
        problem(operation, "415", "`content_type_unknown`, `content_coding_unknown`");
    }
    if method == "post" {
        problem(
            operation,
            "422",
            "`idempotency_key_reused`, or the content cannot be meant; `code` says why.",
        );
        let key = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .description(Some("Of this request and its repetitions alone, such as a random UUID in quotes."))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String).pattern(Some(format!(
                r#"^(?:[!#-~]{{1,{0}}}|"(?:[ !#-\[\]-~]|\\["\\]){{1,{0}}}")$"#,
                keys::LONGEST
            )))));
        operation.parameters.get_or_insert_default().push(key.build().into());
    }
    for_browsers(method, operation);
    go_on(operation);
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if status == "401" {
            continue;
        }
        for (name, meaning) in FEEDBACK {
            response.headers.insert(name.to_owned(), header(meaning).into());
        }
    }
}

/// What is a document to programs is a page to browsers, and what was done sends them on to one.
fn for_browsers(method: &str, operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    if method != "get" {
        let sent_on = ResponseBuilder::new().description("It is done, and a browser goes on to a page.");
        let sent_on = sent_on.header("Location", header("The page.")).build();
        responses.entry("303".to_owned()).or_insert_with(|| sent_on.into());
    }
    let sent_on = responses.contains_key("303");
    for (status, response) in responses {
        let RefOr::T(response) = response else { continue };
        if status.as_str() >= "400" || (status == "200" && !sent_on) {
            let text = ObjectBuilder::new().schema_type(Type::String);
            response.content.entry(PAGE.to_owned()).or_insert_with(|| Content::new(Some(text)).into());
        }
    }
}

/// Adds the links of [`ONWARD`].
fn go_on(operation: &mut Operation) {
    let id = operation.operation_id.as_deref();
    let onward = ONWARD.into_iter().find(|(from, ..)| Some(*from) == id);
    for (status, response) in &mut operation.responses.responses {
        let (RefOr::T(response), Some((_, statuses, to))) = (response, onward) else { continue };
        if !statuses.contains(&status.as_str()) {
            continue;
        }
        for to in to {
            let link = LinkBuilder::new().operation_id(*to).parameter("id", "$response.body#/id").build();
            response.links.insert((*to).to_owned(), link.into());
        }
    }
}

fn header(meaning: &str) -> Header {
    HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .description(Some(meaning))
        .build()
}

/// A problem that an operation may be answered with, unless it says so itself.
fn problem(operation: &mut Operation, status: &str, meaning: &str) {
    let schema = Ref::from_schema_name(<Problem as utoipa::ToSchema>::name());
    let after = "Seconds after which to try again, where that makes sense.";
    let response = ResponseBuilder::new()
        .description(meaning)
        .content(PROBLEM, Content::new(Some(schema)))
        .header("Retry-After", header(after))
        .build();
    let responses = &mut operation.responses.responses;
    responses.entry(status.to_owned()).or_insert_with(|| response.into());
}
