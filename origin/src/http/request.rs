//! What a request is, once it is read: who calls, in which flavour, with what.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method};
use ropeline_token::Refusal;
use serde::de::DeserializeOwned;

use super::{App, negotiate, respond};
use crate::admission;
use crate::answer::Answer;

/// The largest body that is read, in bytes.
pub(super) const LARGEST_BODY: usize = 16 * 1024;
/// The same of a webhook: Stripe sends whole objects.
const LARGEST_WEBHOOK: usize = 256 * 1024;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long is looked for how the visitor stands, with an answer that is there.
const FEEDBACK_TIME: Duration = Duration::from_secs(2);
/// Whence a browser says that a request comes.
const SITE: &str = "sec-fetch-site";
const FORM: &str = "application/x-www-form-urlencoded";

/// Who is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// With JSON.
    Program,
    /// With pages and redirects.
    Browser,
}

/// The last part but one of a path, decoded.
#[derive(Debug)]
pub(super) struct Id(pub(super) String);

/// Who was let in: the visitor whose token is good.
#[derive(Clone, Debug)]
struct Visitor(String);

/// A visitor looks at something.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) visitor: String,
    pub(super) flavour: Flavour,
}

/// A visitor wants something done.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) visitor: String,
    pub(super) flavour: Flavour,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
}

/// Unix seconds.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

// === impl Flavour ===

impl Flavour {
    fn of(method: &Method, headers: &HeaderMap) -> Self {
        let form = method == Method::POST && content_type(headers) == FORM;
        let accept = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        if form || negotiate::prefers_page(accept) { Self::Browser } else { Self::Program }
    }
}

fn content_type(headers: &HeaderMap) -> String {
    let line = headers.get(CONTENT_TYPE).and_then(|line| line.to_str().ok()).unwrap_or_default();
    line.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl<S: Sync> FromRequestParts<S> for Flavour {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.method, &parts.headers))
    }
}

// === impl Id ===

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let flavour = Flavour::of(&parts.method, &parts.headers);
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(id)) if !id.contains(char::is_control) => Ok(Self(id)),
            _ => {
                let why = "Its path is no valid text.";
                let answer = Answer::problem(400, "path_invalid", "This address cannot be read", why);
                Err(respond::answer(flavour, &answer))
            }
        }
    }
}

// === impl Visitor ===

/// Lets in whoever brings a good token, and tells the gateway how the visitor stands and what is left with whatever is
/// answered: it learns of both from these answers alone.
pub(super) async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    let flavour = Flavour::of(request.method(), request.headers());
    let visitor = match visitor(&app, request.headers()) {
        Ok(visitor) => visitor,
        Err(answer) => return respond::answer(flavour, &answer),
    };
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Visitor(visitor.clone()));
    let body = read_body(&app, &parts, body).await;
    // Only now: who sends slowly keeps nobody busy.
    let busy = app.load.enter();
    let mut response = match body {
        Ok(body) => next.run(Request::from_parts(parts, body.into())).await,
        Err(answer) => respond::answer(flavour, &answer),
    };
    // After the call, which may have changed it. Nothing said is better than the call's answer lost.
    let lease = tokio::time::timeout(FEEDBACK_TIME, app.store.lease(&visitor)).await;
    let lease = lease.ok().and_then(Result::ok).flatten();
    respond::feedback(&mut response, lease, app.store.stock(), app.load.percent());
    drop(busy);
    response
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let admitted = Extension::<Self>::from_request_parts(parts, state).await;
        admitted.map(|Extension(visitor)| visitor).map_err(IntoResponse::into_response)
    }
}

fn visitor(app: &App, headers: &HeaderMap) -> Result<String, Answer> {
    let refuse = |refusal: Refusal| admission::refused(refusal.code(), &refusal.to_string());
    let mut lines = headers.get_all(admission::HEADER).iter();
    let token = match (lines.next(), lines.next()) {
        (None, _) => return Err(refuse(Refusal::Missing)),
        (Some(_), Some(_)) => return Err(refuse(Refusal::Ambiguous)),
        (Some(line), None) => line.to_str().map_err(|_| refuse(Refusal::Malformed))?,
    };
    app.admission.visitor(token, now())
}

