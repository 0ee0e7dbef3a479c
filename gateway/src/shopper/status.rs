//! `GET /status?sale=`: where a ticket stands. Answered from what the gateway knows; no store is asked.

use http::StatusCode;
use pingora::http::RequestHeader;
use ropeline_decision::{cookie, header as ours, presented};
use ropeline_queue::Arrival;
use ropeline_token::Expect;

use super::{fields, find, held, known, no_ticket, standing};
use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::identity::Field;
use crate::problem::Problem;
use crate::sales::LiveSale;

pub(super) fn answer(gateway: &Gateway, head: &RequestHeader) -> Result<Answer, Problem> {
    let query = head.uri.query().unwrap_or_default();
    let sale = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "sale");
    let Some((_, sale)) = sale else {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "sale_missing",
            "The call names no sale",
            "Name it: /status?sale=…",
        ));
    };
    let sale = find(gateway, &sale)?;
    let fields = fields(head);
    let held = held(gateway, &sale, &fields).map_err(|refusal| no_ticket(&sale, refusal))?;
    known(&sale)?;
    if sale.showing().view.was_passed_over(held.arrival()) {
        gateway.returning.tell(&sale, held.record(&sale));
    }
    let stands = standing::of(gateway, &sale, held.arrival());
    let admitted = is_admitted(gateway, &sale, &fields, held.ticket.claims.arrival);
    let document = stands.document(&sale.showing(), admitted);
    Ok(Answer::json(StatusCode::OK, &document))
}

/// Whether the request carries a valid admission token of the same ticket.
fn is_admitted(gateway: &Gateway, sale: &LiveSale, fields: &[Field<'_>], arrival: u64) -> bool {
    let name = cookie::admission(sale.id.as_str(), gateway.cookies.secure);
    let Ok(Some(token)) = presented(fields, ours::ADMISSION, &name) else { return false };
    let Ok(authentic) = gateway.verified.admission(token) else { return false };
    let expect = Expect {
        issuer: gateway.issuer.name(),
        audience: sale.id.as_str(),
        min_epoch: sale.showing().view.epoch.0,
        leeway: gateway.queue.leeway,
    };
    authentic
        .accept(&expect, gateway.now_s())
        .is_ok_and(|claims| claims.claims.arrival == arrival && !sale.has_left(Arrival(arrival)))
}
