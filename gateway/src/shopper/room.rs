//! The room: at its own address for caches, and in place of a protected path.

use http::{HeaderValue, Method, StatusCode, header};
use pingora::http::RequestHeader;
use ropeline_decision::{cookie, header as ours, presented};
use ropeline_queue::{Arrival, LaneDefinition};
use ropeline_token::Refusal;

use super::body::without_invitation;
use super::claim::{self, Admitted};
use super::page_headers::guarded;
use super::{fields, find, held, prepared, referring_page, same_site_path, standing};
use crate::answer::{Answer, Caching};
use crate::gateway::Gateway;
use crate::identity::Field;
use crate::page::{self, Barrier, Language, Reader, Uninvited};
use crate::sales::LiveSale;

/// A second: what it says, sold out above all, must reach everybody at once.
const ROOM_S: u32 = 1;

/// `GET /sales/{sale}/room`: the same bytes for everyone.
pub(super) fn for_everyone(sale: &LiveSale, head: &RequestHeader) -> Answer {
    guarded(prepared::answer(&sale.showing().room, &head.headers, Caching::PublicFor(ROOM_S)))
}

/// The room in place of a protected page.
///
/// Whoever holds a ticket sees its standing without any script; whoever has been called is let in at once, by the very
/// request that asked.
pub async fn in_place(gateway: &Gateway, head: &RequestHeader, sale: &str, status: u16) -> Answer {
    let sale = match find(gateway, sale) {
        Ok(sale) => sale,
        Err(problem) => return problem.answer(),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let fields = fields(head);
    let target = std::str::from_utf8(head.raw_path()).ok().and_then(same_site_path).unwrap_or("/");
    // Who is let in has no more need of it, and the shop no use for it.
    let (without_invitation, _) = without_invitation(target);

    // What was to be sent is lost with the pass. Its page is where the visitor goes on: to go back to this address, as
    // the room does, would be to ask for what may only be sent.
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let page = referring_page(head, &gateway.queue.api_prefix);
        return Answer::see_other(page.as_deref().unwrap_or(&sale.showing().input.entry_url));
    }
    let Ok(held) = held(gateway, &sale, &fields) else {
        let answer = guarded(prepared::in_place(&sale.showing().room, &head.headers, status));
        let answer = retry_after(gateway, answer, status, &sale);
        return match gateway.identifier.welcome(&fields) {
            Some(cookie) => answer.cookie(cookie),
            None => answer,
        };
    };
    let stands = standing::of(gateway, &sale, held.arrival());
    let mut shown = stands.for_room();
    if stands.may_claim() && head.method != Method::HEAD {
        match claim::admit(gateway, &sale, &held).await {
            // A browser that already sent this very token was not let in by it: sending it round again would never end.
            Ok(Admitted { cookie: Some(cookie), token, .. }) if !carries(gateway, &sale, &fields, &token) => {
                return Answer::see_other(&without_invitation).cookie(cookie);
            }
            Ok(_) => shown = page::Standing::Admitted,
            Err(problem) => shown = refused_standing(problem.code(), shown),
        }
    }
    let arrival = Arrival(held.ticket.claims.arrival);
    let answer = personal(gateway, head, &sale, &shown, Some(arrival), target, None, status);
    retry_after(gateway, answer, status, &sale)
}

/// The room as one visitor sees it.
#[allow(
    clippy::too_many_arguments,
    reason = "each is a part of what is shown, and nothing else has them together"
)]
fn personal(
    gateway: &Gateway,
    head: &RequestHeader,
    sale: &LiveSale,
    shown: &page::Standing,
    arrival: Option<Arrival>,
    return_to: &str,
    barrier: Option<Barrier>,
    status: StatusCode,
) -> Answer {
    let accept_language = prepared::joined(&head.headers, &header::ACCEPT_LANGUAGE);
    let showing = sale.showing();
    let lane = arrival.and_then(|arrival| showing.view.definition.lane(arrival.lane()));
    let reader = Reader {
        return_to,
        accept_language: accept_language.as_deref(),
        lane: lane.map(LaneDefinition::shown),
        barrier,
    };
    let html = gateway.room.personal(&showing.input, shown, &reader, Language::default());
    guarded(Answer::with_body(status, page::CONTENT_TYPE, html))
}

/// The room for a visitor whose invitation was refused, with whatever place they have.
pub(super) fn uninvited(
    gateway: &Gateway,
    head: &RequestHeader,
    sale: &LiveSale,
    return_to: &str,
    why: Uninvited,
    status: StatusCode,
) -> Answer {
    let arrival = held(gateway, sale, &fields(head)).ok().map(|held| Arrival(held.ticket.claims.arrival));
    let shown =
        arrival.map_or(page::Standing::Outside, |arrival| standing::of(gateway, sale, arrival).for_room());
    personal(gateway, head, sale, &shown, arrival, return_to, Some(Barrier::Uninvited(why)), status)
}

/// The room for a visitor who joined by a form and owes a proof. `free_in_s`: seconds until it takes none.
pub(super) fn crowded(
    gateway: &Gateway,
    head: &RequestHeader,
    sale: &LiveSale,
    return_to: &str,
    free_in_s: u64,
    status: StatusCode,
) -> Answer {
    let barrier = Some(Barrier::Crowded { free_in_s });
    let answer = personal(gateway, head, sale, &page::Standing::Outside, None, return_to, barrier, status);
    answer.header(header::RETRY_AFTER, HeaderValue::from(free_in_s))
}

/// Whether the request carries this admission token, or several cookies that may hide it.
fn carries(gateway: &Gateway, sale: &LiveSale, fields: &[Field<'_>], token: &str) -> bool {
    let name = cookie::admission(sale.id.as_str(), gateway.cookies.secure);
    presented(fields, ours::ADMISSION, &name).map_or(true, |carried| carried == Some(token))
}

/// What a refused claim says more than the view could know.
fn refused_standing(code: &str, shown: page::Standing) -> page::Standing {
    match code {
        "lapsed" | "ended" => page::Standing::Lapsed,
        "left" | "ticket_unknown" => page::Standing::Left,
        "recall_pending" => page::Standing::Recall,
        _ => shown,
    }
}

fn retry_after(gateway: &Gateway, answer: Answer, status: StatusCode, sale: &LiveSale) -> Answer {
    if status.is_success() {
        return answer;
    }
    let seconds = standing::outside_poll_ms(gateway, sale).div_ceil(1_000).max(1);
    answer.header(header::RETRY_AFTER, HeaderValue::from(seconds))
}

/// What a request that is no navigation gets instead of a protected path.
#[must_use]
pub fn must_wait(gateway: &Gateway, sale: &str, status: u16, refusal: Refusal) -> Answer {
    let sale = match find(gateway, sale) {
        Ok(sale) => sale,
        Err(problem) => return problem.answer(),
    };
    let seconds = standing::outside_poll_ms(gateway, &sale).div_ceil(1_000).max(1);
    ropeline_edge::must_wait(sale.id.as_str(), status, refusal, &gateway.queue.api_prefix, seconds).into()
}
