//! Invitations: what lets a visitor join a lane of a sale. Checked when joining, before the store is asked for anything.

use http::StatusCode;
use ropeline_queue::{Invited, VisitorKey};
use ropeline_token::Refusal;

use crate::gateway::Gateway;
use crate::identity::Visitor;
use crate::page::Uninvited;
use crate::problem::Problem;
use crate::sales::LiveSale;

/// What a good invitation says.
#[derive(Clone, Copy)]
pub(super) struct Good {
    /// What the queue is told of it.
    pub(super) invited: Invited,
    /// Which one it is.
    pub(super) name: VisitorKey,
}

/// What a good invitation says; or why this one is not good, for this visitor and sale.
pub(super) fn check(
    gateway: &Gateway,
    sale: &LiveSale,
    visitor: &Visitor,
    invitation: &str,
) -> Result<Good, Uninvited> {
    let keys = gateway.keys.invitation.as_ref().ok_or(Uninvited::Invalid)?;
    let claims = keys.invitation(invitation.trim()).map_err(|_| Uninvited::Invalid)?;
    claims.accept(sale.id.as_str(), gateway.queue.leeway, gateway.now_s()).map_err(
        |refusal| match refusal {
            Refusal::AudienceRefused => Uninvited::OtherSale,
            Refusal::NotYetValid => Uninvited::NotYetValid,
            Refusal::Expired => Uninvited::Expired,
            _ => Uninvited::Invalid,
        },
    )?;
    let definition = &sale.showing().view.definition;
    let lane = definition.each_lane().find(|(_, lane)| lane.invitation && lane.name.as_str() == claims.lane);
    let (lane, _) = lane.ok_or(Uninvited::OtherLane)?;
    let name = VisitorKey::of_invitation(&sale.id, &claims.jti);
    let once = match &claims.sub {
        // It names its visitor, who has one ticket in any case.
        Some(subject) if *subject == visitor.subject => None,
        Some(_) => return Err(Uninvited::OtherVisitor),
        None => Some(name),
    };
    Ok(Good { invited: Invited { lane, once }, name })
}

/// The problem document. Its code never changes its spelling.
pub(super) fn problem(sale: &LiveSale, why: Uninvited) -> Problem {
    let (code, title, detail) = match why {
        Uninvited::Needed => (
            "invitation_needed",
            "It takes an invitation to join this sale",
            "Send the invitation as \"invitation\".",
        ),
        Uninvited::Used => (
            "invitation_used",
            "The invitation has been used by another visitor",
            "It is good for one visitor. Join without it, or with another.",
        ),
        Uninvited::Expired => {
            ("invitation_expired", "The invitation has expired", "Join without it, or with another.")
        }
        Uninvited::NotYetValid => {
            ("invitation_not_yet_valid", "The invitation is not valid yet", "Join without it, or come later.")
        }
        Uninvited::OtherSale => (
            "invitation_other_sale",
            "The invitation is to another sale",
            "Show it there; join here without it, or with another.",
        ),
        Uninvited::OtherLane => (
            "invitation_other_lane",
            "The invitation is to a lane that the sale does not have",
            "Join without it, or with another.",
        ),
        Uninvited::OtherVisitor => (
            "invitation_other_visitor",
            "The invitation is for another visitor",
            "Sign in with the account that was invited, or join without it.",
        ),
        Uninvited::Invalid => (
            "invitation_invalid",
            "The invitation is not a good one",
            "Check that all of it was copied; join without it, or with another.",
        ),
    };
    Problem::new(StatusCode::FORBIDDEN, code, title, detail).sale(sale.id.as_str())
}
