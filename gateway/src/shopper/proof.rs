//! What a visitor without a number is told whose network has been given many: what to compute, or how long to wait.

use http::StatusCode;
use pingora::http::RequestHeader;

use super::{Call, room};
use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::identity::Visitor;
use crate::join_guard::{Bound, Owing, ProofRefusal};
use crate::problem::{Problem, ProofWanted};
use crate::sales::LiveSale;

/// Asks for a proof. The visitor is to be the same when it comes back with it. A form's sender, who cannot compute one, gets
/// the room, which says when there is a number without.
pub(super) fn asked(
    gateway: &Gateway,
    sale: &LiveSale,
    head: &RequestHeader,
    call: &Call,
    visitor: &Visitor,
    owing: Owing,
) -> Answer {
    let problem = problem(owing.refused);
    let result = match owing.refused {
        None => "asked",
        Some(ProofRefusal::Invalid) => "invalid",
        Some(ProofRefusal::Expired) => "expired",
        Some(ProofRefusal::TooEasy) => "too_easy",
        Some(ProofRefusal::Unsolved) => "unsolved",
        Some(ProofRefusal::Spent) => "spent",
        Some(ProofRefusal::Running) => "running",
    };
    gateway.metrics.proof(sale.id.as_str(), result);
    let answer = match &call.return_to {
        // Nothing is to be computed anew.
        None if owing.refused == Some(ProofRefusal::Running) => {
            problem.sale(sale.id.as_str()).retry_after(1).visitor(visitor.credential.clone()).answer()
        }
        Some(path) => room::crowded(gateway, head, sale, path, owing.free_in_s, problem.status()),
        None => {
            let bound = Bound { sale: sale.id.as_str(), visitor: &visitor.subject };
            let challenge = gateway.guard.challenge(bound, owing.bits, gateway.clock.now());
            let wanted = challenge.map(|challenge| ProofWanted {
                algorithm: "sha256",
                challenge: challenge.text,
                bits: challenge.bits,
                expires_at: challenge.expires_at,
            });
            let problem = problem
                .sale(sale.id.as_str())
                .retry_after(owing.free_in_s)
                .visitor(visitor.credential.clone());
            wanted.into_iter().fold(problem, Problem::proof).answer()
        }
    };
    let cookie = visitor.credential.as_deref().and_then(|value| gateway.identifier.newcomer_cookie(value));
    cookie.into_iter().fold(answer, Answer::cookie)
}

/// The problem document. Its code never changes its spelling.
fn problem(refused: Option<ProofRefusal>) -> Problem {
    let (code, title, detail) = match refused {
        Some(ProofRefusal::Running) => {
            let title = "Another join with the same proof is under way";
            let detail = "It brings one number. Send the same again in a moment.";
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "join_running", title, detail);
        }
        None => (
            "proof_required",
            "Many have joined from this network",
            "Join again with a \"proof\" for the challenge, or without after the time to wait.",
        ),
        Some(ProofRefusal::Invalid) => (
            "proof_invalid",
            "The proof is not one for this visitor and sale",
            "Send challenge, dot and decimal nonce as one text, as the visitor who was asked; begin anew with this challenge.",
        ),
        Some(ProofRefusal::Expired) => {
            ("proof_expired", "The proof's challenge has expired", "Begin anew with this challenge.")
        }
        Some(ProofRefusal::TooEasy) => (
            "proof_too_easy",
            "More is asked for now than the proof's challenge asked for",
            "More have joined from this network meanwhile. Begin anew with this challenge.",
        ),
        Some(ProofRefusal::Unsolved) => (
            "proof_unsolved",
            "The proof's hash does not begin with as many zero bits as its challenge asks for",
            "Hash the proof as it is sent: challenge, dot and nonce.",
        ),
        Some(ProofRefusal::Spent) => (
            "proof_spent",
            "The proof has brought a number, which was given up since",
            "Each number takes a proof of its own. Begin anew with this challenge.",
        ),
    };
    Problem::new(StatusCode::TOO_MANY_REQUESTS, code, title, detail)
}
