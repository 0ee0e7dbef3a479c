//! Whose turn it is: how calls are divided over lanes by their shares.
//!
//! Start-time fair queueing (Goyal, Vin and Chen, 1996) with calls of equal weight: each call puts its lane ahead by what
//! a call of that lane costs, and the lane that is least ahead is next. Between lanes that both have somebody waiting the
//! calls differ from their shares by about one each at any time; a lane where nobody waits saves nothing up, and what it
//! does not take the others get.

use serde::{Deserialize, Serialize};

/// How far each lane is ahead of the one whose turn it is. Its size is that of the list of lanes; a sale without lanes
/// has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Turns(Vec<u64>);

// === impl Turns ===

impl Turns {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Divides `limit` calls over lanes where `waiting` wait, and remembers it. `shares` are percent, at least 1 each.
    pub(crate) fn divide(&mut self, limit: u64, waiting: &[u64], shares: &[u8]) -> Vec<u64> {
        let mut left = waiting.to_vec();
        let mut given = vec![0; waiting.len()];
        let mut rest = limit.min(waiting.iter().fold(0, |sum, waiting| sum.saturating_add(*waiting)));
        if let ([given], true) = (&mut *given, self.0.len() <= 1) {
            *given = rest;
            return vec![*given];
        }
        self.0.resize(waiting.len(), 0);
        // A call costs what makes it come out even: exactly, whatever the shares.
        let even = shares.iter().fold(1, |even, share| lcm(even, u64::from((*share).max(1))));
        let cost = |lane: usize| even / u64::from(shares.get(lane).copied().unwrap_or(1).max(1));
        while rest > 0 {
            let waits = (0..left.len()).filter(|lane| left[*lane] > 0);
            let Some(next) = waits.min_by_key(|lane| self.0[*lane]) else { break };
            let start = self.0[next];
            for ahead in &mut self.0 {
                *ahead = ahead.saturating_sub(start);
            }
            self.0[next] = cost(next);
            left[next] -= 1;
            given[next] += 1;
            rest -= 1;
        }
        given
    }

    /// Begins anew, under other shares.
    pub(crate) fn reset(&mut self) {
        self.0.clear();
    }
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
