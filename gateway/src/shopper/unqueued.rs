//! While its store is away, a sale may let everybody in for a while. Nobody gets a number by it, and nobody loses one:
//! whoever waits has the same place once the store is back.

use std::time::Duration;

use http::{HeaderValue, Method};
use pingora::http::RequestHeader;
use ropeline_decision::cookie;
use ropeline_queue::Arrival;
use ropeline_queue::types::MAX_ARRIVALS;

use super::{Pass, fields};
use crate::gateway::Gateway;
use crate::sales::LiveSale;

/// Longest life of an admission that is given without the queue. Shorter than most leases: what it lets in is counted by
/// nobody's limit.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Lets the sender of a request in without the queue, if the sale is open so. `page`: a browser navigates, so whoever has
/// no name yet is given one.
pub fn let_in(gateway: &Gateway, head: &RequestHeader, sale: &LiveSale, page: bool) -> Option<Pass> {
    if head.method == Method::HEAD || !sale.is_open_without_store() {
        return None;
    }
    let fields = fields(head);
    let visitor =
        if page { gateway.identifier.known_or_new(&fields) } else { gateway.identifier.known(&fields) };
    // Who cannot be made out hears why from the room's own calls.
    let visitor = visitor.ok()?;
    let view = std::sync::Arc::clone(&sale.showing().view);
    let life = LONGEST.min(Duration::from_millis(view.definition.lease_ms));
    let now = gateway.now_s();
    let expires_at = now.saturating_add(life.as_secs().max(1));
    let token = gateway.issuer.unqueued(&sale.id, &visitor.subject, view.epoch, now, expires_at);
    let token = token
        .inspect_err(|error| tracing::error!(sale = %sale.id, %error, "an admission token cannot be signed"))
        .ok()?;
    gateway.metrics.let_in_unqueued(sale.id.as_str());
    let name = cookie::admission(sale.id.as_str(), gateway.cookies.secure);
    let kept = gateway.cookies.set(&name, &token, life.as_secs().max(1));
    let cookies: Vec<HeaderValue> = visitor.new_cookie.into_iter().chain(kept).collect();
    Some(Pass { subject: visitor.subject, arrival: Arrival(MAX_ARRIVALS), token, cookies })
}
