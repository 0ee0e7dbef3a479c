//! `POST /claim`: a called visitor takes the admission token.

use http::{HeaderValue, StatusCode};
use pingora::http::RequestHeader;
use ropeline_decision::cookie;
use ropeline_queue::{Arrival, ClaimRefusal, Claimed};
use ropeline_token::IssueError;
use serde::Serialize;

use super::{Call, Held, fields, find, held, no_ticket, put_back, reachable, standing, unavailable};
use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::sales::LiveSale;

#[derive(Serialize)]
struct Document<'a> {
    sale: &'a str,
    state: &'static str,
    admission_token: &'a str,
    expires_at: u64,
}

/// A visitor that was let in.
pub(super) struct Admitted {
    pub(super) token: String,
    pub(super) expires_at: u64,
    pub(super) cookie: Option<HeaderValue>,
}

pub(super) async fn answer(gateway: &Gateway, head: &RequestHeader, call: &Call) -> Result<Answer, Problem> {
    let sale = find(gateway, &call.sale)?;
    let held = held(gateway, &sale, &fields(head));
    if let Some(path) = &call.return_to {
        // A form's sender goes on either way: into the shop, or back to the room, which says what is in the way.
        let mut answer = Answer::see_other(path);
        if let Ok(held) = held
            && let Ok(Admitted { cookie: Some(cookie), .. }) = admit(gateway, &sale, &held).await
        {
            answer = answer.cookie(cookie);
        }
        return Ok(answer);
    }
    let held = held.map_err(|refusal| no_ticket(&sale, refusal))?;
    let admitted = admit(gateway, &sale, &held).await?;
    let document = Document {
        sale: sale.id.as_str(),
        state: "admitted",
        admission_token: &admitted.token,
        expires_at: admitted.expires_at,
    };
    let answer = Answer::json(StatusCode::OK, &document);
    Ok(match admitted.cookie {
        Some(cookie) => answer.cookie(cookie),
        None => answer,
    })
}

/// Claims for a ticket; the same answer again until the lease ends.
pub(super) async fn admit(gateway: &Gateway, sale: &LiveSale, held: &Held) -> Result<Admitted, Problem> {
    reachable(sale)?;
    put_back(gateway, sale, held).await?;
    let arrival = held.arrival();
    let stands = standing::of(gateway, sale, arrival);
    let claimed = gateway
        .store
        .claim(&sale.id, stands.position)
        .await
        .map_err(|error| unavailable(sale, &error))?
        .map_err(|refusal| refused(sale, refusal, &stands))?;
    sign(gateway, sale, &held.visitor.subject, arrival, &claimed).map_err(|error| {
        tracing::error!(sale = %sale.id, %error, "an admission token cannot be signed");
        Problem::internal()
    })
}

/// The admission of a visitor that claimed.
pub(super) fn sign(
    gateway: &Gateway,
    sale: &LiveSale,
    subject: &str,
    arrival: Arrival,
    claimed: &Claimed,
) -> Result<Admitted, IssueError> {
    let (token, expires_at) = gateway.issuer.admission(&sale.id, subject, arrival, claimed)?;
    let name = cookie::admission(sale.id.as_str(), gateway.cookies.secure);
    let cookie = gateway.cookies.set(&name, &token, expires_at.saturating_sub(gateway.now_s()).max(1));
    Ok(Admitted { token, expires_at, cookie })
}

fn refused(sale: &LiveSale, refusal: ClaimRefusal, stands: &standing::Stands) -> Problem {
    let conflict = StatusCode::CONFLICT;
    let gone = StatusCode::GONE;
    let (status, code, title, detail) = match refusal {
        ClaimRefusal::NotCalled => {
            (conflict, "not_called", "The ticket has not been called yet", "Poll the snapshot.")
        }
        ClaimRefusal::RecallPending => (
            conflict,
            "recall_pending",
            "The ticket is called again as soon as there is room",
            "Claim again soon.",
        ),
        ClaimRefusal::Lapsed => (
            gone,
            "lapsed",
            "The call was not claimed in time",
            "Join again, with \"again\": true, for a place at the back.",
        ),
        ClaimRefusal::Left => {
            (gone, "left", "The visitor has left the queue", "Join again for a place at the back.")
        }
        ClaimRefusal::Ended => (
            gone,
            "ended",
            "The admission is over",
            "Join again, with \"again\": true, for a place at the back.",
        ),
        ClaimRefusal::SoldOut => {
            (conflict, "sold_out", "Everything is sold", "There is nothing to wait for.")
        }
        ClaimRefusal::Closed => (gone, "closed", "The sale is over", "There is nothing to wait for."),
        ClaimRefusal::Unknown => {
            (gone, "ticket_unknown", "The ticket does not belong to this queue", "Join the queue.")
        }
    };
    let problem = Problem::new(status, code, title, detail).sale(sale.id.as_str());
    if status == conflict {
        problem.retry_after(stands.poll_after_ms(&sale.showing().view).div_ceil(1_000).max(1))
    } else {
        problem
    }
}
