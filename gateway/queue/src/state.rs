//! The state of a sale that does not grow with the crowd.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::beacon::BeaconSignature;
use crate::bygone::Bygone;
use crate::calls::CallLog;
use crate::definition::{DrawBeacon, Pace, SaleDefinition};
use crate::flow::Flow;
use crate::lane::{Lane, Lines};
use crate::manifest::{DrawState, Fallback, LanePromise, Manifest, Promise, Source};
use crate::outcome::PauseReason;
use crate::pacer::{ClaimRatio, Pacer};
use crate::turns::Turns;
use crate::types::{Arrival, Epoch, Phase, Place, Stock, UnixMillis};

/// Everything about a sale but its definition, its visitors and the tickets that were called.
///
/// A store keeps it as one document. It holds the draw's secret and must never be published;
/// [`SaleView`](crate::SaleView) is for that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Core {
    pub(crate) epoch: Epoch,
    pub(crate) stage: Stage,
    #[serde(flatten)]
    pub(crate) lines: Lines<LineCore>,
    /// Whose turn it is where there are lanes.
    #[serde(default, skip_serializing_if = "Turns::is_empty")]
    pub(crate) turns: Turns,
    /// What gateways that share the sale find amiss with the shop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) healths: Vec<SharedHealth>,
    pub(crate) draw_secret: [u8; 32],
    /// What became of a draw that rests on a beacon.
    #[serde(default)]
    pub(crate) beacon: BeaconDraw,
    pub(crate) open_ordered: bool,
    /// How often stage, epoch or definition have changed, by an order or by themselves: which of two memories of the same
    /// course of the sale is the later one.
    #[serde(default)]
    pub(crate) orders: u64,
    /// When the operator ordered what: which of two orders is the later one, where a loss has parted the sale's course.
    #[serde(default, skip_serializing_if = "Ordered::is_nothing")]
    pub(crate) ordered: Ordered,
    pub(crate) pacer: Pacer,
    pub(crate) ratio: ClaimRatio,
    pub(crate) stock: Option<Stock>,
    pub(crate) totals: Totals,
    pub(crate) last_now: UnixMillis,
    /// How often the store has lost something.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) losses: u64,
    /// Calls of before the last loss are claimed until then, and may be too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unsettled_until: Option<UnixMillis>,
    /// Until then calls wait for those whom a loss of everybody has passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) awaiting_until: Option<UnixMillis>,
    /// Whose admissions a loss has taken off the record: their room is not given to others before their leases are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unseen: Option<Unseen>,
    /// Visitors called a second time who have not claimed: as many may be inside soon, with no call in [`LineCore::calls`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) recalled: u64,
}

/// When the operator last ordered each thing that another order can undo, on the sale's clock; 0 where never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ordered {
    /// To pause or to resume.
    pub(crate) pause: UnixMillis,
    /// To be sold out or restocked.
    pub(crate) stock: UnixMillis,
    pub(crate) revoke: UnixMillis,
    pub(crate) definition: UnixMillis,
}

