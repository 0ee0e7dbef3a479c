//! A bounded memory of tokens whose signature was verified, so that a shopper's second request costs no curve
//! arithmetic. Times, audience and epoch are checked at every request all the same; forgetting is always safe.

use std::sync::Arc;

use quick_cache::sync::Cache;
use ropeline_token::{AdmissionClaims, Authentic, KeySet, Refusal, TicketClaims};
use sha2::{Digest, Sha256};

/// Verified tokens remembered of each kind. At about 500 bytes each: 64 MiB in all.
const REMEMBERED: usize = 65_536;

type Fingerprint = [u8; 32];

/// Verifies tokens, remembering the ones that passed.
///
/// The memory is keyed by the SHA-256 of the whole token and belongs to one key set: a new key set starts with a
/// new memory, so that a withdrawn key stops verifying at once.
pub struct Verified {
    admission_keys: KeySet,
    ticket_keys: KeySet,
    admissions: Cache<Fingerprint, Arc<Authentic<AdmissionClaims>>>,
    tickets: Cache<Fingerprint, Arc<Authentic<TicketClaims>>>,
}

impl Verified {
    /// Verifies against these keys.
    #[must_use]
    pub fn new(admission_keys: KeySet, ticket_keys: KeySet) -> Self {
        Self {
            admission_keys,
            ticket_keys,
            admissions: Cache::new(REMEMBERED),
            tickets: Cache::new(REMEMBERED),
        }
    }

    /// An admission token's claims, its signature verified now or before.
    ///
    /// # Errors
    /// As [`KeySet::admission`]; refusals are not remembered.
    pub fn admission(&self, token: &str) -> Result<Arc<Authentic<AdmissionClaims>>, Refusal> {
        remembered(&self.admissions, token, || self.admission_keys.admission(token))
    }

    /// A ticket's claims, its signature verified now or before.
    ///
    /// # Errors
    /// As [`KeySet::ticket`]; refusals are not remembered.
    pub fn ticket(&self, token: &str) -> Result<Arc<Authentic<TicketClaims>>, Refusal> {
        remembered(&self.tickets, token, || self.ticket_keys.ticket(token))
    }
}

fn remembered<C>(
    memory: &Cache<Fingerprint, Arc<Authentic<C>>>,
    token: &str,
    verify: impl FnOnce() -> Result<Authentic<C>, Refusal>,
) -> Result<Arc<Authentic<C>>, Refusal> {
    let fingerprint = Sha256::digest(token.as_bytes()).into();
    if let Some(known) = memory.get(&fingerprint) {
        return Ok(known);
    }
    let authentic = Arc::new(verify()?);
    memory.insert(fingerprint, Arc::clone(&authentic));
    Ok(authentic)
}
