//! `POST /leave`: a visitor gives up the place or the admission.

use http::StatusCode;
use pingora::http::RequestHeader;
use ropeline_decision::cookie;
use ropeline_queue::LeaveRefusal;

use super::{Call, fields, find, held, no_ticket, reachable, unavailable};
use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::problem::Problem;

pub(super) async fn answer(gateway: &Gateway, head: &RequestHeader, call: &Call) -> Result<Answer, Problem> {
    let sale = find(gateway, &call.sale)?;
    if let Err(away) = reachable(&sale) {
        return call.return_to.as_deref().map(Answer::see_other).ok_or(away);
    }
    match held(gateway, &sale, &fields(head)) {
        Ok(held) => {
            let arrival = held.arrival();
            let position = sale.position(arrival);
            let left =
                gateway.store.leave(&sale.id, position).await.map_err(|error| unavailable(&sale, &error))?;
            match left {
                // A ticket the queue does not know is as gone as one that left.
                Ok(()) | Err(LeaveRefusal::Unknown) => sale.leave(arrival),
            }
        }
        // Whoever has no ticket has nothing to give up.
        Err(_) if call.return_to.is_some() => {}
        Err(refusal) => return Err(no_ticket(&sale, refusal)),
    }
    let answer = match &call.return_to {
        Some(path) => Answer::see_other(path),
        None => Answer::empty(StatusCode::NO_CONTENT),
    };
    let secure = gateway.cookies.secure;
    let names = [cookie::ticket(sale.id.as_str(), secure), cookie::admission(sale.id.as_str(), secure)];
    Ok(names.iter().filter_map(|name| gateway.cookies.clear(name)).fold(answer, Answer::cookie))
}
