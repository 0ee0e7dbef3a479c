//! The shop's health, where several gateways each see only what they forward: the worst that any of them sees counts.

use crate::outcome::TickInput;
use crate::queue::Queue;
use crate::state::SharedHealth;
use crate::types::UnixMillis;

/// A limit that still holds is told again after so long, in milliseconds.
const AGAIN_MS: u64 = 2_000;

/// What was not told again for so long does not hold any more, in milliseconds: its gateway is gone.
const STALE_MS: u64 = 6_000;

impl Queue {
    /// Takes note of what the gateway `from` finds of the shop's health, for the others. A gateway that finds nothing amiss
    /// leaves no note, so that healthy gateways cost no write.
    pub fn share_health(&mut self, from: u64, input: TickInput, now: UnixMillis) {
        let now = self.core.last_now.max(now);
        let limit = input.health_limit.filter(|limit| *limit < self.definition.max_active);
        let noted = self.core.healths.iter().find(|health| health.from == from);
        let current = match (noted, limit) {
            (None, None) => true,
            (Some(noted), Some(limit)) => noted.limit == limit && now.since(noted.at) < AGAIN_MS,
            _ => false,
        };
        if current && self.core.healths.iter().all(|health| now.since(health.at) < STALE_MS) {
            return;
        }
        self.core.healths.retain(|health| health.from != from && now.since(health.at) < STALE_MS);
        self.core.healths.extend(limit.map(|limit| SharedHealth { from, limit, at: now }));
        self.pending.core = true;
    }

    /// Most visitors that the shop can take by all that is known; none: no opinion.
    pub(super) fn healthy(&self) -> Option<u32> {
        let own = self.health.and_then(|health| health.health_limit);
        let fresh = |health: &&SharedHealth| self.core.last_now.since(health.at) < STALE_MS;
        let noted = self.core.healths.iter().filter(fresh).map(|health| health.limit);
        own.into_iter().chain(noted).min()
    }
}
