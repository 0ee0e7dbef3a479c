//! Answers to the wire.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, REFRESH, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

use super::pages;
use super::request::Flavour;
use crate::answer::Answer;
use crate::model::{Lease, Stock};

const STOCK: HeaderName = HeaderName::from_static("ropeline-stock");
const LEASE: HeaderName = HeaderName::from_static("ropeline-lease");
const LOAD: HeaderName = HeaderName::from_static("ropeline-load");
const CSP: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
                   frame-ancestors 'none'";

/// An answer in the client's flavour.
pub(super) fn answer(flavour: Flavour, answer: &Answer) -> Response {
    let mut response = match (flavour, &answer.page) {
        (Flavour::Browser, _) if answer.is_problem() => html(answer.status, pages::problem(answer), None),
        (Flavour::Browser, Some(page)) => see_other(page),
        _ if answer.status == 204 => plain(204, Body::empty()),
        _ => json(answer.status, &answer.body),
    };
    if flavour == Flavour::Program {
        if let Some(location) = &answer.location {
            set(&mut response, LOCATION, location);
        }
        if answer.is_problem() {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        }
    }
    if let Some(seconds) = answer.retry_after_s {
        set(&mut response, RETRY_AFTER, &seconds.to_string());
    }
    response
}

/// Tells the gateway about the visitor's lease, what is left, and how busy the shop is, in percent.
pub(super) fn feedback(response: &mut Response, lease: Option<Lease>, stock: Stock, load: u32) {
    if let Some(lease) = lease {
        response.headers_mut().insert(LEASE, HeaderValue::from_static(lease.header()));
    }
    set(response, STOCK, &stock.header());
    response.headers_mut().insert(LOAD, HeaderValue::from(load));
}

/// A JSON document, never cached.
pub(super) fn json(status: u16, body: &Value) -> Response {
    let mut response = plain(status, Body::from(body.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A page, never cached. `refresh`: the browser loads it again after so many seconds.
pub(super) fn html(status: u16, page: String, refresh: Option<i64>) -> Response {
    let mut response = plain(status, Body::from(page));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert("content-security-policy", HeaderValue::from_static(CSP));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    if let Some(seconds) = refresh {
        set(&mut response, REFRESH, &seconds.to_string());
    }
    response
}

/// Sends a browser on with a `GET`.
pub(super) fn see_other(page: &str) -> Response {
    let mut response = plain(303, Body::empty());
    set(&mut response, LOCATION, page);
    response
}

fn plain(status: u16, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// Sets a header whose value is made here; a value that is none is left out rather than sent broken.
fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
