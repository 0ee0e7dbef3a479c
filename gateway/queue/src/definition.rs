//! What an operator says about a sale, checked as a whole before anything uses it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, RangeInclusive};

use serde::{Deserialize, Serialize};

use crate::beacon::{Beacon, MARGIN_MS};
use crate::lane::{Lane, MAX_LANES};
use crate::text::misplaced;
use crate::types::{SaleId, UnixMillis};

/// Longest span that any setting may name: 30 days, in milliseconds.
const LONGEST_MS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// Longest time from a draw's closing to its beacon's round: a day, in milliseconds.
const LONGEST_ROUND_MS: u64 = 24 * 60 * 60 * 1_000;

/// The last instant of the year 9999. Later ones have no RFC 3339 form, and a browser shows few of them.
const LATEST: UnixMillis = UnixMillis(253_402_300_799_999);

/// A sale as it is written down, before it is checked. Unknown members are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawDefinition {
    /// Names the sale.
    pub id: SaleId,
    /// What visitors read.
    #[serde(default)]
    pub title: String,
    /// When joining opens; none: from the start.
    #[serde(default)]
    pub joins_open_at: Option<UnixMillis>,
    /// When calling begins; none: when the operator opens, or from the start for an always-on sale.
    #[serde(default)]
    pub opens_at: Option<UnixMillis>,
    /// When the sale ends by itself; none: when the operator closes it.
    #[serde(default)]
    pub closes_at: Option<UnixMillis>,
    /// Shuffles those who came early; none: strictly by arrival.
    #[serde(default)]
    pub draw: Option<DrawDefinition>,
    /// How fast visitors are called.
    #[serde(default)]
    pub pace: Pace,
    /// Most visitors admitted or called at any instant.
    pub max_active: u32,
    /// Time a called visitor has to claim.
    #[serde(default = "defaults::claim_window_ms")]
    pub claim_window_ms: u64,
    /// Time after a lapse in which a visitor can be recalled, once.
    #[serde(default = "defaults::recall_grace_ms")]
    pub recall_grace_ms: u64,
    /// Life of an admission.
    #[serde(default = "defaults::lease_ms")]
    pub lease_ms: u64,
    /// Visitors admitted or called for every 100 units that are left.
    #[serde(default = "defaults::overcommit_percent")]
    pub overcommit_percent: u32,
    /// Calls more visitors where measured no-shows leave room; caps hold all the same.
    #[serde(default)]
    pub compensate_no_shows: bool,
    /// While there is room, visitors pass straight through and never see the room. For always-on sales alone.
    #[serde(default)]
    pub on_demand: bool,
    /// What becomes of those who come while the queue's store cannot be reached.
    #[serde(default)]
    pub store_away: StoreAway,
    /// Where an admitted visitor starts, as a path; none: where they wanted to go.
    #[serde(default)]
    pub entry_url: Option<String>,
    /// What the sale guards. Checked by the gateway, which alone knows about requests.
    #[serde(default)]
    pub protect: Protect,
    /// Lanes, each with an order and a share of the pace of its own; none: everybody stands in one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneDefinition>,
}

/// A lane of a sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneDefinition {
    /// Names the lane in invitations and documents; the alphabet of a sale's id.
    pub name: SaleId,
    /// What visitors read; empty: the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Its share of the calls while somebody waits in it, in percent. Those of all lanes add up to 100.
    pub share: u8,
    /// Who joins it has to show an invitation. One lane at most has no need of one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invitation: bool,
}

impl LaneDefinition {
    /// What visitors read.
    pub fn shown(&self) -> &str {
        if self.title.is_empty() { self.name.as_str() } else { &self.title }
    }
}

/// The requests a sale guards, as the operator wrote them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protect {
    /// Paths that need an admission.
    #[serde(default)]
    pub routes: Vec<String>,
    /// Paths and extensions under them that never do.
    #[serde(default)]
    pub bypass: Vec<String>,
    /// Hosts the routes belong to; empty: every host.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// HTTP status of the waiting page.
    #[serde(default = "defaults::page_status")]
    pub page_status: u16,
    /// HTTP status of the answer to requests that are no navigation of a browser.
    #[serde(default = "defaults::other_status")]
    pub other_status: u16,
}

impl Default for Protect {
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            bypass: Vec::new(),
            hosts: Vec::new(),
            page_status: defaults::page_status(),
            other_status: defaults::other_status(),
        }
    }
}

/// The draw of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawDefinition {
    /// Arrivals before this time are shuffled; later ones follow by arrival.
    pub closes_at: UnixMillis,
    /// The public randomness it rests on; none: a secret of the operator, committed to beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<DrawBeacon>,
}

