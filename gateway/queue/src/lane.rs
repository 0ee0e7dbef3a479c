//! Lanes: several orders in one sale, each with its own share of the pace.
//!
//! A sale without lanes has one line. With lanes each has a line of its own: its own numbers, draw, places and calls. An
//! [`Arrival`] and a [`Place`] name their lane above bit 32, so that a number is of one lane and no other; those of the
//! first lane, and of a sale without lanes, are plain numbers. Pace, caps, stock and health are the sale's.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

use crate::types::{Arrival, Place};

/// Most lanes of a sale.
pub const MAX_LANES: usize = 8;

/// The numbers of one lane: below this bit.
const LANE_BITS: u32 = 32;

/// Set in the number under which a single-use invitation is kept, beside the arrival it gave.
const INVITATION: u64 = 1 << 35;

/// Which lane of a sale, in the order of its definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(u8);

// === impl Lane ===

impl Lane {
    /// The first, which is all there is in a sale without lanes.
    pub const FIRST: Self = Self(0);

    /// The lane at an index of the definition's list.
    pub fn at(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|_| index < MAX_LANES).map(Self)
    }

    /// Where it stands in the definition's list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number before all of this lane's.
    pub(crate) const fn base(self) -> u64 {
        (self.0 as u64) << LANE_BITS
    }
}

const fn lane_of(number: u64) -> Lane {
    Lane(((number >> LANE_BITS) & 7) as u8)
}

/// The number within its lane.
pub(crate) const fn within(number: u64) -> u64 {
    number & ((1 << LANE_BITS) - 1)
}

// === impl Arrival ===

impl Arrival {
    /// The lane that the number belongs to.
    pub const fn lane(self) -> Lane {
        lane_of(self.0)
    }

    /// The number within its lane.
    pub const fn number(self) -> u64 {
        within(self.0)
    }

    /// Under which the invitation is kept that gave this number.
    pub(crate) const fn invitation(self) -> Self {
        Self(self.0 | INVITATION)
    }

    /// The number that was given for the invitation kept here.
    pub(crate) const fn invited(self) -> Self {
        Self(self.0 & !INVITATION)
    }

    /// It is no visitor's number, but an invitation's.
    pub(crate) const fn is_invitation(self) -> bool {
        self.0 & INVITATION != 0
    }
}

// === impl Place ===

impl Place {
    /// The lane whose place it is.
    pub const fn lane(self) -> Lane {
        lane_of(self.0)
    }

    /// The place within its lane.
    pub const fn number(self) -> u64 {
        within(self.0)
    }
}

/// Something of each lane; of a sale without lanes just the first. The first is written as if it were alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines<T> {
    /// The first lane's.
    #[serde(flatten)]
    pub first: T,
    /// The other lanes'.
    #[serde(default = "Vec::new", rename = "lanes", skip_serializing_if = "Vec::is_empty")]
    pub rest: Vec<T>,
}

// === impl Lines ===

impl<T> Lines<T> {
    /// Made for so many lanes, at least one.
    pub(crate) fn new(count: usize, mut of: impl FnMut(Lane) -> T) -> Self {
        let rest = (1..count).filter_map(Lane::at);
        Self { first: of(Lane::FIRST), rest: rest.map(&mut of).collect() }
    }

    /// How many lanes.
    pub fn count(&self) -> usize {
        1 + self.rest.len()
    }

    /// The lanes, in their order.
    pub fn lanes(&self) -> impl DoubleEndedIterator<Item = Lane> + use<T> {
        (0..self.count()).filter_map(Lane::at)
    }

    /// That of a lane, if there is such a lane.
    pub fn get(&self, lane: Lane) -> Option<&T> {
        match lane.index() {
            0 => Some(&self.first),
            index => self.rest.get(index - 1),
        }
    }

    pub(crate) fn get_mut(&mut self, lane: Lane) -> Option<&mut T> {
        match lane.index() {
            0 => Some(&mut self.first),
            index => self.rest.get_mut(index - 1),
        }
    }

    /// All, in the order of the lanes.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        std::iter::once(&mut self.first).chain(&mut self.rest)
    }
}

impl<T> Index<Lane> for Lines<T> {
    type Output = T;

    fn index(&self, lane: Lane) -> &T {
        match lane.index() {
            0 => &self.first,
            index => &self.rest[index - 1],
        }
    }
}

impl<T> IndexMut<Lane> for Lines<T> {
    fn index_mut(&mut self, lane: Lane) -> &mut T {
        match lane.index() {
            0 => &mut self.first,
            index => &mut self.rest[index - 1],
        }
    }
}
