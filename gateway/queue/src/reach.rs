//! How far a sale may have gone, written down outside of its store ahead of use.

use serde::{Deserialize, Serialize};

use crate::lane::Lines;
use crate::state::{Core, DrawRecord, LineCore, Ordered, Stage, Totals};
use crate::types::{Arrival, Epoch, MAX_ARRIVALS, Place, Stock};

/// How far a sale may have gone at most, whatever its store remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    #[serde(flatten)]
    pub(crate) lines: Lines<LineReach>,
    /// First calls that may have been made, in all lanes: fewer than the places called, which also are of those who left or
    /// whom a loss has passed over.
    pub(crate) called: u64,
    /// Second calls that may have been made.
    #[serde(default)]
    pub(crate) recalled: u64,
    /// The draw as it may have been frozen or made.
    pub(crate) draw: DrawRecord,
    #[serde(flatten)]
    pub(crate) orders: Orders,
}

/// As the sale was ordered and revoked last: what a visitor would notice if it were forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Of two memories of the same course of a sale, the one with more of them is the later.
    #[serde(default, rename = "orders")]
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) ordered: Ordered,
    #[serde(default)]
    pub(crate) epoch: Epoch,
    #[serde(default)]
    pub(crate) stage: Option<Stage>,
    #[serde(default)]
    pub(crate) open_ordered: bool,
    /// What was left when that was written down: nothing, where the stock has ended the sale.
    #[serde(default)]
    pub(crate) stock: Option<Stock>,
}

/// How far one order of visitors may have gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineReach {
    /// Numbers below may have been given.
    pub(crate) next_arrival: Arrival,
    /// Places below may have been called.
    pub(crate) serving: Place,
}

// === impl Reach ===

impl Reach {
    /// How far a sale has gone.
    pub fn of(core: &Core) -> Self {
        let lines = Lines::new(core.lines.count(), |lane| LineReach {
            next_arrival: Arrival(core.lines[lane].next_arrival),
            serving: core.lines[lane].serving,
        });
        let Totals { called, recalled, .. } = core.totals;
        Self { lines, called, recalled, draw: core.draw(), orders: Orders::of(core) }
    }

    /// How far a sale may have gone that others may know more of, where that is written down nowhere: `block` numbers further in
    /// each order, once anybody may have joined.
    #[must_use]
    pub fn beyond(core: &Core, block: u64) -> Self {
        let mut reach = Self::of(core);
        if core.stage != Stage::Scheduled {
            for (reach, line) in reach.lines.iter_mut().zip(core.lines.iter()) {
                let last = line.lane().base() + MAX_ARRIVALS;
                reach.next_arrival =
                    Arrival(line.next_arrival.saturating_add(block).min(last.max(line.next_arrival)));
            }
        }
        reach
    }

    /// The sale has gone no further than this, has drawn what is written here, and has neither been halted, closed nor
    /// revoked since.
    pub fn covers(&self, core: &Core) -> bool {
        self.lines.count() == core.lines.count()
            && self
                .lines
                .iter()
                .zip(core.lines.iter())
                .all(|(reach, line)| reach.leaves_room(line) && line.serving <= reach.serving)
            && core.totals.called <= self.called
            && core.totals.recalled <= self.recalled
            && self.draw == core.draw()
            && self.orders.are_those_of(core)
    }

    /// What was ordered last, a changed definition among it, is not known to the sale.
    pub const fn has_later_orders(&self, core: &Core) -> bool {
        self.orders.count > core.orders
    }

    /// How many orders it knows of.
    pub const fn orders(&self) -> u64 {
        self.orders.count
    }

    /// Those that the sale does not know of never took effect.
    pub fn follow_orders_of(&mut self, core: &Core) {
        self.orders = Orders::of(core);
    }

    /// The sale may have gone further than it knows.
    pub fn is_ahead_of(&self, core: &Core) -> bool {
        let line_is = |(reach, line): (&LineReach, _)| {
            let line: &LineCore = line;
            reach.next_arrival.0 > line.next_arrival || reach.serving > line.serving
        };
        self.lines.iter().zip(core.lines.iter()).any(line_is)
            || self.recalled > core.totals.recalled
            || self.draw.is_ahead_of(&core.draw())
    }

    /// Covers the sale, too, with `block` numbers ahead in each order that has outgrown this.
    #[must_use]
    pub fn extended(&self, core: &Core, block: u64) -> Self {
        // A definition that the sale does not know of may have more lanes.
        let known = core.lines.count();
        let count = if self.has_later_orders(core) { known.max(self.lines.count()) } else { known };
        let lines = Lines::new(count, |lane| {
            let held = self.lines.get(lane).copied().unwrap_or_default();
            let Some(line) = core.lines.get(lane) else { return held };
            // Past a lane's last number come the next lane's.
            let last = lane.base() + MAX_ARRIVALS;
            let ahead = line.next_arrival.saturating_add(block).min(last.max(line.next_arrival));
            LineReach {
                next_arrival: if held.leaves_room(line) {
                    held.next_arrival.max(Arrival(lane.base()))
                } else {
                    Arrival(ahead)
                },
                serving: held.serving.max(line.serving),
            }
        });
        let draw = core.draw();
        let draw = if self.draw.is_ahead_of(&draw) { self.draw.clone() } else { draw };
        Self {
            lines,
            called: self.called.max(core.totals.called),
            recalled: self.recalled.max(core.totals.recalled),
            draw,
            // Of a sale that has lost its last orders there is nothing to learn before it has been told them.
            orders: if self.has_later_orders(core) || self.orders.are_the_last_of(core) {
                self.orders.clone()
            } else {
                Orders::of(core)
            },
        }
    }
}

// === impl LineReach ===

impl LineReach {
    /// Not all numbers up to there have been given: so a sale that has lost something is behind, and found out by that.
    const fn leaves_room(&self, line: &LineCore) -> bool {
        line.next_arrival < self.next_arrival.0 || line.next_arrival == line.lane().base()
    }
}

// === impl Orders ===

impl Orders {
    fn of(core: &Core) -> Self {
        Self {
            count: core.orders,
            ordered: core.ordered,
            epoch: core.epoch,
            stage: Some(core.stage.clone()),
            open_ordered: core.open_ordered,
            stock: core.stock,
        }
    }

    fn are_those_of(&self, core: &Core) -> bool {
        self.epoch == core.epoch
            && self.stage.as_ref() == Some(&core.stage)
            && self.open_ordered == core.open_ordered
    }

    fn are_the_last_of(&self, core: &Core) -> bool {
        self.count == core.orders && self.are_those_of(core)
    }
}