/// The public randomness of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawBeacon {
    /// Whose.
    pub name: Beacon,
    /// Which round, at least 30 s after the closing; none: the first of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
    /// Lets the operator draw by a secret, in public, should the round be overdue. The manifest then commits to the
    /// secret, and so says that the operator has kept this way open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
}

impl DrawDefinition {
    /// A draw by a secret of the operator.
    pub const fn by_secret(closes_at: UnixMillis) -> Self {
        Self { closes_at, beacon: None }
    }

    /// The round whose randomness is drawn with, where the draw has a beacon.
    pub fn round(&self) -> Option<u64> {
        let beacon = self.beacon?;
        Some(beacon.round.unwrap_or_else(|| beacon.name.first_round_from(self.closes_at.plus(MARGIN_MS))))
    }

    /// When that round comes.
    pub fn round_at(&self) -> Option<UnixMillis> {
        Some(self.beacon?.name.round_at(self.round()?))
    }
}

/// How fast visitors are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pace {
    /// So many at once, then again after a while.
    Batch {
        /// Visitors in a batch.
        admit: u32,
        /// Time between batches.
        every_ms: u64,
    },
    /// An even stream.
    Smooth {
        /// Visitors in `per_ms`.
        admit: u32,
        /// The time in which `admit` are called.
        per_ms: u64,
        /// Most that may be called at once after a quiet spell; at least what is earned in [`LONGEST_TICK_MS`].
        burst: u32,
    },
}

/// The longest that passes between two ticks while all goes well, in milliseconds. What a smooth pace earns in it must fit
/// into its burst, or the pace would never come true.
pub const LONGEST_TICK_MS: u64 = 200;

impl Default for Pace {
    fn default() -> Self {
        Self::Batch { admit: 500, every_ms: 5_000 }
    }
}

/// What a sale does while a gateway cannot reach the store of its queue. Whoever is admitted passes either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreAway {
    /// Everybody stays in the room, and keeps the place.
    #[default]
    Closed,
    /// For at most so many milliseconds an open sale lets everybody in, without a number and beyond `max_active`.
    OpenForMs(u64),
}

impl StoreAway {
    /// For how long everybody is let in, in milliseconds.
    pub const fn open_for_ms(self) -> u64 {
        match self {
            Self::Closed => 0,
            Self::OpenForMs(ms) => ms,
        }
    }
}

mod defaults {
    pub(super) const fn claim_window_ms() -> u64 {
        120_000
    }
    pub(super) const fn recall_grace_ms() -> u64 {
        300_000
    }
    pub(super) const fn lease_ms() -> u64 {
        600_000
    }
    pub(super) const fn overcommit_percent() -> u32 {
        100
    }
    pub(super) const fn page_status() -> u16 {
        200
    }
    pub(super) const fn other_status() -> u16 {
        401
    }
}

/// A definition whose members have been checked, alone and against each other. Reads like [`RawDefinition`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawDefinition", into = "RawDefinition")]
pub struct SaleDefinition(RawDefinition);

impl Deref for SaleDefinition {
    type Target = RawDefinition;

    fn deref(&self) -> &RawDefinition {
        &self.0
    }
}

impl From<SaleDefinition> for RawDefinition {
    fn from(definition: SaleDefinition) -> Self {
        definition.0
    }
}

impl TryFrom<RawDefinition> for SaleDefinition {
    type Error = DefinitionErrors;

    fn try_from(raw: RawDefinition) -> Result<Self, DefinitionErrors> {
        raw.check()
    }
}

impl SaleDefinition {
    /// What a lease may last, in milliseconds.
    pub const LEASE_MS: RangeInclusive<u64> = 1_000..=LONGEST_MS;

    /// A sale without opening time, joining time or draw is open as long as it exists.
    pub fn is_always_on(&self) -> bool {
        !self.0.is_timed()
    }

    /// How many lines of visitors there are: one, or one a lane.
    pub(crate) fn lines(&self) -> usize {
        self.0.lanes.len().max(1)
    }

    /// The lanes with their definitions; none in a sale without lanes.
    pub fn each_lane(&self) -> impl Iterator<Item = (Lane, &LaneDefinition)> {
        let lanes = self.0.lanes.iter().enumerate();
        lanes.filter_map(|(index, lane)| Some((Lane::at(index)?, lane)))
    }

    /// A lane's definition; none in a sale without lanes.
    pub fn lane(&self, lane: Lane) -> Option<&LaneDefinition> {
        self.0.lanes.get(lane.index())
    }

    /// The lane that takes no invitation; the first, and only, line of a sale without lanes. None: everybody has to be
    /// invited.
    pub fn open_lane(&self) -> Option<Lane> {
        if self.0.lanes.is_empty() {
            return Some(Lane::FIRST);
        }
        self.each_lane().find(|(_, lane)| !lane.invitation).map(|(lane, _)| lane)
    }