impl Ordered {
    /// Of each order the later one.
    pub(crate) fn latest(self, other: Self) -> Self {
        Self {
            pause: self.pause.max(other.pause),
            stock: self.stock.max(other.stock),
            revoke: self.revoke.max(other.revoke),
            definition: self.definition.max(other.definition),
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Visitors who may be inside, with nobody knowing who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unseen {
    /// How many at most.
    pub(crate) count: u64,
    /// Those who were inside by then are among them. 0 where they are known by the number of second calls alone: who knows
    /// of as many knows them, however long ago that was.
    #[serde(default)]
    pub(crate) as_of: UnixMillis,
    /// Until when.
    pub(crate) until: UnixMillis,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes members by reference")]
pub(crate) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The part of [`Core`] that each lane has on its own: one order of visitors, from the first number to the last call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LineCore {
    pub(crate) next_arrival: u64,
    pub(crate) serving: Place,
    pub(crate) draw: DrawState,
    pub(crate) calls: CallLog,
    #[serde(default)]
    pub(crate) bygone: Bygone,
    /// Numbers that may have been lost with the store, and are nobody's until somebody shows up with one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped: Vec<Range<u64>>,
    pub(crate) flow: Flow,
    /// Some of the numbers were given for an invitation that is good for one alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) invited: bool,
}

impl LineCore {
    pub(crate) fn new(definition: &SaleDefinition, lane: Lane) -> Self {
        Self {
            next_arrival: lane.base(),
            serving: Place(lane.base()),
            draw: draw_of(definition),
            calls: CallLog::default(),
            bygone: Bygone::from(Place(lane.base())),
            skipped: Vec::new(),
            flow: flow_of(definition, lane),
            invited: false,
        }
    }

    /// Which lane's it is.
    pub(crate) const fn lane(&self) -> Lane {
        Arrival(self.next_arrival).lane()
    }

    /// The arrivals that are drawn, as far as their number is fixed.
    pub(crate) fn drawn(&self) -> Range<u64> {
        let base = self.lane().base();
        base..base + self.draw.size().map_or(0, u64::from)
    }

    /// The arrivals that have been forgotten. Those of a draw are not: their number is fixed.
    pub(crate) fn forgotten(&self) -> Range<Arrival> {
        let drawn = self.drawn().end;
        Arrival(drawn)..Arrival(self.bygone.forgotten().0.max(drawn))
    }

    /// Numbers given so far.
    fn given(&self) -> Range<Arrival> {
        Arrival(self.lane().base())..Arrival(self.next_arrival)
    }
}

/// What a draw that rests on a beacon has to remember beside its [`DrawState`], to publish it. Nothing of it is set in
/// any other draw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BeaconDraw {
    /// When the number of arrivals was fixed.
    pub(crate) frozen_at: Option<UnixMillis>,
    /// The round's signature, once the draw is made with it.
    pub(crate) signature: Option<BeaconSignature>,
    /// Why the draw is made without it.
    pub(crate) fallback: Option<Fallback>,
}

/// The limit that one gateway's view of the shop's health sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedHealth {
    /// Which gateway.
    pub(crate) from: u64,
    /// Most visitors that the shop can take.
    pub(crate) limit: u32,
    /// When it said so last.
    pub(crate) at: UnixMillis,
}

/// How far a draw has come, and all that is published of it. Only the whole may be kept elsewhere: places without what
/// they were drawn with would be nobody's to check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawRecord {
    pub(crate) state: DrawState,
    /// Of the lanes but the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lanes: Vec<DrawState>,
    pub(crate) beacon: BeaconDraw,
}

impl DrawRecord {
    /// Of each lane.
    pub(crate) fn states(&self) -> impl Iterator<Item = DrawState> {
        std::iter::once(self.state).chain(self.lanes.iter().copied())
    }

    /// This draw has come further than the other.
    pub const fn is_ahead_of(&self, other: &Self) -> bool {
        self.state.is_ahead_of(&other.state)
    }
}

/// How far the sale has come. It never goes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Scheduled,
    PreQueue,
    Drawing,
    Open(Halts),
    Closed,
}

impl Stage {
    /// A sale at this one has left the other behind.
    pub(crate) const fn is_past(&self, other: &Self) -> bool {
        self.rank() > other.rank()
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Scheduled => 0,
            Self::PreQueue => 1,
            Self::Drawing => 2,
            Self::Open(_) => 3,
            Self::Closed => 4,
        }
    }
}

/// What keeps an open sale from calling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Halts {
    pub(crate) pause: Option<PauseReason>,
    pub(crate) sold_out: Option<SoldOutBy>,
    /// Since when claim windows and graces stand still; some exactly while paused or sold out.
    pub(crate) since: Option<UnixMillis>,
}

/// Who said that nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SoldOutBy {
    Stock,
    Operator,
}

/// Counts since the sale was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// First calls, by pace or by hand.
    pub called: u64,
    /// Second calls.
    pub recalled: u64,
    /// Calls of both kinds that the operator ordered beside the pace.
    pub by_hand: u64,
    /// Tickets that became admissions.
    pub claimed: u64,
    /// Calls that were not claimed in time.
    pub lapsed: u64,
    /// Visitors who left, at any stage.
    pub left: u64,
    /// Admissions that are over.
    pub ended: u64,
}

impl Core {
    /// When something last happened in the sale, by its own clock.
    pub const fn last_now(&self) -> UnixMillis {
        self.last_now
    }

    /// How often stage, epoch or definition have changed.
    pub const fn orders(&self) -> u64 {
        self.orders
    }

    /// The numbers given so far, a range a lane.
    pub fn arrivals(&self) -> Vec<Range<Arrival>> {
        self.lines.iter().map(LineCore::given).collect()
    }

    /// Every number under which a join may be kept, ascending: those of [`arrivals`](Self::arrivals), and those of
    /// invitations that are good for one join.
    pub fn joins(&self) -> Vec<Range<Arrival>> {
        let invitations = self.lines.iter().filter(|line| line.invited).map(LineCore::given);
        let invitations = invitations.map(|given| given.start.invitation()..given.end.invitation());
        self.lines.iter().map(LineCore::given).chain(invitations).collect()
    }

    /// The numbers that have been forgotten, a range for each of [`joins`](Self::joins). Those of a draw are not: their
    /// number is fixed.
    pub fn forgotten(&self) -> Vec<Range<Arrival>> {
        let invitations = self.lines.iter().filter(|line| line.invited).map(LineCore::forgotten);
        let invitations = invitations.map(|range| range.start.invitation()..range.end.invitation());
        self.lines.iter().map(LineCore::forgotten).chain(invitations).collect()
    }

