//! What everybody but the store needs of a sale: one read answers status, snapshot and room for a second.

use std::ops::{Deref, Range};
use std::sync::Arc;

use serde::Serialize;

use crate::beacon::{Beacon, BeaconSignature, LATE_AFTER_MS};
use crate::calls::CallLog;
use crate::definition::{LaneDefinition, Pace, SaleDefinition};
use crate::draw::{self, Seed};
use crate::flow::{EtaRange, Rate};
use crate::lane::{Lane, Lines};
use crate::manifest::{DrawState, Fallback, Manifest, Promise, Source, Trust, hex};
use crate::outcome::PauseReason;
use crate::poll::{self, Distance};
use crate::state::{Totals, is_zero};
use crate::types::{Arrival, Epoch, Phase, Place, Position, SaleId, Stock, UnixMillis};
use crate::vacant::Vacant;

/// How far off an opening is taken to be that the operator decides on, in milliseconds.
const UNSET_OPENING_MS: u64 = 50_000;

/// A sale at one instant. Its size does not depend on the crowd.
#[derive(Clone, Debug, PartialEq)]
pub struct SaleView {
    /// The definition in force.
    pub definition: Arc<SaleDefinition>,
    /// Where the sale is in its life.
    pub phase: Phase,
    /// Generation of its tokens.
    pub epoch: Epoch,
    /// Where each order of visitors stands: the sale's, or each lane's.
    pub lines: Lines<LineView>,
    /// Since when claim windows stand still.
    pub halted_since: Option<UnixMillis>,
    /// The draw, where the sale has one.
    pub draw: Option<DrawView>,
    /// What the shop says is left.
    pub stock: Option<Stock>,
    /// The operator's words while paused.
    pub paused_reason: Option<PauseReason>,
    /// Visitors with a running lease.
    pub active: u64,
    /// Of those, visitors with a unit on hold.
    pub holding: u64,
    /// Visitors called and not yet claimed.
    pub unclaimed: u64,
    /// Visitors lapsed, come back, and not yet recalled.
    pub recalls: u64,
    /// Visitors not yet called who have not left.
    pub waiting: u64,
    /// Measured part of the called who claim, in millionths.
    pub claim_ratio: Option<u64>,
    /// Numbers that a loss of the store has passed over: who shows up with one of them may have to be put back on record.
    pub passed_over: Vec<Range<u64>>,
    /// How often the store has lost something.
    pub losses: u64,
    /// Counts since the sale was created.
    pub totals: Totals,
    /// When this was true.
    pub as_of: UnixMillis,
}

/// One order of visitors at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct LineView {
    /// Numbers below have been given.
    pub next_arrival: Arrival,
    /// All places below have been called.
    pub serving: Place,
    /// The calls that can still be claimed or recalled.
    pub calls: CallLog,
    /// Visitors not yet called who have not left.
    pub waiting: u64,
    /// Places that nobody has come back for since a loss, once the time for that is over.
    pub vacant: Vacant,
    /// Measured flow, or before that what the pace lets expect; none while it cannot honestly be told.
    pub rate: Option<Rate>,
    /// The rate holds for so many places, counted with those below `serving` and without the vacant ones; none: for all.
    pub rate_below: Option<Place>,
    /// Time between one call and the next at full pace.
    pub cadence_ms: u64,
}

/// A sale without lanes is its one line; of a sale with lanes this is the first.
impl Deref for SaleView {
    type Target = LineView;

    fn deref(&self) -> &LineView {
        &self.lines.first
    }
}

/// What may be known of a draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawView {
    /// What was promised beforehand.
    pub manifest: Manifest,
    /// How far it has come; with lanes, the first lane's.
    pub state: DrawState,
    /// Those of the other lanes.
    pub lanes: Vec<DrawState>,
    /// When the number of arrivals was fixed, in a draw that rests on a beacon.
    pub frozen_at: Option<UnixMillis>,
    /// What it was made with, there with the seed.
    pub source: Option<Source>,
}

/// A beacon's round that a draw is promised to be made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Whose.
    pub beacon: Beacon,
    /// Which.
    pub round: u64,
    /// When it comes.
    pub due_at: UnixMillis,
}

/// Where a ticket stands, as far as a view can tell: of tickets called, it does not know who claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody can join yet.
    Scheduled,
    /// Not called yet.
    Waiting {
        /// Places ahead, without those that are [vacant](LineView::vacant); none before the draw.
        ahead: Option<u64>,
        /// The wait to come; none while the flow is unknown.
        eta: Option<EtaRange>,
    },
    /// Called: to be claimed before a time, which moves on while the sale is halted.
    Called {
        /// When the call lapses.
        until: UnixMillis,
    },
    /// Called and not claimed in time.
    Lapsed {
        /// A claim now leads to a recall, if the ticket has not been recalled before.
        recallable: bool,
    },
    /// Nothing is left.
    SoldOut,
    /// The sale is over.
    Closed,
}

