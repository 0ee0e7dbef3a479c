//! The bearer token (RFC 6750 section 2.1).

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Operator;
use super::problem::Problem;

pub(super) async fn require_token(
    State(operator): State<Operator>,
    request: Request,
    next: Next,
) -> Response {
    match bearer(request.headers()) {
        Some(token) if operator.access.token.matches(token) => next.run(request).await,
        Some(_) => {
            tracing::warn!(path = request.uri().path(), "operator call with a wrong token");
            Problem::token_wrong().into_response()
        }
        None => Problem::token_missing().into_response(),
    }
}

/// The token of the one `Authorization` line. Two lines are as good as none: which one counts is nobody's guess.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (line, None) = (lines.next()?.as_bytes(), lines.next()) else { return None };
    let (scheme, token) = line.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
