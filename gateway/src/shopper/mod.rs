//! The shopper's side of the queue: its own calls, and what stands in for a protected path.

mod authorize;
mod body;
mod claim;
mod documents;
mod invitation;
mod join;
mod leave;
mod page_headers;
mod pass;
mod prepared;
mod proof;
mod room;
mod standing;
mod status;
mod unqueued;

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use ropeline_decision::{JWKS_PATH, cookie, header as ours, presented};
use ropeline_queue::{Arrival, JoinRecord, VisitorKey};
use ropeline_store::StoreError;
use ropeline_token::{Expect, Refusal, TicketClaims};

use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::identity::{Field, Unidentified, Visitor};
use crate::phases::request::fields;
use crate::problem::Problem;
use crate::sales::LiveSale;

use body::referring_page;
pub use body::{Call, parse_call, same_site_path};
pub use pass::{Entry, Pass, straight_through};
pub use room::{in_place as room_in_place, must_wait};
pub use unqueued::let_in as let_in_unqueued;

/// When to come again while the queue's store is away, in seconds; clients spread that by themselves.
const RETRY_AFTER_S: u64 = 3;

/// Answers one of the queue's own calls. `client` is where it comes from, `path` is in its one spelling and without
/// a query.
pub async fn answer(gateway: &Gateway, session: &mut Session, client: Option<IpAddr>, path: &str) -> Answer {
    match route(gateway, session, client, path).await {
        Ok(answer) => answer,
        Err(problem) => problem.answer(),
    }
}

async fn route(
    gateway: &Gateway,
    session: &mut Session,
    client: Option<IpAddr>,
    path: &str,
) -> Result<Answer, Problem> {
    if path == JWKS_PATH {
        reading(session.req_header())?;
        return Ok(documents::jwks(gateway));
    }
    let rest = path.strip_prefix(gateway.queue.api_prefix.as_str()).unwrap_or(path);
    let segments: Vec<&str> = rest.split('/').skip(1).collect();
    match segments.as_slice() {
        ["join"] => {
            posting(session.req_header())?;
            let call = body::read_call(session, &gateway.queue.api_prefix).await?;
            join::answer(gateway, session.req_header(), client, &call).await
        }
        ["claim"] => {
            posting(session.req_header())?;
            let call = body::read_call(session, &gateway.queue.api_prefix).await?;
            claim::answer(gateway, session.req_header(), &call).await
        }
        ["leave"] => {
            posting(session.req_header())?;
            let call = body::read_call(session, &gateway.queue.api_prefix).await?;
            leave::answer(gateway, session.req_header(), &call).await
        }
        ["status"] => {
            reading(session.req_header())?;
            status::answer(gateway, session.req_header())
        }
        ["authorize"] => {
            reading(session.req_header())?;
            authorize::answer(gateway, session.req_header())
        }
        ["sales", sale, "snapshot"] => {
            reading(session.req_header())?;
            let sale = find(gateway, sale)?;
            documents::snapshot(&sale)
        }
        ["sales", sale, "room"] => {
            reading(session.req_header())?;
            let sale = find(gateway, sale)?;
            Ok(room::for_everyone(&sale, session.req_header()))
        }
        ["sales", sale, "draw"] => {
            reading(session.req_header())?;
            let sale = find(gateway, sale)?;
            documents::draw(&sale, session.req_header())
        }
        ["assets", name] => {
            reading(session.req_header())?;
            documents::asset(gateway, name, session.req_header())
        }
        _ => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "call_unknown",
            "There is no such call",
            "See the calls in the documentation.",
        )),
    }
}

fn reading(head: &RequestHeader) -> Result<(), Problem> {
    if matches!(head.method, Method::GET | Method::HEAD) { Ok(()) } else { Err(method_refused("GET")) }
}

/// Only POST, and only from a page of this site: a cookie must not be used by somebody else's page.
fn posting(head: &RequestHeader) -> Result<(), Problem> {
    if head.method != Method::POST {
        return Err(method_refused("POST"));
    }
    if is_foreign(&head.headers) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "origin_foreign",
            "The call comes from another site's page",
            "Call from a page of this site.",
        ));
    }
    Ok(())
}

/// Whether another origin's page sent the request. Browsers say so in `Sec-Fetch-Site`; where one does not (over plain
/// HTTP, or an old one), `Origin` must name the host asked. What is no browser sends neither, and has no cookies of
/// somebody else's.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        // A sister site's page would carry the cookies, `SameSite` or not.
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin_host = origin.as_bytes().splitn(3, |byte| *byte == b'/').nth(2);
    origin_host.is_none() || origin_host != headers.get(header::HOST).map(HeaderValue::as_bytes)
}

fn method_refused(allowed: &str) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_refused",
        "The call takes another method",
        format!("Use {allowed}."),
    )
}

fn find(gateway: &Gateway, sale: &str) -> Result<Arc<LiveSale>, Problem> {
    gateway.sales.get(sale).ok_or_else(|| {
        if !gateway.sales.are_complete() {
            return store_away(sale);
        }
        Problem::new(
            StatusCode::NOT_FOUND,
            "sale_unknown",
            "There is no such sale",
            "Name the sale as its room does.",
        )
    })
}

