//! Turns what the store answered into signed tokens. Deterministic: the same answer gives the same bytes.

use std::sync::Arc;

use ropeline_queue::types::MAX_ARRIVALS;
use ropeline_queue::{Arrival, Claimed, Epoch, Joined, SaleId, hex};
use ropeline_token::{AdmissionClaims, Claims, IssueError, TicketClaims};
use sha2::{Digest as _, Sha256};

use crate::keys::Keys;

/// How long a ticket lives, in seconds. Longer than any sale, since a ticket's real end is its sale's.
const TICKET_LIFE_S: u64 = 30 * 24 * 3600;

/// Signs tickets and admission tokens, each with its own key.
#[derive(Debug)]
pub struct Issuer {
    issuer: String,
    keys: Arc<Keys>,
}

impl Issuer {
    /// Signs in the name of `issuer`.
    #[must_use]
    pub fn new(issuer: String, keys: Arc<Keys>) -> Self {
        Self { issuer, keys }
    }

    /// The `iss` of every token.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.issuer
    }

    /// The ticket of a visitor that joined.
    ///
    /// # Errors
    /// When the subject cannot stand in a token.
    pub fn ticket(&self, sale: &SaleId, subject: &str, joined: &Joined) -> Result<String, IssueError> {
        self.keys.ticket.signer().sign_ticket(&TicketClaims {
            claims: Claims {
                iss: self.issuer.clone(),
                aud: sale.to_string(),
                sub: subject.to_owned(),
                jti: format!("{sale}-t{}-{}", joined.epoch, joined.arrival),
                iat: joined.joined_at,
                nbf: joined.joined_at,
                exp: joined.joined_at.saturating_add(TICKET_LIFE_S),
                epoch: joined.epoch.0,
                arrival: joined.arrival.0,
            },
        })
    }

    /// The admission token of somebody who is let in without the queue from `now` to `expires_at`, in Unix seconds. It bears
    /// a number that the queue gives to nobody, and a `w` where a claimed one has an `a`.
    ///
    /// # Errors
    /// When the subject cannot stand in a token.
    pub fn unqueued(
        &self,
        sale: &SaleId,
        subject: &str,
        epoch: Epoch,
        now: u64,
        expires_at: u64,
    ) -> Result<String, IssueError> {
        self.keys.admission.signer().sign_admission(&AdmissionClaims {
            claims: Claims {
                iss: self.issuer.clone(),
                aud: sale.to_string(),
                sub: subject.to_owned(),
                // Many may be let in within one second.
                jti: format!("{sale}-w{epoch}-{now}-{}", hex(&Sha256::digest(subject)[..8])),
                iat: now,
                nbf: now,
                exp: expires_at,
                epoch: epoch.0,
                arrival: MAX_ARRIVALS,
            },
            place: MAX_ARRIVALS,
        })
    }

    /// The admission token of a visitor that claimed, and when it expires in Unix seconds.
    ///
    /// # Errors
    /// When the subject cannot stand in a token.
    pub fn admission(
        &self,
        sale: &SaleId,
        subject: &str,
        arrival: Arrival,
        claimed: &Claimed,
    ) -> Result<(String, u64), IssueError> {
        let from = claimed.claimed_at.seconds();
        let expires_at = claimed.expires_at.seconds().max(from.saturating_add(1));
        let token = self.keys.admission.signer().sign_admission(&AdmissionClaims {
            claims: Claims {
                iss: self.issuer.clone(),
                aud: sale.to_string(),
                sub: subject.to_owned(),
                jti: format!("{sale}-a{}-{arrival}", claimed.epoch),
                iat: from,
                nbf: from,
                exp: expires_at,
                epoch: claimed.epoch.0,
                arrival: arrival.0,
            },
            place: claimed.place.0,
        })?;
        Ok((token, expires_at))
    }
}

#[cfg(test)]
mod tests {
    use ropeline_token::{KeySet, SigningKey};

    use super::*;

    #[test]
    fn no_two_who_are_let_in_without_the_queue_have_a_token_of_one_name() {
        let keys = Keys::of_seeds(1, 2);
        let issuer = Issuer::new("shop".to_owned(), Arc::new(keys));
        let known = KeySet::new([SigningKey::from_seed([2; 32]).public_key()]).unwrap();
        let name = |visitor: &str| {
            let sale = "drop".parse().unwrap();
            let token = issuer.unqueued(&sale, visitor, Epoch(3), 1_000, 1_300).unwrap();
            known.admission(&token).unwrap().unaccepted().claims.jti.clone()
        };
        assert_ne!(name("anna"), name("ben"));
        assert_eq!(name("anna"), name("anna"));
        assert!(name("anna").starts_with("drop-w3-1000-"), "{}", name("anna"));
    }
}
