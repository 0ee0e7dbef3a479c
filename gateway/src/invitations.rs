//! A bounded memory of invitations that have brought a number here. Leaving before being called gives an invitation back, and
//! one that names its visitor is good for that one as often as it likes: what it brings after the first number costs what a
//! number costs anybody.

use quick_cache::sync::Cache;
use ropeline_queue::VisitorKey;

/// Invitations remembered. Nobody but the operator can make one, so forgetting costs a number for free at most.
const REMEMBERED: usize = 131_072;

/// The invitations that have brought a number at this gateway.
#[derive(Debug)]
pub struct UsedInvitations(Cache<VisitorKey, ()>);

impl UsedInvitations {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Cache::new(REMEMBERED))
    }

    /// Whether it has brought a number.
    #[must_use]
    pub fn contains(&self, invitation: &VisitorKey) -> bool {
        self.0.get(invitation).is_some()
    }

    /// It has brought one.
    pub fn insert(&self, invitation: VisitorKey) {
        self.0.insert(invitation, ());
    }
}

impl Default for UsedInvitations {
    fn default() -> Self {
        Self::new()
    }
}
