//! The public documents: the same bytes for everyone.

use http::{HeaderMap, StatusCode};
use pingora::http::RequestHeader;

use super::{known, prepared};
use crate::answer::{Answer, Caching};
use crate::gateway::Gateway;
use crate::page;
use crate::problem::Problem;
use crate::sales::LiveSale;

/// Cached by edges for a second: what the whole crowd reads costs each of them one request a second.
const SNAPSHOT_S: u32 = 1;
/// Edges refresh the key set well within the time that a new key is published before it signs.
const JWKS_S: u32 = 60;

pub(super) fn snapshot(sale: &LiveSale) -> Result<Answer, Problem> {
    known(sale)?;
    Ok(Answer::with_body(StatusCode::OK, "application/json", sale.showing().snapshot.clone())
        .caching(Caching::PublicFor(SNAPSHOT_S)))
}

pub(super) fn jwks(gateway: &Gateway) -> Answer {
    Answer::with_body(StatusCode::OK, "application/jwk-set+json", gateway.jwks.clone())
        .caching(Caching::PublicFor(JWKS_S))
}

pub(super) fn asset(gateway: &Gateway, name: &str, head: &RequestHeader) -> Result<Answer, Problem> {
    let headers: &HeaderMap = &head.headers;
    let asset: &page::Prepared = gateway.room.asset(name).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "asset_unknown",
            "There is no such asset",
            "Load the room anew; it names its assets.",
        )
    })?;
    Ok(prepared::answer(asset, headers, Caching::Immutable))
}

pub(super) fn draw(sale: &LiveSale, head: &RequestHeader) -> Result<Answer, Problem> {
    known(sale)?;
    let showing = sale.showing();
    match &showing.draw {
        Some(draw) => Ok(prepared::answer(draw, &head.headers, Caching::PublicFor(SNAPSHOT_S))),
        // What could not be signed is in the log.
        None if showing.view.draw.is_some() => Err(Problem::internal().sale(sale.id.as_str())),
        None => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no_draw",
            "This sale has no draw",
            "Places follow the order of arrival.",
        )
        .sale(sale.id.as_str())),
    }
}