// === impl SaleView ===

impl SaleView {
    /// Where a ticket stands. Costs some 500 hashes for a drawn arrival: a node that is asked often keeps the
    /// draw's [list of places](draw::Shuffle::places).
    pub fn position(&self, arrival: Arrival) -> Position {
        let state = self.draw.as_ref().map_or(Some(DrawState::NotHeld), |draw| draw.state_of(arrival.lane()));
        Position { arrival, place: state.and_then(|state| state.place(arrival)) }
    }

    /// Numbers given so far, in all lanes.
    pub fn arrivals(&self) -> u64 {
        self.lines.iter().map(|line| line.next_arrival.number()).sum()
    }

    /// Places called so far, in all lanes.
    pub fn called(&self) -> u64 {
        self.lines.iter().map(|line| line.serving.number()).sum()
    }

    /// Whether a loss of the store has passed this number over. Its visitor may be on record again by now.
    pub fn was_passed_over(&self, arrival: Arrival) -> bool {
        self.passed_over.iter().any(|range| range.contains(&arrival.0))
    }

    /// What a visitor is told about a ticket. An admission token outranks it: see [`Standing`].
    pub fn standing(&self, position: Position, now: UnixMillis) -> Standing {
        match self.phase {
            Phase::Closed => return Standing::Closed,
            Phase::SoldOut => return Standing::SoldOut,
            Phase::Scheduled => return Standing::Scheduled,
            Phase::PreQueue | Phase::Drawing | Phase::Open | Phase::Paused => {}
        }
        let Some(place) = position.place else { return Standing::Waiting { ahead: None, eta: None } };
        let Some(line) = self.lines.get(place.lane()) else { return Standing::Lapsed { recallable: false } };
        if place >= line.serving {
            let ahead = line.vacant.ahead(line.serving, place);
            let holds = |below: Place| line.serving.0 + ahead < below.0;
            let known = line.rate.filter(|_| line.rate_below.is_none_or(holds));
            let eta = known.map(|rate| EtaRange::new(ahead, rate, line.cadence_ms));
            return Standing::Waiting { ahead: Some(ahead), eta };
        }
        let Some(batch) = line.calls.find(place) else { return Standing::Lapsed { recallable: false } };
        let until = batch.until.plus(self.halted_since.map_or(0, |since| now.since(since)));
        if !batch.lapsed && now < until {
            Standing::Called { until }
        } else {
            Standing::Lapsed { recallable: now < until.plus(self.definition.recall_grace_ms) }
        }
    }

    /// Milliseconds after which the client of a ticket should ask again. `seed` tells clients apart that stand
    /// alike: the arrival is a good one.
    pub fn poll_after_ms(&self, standing: Standing, now: UnixMillis, seed: u64) -> u64 {
        let line = self.lines.get(Arrival(seed).lane()).unwrap_or(&self.lines.first);
        let distance = match standing {
            // What is only expected is no reason to look away for long.
            Standing::Waiting { eta: Some(eta), .. } if line.rate_below.is_none() => Distance::Eta(eta),
            Standing::Waiting { ahead: Some(ahead), .. } if self.is_under_way() => Distance::Ahead(ahead),
            Standing::Scheduled | Standing::Waiting { .. } => {
                let moment = self.next_moment().map_or(UNSET_OPENING_MS, |at| at.since(now));
                Distance::Opening { in_ms: moment, waiting: self.waiting }
            }
            // A claim or a recall is due.
            Standing::Called { .. } | Standing::Lapsed { recallable: true } => Distance::Ahead(0),
            Standing::Lapsed { recallable: false } | Standing::SoldOut | Standing::Closed => {
                Distance::Ahead(u64::MAX)
            }
        };
        poll::after_ms(distance, self.poll_bound_ms(), seed)
    }

    /// No client should wait longer than this, wherever it stands.
    pub fn poll_bound_ms(&self) -> u64 {
        let per_minute = match self.definition.pace {
            Pace::Batch { admit, every_ms } => u64::from(admit).saturating_mul(60_000) / every_ms.max(1),
            Pace::Smooth { admit, per_ms, .. } => u64::from(admit).saturating_mul(60_000) / per_ms.max(1),
        };
        let selling = self.stock.filter(|_| self.phase == Phase::Open);
        // Compensation at most doubles the pace, and a pace of less than one a minute still sells.
        let most = per_minute.saturating_mul(if self.definition.compensate_no_shows { 2 } else { 1 }).max(1);
        // Whoever is inside and has no unit yet may take one this instant.
        let competing = self.active.saturating_sub(self.holding).saturating_add(self.unclaimed);
        poll::bound_ms(selling.map(|stock| stock.available.saturating_sub(competing)), most)
    }

    fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Paused)
    }

    /// When the clock next changes the phase, before the opening.
    fn next_moment(&self) -> Option<UnixMillis> {
        match self.phase {
            Phase::Scheduled => self.definition.joins_open_at,
            Phase::PreQueue => self.definition.draw.map(|draw| draw.closes_at).or(self.definition.opens_at),
            Phase::Drawing if self.draw.as_ref().is_some_and(|draw| draw.state.seed().is_none()) => {
                let awaited = self.draw.as_ref().and_then(DrawView::awaited);
                Some(awaited.map_or(self.as_of, |round| round.due_at.max(self.as_of)))
            }
            Phase::Drawing | Phase::Open | Phase::Paused | Phase::SoldOut | Phase::Closed => {
                self.definition.opens_at
            }
        }
    }

    /// The public document: the same for everyone.
    pub fn snapshot(&self) -> Snapshot {
        let definition = &self.definition;
        Snapshot {
            sale: definition.id.clone(),
            title: definition.title.clone(),
            epoch: self.epoch,
            phase: self.phase,
            serving: self.serving,
            rate: self.rate,
            rate_below: self.rate_below,
            vacant: self.vacant.within_lane(),
            cadence_ms: self.cadence_ms,
            draw: self.draw.as_ref().map(|draw| draw.document(self.as_of)),
            joins_open_at: definition.joins_open_at,
            opens_at: definition.opens_at,
            closes_at: definition.closes_at,
            stock: self.stock,
            paused_reason: self.paused_reason.clone(),
            claim_window_ms: definition.claim_window_ms,
            losses: self.losses,
            as_of: self.as_of,
            poll_after_ms: self.poll_bound_ms(),
            lanes: definition.each_lane().filter_map(|(at, lane)| self.snapshot_lane(at, lane)).collect(),
        }
    }

    fn snapshot_lane(&self, at: Lane, lane: &LaneDefinition) -> Option<SnapshotLane> {
        let line = self.lines.get(at)?;
        let state = self.draw.as_ref().and_then(|draw| draw.state_of(at));
        Some(SnapshotLane {
            name: lane.name.clone(),
            title: lane.shown().to_owned(),
            share: lane.share,
            invitation: lane.invitation,
            serving: line.serving.number(),
            rate: line.rate,
            rate_below: line.rate_below.map(Place::number),
            vacant: line.vacant.within_lane(),
            cadence_ms: line.cadence_ms,
            size: state.and_then(|state| state.size()),
            seed: state.and_then(|state| state.seed()).map(|seed| hex(&seed)),
        })
    }
}

// === impl DrawView ===

impl DrawView {
    /// How far the draw of a lane has come; none where there is no such lane.
    pub fn state_of(&self, lane: Lane) -> Option<DrawState> {
        match lane.index() {
            0 => Some(self.state),
            index => self.lanes.get(index - 1).copied(),
        }
    }

    /// The beacon's round that this draw rests on, come or not.
    pub fn round(&self) -> Option<Awaited> {
        match self.manifest.randomness {
            Promise::Secret { .. } => None,
            Promise::Beacon { beacon, round, .. } => {
                Some(Awaited { beacon, round, due_at: beacon.round_at(round) })
            }
        }
    }

    /// The round whose randomness is wanted now: the number of arrivals is fixed, and all that is missing is that.
    pub fn awaited(&self) -> Option<Awaited> {
        self.round().filter(|_| matches!(self.state, DrawState::Frozen { .. }))
    }

    /// The draw waits for its round, and the round is overdue.
    pub fn is_overdue(&self, now: UnixMillis) -> bool {
        self.awaited().is_some_and(|round| round.due_at.plus(LATE_AFTER_MS) <= now)
    }

    /// The number of arrivals was fixed only when the round had come already. That nobody was added in between then rests
    /// on the operator's word.
    pub fn frozen_late(&self) -> bool {
        self.round().zip(self.frozen_at).is_some_and(|(round, frozen_at)| frozen_at >= round.due_at)
    }

    /// Who has to be trusted, by what is known by now.
    pub fn trust(&self) -> Trust {
        match self.source {
            Some(Source::Fallback { .. }) => Trust::Operator,
            _ if self.frozen_late() => Trust::Operator,
            _ => self.manifest.randomness.trust(),
        }
    }

