//! The call that gives out the settings for edges.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use ropeline_store::StoreError;

use super::problem::Problem;
use super::{NoSettings, Operator};
use crate::edge::export::{self, Wishes, entity_tag};

/// Where it is.
pub(crate) const SETTINGS: &str = "/api/v1/queue/edge/settings";

/// The settings as the gateway has them now, with an entity tag: whoever polls with `If-None-Match` gets 304 until
/// something has changed, or the end has moved on.
pub(super) async fn settings(
    State(operator): State<Operator>,
    query: Result<Query<export::Query>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| Problem::malformed(rejection.body_text()))?;
    let wishes = Wishes::try_from(&query)
        .map_err(|fault| Problem::malformed(format!("{}; {}.", fault.what, fault.mend)))?;
    let settings = operator.gateway.edge_settings(wishes.send_to).map_err(|error| match error {
        NoSettings::SalesUnknown => StoreError::Unavailable { reason: error.to_string() }.into(),
        NoSettings::Broken(error) => Problem::internal(&error),
    })?;
    let document = export::fulfil(settings, &wishes, operator.gateway.now_s()).to_json();
    let tag = entity_tag(&document);
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    if known.into_iter().any(|line| crate::page::names_tag(line, &tag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let fields = [(header::CONTENT_TYPE, "application/json".to_owned()), (header::ETAG, tag)];
    Ok((fields, document).into_response())
}
