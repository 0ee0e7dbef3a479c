//! What an operator is told when a call is not carried out: RFC 9457, with every fault of a definition.
//! Apart from the shopper's problems on purpose: an operator may read what went wrong inside.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ropeline_queue::{ChangeRefusal, CommandRefusal, DefinitionErrors, FieldError};
use ropeline_store::StoreError;
use serde::Serialize;

/// A call that was not carried out.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

/// The sale tells it: some orders would be carried out twice.
const NOT_KNOWN: &str = "Whether it took effect is not known: look at the sale before repeating it.";

impl Problem {
    fn new(status: StatusCode, code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let kind = format!("urn:ropeline:problem:{code}");
        Self { kind, title, status: status.as_u16(), detail: detail.into(), code, errors: Vec::new() }
    }

    pub(super) fn token_missing() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "operator_token_missing",
            "The operator's token is missing",
            "Send `Authorization: Bearer TOKEN` with the token that the configuration names under [operator].",
        )
    }

    pub(super) fn token_wrong() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "operator_token_wrong",
            "The operator's token is wrong",
            "Send the token that the configuration names under [operator].",
        )
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "There is no such call", "See /api/v1/operator/sales.")
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "The call does not take this method",
            "The Allow header names those it takes.",
        )
    }

    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "too_slow", "The call took too long", NOT_KNOWN)
    }

    pub(super) fn internal(error: &dyn std::fmt::Display) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Something went wrong here",
            error.to_string(),
        )
    }

    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request_malformed", "The request cannot be read", detail)
    }

    pub(super) fn body_too_large() -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "The request body is too large",
            format!("Send at most {} bytes.", super::MAX_BODY),
        )
    }

    /// RFC 9110 section 13.1.1.
    pub(super) fn precondition_failed() -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "precondition_failed",
            "The sale is not as it was read",
            "Somebody has changed it meanwhile. Read it again, look at what has changed, and send what is still \
             to be changed with the new ETag in If-Match.",
        )
    }

    /// An order came to nothing, or so it seems.
    pub(super) fn of_order(error: StoreError) -> Self {
        let known = !matches!(error, StoreError::Unavailable { .. } | StoreError::Io { .. });
        let problem = Self::from(error);
        if known {
            return problem;
        }
        Self { detail: format!("{}. {NOT_KNOWN}", problem.detail), ..problem }
    }

    pub(super) fn definition(errors: Vec<FieldError>) -> Self {
        let detail = DefinitionErrors(errors.clone()).to_string();
        let problem = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "definition_invalid",
            "The sale's definition is not accepted",
            detail,
        );
        Self { errors, ..problem }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::UnknownSale(_) => {
                Self::new(StatusCode::NOT_FOUND, "sale_unknown", "There is no such sale", detail)
            }
            StoreError::SaleExists(_) => {
                Self::new(StatusCode::CONFLICT, "sale_exists", "The sale exists already", detail)
            }
            _ => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "store_unavailable",
                "The queue's store is not available",
                detail,
            ),
        }
    }
}

impl From<CommandRefusal> for Problem {
    fn from(refusal: CommandRefusal) -> Self {
        let code = match refusal {
            CommandRefusal::Closed => "sale_closed",
            CommandRefusal::NotOpen => "sale_not_open",
            CommandRefusal::SoldOut => "sale_sold_out",
            CommandRefusal::Paused => "sale_paused",
            CommandRefusal::LeaseOutOfRange => "lease_out_of_range",
            CommandRefusal::EpochSpent => "epoch_spent",
            CommandRefusal::NotDrawing => "not_drawing",
            CommandRefusal::OtherRound => "other_round",
            CommandRefusal::NoFallback => "no_fallback",
            CommandRefusal::BeaconNotOverdue => "beacon_not_overdue",
        };
        Self::new(
            StatusCode::CONFLICT,
            code,
            "The command does not fit the sale as it is",
            refusal.to_string(),
        )
    }
}

impl From<ChangeRefusal> for Problem {
    fn from(refusal: ChangeRefusal) -> Self {
        let code = match refusal {
            ChangeRefusal::OtherSale => "sale_differs",
            ChangeRefusal::DrawFixed => "draw_fixed",
            ChangeRefusal::LanesFixed => "lanes_fixed",
            ChangeRefusal::Closed => "sale_closed",
            ChangeRefusal::Overtaken => return Self::precondition_failed(),
        };
        Self::new(StatusCode::CONFLICT, code, "The sale cannot be changed so", refusal.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            let challenge = header::HeaderValue::from_static("Bearer realm=\"ropeline operator\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