// === impl Look ===

impl<S: Send + Sync> FromRequestParts<S> for Look {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Visitor(visitor) = Visitor::from_request_parts(parts, state).await?;
        Ok(Self { visitor, flavour: Flavour::of(&parts.method, &parts.headers) })
    }
}

// === impl Call ===

impl FromRequest<App> for Call {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let Look { visitor, flavour } = Look::from_request_parts(&mut parts, app).await?;
        let body = axum::body::to_bytes(body, LARGEST_BODY).await;
        let body = body.map_err(|_| respond::answer(flavour, &Answer::unavailable()))?.into();
        Ok(Self { visitor, flavour, headers: parts.headers, body })
    }
}

/// Reads a whole body, or says why the request is not taken.
async fn read_body(app: &App, parts: &Parts, body: Body) -> Result<Vec<u8>, Answer> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        same_site(app, &parts.headers)?;
        if parts.headers.get_all(CONTENT_ENCODING).iter().any(|coding| coding != "identity") {
            return Err(Answer::problem(
                415,
                "content_coding_unknown",
                "The request is in an unknown form",
                "Send the body as it is, without Content-Encoding.",
            ));
        }
    }
    read_up_to(body, LARGEST_BODY).await
}

/// The same for a webhook, which has more to say.
pub(super) async fn read_webhook(body: Body) -> Result<Vec<u8>, Answer> {
    read_up_to(body, LARGEST_WEBHOOK).await
}

async fn read_up_to(body: Body, most: usize) -> Result<Vec<u8>, Answer> {
    let read = axum::body::to_bytes(body, most);
    match tokio::time::timeout(BODY_TIME, read).await {
        Ok(Ok(body)) => Ok(body.into()),
        Ok(Err(_)) => Err(Answer::problem(
            413,
            "body_too_large",
            "The request is too large",
            format!("The body was broken off or is larger than {most} bytes."),
        )),
        Err(_) => Err(Answer::problem(
            408,
            "body_too_slow",
            "The request came too slowly",
            "Send the body at once.",
        )),
    }
}

/// A page of another site may not act in the visitor's name.
fn same_site(app: &App, headers: &HeaderMap) -> Result<(), Answer> {
    let lines = |name: &str| headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
    let host = lines(HOST.as_str()).next();
    let is_own = |origin: &str| {
        let from = origin.split_once("://").map_or("", |(_, authority)| authority).to_ascii_lowercase();
        from == *app.authority || Some(from.as_str()) == host
    };
    let foreign = if headers.contains_key(SITE) {
        !lines(SITE).all(|site| matches!(site, "same-origin" | "none"))
    } else {
        !lines(ORIGIN.as_str()).all(is_own)
    };
    if foreign {
        return Err(Answer::problem(
            403,
            "cross_site",
            "This came from another site",
            "The shop takes such requests from its own pages only.",
        ));
    }
    Ok(())
}

impl Call {
    /// The body's content, from JSON or a form; an empty body is an empty object.
    pub(super) fn content<T: DeserializeOwned>(&self) -> Result<T, Answer> {
        let invalid = |why: String| Answer::problem(400, "body_invalid", "The request cannot be read", why);
        match content_type(&self.headers).as_str() {
            FORM => serde_html_form::from_bytes(&self.body)
                .map_err(|error| invalid(format!("The form: {error}."))),
            "" if self.body.is_empty() => {
                serde_json::from_slice(b"{}").map_err(|error| invalid(format!("{error}.")))
            }
            "application/json" => {
                let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
                object(body).map_err(|error| invalid(format!("The JSON: {error}.")))
            }
            _ => Err(Answer::problem(
                415,
                "content_type_unknown",
                "The request is in an unknown form",
                format!("Send Content-Type: application/json, or {FORM}."),
            )),
        }
    }
}

/// Reads a JSON object. An array of its members' values in their order, which serde would take for it, is none.
pub(crate) fn object<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    let first = json.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    if first == Some(&b'[') {
        return Err(serde::de::Error::custom("an object is needed, not an array"));
    }
    serde_json::from_slice(json)
}
