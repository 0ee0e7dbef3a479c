//! What an operator orders.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::beacon::{Beacon, BeaconOutput, FALLBACK_AFTER_MS};
use crate::definition::SaleDefinition;
use crate::flow::Backlog;
use crate::lane::Lines;
use crate::manifest::{DrawState, Fallback};
use crate::outcome::{ChangeRefusal, Command, CommandDone, CommandRefusal};
use crate::queue::Queue;
use crate::reach::{Orders, Reach};
use crate::state::{Halts, LineCore, SoldOutBy, Stage, draw_of, flow_of};
use crate::types::{Epoch, UnixMillis};

impl Queue {
    /// Carries out an operator's order. Ordering what is already so is done and changes nothing.
    ///
    /// # Errors
    /// When the sale is not in a phase for it, or a value is out of range.
    pub fn command(&mut self, command: &Command, now: UnixMillis) -> Result<CommandDone, CommandRefusal> {
        self.advance(now);
        let mut done = CommandDone::default();
        match command {
            Command::Open => self.order_open()?,
            Command::Pause { reason } => {
                self.halts()?.pause = Some(reason.clone());
                self.core.ordered.pause = self.core.last_now;
            }
            Command::Resume => {
                self.halts()?.pause = None;
                self.core.ordered.pause = self.core.last_now;
            }
            Command::SoldOut => {
                self.halts()?.sold_out = Some(SoldOutBy::Operator);
                self.core.ordered.stock = self.core.last_now;
            }
            Command::Restock => {
                self.halts()?.sold_out = None;
                self.core.stock = None;
                self.core.ordered.stock = self.core.last_now;
            }
            Command::Close => self.core.stage = Stage::Closed,
            Command::Admit { batch_size, lease_ms } => {
                done.called = self.admit_by_hand(*batch_size, *lease_ms)?;
            }
            Command::Revoke => {
                let next = self.core.epoch.0.checked_add(1).ok_or(CommandRefusal::EpochSpent)?;
                self.core.epoch = Epoch(next);
                self.core.ordered.revoke = self.core.last_now;
            }
            Command::Beacon(output) => self.draw_by_beacon(output)?,
            Command::DrawBySecret { reason } => self.draw_by_secret(reason)?,
        }
        self.ordered();
        self.advance_again();
        self.call_earned();
        Ok(done)
    }

    fn order_open(&mut self) -> Result<(), CommandRefusal> {
        match &self.core.stage {
            Stage::Closed => return Err(CommandRefusal::Closed),
            Stage::Open(Halts { sold_out: Some(_), .. }) => return Err(CommandRefusal::SoldOut),
            Stage::Open(Halts { pause: Some(_), .. }) => return Err(CommandRefusal::Paused),
            Stage::Open(_) => {}
            Stage::Scheduled | Stage::PreQueue | Stage::Drawing => self.core.open_ordered = true,
        }
        Ok(())
    }

    /// Makes the draw that waits for this round. One that was made with it stays as it is.
    fn draw_by_beacon(&mut self, output: &BeaconOutput) -> Result<(), CommandRefusal> {
        let (beacon, round) = self.promised_round()?;
        if (output.beacon, output.round) != (beacon, round) {
            return Err(CommandRefusal::OtherRound);
        }
        if self.core.beacon.signature == Some(output.signature) {
            return Ok(());
        }
        if !self.is_frozen() {
            return Err(CommandRefusal::NotDrawing);
        }
        self.core.beacon.signature = Some(output.signature);
        self.draw(&output.signature.randomness());
        Ok(())
    }

    fn draw_by_secret(&mut self, reason: &str) -> Result<(), CommandRefusal> {
        let (beacon, round) = self.promised_round()?;
        if !self.is_frozen() {
            return Err(CommandRefusal::NotDrawing);
        }
        if !self.definition().draw.and_then(|draw| draw.beacon).is_some_and(|beacon| beacon.fallback) {
            return Err(CommandRefusal::NoFallback);
        }
        let at = self.core.last_now;
        // Before the round is out nobody can have wished for another; a while after it, relays have had their chance.
        if at < beacon.round_at(round).plus(FALLBACK_AFTER_MS) {
            return Err(CommandRefusal::BeaconNotOverdue);
        }
        self.core.beacon.fallback = Some(Fallback { at, reason: reason.to_owned() });
        let secret = self.core.draw_secret;
        self.draw(&secret);
        Ok(())
    }

