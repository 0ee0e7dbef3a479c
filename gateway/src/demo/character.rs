//! What a simulated shopper is like, drawn beforehand, so that a seed makes the same crowd again.

use std::time::Duration;

use fastrand::Rng;

use super::plan::Plan;

/// Of a hundred shoppers, so many join before the draw closes.
const EARLY: u32 = 75;

/// What a simulated shopper will do.
#[derive(Clone, Debug)]
pub(super) struct Character {
    /// When they come, from the start of the sale.
    pub(super) comes: Duration,
    /// What they do while they wait.
    pub(super) waiting: Waiting,
    /// What they do once they are in.
    pub(super) shopping: Shopping,
    /// Decides small things on the way.
    pub(super) rng: Rng,
}

/// What a shopper does while waiting. Of a hundred, 20 are no-shows, 3 of whom come back late; 3 leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Looks at the room until called, and claims.
    Stays,
    /// Joins, and is never seen again.
    Vanishes,
    /// Misses the call and comes back after it has lapsed.
    OverSleeps,
    /// Leaves the queue after so many looks.
    Leaves {
        /// How many.
        looks: u32,
    },
}

/// What a shopper does once admitted. Of a hundred, 75 pay in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shopping {
    /// Reserves and pays.
    Buys {
        /// By which test card.
        card: &'static str,
        /// Pressing "reserve" twice, at the same instant.
        double_click: bool,
        /// Trying to get a second unit afterwards.
        greedy: bool,
    },
    /// The first card is declined, the second pays.
    PaysWithSecondCard,
    /// The card is declined; gives the unit back.
    Declined,
    /// Reserves and lets the hold run out.
    LetsHoldRunOut,
    /// Looks at the product and leaves.
    Looks,
}

// === impl Character ===

impl Character {
    /// The shopper of this number.
    #[must_use]
    pub(super) fn of(plan: &Plan, number: u32) -> Self {
        // The generator's first outputs for neighbouring seeds are unrelated.
        let mut rng = Rng::with_seed(plan.seed.wrapping_add(u64::from(number)));
        // Nobody cuts it so fine that a busy machine decides who is in the draw.
        let joining = plan.joining.mul_f64(0.9);
        let opening = plan.joining + plan.drawing;
        let comes = if rng.u32(..100) < EARLY {
            joining.mul_f64(rng.f64())
        } else {
            opening + plan.late.mul_f64(rng.f64())
        };
        let waiting = match rng.u32(..100) {
            0..17 => Waiting::Vanishes,
            17..20 => Waiting::OverSleeps,
            20..23 => Waiting::Leaves { looks: rng.u32(1..4) },
            _ => Waiting::Stays,
        };
        let shopping = match rng.u32(..100) {
            0..60 => Shopping::Buys {
                card: "test_accepted",
                double_click: rng.u32(..10) == 0,
                greedy: rng.u32(..10) == 0,
            },
            60..64 => Shopping::Buys { card: "test_slow", double_click: false, greedy: false },
            64..67 => Shopping::Buys { card: "test_lost_reply", double_click: false, greedy: false },
            67..75 => Shopping::PaysWithSecondCard,
            75..80 => Shopping::Declined,
            80..88 => Shopping::LetsHoldRunOut,
            _ => Shopping::Looks,
        };
        Self { comes, waiting, shopping, rng }
    }

    /// How long the next step takes.
    pub(super) fn thinks(&mut self, plan: &Plan) -> Duration {
        Duration::from_millis(self.rng.u64(plan.think_ms.clone()))
    }

    /// A key that makes an order one order, however often it is sent.
    pub(super) fn key(&mut self) -> String {
        format!("{:032x}", self.rng.u128(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(crowd: &[Character], what: impl Fn(&Character) -> bool) -> usize {
        crowd.iter().filter(|character| what(character)).count() * 100 / crowd.len()
    }

    #[test]
    fn a_crowd_is_as_mixed_as_promised_and_the_same_again() {
        let plan = Plan::once(10_000, 7);
        let crowd: Vec<_> = (0..plan.shoppers).map(|number| Character::of(&plan, number)).collect();
        let no_shows = share(&crowd, |one| matches!(one.waiting, Waiting::Vanishes | Waiting::OverSleeps));
        let payers =
            share(&crowd, |one| matches!(one.shopping, Shopping::Buys { .. } | Shopping::PaysWithSecondCard));
        let early = share(&crowd, |one| one.comes < plan.joining);
        assert!((18..=22).contains(&no_shows), "{no_shows} % no-shows");
        assert!((73..=77).contains(&payers), "{payers} % pay");
        assert!((73..=77).contains(&early), "{early} % early");
        let again = Character::of(&plan, 4_711);
        assert_eq!(format!("{again:?}"), format!("{:?}", crowd[4_711]));
    }
}
