//! Where a ticket stands, in the words of the API and of the room. No store is asked.

use ropeline_queue::flow::EtaRange;
use ropeline_queue::{Arrival, Phase, Place, Position, SaleView, Standing, UnixMillis};
use serde::Serialize;

use crate::gateway::Gateway;
use crate::page;
use crate::sales::{LiveSale, Showing, Source};

/// What a client is told about a ticket.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StandingDocument {
    pub(super) sale: String,
    pub(super) state: &'static str,
    pub(super) phase: &'static str,
    /// Where the sale has lanes: which, and numbers and places count in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lane: Option<String>,
    pub(super) arrival: u64,
    pub(super) place: Option<u64>,
    pub(super) ahead: Option<u64>,
    pub(super) eta: Option<EtaRange>,
    pub(super) poll_after_ms: u64,
    pub(super) epoch: u32,
    pub(super) call_expires_at: Option<u64>,
    pub(super) recallable: bool,
    pub(super) paused_reason: Option<ropeline_queue::PauseReason>,
    /// When this was true.
    pub(super) as_of: u64,
    /// The queue's store cannot be reached: nothing has become of it since, as far as is known here.
    pub(super) store_away: bool,
}

/// Where a ticket stands now.
pub(super) struct Stands {
    pub(super) position: Position,
    pub(super) standing: Standing,
    now: UnixMillis,
}

/// Looks a ticket up.
pub(super) fn of(gateway: &Gateway, sale: &LiveSale, arrival: Arrival) -> Stands {
    let showing = sale.showing();
    let now = gateway.clock.now().max(showing.view.as_of);
    let position = sale.position(arrival);
    let standing = showing.view.standing(position, now);
    Stands { position, standing, now }
}

/// Milliseconds after which somebody without a ticket may ask again: as if at the back of the queue.
pub(super) fn outside_poll_ms(gateway: &Gateway, sale: &LiveSale) -> u64 {
    let view = &sale.showing().view;
    let now = gateway.clock.now();
    let back = match view.phase {
        Phase::Scheduled => Standing::Scheduled,
        _ => Standing::Waiting { ahead: Some(view.waiting), eta: None },
    };
    view.poll_after_ms(back, now, now.0)
}

impl Stands {
    /// Whether a claim is worth the store's time. A view does not know who has claimed: what looks lapsed may be an
    /// admission that runs, on the same visitor's other device.
    pub(super) fn may_claim(&self) -> bool {
        matches!(self.standing, Standing::Called { .. } | Standing::Lapsed { .. })
    }

    fn ahead(&self) -> Option<u64> {
        match self.standing {
            Standing::Waiting { ahead, .. } => ahead,
            _ => None,
        }
    }

    fn eta(&self) -> Option<EtaRange> {
        match self.standing {
            Standing::Waiting { eta, .. } => eta,
            _ => None,
        }
    }

    /// Milliseconds after which this ticket's client should ask again.
    pub(super) fn poll_after_ms(&self, view: &SaleView) -> u64 {
        view.poll_after_ms(self.standing, self.now, self.position.arrival.0)
    }

    /// The API's document. `admitted`: the request carries a valid admission token.
    pub(super) fn document(&self, showing: &Showing, admitted: bool) -> StandingDocument {
        let view = &showing.view;
        let store_away = showing.source != Source::Store;
        let state = match self.standing {
            _ if admitted => "admitted",
            Standing::Scheduled => "scheduled",
            Standing::Waiting { .. } => "waiting",
            Standing::Called { .. } => "called",
            Standing::Lapsed { .. } => "lapsed",
            Standing::SoldOut => "sold_out",
            Standing::Closed => "closed",
        };
        StandingDocument {
            sale: view.definition.id.to_string(),
            state,
            phase: view.phase.as_str(),
            lane: (view.definition.lane(self.position.arrival.lane())).map(|lane| lane.name.to_string()),
            arrival: self.position.arrival.number(),
            place: self.position.place.map(Place::number),
            ahead: self.ahead(),
            eta: self.eta().filter(|_| !store_away),
            poll_after_ms: self.poll_after_ms(view),
            epoch: view.epoch.0,
            call_expires_at: match self.standing {
                Standing::Called { until } => Some(until.0),
                _ => None,
            },
            recallable: matches!(self.standing, Standing::Lapsed { recallable: true }),
            paused_reason: view.paused_reason.clone(),
            as_of: view.as_of.0,
            store_away,
        }
    }

    /// What the room shows.
    pub(super) fn for_room(&self) -> page::Standing {
        match self.standing {
            Standing::Called { until } => {
                page::Standing::Called { left_s: Some(until.since(self.now) / 1_000) }
            }
            Standing::Lapsed { recallable: true } => page::Standing::Recall,
            Standing::Lapsed { recallable: false } => page::Standing::Lapsed,
            Standing::Scheduled | Standing::Waiting { .. } | Standing::SoldOut | Standing::Closed => {
                page::Standing::Waiting {
                    place: self.position.place.map(Place::number),
                    ahead: self.ahead().unwrap_or(0),
                    eta: self.eta(),
                }
            }
        }
    }
}