    fn document(&self, now: UnixMillis) -> SnapshotDraw {
        let (secret, signature, fallback) = match &self.source {
            None => (None, None, None),
            Some(Source::Secret(secret)) => (Some(secret), None, None),
            Some(Source::Beacon(signature)) => (None, Some(*signature), None),
            Some(Source::Fallback { secret, decision }) => (Some(secret), None, Some(decision.clone())),
        };
        SnapshotDraw {
            algorithm: draw::ALGORITHM,
            trust: self.trust(),
            closes_at: self.manifest.closes_at,
            size: self.state.size(),
            seed: self.state.seed().map(|seed: Seed| hex(&seed)),
            commitment: self.manifest.randomness.commitment().map(|commitment| hex(&commitment)),
            secret: secret.map(|secret| hex(secret)),
            beacon: self.round().map(|Awaited { beacon, round, due_at }| SnapshotBeacon {
                chain: beacon.chain_hash(),
                round,
                due_at,
                late: self.is_overdue(now),
                frozen_at: self.frozen_at,
                signature,
            }),
            fallback,
        }
    }
}

/// The public document that says where the queue stands. Times are Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Snapshot {
    /// The sale.
    pub sale: SaleId,
    /// Its title.
    pub title: String,
    /// Generation of its tokens: a document of an older one is out of date.
    pub epoch: Epoch,
    /// Where the sale is in its life.
    pub phase: Phase,
    /// All places below have been called.
    pub serving: Place,
    /// Flow in places a minute, measured or before that expected of the pace; none while it cannot honestly be told.
    pub rate: Option<Rate>,
    /// The rate holds for so many places, counted with those below `serving` and without the vacant ones; none: for all.
    pub rate_below: Option<Place>,
    /// Places not yet called that are not ahead of anybody.
    #[serde(skip_serializing_if = "Vacant::is_empty")]
    pub vacant: Vacant,
    /// Time between one call and the next at full pace.
    pub cadence_ms: u64,
    /// The draw, where the sale has one.
    pub draw: Option<SnapshotDraw>,
    /// When joining opens.
    pub joins_open_at: Option<UnixMillis>,
    /// When calling begins.
    pub opens_at: Option<UnixMillis>,
    /// When the sale ends.
    pub closes_at: Option<UnixMillis>,
    /// What is left.
    pub stock: Option<Stock>,
    /// Why the sale is paused.
    pub paused_reason: Option<PauseReason>,
    /// Time a called visitor has to claim.
    pub claim_window_ms: u64,
    /// How often the store has lost something. After another time a ticket's holder does well to show it again.
    #[serde(skip_serializing_if = "is_zero")]
    pub losses: u64,
    /// When this was true.
    pub as_of: UnixMillis,
    /// No client should wait longer than this before it asks again.
    pub poll_after_ms: u64,
    /// The lanes, where the sale has some: `serving`, `rate`, `rate_below`, `vacant` and `cadence_ms` above are then the first
    /// lane's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<SnapshotLane>,
}

/// A lane in a [`Snapshot`]. Places count from 0 in each lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotLane {
    /// Its name.
    pub name: SaleId,
    /// What visitors read.
    pub title: String,
    /// Its share of the calls while somebody waits in it, in percent.
    pub share: u8,
    /// Whether it takes an invitation to join it.
    pub invitation: bool,
    /// All places below have been called.
    pub serving: u64,
    /// Flow in places a minute, as the snapshot's.
    pub rate: Option<Rate>,
    /// For how many places it holds, as the snapshot's.
    pub rate_below: Option<u64>,
    /// Places not yet called that are not ahead of anybody in it.
    #[serde(skip_serializing_if = "Vacant::is_empty")]
    pub vacant: Vacant,
    /// Time between one call of this lane and the next at full pace.
    pub cadence_ms: u64,
    /// How many are drawn, once that is fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// What places are computed from, once drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
}

/// The draw in a [`Snapshot`]; bytes in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotDraw {
    /// The shuffle.
    pub algorithm: &'static str,
    /// Who has to be trusted.
    pub trust: Trust,
    /// Arrivals before this time are drawn.
    pub closes_at: UnixMillis,
    /// How many are drawn, once that is fixed.
    pub size: Option<u32>,
    /// What places are computed from, once drawn.
    pub seed: Option<String>,
    /// SHA-256 of the secret, where a secret is or may be drawn with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commitment: Option<String>,
    /// The secret, once drawn with.
    pub secret: Option<String>,
    /// The round of a public beacon that the draw rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beacon: Option<SnapshotBeacon>,
    /// The operator's decision to draw by the secret, because the round was overdue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
}

/// A beacon's round in a [`SnapshotDraw`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotBeacon {
    /// The beacon's chain hash.
    pub chain: &'static str,
    /// Which round.
    pub round: u64,
    /// When the round comes.
    pub due_at: UnixMillis,
    /// The draw waits for it, and it is overdue.
    pub late: bool,
    /// When the number of arrivals was fixed.
    pub frozen_at: Option<UnixMillis>,
    /// What the beacon published for it, once drawn with. Its SHA-256 is the round's randomness.
    pub signature: Option<BeaconSignature>,
}
