//! The public snapshot as a client reads it: its own place, and when to look again.

use std::time::Duration;

use ropeline_queue::draw::Shuffle;
use ropeline_queue::flow::EtaRange;
use ropeline_queue::poll::{self, Distance};
use ropeline_queue::{Arrival, Phase, Place, UnixMillis, Vacant};
use serde::Deserialize;

use super::plan::SALE;
use super::web::{Answer, Browser};

/// What a client needs of the snapshot.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Snapshot {
    /// Where the sale is in its life.
    pub(super) phase: Phase,
    /// All places below have been called.
    pub(super) serving: Place,
    #[serde(default)]
    vacant: Vacant,
    rate: Option<Rate>,
    draw: Option<Draw>,
    opens_at: Option<UnixMillis>,
    as_of: UnixMillis,
    poll_after_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Rate {
    high: f64,
    low: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Draw {
    closes_at: UnixMillis,
    size: Option<u32>,
    seed: Option<String>,
}

/// Fetches the snapshot; the answer says how long that took.
///
/// # Errors
/// When it cannot be had.
pub(super) async fn fetch(browser: &Browser) -> anyhow::Result<(Snapshot, Answer)> {
    let path = format!("/api/v1/queue/sales/{SALE}/snapshot");
    let answer = browser.fetch(&path).await?.expect("snapshot", &[200])?;
    Ok((answer.json()?, answer))
}

// === impl Snapshot ===

impl Snapshot {
    /// The draw's shuffle, once it has been made.
    #[must_use]
    pub(super) fn shuffle(&self) -> Option<Shuffle> {
        let draw = self.draw.as_ref()?;
        Some(Shuffle::new(ropeline_queue::beacon::unhex(draw.seed.as_deref()?)?, draw.size?))
    }

    /// The place of a ticket, computed here; none before the draw.
    #[must_use]
    pub(super) fn place(&self, arrival: Arrival) -> Option<Place> {
        let Some(draw) = &self.draw else { return Some(Place(arrival.0)) };
        if u64::from(draw.size?) <= arrival.0 {
            return Some(Place(arrival.0));
        }
        Some(self.shuffle()?.place(arrival))
    }

    /// Whether nobody is called any more.
    #[must_use]
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::SoldOut | Phase::Closed)
    }

    /// How many are called before a place.
    fn ahead(&self, place: Place) -> u64 {
        self.vacant.ahead(self.serving, place)
    }

    /// The expected wait of a place, where it is known.
    #[must_use]
    pub(super) fn eta(&self, place: Place) -> Option<EtaRange> {
        let rate = self.rate.as_ref().filter(|_| self.phase == Phase::Open)?;
        let ahead = Duration::from_secs(self.ahead(place));
        let at = |per_minute: f64| {
            Duration::try_from_secs_f64(ahead.as_secs_f64() * 60.0 / per_minute)
                .ok()
                .map(|wait| wait.as_secs())
        };
        Some(EtaRange { low_s: at(rate.high)?, high_s: at(rate.low)? })
    }

    /// When to look again: the rule the queue tells its clients by.
    #[must_use]
    pub(super) fn poll_after(&self, arrival: Arrival, place: Option<Place>) -> Duration {
        let opening = || {
            let moments = [self.draw.as_ref().map(|draw| draw.closes_at), self.opens_at];
            let next = moments.into_iter().flatten().filter(|at| *at > self.as_of).min();
            let in_ms = next.map_or(0, |at| at.since(self.as_of));
            Distance::Opening { in_ms, waiting: 0 }
        };
        let distance = match (self.phase, place) {
            (Phase::Open | Phase::Paused, Some(place)) => {
                self.eta(place).map_or_else(|| Distance::Ahead(self.ahead(place)), Distance::Eta)
            }
            _ => opening(),
        };
        // Another moment of the same client is another draw of the jitter.
        let seed = arrival.0 ^ self.as_of.0.rotate_left(32);
        Duration::from_millis(poll::after_ms(distance, self.poll_after_ms, seed))
    }
}
