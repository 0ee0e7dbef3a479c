//! What goes wrong, and how often: a plan that a seed decides.

use std::time::Duration;

/// How often each fault happens, of a thousand, and how long things take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The faults of requests happen only to those whose path ends so.
    pub only: Option<&'static str>,
    /// Requests whose connection is cut before anything is done.
    pub dropped_before: u16,
    /// Requests that are done, and whose connection is cut instead of an answer.
    pub dropped_after: u16,
    /// Requests answered 500 with nothing done; the answer is kept with the key.
    pub failed_before: u16,
    /// Requests that are done and answered 500; the answer is kept with the key.
    pub failed_after: u16,
    /// Requests answered 503 with nothing done and nothing kept.
    pub unavailable: u16,
    /// Requests answered 429 with nothing done and nothing kept.
    pub limited: u16,
    /// Requests that are done late.
    pub delayed: u16,
    /// The longest such delay.
    pub delay: Duration,
    /// Events that never come.
    pub events_lost: u16,
    /// Events that come twice.
    pub events_twice: u16,
    /// Events that come late, and so after later ones.
    pub events_late: u16,
    /// The longest such delay.
    pub lateness: Duration,
    /// How much faster than real time the three days pass in which an event is sent again.
    pub speed: u32,
    /// How long a bank takes to decide what is pending, once the shopper has confirmed it. `None`: until it is told to.
    pub bank: Option<Duration>,
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    DroppedBefore,
    DroppedAfter,
    FailedBefore,
    FailedAfter,
    Unavailable,
    Limited,
}

// === impl Plan ===

impl Plan {
    /// Nothing goes wrong.
    #[must_use]
    pub fn calm() -> Self {
        Self {
            seed: 0,
            only: None,
            dropped_before: 0,
            dropped_after: 0,
            failed_before: 0,
            failed_after: 0,
            unavailable: 0,
            limited: 0,
            delayed: 0,
            delay: Duration::ZERO,
            events_lost: 0,
            events_twice: 0,
            events_late: 0,
            lateness: Duration::ZERO,
            speed: 1,
            bank: None,
        }
    }

    /// Everything goes wrong, each now and then, and an event's three days pass in about four minutes.
    #[must_use]
    pub fn rough(seed: u64) -> Self {
        Self {
            seed,
            only: None,
            dropped_before: 30,
            dropped_after: 50,
            failed_before: 10,
            failed_after: 20,
            unavailable: 20,
            limited: 20,
            delayed: 50,
            delay: Duration::from_millis(200),
            events_lost: 200,
            events_twice: 150,
            events_late: 200,
            lateness: Duration::from_millis(1_500),
            speed: 1_000,
            bank: Some(Duration::from_millis(300)),
        }
    }

    pub(crate) fn fate(&self, path: &str, chance: &mut fastrand::Rng) -> Fate {
        if self.only.is_some_and(|end| !path.ends_with(end)) {
            return Fate::Fine;
        }
        let mut left = chance.u16(0..1_000);
        for (share, fate) in [
            (self.dropped_before, Fate::DroppedBefore),
            (self.dropped_after, Fate::DroppedAfter),
            (self.failed_before, Fate::FailedBefore),
            (self.failed_after, Fate::FailedAfter),
            (self.unavailable, Fate::Unavailable),
            (self.limited, Fate::Limited),
        ] {
            if left < share {
                return fate;
            }
            left -= share;
        }
        Fate::Fine
    }

    /// How long a request waits before it is done.
    pub(crate) fn pause(&self, chance: &mut fastrand::Rng) -> Duration {
        some(chance, self.delayed, self.delay)
    }

    /// How long an event waits before it is first sent.
    pub(crate) fn lag(&self, chance: &mut fastrand::Rng) -> Duration {
        some(chance, self.events_late, self.lateness)
    }
}

pub(crate) fn happens(chance: &mut fastrand::Rng, share: u16) -> bool {
    chance.u16(0..1_000) < share
}

fn some(chance: &mut fastrand::Rng, share: u16, most: Duration) -> Duration {
    if happens(chance, share) { most.mul_f64(chance.f64()) } else { Duration::ZERO }
}
