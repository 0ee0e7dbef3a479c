//! On demand: while there is room, a visitor joins and is admitted within the request that asked for a protected page,
//! which then goes to the shop.
//!
//! The queue itself decides: the visitor takes the next number, and is admitted only if that number has been called. So
//! nobody overtakes at the edge between passing and waiting. What is checked before is only whether asking is worth the
//! store's time; while visitors wait, a crowd costs it nothing.

use std::net::IpAddr;

use http::{HeaderValue, Method};
use pingora::http::RequestHeader;
use ropeline_queue::{Arrival, ClaimRefusal, Phase, SaleView, VisitorKey};
use ropeline_store::Join;

use super::{claim, fields, join};
use crate::gateway::Gateway;
use crate::identity::Visitor;
use crate::join_guard::{Bound, Fare};
use crate::sales::LiveSale;

/// Who asks, as the queue has it.
pub enum Entry {
    /// Nobody was asked about: there is no room, or nobody whom it could be for.
    Outside,
    /// The visitor has a number and waits. The browser is to keep these cookies.
    Waits(Vec<HeaderValue>),
    /// The visitor need not wait.
    Through(Pass),
}

/// What goes on with a visitor who need not wait.
pub struct Pass {
    /// Whose name goes to the shop.
    pub subject: String,
    /// The ticket's number.
    pub arrival: Arrival,
    /// The admission token.
    pub token: String,
    /// What the browser is to keep: its name, ticket and admission.
    pub cookies: Vec<HeaderValue>,
}

/// Lets the sender of a request straight through, if the sale is one on demand and has room. `page`: a browser navigates,
/// so whoever has no name yet is given one.
pub async fn straight_through(
    gateway: &Gateway,
    head: &RequestHeader,
    client: Option<IpAddr>,
    sale: &LiveSale,
    page: bool,
) -> Entry {
    if head.method == Method::HEAD || sale.is_away() || !has_room(&sale.showing().view) {
        return Entry::Outside;
    }
    let fields = fields(head);
    let visitor =
        if page { gateway.identifier.known_or_new(&fields) } else { gateway.identifier.known(&fields) };
    // Who cannot be made out hears why from the room's own calls.
    let Ok(visitor) = visitor else { return Entry::Outside };
    enter(gateway, client, sale, &visitor).await.unwrap_or_else(|why| {
        tracing::error!(sale = %sale.id, why, "a visitor could not be let straight through");
        Entry::Outside
    })
}

fn has_room(view: &SaleView) -> bool {
    let busy = view.active.saturating_add(view.unclaimed);
    view.definition.on_demand
        && view.phase == Phase::Open
        && view.waiting == 0
        && view.recalls == 0
        && busy < u64::from(view.definition.max_active)
}

async fn enter(
    gateway: &Gateway,
    client: Option<IpAddr>,
    sale: &LiveSale,
    visitor: &Visitor,
) -> Result<Entry, String> {
    let subject = &visitor.subject;
    let key = VisitorKey::derive(&sale.id, subject);
    let mut cookies: Vec<HeaderValue> = visitor.new_cookie.clone().into_iter().collect();
    // Who was here before has a number that is used up, and takes a new one like everybody who comes now.
    for again in [false, true] {
        // Who owes a proof for a number sees the room, whose script computes one.
        let bound = Bound { sale: sale.id.as_str(), visitor: subject };
        let fare = gateway.guard.charge(client, None, bound, gateway.clock.now());
        let known_only = matches!(fare, Fare::Owing(_));
        let joined = gateway.store.join(&sale.id, vec![Join { again, known_only, ..Join::of(key) }]).await;
        let joined = joined.map(|mut joined| joined.pop());
        let outcome = join::outcome(joined.as_ref().ok().and_then(Option::as_ref));
        gateway.guard.settle(fare, bound, outcome);
        let Some(Ok(joined)) = joined.map_err(|error| error.to_string())? else {
            return Ok(Entry::Outside);
        };
        let claimed = gateway
            .store
            .claim(&sale.id, sale.position(joined.arrival))
            .await
            .map_err(|error| error.to_string())?;
        let used_up = matches!(claimed, Err(ClaimRefusal::Ended | ClaimRefusal::Lapsed | ClaimRefusal::Left));
        if used_up && !again {
            continue;
        }
        let (_, ticket) = join::sign(gateway, sale, subject, &joined).map_err(|error| error.to_string())?;
        cookies.extend(ticket);
        let Ok(claimed) = claimed else { return Ok(Entry::Waits(cookies)) };
        let claim::Admitted { token, cookie, .. } =
            claim::sign(gateway, sale, subject, joined.arrival, &claimed)
                .map_err(|error| error.to_string())?;
        cookies.extend(cookie);
        return Ok(Entry::Through(Pass {
            subject: subject.clone(),
            arrival: joined.arrival,
            token,
            cookies,
        }));
    }
    Ok(Entry::Outside)
}
