//! What proofs have been used for.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use quick_cache::sync::Cache;

use super::proof::{BoundKey, ProofName, ProofRefusal};

/// Proofs kept in mind, and visitors who used one. With about 100 bytes each: 25 MiB. Whoever has one forgotten has
/// paid for as many others within the life of a challenge.
const KEPT: usize = 131_072;

/// It has brought nothing.
const UNUSED: u8 = 0;
/// A join that may be given a number for it is under way.
const RUNNING: u8 = 1;
/// A join for it has ended, and nobody knows how. Its visitor may come back with it.
const UNKNOWN: u8 = 2;
/// It has brought a number.
const SPENT: u8 = 3;

/// What becomes of each proof.
pub(super) struct Spending {
    proofs: Cache<ProofName, Arc<AtomicU8>>,
    /// The proof that a visitor of a sale has used last.
    last: Cache<BoundKey, Arc<AtomicU8>>,
}

/// A proof that a join is under way for. If it is not said what came of that, it is not known.
#[derive(Debug)]
pub struct Running {
    state: Arc<AtomicU8>,
    /// What came of an earlier join for it is not known.
    again: bool,
}

/// What came of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A number that is new.
    New,
    /// The number that the visitor has.
    Held,
    /// None: it was refused.
    Refused,
    /// Nobody knows.
    Unknown,
}

// === impl Spending ===

impl Spending {
    pub(super) fn new() -> Self {
        Self { proofs: Cache::new(KEPT), last: Cache::new(KEPT) }
    }

    /// Takes note that a visitor joins for the proof, unless it is used already.
    pub(super) fn begin(&self, name: ProofName, visitor: BoundKey) -> Result<Running, ProofRefusal> {
        let state = self.proofs.get_or_insert_with(&name, || Ok::<_, Infallible>(Arc::default()));
        let state = state.unwrap_or_else(|never| match never {});
        let run = |from| state.compare_exchange(from, RUNNING, Ordering::AcqRel, Ordering::Acquire);
        let again = match run(UNUSED).or_else(|_| run(UNKNOWN)) {
            Ok(before) => before == UNKNOWN,
            Err(SPENT) => return Err(ProofRefusal::Spent),
            Err(_) => return Err(ProofRefusal::Running),
        };
        // Of two whose end is not known one is enough to come back with.
        if let Some(before) = self.last.get(&visitor).filter(|before| !Arc::ptr_eq(before, &state)) {
            spend_unknown(&before);
        }
        self.last.insert(visitor, Arc::clone(&state));
        Ok(Running { state, again })
    }

    /// Takes note that the visitor has a number: whatever may have brought it brings no other.
    pub(super) fn is_held(&self, visitor: &BoundKey) {
        if let Some(last) = self.last.get(visitor) {
            spend_unknown(&last);
        }
    }
}

fn spend_unknown(state: &AtomicU8) {
    // Any other is what it is.
    let _ = state.compare_exchange(UNKNOWN, SPENT, Ordering::AcqRel, Ordering::Acquire);
}

// === impl Running ===

impl Running {
    /// Says what came of the join.
    pub(super) fn ended(self, outcome: Outcome) {
        let after = match outcome {
            Outcome::New => SPENT,
            // By this proof, for all that is known.
            Outcome::Held if self.again => SPENT,
            Outcome::Refused if self.again => UNKNOWN,
            Outcome::Held | Outcome::Refused => UNUSED,
            Outcome::Unknown => UNKNOWN,
        };
        self.state.store(after, Ordering::Release);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.state.compare_exchange(RUNNING, UNKNOWN, Ordering::AcqRel, Ordering::Acquire);
    }
}