    /// A lane's share of the calls in percent.
    pub fn share(&self, lane: Lane) -> u8 {
        self.lane(lane).map_or(100, |lane| lane.share)
    }

    pub(crate) fn shares(&self) -> Vec<u8> {
        self.0.lanes.iter().map(|lane| lane.share).collect()
    }

    /// The other definition keeps what these lanes promise: which they are, in which order, and who may join them. With
    /// `shares` those count, too.
    pub(crate) fn keeps_lanes(&self, other: &Self, shares: bool) -> bool {
        let promise =
            |lane: &LaneDefinition| (lane.name.clone(), lane.invitation, lane.share * u8::from(shares));
        self.0.lanes.iter().map(promise).eq(other.0.lanes.iter().map(promise))
    }
}

/// One member of a definition and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The member, dotted: `pace.admit`.
    pub field: &'static str,
    /// What it must be.
    pub message: String,
}

/// Everything that is wrong with a definition; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DefinitionErrors(pub Vec<FieldError>);

impl fmt::Display for DefinitionErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", error.field, error.message)?;
        }
        Ok(())
    }
}

impl RawDefinition {
    /// A definition with the default of every member that has one.
    pub fn new(id: SaleId, max_active: u32) -> Self {
        Self {
            id,
            title: String::new(),
            joins_open_at: None,
            opens_at: None,
            closes_at: None,
            draw: None,
            pace: Pace::default(),
            max_active,
            claim_window_ms: defaults::claim_window_ms(),
            recall_grace_ms: defaults::recall_grace_ms(),
            lease_ms: defaults::lease_ms(),
            overcommit_percent: defaults::overcommit_percent(),
            compensate_no_shows: false,
            on_demand: false,
            store_away: StoreAway::default(),
            entry_url: None,
            protect: Protect::default(),
            lanes: Vec::new(),
        }
    }

    /// Checks the members, alone and against each other.
    ///
    /// # Errors
    /// Every fault there is, each with the member it belongs to.
    pub fn check(self) -> Result<SaleDefinition, DefinitionErrors> {
        let mut faults = Faults(Vec::new());
        faults.unless(self.title.chars().count() <= 200, "title", "at most 200 characters");
        if let Some(misplaced) = misplaced(&self.title) {
            faults.add("title", &misplaced.to_string());
        }
        self.check_times(&mut faults);
        self.check_pace(&mut faults);
        faults.unless(
            !(self.on_demand && self.is_timed()),
            "on_demand",
            "only for a sale that is always on: without joins_open_at, opens_at and draw.closes_at",
        );
        faults.unless(self.max_active >= 1, "max_active", "at least 1");
        faults.span("claim_window_ms", self.claim_window_ms, 1_000);
        faults.span("recall_grace_ms", self.recall_grace_ms, 0);
        faults.span("lease_ms", self.lease_ms, *SaleDefinition::LEASE_MS.start());
        if let StoreAway::OpenForMs(open_for_ms) = self.store_away {
            faults.span("store_away", open_for_ms, 5_000);
        }
        faults.unless((100..=1_000).contains(&self.overcommit_percent), "overcommit_percent", "100 to 1000");
        if let Some(url) = &self.entry_url {
            // A second slash would make it the address of another host.
            let local = url.starts_with('/') && !url.starts_with("//") && !url.starts_with("/\\");
            let plain = url.len() <= 2_048 && url.bytes().all(|byte| byte.is_ascii_graphic());
            faults.unless(
                local && plain,
                "entry_url",
                "a path on the shop's own host, in ASCII, at most 2048 bytes",
            );
        }
        self.check_lanes(&mut faults);
        if faults.0.is_empty() { Ok(SaleDefinition(self)) } else { Err(DefinitionErrors(faults.0)) }
    }

    const fn is_timed(&self) -> bool {
        self.opens_at.is_some() || self.joins_open_at.is_some() || self.draw.is_some()
    }

