//! `POST /join`: a visitor takes a ticket, the same one from every tab and device. The first may take a proof of work.

use std::net::IpAddr;

use http::{HeaderValue, StatusCode};
use pingora::http::RequestHeader;
use ropeline_decision::cookie;
use ropeline_queue::{JoinRefusal, Joined, VisitorKey};
use ropeline_store::Join;
use ropeline_token::IssueError;
use serde::Serialize;

use super::invitation::Good;
use super::standing::{self, StandingDocument};
use super::{
    Call, Held, fields, find, held, invitation, proof, put_back, reachable, room, unavailable, unidentified,
};
use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::join_guard::{Bound, Fare, Outcome, Owing};
use crate::page::Uninvited;
use crate::problem::Problem;
use crate::sales::LiveSale;

/// How long a browser keeps a ticket, in seconds: a week. Shorter than its life, so that the tickets of many sales do not
/// pile up in every request; joining again gives the same one.
const TICKET_COOKIE_S: u64 = 7 * 24 * 3600;

#[derive(Serialize)]
struct Document {
    ticket: String,
    /// For apps without a cookie jar: what to send as `Ropeline-Visitor` from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    visitor: Option<String>,
    #[serde(flatten)]
    standing: StandingDocument,
}

pub(super) async fn answer(
    gateway: &Gateway,
    head: &RequestHeader,
    client: Option<IpAddr>,
    call: &Call,
) -> Result<Answer, Problem> {
    let sale = find(gateway, &call.sale)?;
    let fields = fields(head);
    if let Err(away) = reachable(&sale) {
        // A form's sender goes back to the room, which says the same in words.
        return call.return_to.as_deref().map(Answer::see_other).ok_or(away);
    }
    let visitor = gateway.identifier.known_or_new(&fields).map_err(|error| unidentified(&sale, &error))?;

    let shown = match &call.invitation {
        None => None,
        Some(shown) => match invitation::check(gateway, &sale, &visitor, shown) {
            Ok(good) => Some(good),
            Err(why) => return uninvited(gateway, &sale, head, call, why),
        },
    };
    let held = held(gateway, &sale, &fields).ok();
    if let Some(held) = &held {
        put_back(gateway, &sale, held).await?;
    }
    let key = VisitorKey::derive(&sale.id, &visitor.subject);
    let invited = shown.map(|good| good.invited);
    let join = Join { visitor: key, again: call.again, invited, known_only: false };
    let mut own = None;
    if let (Some(held), None) = (&held, invited) {
        own = its_own(gateway, &sale, held, join).await?;
    }
    let (mut joined, owing) = match own {
        Some(joined) => (joined, None),
        None => charged(gateway, &sale, client, call, &visitor.subject, (join, shown)).await?,
    };
    if let (Ok(Joined { arrival, new: true, .. }), Some(held)) = (&joined, &held)
        && *arrival != held.arrival()
    {
        // A new number for somebody who shows another: it was lost just now, or is used up and stays so.
        show(gateway, &sale, held).await?;
        joined = one(gateway, &sale, Join { again: false, ..join }).await?;
    }
    let joined = match (joined, owing) {
        (Ok(joined), _) => joined,
        (Err(JoinRefusal::NotKnown), Some(owing)) => {
            return Ok(proof::asked(gateway, &sale, head, call, &visitor, owing));
        }
        (Err(JoinRefusal::InvitationNeeded), _) => {
            return uninvited(gateway, &sale, head, call, Uninvited::Needed);
        }
        (Err(JoinRefusal::InvitationUsed), _) => {
            return uninvited(gateway, &sale, head, call, Uninvited::Used);
        }
        (Err(JoinRefusal::NoSuchLane), _) => {
            return uninvited(gateway, &sale, head, call, Uninvited::OtherLane);
        }
        // A form's sender goes back to the room, which says the same in words.
        (Err(_), _) if call.return_to.is_some() => {
            return Ok(Answer::see_other(call.return_to.as_deref().unwrap_or("/")));
        }
        (Err(refusal), _) => return Err(refused(gateway, &sale, refusal)),
    };
    let (ticket, ticket_cookie) = sign(gateway, &sale, &visitor.subject, &joined).map_err(|error| {
        tracing::error!(sale = %sale.id, %error, "a ticket cannot be signed");
        Problem::internal()
    })?;

    let answer = match &call.return_to {
        Some(path) => Answer::see_other(path),
        None => {
            let stands = standing::of(gateway, &sale, joined.arrival);
            let standing = stands.document(&sale.showing(), false);
            Answer::json(StatusCode::OK, &Document { ticket, visitor: visitor.credential, standing })
        }
    };
    Ok(with_cookies(answer, [visitor.new_cookie, ticket_cookie]))
}

/// What costs nothing: the number that the visitor has, or a new one for it that was called and is used up. `None` for one
/// who has none: a ticket alone is no number, as it may have been left, or replaced.
async fn its_own(
    gateway: &Gateway,
    sale: &LiveSale,
    held: &Held,
    join: Join,
) -> Result<Option<Result<Joined, JoinRefusal>>, Problem> {
    let known = Join { known_only: true, ..join };
    let mut joined = one(gateway, sale, known).await?;
    if joined == Err(JoinRefusal::NotKnown) {
        // Unless it was lost just now.
        show(gateway, sale, held).await?;
        joined = one(gateway, sale, known).await?;
    }
    Ok(Some(joined).filter(|joined| *joined != Err(JoinRefusal::NotKnown)))
}