    /// How far the draw has come.
    pub fn draw(&self) -> DrawRecord {
        DrawRecord {
            state: self.lines.first.draw,
            lanes: self.lines.rest.iter().map(|line| line.draw).collect(),
            beacon: self.beacon.clone(),
        }
    }

    /// The lane of a number that has been given.
    pub(crate) fn lane_of(&self, arrival: Arrival) -> Option<Lane> {
        let line = self.lines.get(arrival.lane())?;
        line.given().contains(&arrival).then_some(arrival.lane())
    }

    pub(crate) fn new(definition: &SaleDefinition, draw_secret: [u8; 32], now: UnixMillis) -> Self {
        Self {
            epoch: Epoch::default(),
            stage: Stage::Scheduled,
            lines: Lines::new(definition.lines(), |lane| LineCore::new(definition, lane)),
            turns: Turns::default(),
            draw_secret,
            beacon: BeaconDraw::default(),
            open_ordered: false,
            orders: 0,
            ordered: Ordered::default(),
            healths: Vec::new(),
            pacer: Pacer::full(definition.pace, now),
            ratio: ClaimRatio::default(),
            stock: None,
            totals: Totals::default(),
            last_now: now,
            losses: 0,
            unsettled_until: None,
            awaiting_until: None,
            unseen: None,
            recalled: 0,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match &self.stage {
            Stage::Scheduled => Phase::Scheduled,
            Stage::PreQueue => Phase::PreQueue,
            Stage::Drawing => Phase::Drawing,
            Stage::Open(halts) if halts.sold_out.is_some() => Phase::SoldOut,
            Stage::Open(halts) if halts.pause.is_some() => Phase::Paused,
            Stage::Open(_) => Phase::Open,
            Stage::Closed => Phase::Closed,
        }
    }

    pub(crate) fn paused_reason(&self) -> Option<&PauseReason> {
        match &self.stage {
            Stage::Open(halts) => halts.pause.as_ref(),
            Stage::Scheduled | Stage::PreQueue | Stage::Drawing | Stage::Closed => None,
        }
    }

    pub(crate) fn halted_since(&self) -> Option<UnixMillis> {
        match &self.stage {
            Stage::Open(halts) => halts.since,
            Stage::Scheduled | Stage::PreQueue | Stage::Drawing | Stage::Closed => None,
        }
    }

    /// The time that claim windows go by: it stands still while the sale is halted.
    pub(crate) fn claim_clock(&self) -> UnixMillis {
        self.halted_since().unwrap_or(self.last_now)
    }

    pub(crate) fn manifest(&self, definition: &SaleDefinition) -> Option<Manifest> {
        definition.draw.map(|draw| {
            let commitment = crate::draw::commitment(&self.draw_secret);
            let randomness = match draw.beacon.zip(draw.round()) {
                None => Promise::Secret { commitment },
                Some((DrawBeacon { name, fallback, .. }, round)) => {
                    Promise::Beacon { beacon: name, round, fallback: fallback.then_some(commitment) }
                }
            };
            let lanes = definition.lanes.iter().map(|lane| LanePromise {
                name: lane.name.clone(),
                share: lane.share,
                invitation: lane.invitation,
            });
            Manifest {
                sale: definition.id.clone(),
                closes_at: draw.closes_at,
                randomness,
                lanes: lanes.collect(),
            }
        })
    }

    /// What the draw was made with, once it is.
    pub(crate) fn draw_source(&self) -> Option<Source> {
        self.lines.first.draw.seed()?;
        Some(match (&self.beacon.signature, &self.beacon.fallback) {
            (Some(signature), _) => Source::Beacon(*signature),
            (None, Some(decision)) => {
                Source::Fallback { secret: self.draw_secret, decision: decision.clone() }
            }
            (None, None) => Source::Secret(self.draw_secret),
        })
    }
}

/// The draw of a sale nobody has joined yet.
pub(crate) fn draw_of(definition: &SaleDefinition) -> DrawState {
    if definition.draw.is_some() { DrawState::Collecting } else { DrawState::NotHeld }
}

/// The flow of a lane in which nobody has been called.
pub(crate) fn flow_of(definition: &SaleDefinition, lane: Lane) -> Flow {
    Flow::expecting(definition.pace, definition.compensate_no_shows, definition.share(lane))
}

/// Time between one call and the next at full pace, in milliseconds, for a lane that gets `share` percent of it.
pub(crate) fn cadence_ms(pace: Pace, share: u8) -> u64 {
    let share = u64::from(share.max(1));
    match pace {
        // As many batches as it takes until one of theirs is in it.
        Pace::Batch { admit, every_ms } => {
            every_ms.saturating_mul(100u64.div_ceil(u64::from(admit.max(1)).saturating_mul(share)).max(1))
        }
        Pace::Smooth { admit, per_ms, .. } => {
            per_ms.saturating_mul(100) / u64::from(admit.max(1)).saturating_mul(share)
        }
    }
}