    fn check_times(&self, faults: &mut Faults) {
        let draw = self.draw.map(|draw| draw.closes_at);
        let round_at = self.draw.and_then(|draw| draw.round_at());
        let times = [
            ("joins_open_at", self.joins_open_at),
            ("draw.closes_at", draw),
            ("opens_at", self.opens_at),
            ("closes_at", self.closes_at),
            ("draw.beacon.round", round_at),
        ];
        for (field, time) in times {
            let good = time.is_none_or(|time| time <= LATEST);
            faults.unless(good, field, "in Unix milliseconds, at most the end of the year 9999");
        }
        let after = |early: Option<UnixMillis>, late: Option<UnixMillis>| match (early, late) {
            (Some(early), Some(late)) => early <= late,
            _ => true,
        };
        faults.unless(after(self.joins_open_at, draw), "draw.closes_at", "not before joins_open_at");
        faults.unless(after(self.joins_open_at, self.opens_at), "opens_at", "not before joins_open_at");
        faults.unless(after(draw, self.opens_at), "opens_at", "not before draw.closes_at");
        if let Some((closes_at, round_at)) = draw.zip(round_at) {
            faults.unless(
                self.draw.and_then(|draw| draw.round()) != Some(0)
                    && closes_at.plus(MARGIN_MS) <= round_at
                    && round_at <= closes_at.plus(LONGEST_ROUND_MS),
                "draw.beacon.round",
                "a round that comes 30 seconds to 24 hours after draw.closes_at; none takes the first of them",
            );
            if self.opens_at.is_some_and(|opens_at| closes_at <= opens_at && opens_at < round_at) {
                let wait = round_at.since(closes_at).div_ceil(1_000);
                let message = format!(
                    "at least {wait} seconds after draw.closes_at: only then comes the beacon's round that is drawn with"
                );
                faults.add("opens_at", &message);
            }
        }
        if let Some(closes_at) = self.closes_at {
            for earlier in [self.joins_open_at, draw, round_at, self.opens_at].into_iter().flatten() {
                if earlier >= closes_at {
                    let round = if round_at.is_some() { ", the beacon's round" } else { "" };
                    faults.add(
                        "closes_at",
                        &format!("after joins_open_at, draw.closes_at{round} and opens_at"),
                    );
                    break;
                }
            }
        }
    }

    fn check_lanes(&self, faults: &mut Faults) {
        if self.lanes.is_empty() {
            return;
        }
        let lanes = &self.lanes;
        faults.unless(lanes.len() <= MAX_LANES, "lanes", &format!("at most {MAX_LANES} lanes"));
        let shares: u64 = lanes.iter().map(|lane| u64::from(lane.share)).sum();
        let each = lanes.iter().all(|lane| lane.share >= 1);
        faults.unless(
            each && shares == 100,
            "lanes.share",
            "at least 1 each, and 100 together: it is percent",
        );
        let open = lanes.iter().filter(|lane| !lane.invitation).count();
        faults.unless(
            open <= 1,
            "lanes.invitation",
            "true for all lanes but one: somebody without one joins that",
        );
        faults.unless(
            open == 1 || self.store_away == StoreAway::Closed,
            "store_away",
            "closed where no lane takes visitors without an invitation: it would let in everybody",
        );
        let names: BTreeSet<&SaleId> = lanes.iter().map(|lane| &lane.name).collect();
        faults.unless(names.len() == lanes.len(), "lanes.name", "another one for each lane");
        for lane in lanes {
            faults.unless(lane.title.chars().count() <= 60, "lanes.title", "at most 60 characters");
            if let Some(misplaced) = misplaced(&lane.title) {
                faults.add("lanes.title", &misplaced.to_string());
            }
        }
    }

    fn check_pace(&self, faults: &mut Faults) {
        match self.pace {
            Pace::Batch { admit, every_ms } => {
                faults.unless(admit >= 1, "pace.admit", "at least 1");
                faults.span("pace.every_ms", every_ms, 100);
            }
            Pace::Smooth { admit, per_ms, burst } => {
                faults.unless(admit >= 1, "pace.admit", "at least 1");
                faults.span("pace.per_ms", per_ms, 1);
                let earned = (u64::from(admit) * LONGEST_TICK_MS).div_ceil(per_ms.max(1));
                let least = u32::try_from(earned).unwrap_or(u32::MAX).max(1);
                faults.unless(
                    burst >= least,
                    "pace.burst",
                    &format!(
                        "at least {least}, as many as the pace earns in the {LONGEST_TICK_MS} ms between two calls"
                    ),
                );
            }
        }
    }
}

struct Faults(Vec<FieldError>);

impl Faults {
    fn add(&mut self, field: &'static str, message: &str) {
        self.0.push(FieldError { field, message: message.to_owned() });
    }

    fn unless(&mut self, good: bool, field: &'static str, message: &str) {
        if !good {
            self.add(field, message);
        }
    }

    fn span(&mut self, field: &'static str, value: u64, least: u64) {
        if !(least..=LONGEST_MS).contains(&value) {
            self.add(field, &format!("{} to {}", spelt(least), spelt(LONGEST_MS)));
        }
    }
}

/// A span as people say it, in the largest unit that it is a whole number of.
fn spelt(ms: u64) -> String {
    const UNITS: [(u64, &str); 2] = [(24 * 60 * 60 * 1_000, "days"), (1_000, "s")];
    let whole = UNITS.into_iter().find(|(length, _)| ms >= *length && ms.is_multiple_of(*length));
    whole.map_or_else(|| format!("{ms} ms"), |(length, unit)| format!("{} {unit}", ms / length))
}

#[cfg(test)]
mod tests;