    const fn is_frozen(&self) -> bool {
        matches!(self.core.lines.first.draw, DrawState::Frozen { .. })
    }

    fn promised_round(&self) -> Result<(Beacon, u64), CommandRefusal> {
        if self.core.stage == Stage::Closed {
            return Err(CommandRefusal::Closed);
        }
        let draw = self.definition().draw;
        let beacon = draw.and_then(|draw| Some((draw.beacon?.name, draw.round()?)));
        beacon.ok_or(CommandRefusal::NotDrawing)
    }

    fn halts(&mut self) -> Result<&mut Halts, CommandRefusal> {
        match &mut self.core.stage {
            Stage::Open(halts) => Ok(halts),
            Stage::Closed => Err(CommandRefusal::Closed),
            Stage::Scheduled | Stage::PreQueue | Stage::Drawing => Err(CommandRefusal::NotOpen),
        }
    }

    fn admit_by_hand(&mut self, batch_size: u32, lease_ms: Option<u64>) -> Result<u64, CommandRefusal> {
        if self.halts()?.sold_out.is_some() {
            return Err(CommandRefusal::SoldOut);
        }
        if lease_ms.is_some_and(|lease_ms| !SaleDefinition::LEASE_MS.contains(&lease_ms)) {
            return Err(CommandRefusal::LeaseOutOfRange);
        }
        let called = self.call(u64::from(batch_size), lease_ms);
        self.watch_flow(&called);
        let called = called.iter().sum();
        self.core.totals.by_hand += called;
        Ok(called)
    }

    /// Puts another definition in force. Calls and leases given keep their times; lower caps take nobody's
    /// admission away, they only stop further calls; a phase that has been reached stays reached. With `over`, only
    /// if that is the one in force: who worked on an older one has not seen what was changed since.
    ///
    /// # Errors
    /// When it belongs to another sale, would break the draw's promise, comes too late, or after another change.
    pub fn change(
        &mut self,
        definition: SaleDefinition,
        over: Option<&SaleDefinition>,
        now: UnixMillis,
    ) -> Result<(), ChangeRefusal> {
        self.advance(now);
        if definition.id != self.definition.id {
            return Err(ChangeRefusal::OtherSale);
        }
        if definition == **self.definition() {
            return Ok(());
        }
        if over.is_some_and(|over| *over != **self.definition()) {
            return Err(ChangeRefusal::Overtaken);
        }
        self.fit(&definition)?;
        self.put_in_force(definition);
        self.core.ordered.definition = self.core.last_now;
        self.advance_again();
        self.call_earned();
        Ok(())
    }

    /// Makes the sale ready for a definition, if it can take that at its stage.
    fn fit(&mut self, definition: &SaleDefinition) -> Result<(), ChangeRefusal> {
        match self.core.stage {
            Stage::Closed => return Err(ChangeRefusal::Closed),
            Stage::Scheduled if definition.lines() == self.core.lines.count() => {
                self.core.lines.iter_mut().for_each(|line| line.draw = draw_of(definition));
            }
            // A loss may have passed over numbers already.
            Stage::Scheduled if self.core.arrivals().iter().any(|given| !given.is_empty()) => {
                return Err(ChangeRefusal::LanesFixed);
            }
            Stage::Scheduled => {
                self.core.lines = Lines::new(definition.lines(), |lane| LineCore::new(definition, lane));
                self.fit_lines();
            }
            Stage::PreQueue | Stage::Drawing | Stage::Open(_) if definition.draw != self.definition.draw => {
                return Err(ChangeRefusal::DrawFixed);
            }
            Stage::PreQueue | Stage::Drawing | Stage::Open(_)
                if !self.definition.keeps_lanes(definition, definition.draw.is_some()) =>
            {
                return Err(ChangeRefusal::LanesFixed);
            }
            Stage::PreQueue | Stage::Drawing | Stage::Open(_) => {}
        }
        Ok(())
    }