/// The queue cannot be asked now. The shopper is told no more; the operator was told once, by the ticker: as many lines as
/// there are shoppers would drown that.
fn unavailable(sale: &LiveSale, error: &StoreError) -> Problem {
    tracing::debug!(sale = %sale.id, %error, "a shopper's call could not be carried out");
    store_away(sale.id.as_str())
}

fn store_away(sale: &str) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "queue_unavailable",
        "The queue's memory cannot be reached for the moment",
        "Your place is safe. Try again in a moment.",
    )
    .sale(sale)
    .retry_after(RETRY_AFTER_S)
}

/// What only the store can answer is not asked while it is away: a crowd that comes again costs nothing, and nobody waits
/// in vain.
fn reachable(sale: &LiveSale) -> Result<(), Problem> {
    if sale.is_away() { Err(store_away(sale.id.as_str())) } else { Ok(()) }
}

/// What a ticket says is answered from what is shown. Before the store has been reached, nothing is.
fn known(sale: &LiveSale) -> Result<(), Problem> {
    if sale.is_known() { Ok(()) } else { Err(store_away(sale.id.as_str())) }
}

fn unidentified(sale: &LiveSale, error: &Unidentified) -> Problem {
    let (status, code, title, detail) = match error {
        Unidentified::Nobody => (
            StatusCode::UNAUTHORIZED,
            "visitor_unknown",
            "The visitor is not known",
            "Sign in to the shop, then join.",
        ),
        Unidentified::Ambiguous => (
            StatusCode::BAD_REQUEST,
            "visitor_ambiguous",
            "The visitor is named twice",
            "Send one cookie or header of each name.",
        ),
        Unidentified::Account(_) => (
            StatusCode::UNAUTHORIZED,
            "account_refused",
            "The account is not valid",
            "Sign in to the shop again.",
        ),
        Unidentified::Issue(_) => {
            tracing::error!(%error, "no visitor can be made");
            return Problem::internal().sale(sale.id.as_str());
        }
    };
    Problem::new(status, code, title, detail).sale(sale.id.as_str())
}

/// A verified ticket, the visitor that holds it, and where it stands.
struct Held {
    visitor: Visitor,
    ticket: TicketClaims,
}

impl Held {
    fn arrival(&self) -> Arrival {
        Arrival(self.ticket.claims.arrival)
    }

    /// The ticket as the store keeps it.
    fn record(&self, sale: &LiveSale) -> JoinRecord {
        JoinRecord {
            arrival: self.arrival(),
            visitor: VisitorKey::derive(&sale.id, &self.visitor.subject),
            joined_at: u32::try_from(self.ticket.claims.iat).unwrap_or(u32::MAX),
        }
    }
}

/// Shows the store a ticket that a loss of it may have passed over, so that its visitor is on record again.
async fn put_back(gateway: &Gateway, sale: &LiveSale, held: &Held) -> Result<(), Problem> {
    if !sale.showing().view.was_passed_over(held.arrival()) {
        return Ok(());
    }
    let shown = gateway.store.reenter(&sale.id, vec![held.record(sale)]).await;
    shown.map_err(|error| unavailable(sale, &error))
}

/// The ticket a request presents for a sale: ours, of this epoch, and in the hands of its visitor.
fn held(gateway: &Gateway, sale: &LiveSale, fields: &[Field<'_>]) -> Result<Held, Refusal> {
    let name = cookie::ticket(sale.id.as_str(), gateway.cookies.secure);
    let token = presented(fields, ours::TICKET, &name)?.ok_or(Refusal::Missing)?;
    let authentic = gateway.verified.ticket(token)?;
    let expect = Expect {
        issuer: gateway.issuer.name(),
        audience: sale.id.as_str(),
        min_epoch: sale.showing().view.epoch.0,
        leeway: gateway.queue.leeway,
    };
    let ticket = authentic.accept(&expect, gateway.now_s())?;
    // A ticket of somebody else on this device (another account signed in before) is no ticket of this visitor.
    let visitor = gateway.identifier.known(fields).map_err(|_| Refusal::Missing)?;
    if visitor.subject != ticket.claims.sub {
        return Err(Refusal::Missing);
    }
    Ok(Held { visitor, ticket: ticket.clone() })
}

fn no_ticket(sale: &LiveSale, refusal: Refusal) -> Problem {
    let code = if refusal == Refusal::Missing { "ticket_missing" } else { refusal.code() };
    Problem::new(StatusCode::UNAUTHORIZED, code, "There is no valid ticket", "Join the queue first.")
        .sale(sale.id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn another_sites_page_is_told_from_our_own() {
        for ours in [
            &[("host", "shop.example")][..],
            &[("host", "shop.example"), ("origin", "https://shop.example")],
            &[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")],
            // A proxy of ours changed the host; the browser's own word stands.
            &[("host", "10.0.0.1"), ("origin", "https://shop.example"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(!is_foreign(&headers(ours)), "{ours:?}");
        }
        for foreign in [
            &[("host", "shop.example"), ("origin", "https://evil.example")][..],
            &[("host", "shop.example"), ("origin", "null")],
            &[("host", "shop.example"), ("origin", "https://shop.example.evil.example")],
            &[("host", "shop.example"), ("origin", "https://shop.example"), ("sec-fetch-site", "cross-site")],
            &[
                ("host", "shop.example"),
                ("origin", "https://a.shop.example"),
                ("sec-fetch-site", "same-site"),
            ],
        ] {
            assert!(is_foreign(&headers(foreign)), "{foreign:?}");
        }
    }
}