/// Joins for what a new number costs, which is given back when none comes of it; says what is still to be paid. An invitation is
/// taken instead, for the first number that it brings at this gateway.
async fn charged(
    gateway: &Gateway,
    sale: &LiveSale,
    client: Option<IpAddr>,
    call: &Call,
    subject: &str,
    (join, shown): (Join, Option<Good>),
) -> Result<(Result<Joined, JoinRefusal>, Option<Owing>), Problem> {
    let bound = Bound { sale: sale.id.as_str(), visitor: subject };
    let fare = if shown.is_some_and(|good| !gateway.invitations.contains(&good.name)) {
        Fare::Unlimited
    } else {
        gateway.guard.charge(client, call.proof.as_deref(), bound, gateway.clock.now())
    };
    let known_only = matches!(fare, Fare::Owing(_));
    let joined = one(gateway, sale, Join { known_only, ..join }).await;
    let outcome = outcome(joined.as_ref().ok());
    if matches!(fare, Fare::Proven(..)) && outcome == Outcome::New {
        gateway.metrics.proof(sale.id.as_str(), "accepted");
    }
    if let (Outcome::New, Some(good)) = (outcome, shown) {
        gateway.invitations.insert(good.name);
    }
    let owing = if let Fare::Owing(owing) = &fare { Some(*owing) } else { None };
    gateway.guard.settle(fare, bound, outcome);
    Ok((joined?, owing))
}

/// What came of a join, as far as its price goes.
pub(super) const fn outcome(joined: Option<&Result<Joined, JoinRefusal>>) -> Outcome {
    match joined {
        Some(Ok(Joined { new: true, .. })) => Outcome::New,
        Some(Ok(_)) => Outcome::Held,
        Some(Err(_)) => Outcome::Refused,
        None => Outcome::Unknown,
    }
}

/// Shows the store a ticket whose number it may have lost.
async fn show(gateway: &Gateway, sale: &LiveSale, held: &Held) -> Result<(), Problem> {
    let shown = gateway.store.reenter(&sale.id, vec![held.record(sale)]).await;
    shown.map_err(|error| unavailable(sale, &error))
}

async fn one(gateway: &Gateway, sale: &LiveSale, join: Join) -> Result<Result<Joined, JoinRefusal>, Problem> {
    let joined = gateway.store.join(&sale.id, vec![join]).await;
    Ok(joined.map_err(|error| unavailable(sale, &error))?.pop().unwrap_or(Err(JoinRefusal::Full)))
}

/// Tells a visitor at once that the invitation lets nobody in, or that it takes one. A form's sender gets the room, which
/// says so and keeps whatever place they have.
fn uninvited(
    gateway: &Gateway,
    sale: &LiveSale,
    head: &RequestHeader,
    call: &Call,
    why: Uninvited,
) -> Result<Answer, Problem> {
    let problem = invitation::problem(sale, why);
    match &call.return_to {
        Some(path) => Ok(room::uninvited(gateway, head, sale, path, why, problem.status())),
        None => Err(problem),
    }
}

/// The ticket of a visitor that joined, and the cookie that keeps it.
pub(super) fn sign(
    gateway: &Gateway,
    sale: &LiveSale,
    subject: &str,
    joined: &Joined,
) -> Result<(String, Option<HeaderValue>), IssueError> {
    let ticket = gateway.issuer.ticket(&sale.id, subject, joined)?;
    let name = cookie::ticket(sale.id.as_str(), gateway.cookies.secure);
    let cookie = gateway.cookies.set(&name, &ticket, TICKET_COOKIE_S);
    Ok((ticket, cookie))
}

fn with_cookies(answer: Answer, cookies: impl IntoIterator<Item = Option<HeaderValue>>) -> Answer {
    cookies.into_iter().flatten().fold(answer, Answer::cookie)
}

fn refused(gateway: &Gateway, sale: &LiveSale, refusal: JoinRefusal) -> Problem {
    let (code, title, detail) = match refusal {
        JoinRefusal::NotYetOpen => {
            ("not_yet_open", "Joining has not opened yet", "Join when it opens; the snapshot says when.")
        }
        JoinRefusal::Closed => ("closed", "The sale is over", "There is nothing to wait for."),
        JoinRefusal::SoldOut => ("sold_out", "Everything is sold", "There is nothing to wait for."),
        // Told apart before.
        JoinRefusal::NotKnown
        | JoinRefusal::InvitationNeeded
        | JoinRefusal::InvitationUsed
        | JoinRefusal::NoSuchLane => {
            return Problem::internal().sale(sale.id.as_str());
        }
        JoinRefusal::Full => ("queue_full", "The queue is full", "Nobody else can join this sale."),
    };
    let problem = Problem::new(StatusCode::CONFLICT, code, title, detail).sale(sale.id.as_str());
    let view = &sale.showing().view;
    match (refusal, view.definition.joins_open_at) {
        (JoinRefusal::NotYetOpen, Some(at)) => {
            problem.retry_after(at.since(gateway.clock.now()).div_ceil(1_000).max(1))
        }
        (JoinRefusal::NotYetOpen, None) => problem.retry_after(10),
        _ => problem,
    }
}