    fn put_in_force(&mut self, definition: SaleDefinition) {
        let reshared = definition.shares() != self.definition.shares();
        if reshared {
            self.core.turns.reset();
        }
        let repaced = definition.pace != self.definition.pace;
        if repaced {
            let now = self.core.last_now;
            self.core.pacer = self.core.pacer.repaced(self.definition.pace, definition.pace, now);
        }
        if repaced || reshared {
            for lane in self.core.lines.lanes() {
                self.core.lines[lane].flow = flow_of(&definition, lane);
                self.backlogs[lane] = Backlog::Stopped;
            }
        }
        self.definition = Arc::new(definition);
        self.pending.definition = true;
        self.ordered();
    }

    /// Takes note that stage, epoch or definition may be others than before.
    pub(super) const fn ordered(&mut self) {
        self.core.orders += 1;
        self.pending.core = true;
    }

    /// Takes over what was ordered, as far as a loss has taken that from this sale: who closed it, or found it sold out,
    /// must not find it open again. Where both know of an order that the other does not, as after a loss that nobody has
    /// noticed in time, each order holds that no later one of its kind has undone: no revocation and no closing is taken
    /// back, and what time or the stock did outweighs no order.
    pub fn follow(&mut self, reach: &Reach, definition: Option<&SaleDefinition>) {
        let Orders { count, ordered, epoch, stage, open_ordered, stock } = &reach.orders;
        let (known, mine) = (self.core.orders, self.core.ordered);
        let more = *count > known;
        let is_later = |told: UnixMillis, mine: UnixMillis| told > mine || (told == mine && more);
        // An order of before, told again with each batch, is nothing new.
        let is_new = more
            || is_later(ordered.pause, mine.pause)
            || is_later(ordered.stock, mine.stock)
            || ordered.revoke > mine.revoke
            || is_later(ordered.definition, mine.definition)
            || *epoch > self.core.epoch
            || self.revoked_beside(*epoch, ordered.revoke)
            || (*open_ordered && !self.core.open_ordered)
            || stage.as_ref().is_some_and(|stage| stage.is_past(&self.core.stage));
        if !is_new {
            return;
        }
        // It was taken at a stage that this sale has not got past.
        if let Some(definition) = definition.filter(|definition| **definition != *self.definition)
            && is_later(ordered.definition, mine.definition)
            && self.fit(definition).is_ok()
        {
            self.put_in_force(definition.clone());
        }
        let revoked_beside = self.revoked_beside(*epoch, ordered.revoke);
        self.core.epoch = self.core.epoch.max(*epoch);
        if revoked_beside {
            // What either has revoked was good at the other.
            self.core.epoch.0 = self.core.epoch.0.saturating_add(1);
        }
        self.core.open_ordered |= open_ordered;
        let of_stock = is_later(ordered.stock, mine.stock);
        if of_stock {
            self.core.stock = *stock;
        }
        match (&mut self.core.stage, stage) {
            (Stage::Closed, _) | (_, None) => {}
            // Since when claims stand still is settled by what this sale remembers of them.
            (Stage::Open(here), Some(Stage::Open(told))) => {
                if is_later(ordered.pause, mine.pause) {
                    here.pause.clone_from(&told.pause);
                }
                if of_stock {
                    here.sold_out = told.sold_out;
                }
            }
            (here, Some(told)) if told.is_past(here) => here.clone_from(told),
            (_, Some(_)) => {}
        }
        self.core.ordered = mine.latest(*ordered);
        // Whoever compares this sale with what it was finds that it was told something.
        self.core.orders = if more { *count } else { self.core.orders.max(known + 1) };
        self.pending.core = true;
        self.advance_again();
    }

    /// The sale was revoked here and in a memory of it, at times that each of them alone knows, and the later revocation does
    /// not reach beyond the earlier one.
    fn revoked_beside(&self, epoch: Epoch, revoked: UnixMillis) -> bool {
        let (mine, here) = (self.core.epoch, self.core.ordered.revoke);
        match revoked.cmp(&here) {
            _ if revoked == UnixMillis(0) || here == UnixMillis(0) => false,
            Ordering::Less => mine <= epoch,
            Ordering::Equal => false,
            Ordering::Greater => epoch <= mine,
        }
    }
}
