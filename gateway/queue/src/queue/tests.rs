use std::collections::BTreeMap;

use super::clock::REVEAL_AFTER_MS;
use super::*;
use crate::definition::{DrawDefinition, Pace, RawDefinition};
use crate::manifest::Source;
use crate::outcome::{Command, CommandRefusal, PauseReason};
use crate::reach::Reach;
use crate::types::Epoch;
use crate::view::Standing;

mod beacon;
mod cases;
mod expected_waits;
mod lanes;
mod losing;
mod missing;
mod model;
mod orders;
mod replica;
mod shared_health;
mod vacant;

/// A sale that is open from the start, with a minute to claim, a minute of grace and five of lease.
pub(super) fn open_sale(max_active: u32) -> RawDefinition {
    let mut raw = RawDefinition::new("drop".parse().unwrap(), max_active);
    raw.pace = Pace::Smooth { admit: 1_000_000, per_ms: 1, burst: 200_000_000 };
    raw.claim_window_ms = 60_000;
    raw.recall_grace_ms = 60_000;
    raw.lease_ms = 300_000;
    raw
}

/// A queue and its clock.
pub(super) struct Rig {
    pub(super) queue: Queue,
    pub(super) now: UnixMillis,
    visitors: u64,
}

impl Rig {
    pub(super) fn new(raw: RawDefinition) -> Self {
        Self::at(UnixMillis(1_000_000), raw)
    }

    pub(super) fn at(now: UnixMillis, raw: RawDefinition) -> Self {
        let mut rig = Self { queue: Queue::create(raw.check().unwrap(), [7; 32], now), now, visitors: 0 };
        rig.tick();
        rig
    }

    pub(super) fn tick(&mut self) {
        self.queue.tick(TickInput::default(), self.now);
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now = self.now.plus(millis);
        self.tick();
    }

    pub(super) fn join_as(&mut self, who: u64, again: bool) -> Result<Joined, JoinRefusal> {
        self.queue.join(
            visitor(who),
            JoinOptions { again, invited: None, ..JoinOptions::default() },
            self.now,
        )
    }

    /// New visitors, one after the other.
    pub(super) fn crowd(&mut self, size: u64) -> Vec<Arrival> {
        (0..size)
            .map(|_| {
                self.visitors += 1;
                self.join_as(1_000_000 + self.visitors, false).unwrap().arrival
            })
            .collect()
    }

    pub(super) fn position(&self, arrival: Arrival) -> Position {
        self.queue.view(self.now).position(arrival)
    }

    pub(super) fn claim(&mut self, arrival: Arrival) -> Result<Claimed, ClaimRefusal> {
        let position = self.position(arrival);
        self.queue.claim(position, self.now)
    }

    pub(super) fn leave(&mut self, arrival: Arrival) {
        let position = self.position(arrival);
        self.queue.leave(position, self.now).unwrap();
    }

    pub(super) fn order(&mut self, command: &Command) -> u64 {
        self.queue.command(command, self.now).unwrap().called
    }

    pub(super) fn standing(&self, arrival: Arrival) -> Standing {
        self.queue.view(self.now).standing(self.position(arrival), self.now)
    }

    pub(super) fn phase(&self) -> Phase {
        self.queue.view(self.now).phase
    }

    pub(super) fn busy(&self) -> u64 {
        let view = self.queue.view(self.now);
        view.active + view.unclaimed
    }

    pub(super) fn stock(&mut self, available: u64, held: Option<u64>) {
        self.queue.stock(Stock { available, held }, self.now);
    }
}

pub(super) fn visitor(who: u64) -> VisitorKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&who.to_le_bytes());
    VisitorKey(key)
}

fn reason(text: &str) -> PauseReason {
    PauseReason {
        text: text.to_owned(),
        translations: BTreeMap::from([("de".to_owned(), "Moment".to_owned())]),
    }
}

// === phases and draw ===

fn drawn_sale() -> RawDefinition {
    let mut raw = open_sale(1_000);
    raw.joins_open_at = Some(UnixMillis(1_010_000));
    raw.draw = Some(DrawDefinition::by_secret(UnixMillis(1_020_000)));
    raw.opens_at = Some(UnixMillis(1_030_000));
    raw.closes_at = Some(UnixMillis(1_040_000));
    raw
}

#[test]
fn a_drawn_sale_goes_through_its_phases_on_the_clock() {
    let mut rig = Rig::new(drawn_sale());
    assert_eq!(rig.phase(), Phase::Scheduled);
    assert_eq!(rig.join_as(1, false), Err(JoinRefusal::NotYetOpen));
    rig.pass(10_000);
    assert_eq!(rig.phase(), Phase::PreQueue);
    let early = rig.crowd(50);
    assert_eq!(rig.position(early[0]).place, None);
    assert_eq!(rig.claim(early[0]), Err(ClaimRefusal::NotCalled));
    assert_eq!(rig.standing(early[0]), Standing::Waiting { ahead: None, eta: None });

    rig.pass(10_000);
    assert_eq!(rig.phase(), Phase::Drawing);
    let frozen = rig.queue.view(rig.now).draw.unwrap();
    assert_eq!((frozen.state.size(), frozen.state.seed(), frozen.source), (Some(50), None, None));
    let late = rig.crowd(5);
    assert_eq!(rig.position(late[0]).place, Some(Place(50)));

    rig.pass(REVEAL_AFTER_MS);
    let drawn = rig.queue.view(rig.now).draw.unwrap();
    assert_eq!(drawn.source, Some(Source::Secret([7; 32])));
    let seed = crate::draw::seed(drawn.manifest.canonical().as_bytes(), 50, &[7; 32]);
    assert_eq!(drawn.state.seed(), Some(seed));
    assert_eq!(rig.phase(), Phase::Drawing);
    assert_eq!(rig.busy(), 0);

    rig.pass(9_000);
    assert_eq!((rig.phase(), rig.busy()), (Phase::Open, 55));
    rig.pass(10_000);
    assert_eq!(rig.phase(), Phase::Closed);
    assert_eq!(rig.join_as(1, false), Err(JoinRefusal::Closed));
}

#[test]
fn the_size_is_public_before_the_seed_even_when_the_clock_jumps_past_the_opening() {
    let mut raw = drawn_sale();
    raw.closes_at = None;
    let mut rig = Rig::new(raw);
    rig.pass(3_600_000);
    let view = rig.queue.view(rig.now);
    assert_eq!((view.phase, view.draw.unwrap().state.seed()), (Phase::Drawing, None));
    rig.pass(REVEAL_AFTER_MS);
    assert_eq!(rig.phase(), Phase::Open);
}

#[test]
fn draws_of_nobody_and_of_one_open_like_any_other() {
    for size in [0, 1] {
        let mut rig = Rig::new(drawn_sale());
        rig.pass(10_000);
        let early = rig.crowd(size);
        rig.pass(10_000);
        let late = rig.crowd(1);
        rig.pass(10_000);
        for arrival in early.into_iter().chain(late) {
            assert_eq!(rig.position(arrival).place, Some(Place(arrival.0)));
            assert!(rig.claim(arrival).is_ok());
        }
    }
}

#[test]
fn an_early_order_to_open_waits_for_the_promised_draw() {
    let mut rig = Rig::new(drawn_sale());
    rig.order(&Command::Open);
    assert_eq!(rig.phase(), Phase::PreQueue);
    rig.crowd(3);
    rig.pass(20_000);
    assert_eq!(rig.phase(), Phase::Drawing);
    rig.pass(REVEAL_AFTER_MS);
    assert_eq!((rig.phase(), rig.busy()), (Phase::Open, 3));
}

#[test]
fn visitors_who_left_before_the_draw_are_not_waited_for() {
    let mut rig = Rig::new(drawn_sale());
    rig.pass(10_000);
    let arrivals = rig.crowd(300);
    for arrival in &arrivals[..100] {
        rig.leave(*arrival);
    }
    // Few leave as well as many: the two ways to find their places must agree.
    rig.pass(20_000);
    rig.pass(REVEAL_AFTER_MS);
    let view = rig.queue.view(rig.now);
    assert_eq!((view.serving, view.unclaimed, view.waiting), (Place(300), 200, 0));
    assert_eq!(rig.claim(arrivals[0]), Err(ClaimRefusal::Left));
    assert!(arrivals[100..].iter().all(|arrival| rig.claim(*arrival).is_ok()));
}

#[test]
fn the_places_of_few_and_of_many_leavers_are_the_same() {
    let mut rig = Rig::new(drawn_sale());
    rig.pass(10_000);
    let arrivals = rig.crowd(300);
    rig.leave(arrivals[17]);
    rig.pass(10_000);
    rig.pass(REVEAL_AFTER_MS);
    let place = rig.position(arrivals[17]).place.unwrap();
    assert_eq!(rig.queue.lines.first.left_places, BTreeSet::from([place]));
    for arrival in &arrivals[20..60] {
        rig.leave(*arrival);
    }
    let one_by_one = rig.queue.lines.first.left_places.clone();
    rig.queue.find_left_places();
    assert_eq!(rig.queue.lines.first.left_places, one_by_one);
}

#[test]
fn a_draw_cannot_change_once_it_has_been_promised() {
    let mut rig = Rig::new(drawn_sale());
    let mut other = drawn_sale();
    other.draw = None;
    let other = other.check().unwrap();
    assert_eq!(rig.queue.change(other.clone(), None, rig.now), Ok(()));
    assert_eq!(rig.queue.change(drawn_sale().check().unwrap(), None, rig.now), Ok(()));
    rig.pass(10_000);
    assert_eq!(rig.queue.change(other, None, rig.now), Err(crate::ChangeRefusal::DrawFixed));
}

// === claim, lapse, recall ===

#[test]
fn a_claim_gives_the_same_answer_until_the_lease_ends() {
    let mut rig = Rig::new(open_sale(10));
    let arrival = rig.crowd(1)[0];
    let first = rig.claim(arrival).unwrap();
    rig.pass(299_999);
    assert_eq!(rig.claim(arrival), Ok(first));
    rig.pass(1);
    assert_eq!(rig.claim(arrival), Err(ClaimRefusal::Ended));
    assert_eq!(rig.queue.view(rig.now).totals.claimed, 1);
}

#[test]
fn a_forged_or_outdated_place_admits_nobody() {
    let mut rig = Rig::new(open_sale(1));
    let arrivals = rig.crowd(2);
    let forged = Position { arrival: arrivals[1], place: Some(Place(0)) };
    assert_eq!(rig.queue.claim(forged, rig.now), Err(ClaimRefusal::Unknown));
    let unknown = Position { arrival: Arrival(2), place: Some(Place(0)) };
    assert_eq!(rig.queue.claim(unknown, rig.now), Err(ClaimRefusal::Unknown));
    assert_eq!(rig.queue.leave(unknown, rig.now), Err(LeaveRefusal::Unknown));
    assert_eq!(rig.busy(), 1);
}

#[test]
fn a_lapsed_visitor_is_recalled_once_and_before_anybody_uncalled() {
    let mut rig = Rig::new(open_sale(1));
    let arrivals = rig.crowd(4);
    rig.pass(60_000);
    assert_eq!(rig.standing(arrivals[0]), Standing::Lapsed { recallable: true });
    // The second was called into the freed room; the first has to wait for it.
    assert_eq!(rig.claim(arrivals[0]), Err(ClaimRefusal::RecallPending));
    rig.leave(arrivals[1]);
    assert_eq!(rig.standing(arrivals[2]), Standing::Waiting { ahead: Some(0), eta: None });
    let claimed = rig.claim(arrivals[0]).unwrap();
    assert_eq!(claimed.place, Place(0));
    assert_eq!(rig.queue.view(rig.now).totals.recalled, 1);
}

#[test]
fn a_recall_that_is_not_used_is_the_last() {
    let mut rig = Rig::new(open_sale(1));
    let arrivals = rig.crowd(2);
    rig.pass(60_000);
    assert_eq!(rig.claim(arrivals[0]), Err(ClaimRefusal::RecallPending));
    rig.pass(60_000);
    assert_eq!(rig.busy(), 1);
    rig.pass(60_000);
    assert_eq!(rig.claim(arrivals[0]), Err(ClaimRefusal::Lapsed));
}

#[test]
fn there_is_no_recall_after_the_grace() {
    let mut rig = Rig::new(open_sale(1));
    let arrival = rig.crowd(1)[0];
    rig.pass(60_000 + 60_000);
    assert_eq!(rig.standing(arrival), Standing::Lapsed { recallable: false });
    assert_eq!(rig.claim(arrival), Err(ClaimRefusal::Lapsed));
}

#[test]
fn nobody_is_silently_requeued_and_asking_again_gives_up_the_old_ticket() {
    let mut rig = Rig::new(open_sale(1));
    let first = rig.join_as(1, false).unwrap();
    assert!(first.new);
    rig.pass(60_000);
    assert_eq!(rig.join_as(1, false).unwrap(), Joined { new: false, ..first });
    let second = rig.join_as(1, true).unwrap();
    assert_eq!((second.arrival, second.new), (Arrival(1), true));
    assert_eq!(rig.claim(first.arrival), Err(ClaimRefusal::Lapsed));
    // While the new ticket lives, asking again gives the same.
    assert_eq!(rig.join_as(1, true).unwrap().arrival, second.arrival);
}

#[test]
fn asking_again_never_exchanges_a_ticket_that_still_counts() {
    let mut rig = Rig::new(open_sale(1));
    let called = rig.join_as(1, false).unwrap().arrival;
    let waiting = rig.join_as(2, false).unwrap().arrival;
    assert_eq!(rig.join_as(1, true).unwrap().arrival, called);
    assert_eq!(rig.join_as(2, true).unwrap().arrival, waiting);
    rig.claim(called).unwrap();
    assert_eq!(rig.join_as(1, true).unwrap().arrival, called);
}

#[test]
fn who_leaves_and_comes_back_is_a_new_arrival() {
    let mut rig = Rig::new(open_sale(1));
    rig.crowd(1);
    let first = rig.join_as(1, false).unwrap().arrival;
    rig.leave(first);
    rig.leave(first);
    assert_eq!(rig.queue.view(rig.now).totals.left, 1);
    let second = rig.join_as(1, false).unwrap();
    assert_eq!((second.arrival, second.new), (Arrival(2), true));
    assert_eq!(rig.claim(first), Err(ClaimRefusal::Left));
}

// === limits ===

#[test]
fn lower_caps_stop_calling_and_take_nothing_away() {
    let mut rig = Rig::new(open_sale(10));
    let arrivals = rig.crowd(20);
    for arrival in &arrivals[..10] {
        rig.claim(*arrival).unwrap();
    }
    rig.queue.change(open_sale(2).check().unwrap(), None, rig.now).unwrap();
    rig.tick();
    assert_eq!(rig.queue.view(rig.now).active, 10);
    for arrival in &arrivals[..8] {
        rig.queue.lease(*arrival, LeaseEvent::Ended, rig.now);
    }
    assert_eq!((rig.busy(), rig.queue.view(rig.now).serving), (2, Place(10)));
    rig.queue.lease(arrivals[8], LeaseEvent::Ended, rig.now);
    assert_eq!((rig.busy(), rig.queue.view(rig.now).serving), (2, Place(11)));
}

#[test]
fn the_stock_limits_who_competes_for_it() {
    let mut raw = open_sale(100);
    raw.overcommit_percent = 150;
    let mut rig = Rig::new(raw);
    rig.stock(4, Some(0));
    let arrivals = rig.crowd(20);
    assert_eq!(rig.busy(), 6);
    for arrival in &arrivals[..2] {
        rig.claim(*arrival).unwrap();
    }
    rig.stock(2, Some(2));
    for arrival in &arrivals[..2] {
        rig.queue.lease(*arrival, LeaseEvent::Holding, rig.now);
    }
    assert_eq!(rig.busy(), 6);
    rig.stock(0, Some(4));
    assert_eq!((rig.phase(), rig.queue.view(rig.now).waiting), (Phase::Open, 14));
    for arrival in &arrivals[2..6] {
        rig.leave(*arrival);
    }
    assert_eq!(rig.busy(), 2);
}

#[test]
fn the_health_limit_holds_for_joins_between_ticks() {
    let mut rig = Rig::new(open_sale(100));
    rig.queue.tick(TickInput { health_limit: Some(3) }, rig.now);
    rig.crowd(10);
    assert_eq!(rig.busy(), 3);
    rig.queue.tick(TickInput { health_limit: Some(0) }, rig.now);
    rig.crowd(1);
    assert_eq!(rig.busy(), 3);
    rig.tick();
    assert_eq!(rig.busy(), 11);
}

#[test]
fn a_restored_queue_calls_nobody_before_it_knows_the_shops_health() {
    let mut rig = Rig::new(open_sale(5));
    rig.crowd(10);
    let definition = SaleDefinition::clone(rig.queue.definition());
    let joins: Vec<_> = rig.queue.lines.first.visitors.iter().collect();
    let mut restored = Queue::restore(definition, rig.queue.core().clone(), joins, [], []);
    restored.leave(Position { arrival: Arrival(0), place: Some(Place(0)) }, rig.now).unwrap();
    assert_eq!(restored.view(rig.now).unclaimed, 4);
    restored.tick(TickInput { health_limit: None }, rig.now);
    assert_eq!(restored.view(rig.now).unclaimed, 5);
}

#[test]
fn no_shows_are_made_up_for_by_half_at_most_and_within_the_cap() {
    let mut raw = open_sale(100_000);
    raw.pace = Pace::Batch { admit: 100, every_ms: 1_000 };
    raw.claim_window_ms = 1_000;
    raw.compensate_no_shows = true;
    let mut rig = Rig::new(raw);
    let arrivals = rig.crowd(1_000);
    for arrival in &arrivals[..80] {
        rig.claim(*arrival).unwrap();
    }
    rig.pass(1_000);
    // 80 of 100 came: a batch of 100 is worth 125 calls.
    assert_eq!(rig.queue.view(rig.now).serving, Place(225));
    rig.pass(1_000);
    rig.pass(1_000);
    assert_eq!(rig.queue.view(rig.now).serving, Place(625));
}

// === operator ===

#[test]
fn a_pause_stops_the_time_of_those_already_called() {
    let mut rig = Rig::new(open_sale(2));
    let arrivals = rig.crowd(3);
    rig.pass(50_000);
    rig.order(&Command::Pause { reason: reason("Back in a moment") });
    rig.pass(3_600_000);
    assert_eq!(rig.standing(arrivals[0]), Standing::Called { until: rig.now.plus(10_000) });
    assert!(rig.claim(arrivals[1]).is_ok());
    rig.queue.lease(arrivals[1], LeaseEvent::Ended, rig.now);
    assert_eq!(rig.standing(arrivals[2]), Standing::Waiting { ahead: Some(0), eta: None });
    rig.order(&Command::Resume);
    assert!(matches!(rig.standing(arrivals[2]), Standing::Called { .. }));
    rig.pass(9_999);
    assert!(rig.claim(arrivals[0]).is_ok());
}

#[test]
fn admitting_by_hand_passes_pace_and_pause_but_no_cap() {
    let mut raw = open_sale(10);
    raw.pace = Pace::Batch { admit: 1, every_ms: 3_600_000 };
    let mut rig = Rig::new(raw);
    let arrivals = rig.crowd(50);
    assert_eq!(rig.busy(), 1);
    rig.order(&Command::Pause { reason: reason("by hand") });
    assert_eq!(rig.order(&Command::Admit { batch_size: 3, lease_ms: Some(5_000) }), 3);
    let claimed = rig.claim(arrivals[2]).unwrap();
    assert_eq!(claimed.expires_at, rig.now.plus(5_000));
    assert_eq!(rig.order(&Command::Admit { batch_size: u32::MAX, lease_ms: None }), 6);
    let silly = Command::Admit { batch_size: 1, lease_ms: Some(u64::MAX) };
    assert_eq!(rig.queue.command(&silly, rig.now), Err(CommandRefusal::LeaseOutOfRange));
    assert_eq!(rig.queue.view(rig.now).totals.by_hand, 9);
}

#[test]
fn a_revocation_takes_no_place_away() {
    let mut rig = Rig::new(open_sale(1));
    let first = rig.join_as(1, false).unwrap();
    let claimed = rig.claim(first.arrival).unwrap();
    rig.order(&Command::Revoke);
    assert_eq!(rig.join_as(1, false).unwrap(), Joined { epoch: Epoch(1), new: false, ..first });
    assert_eq!(rig.claim(first.arrival), Ok(Claimed { epoch: Epoch(1), ..claimed }));
}

#[test]
fn closing_leaves_running_leases_alone() {
    let mut rig = Rig::new(open_sale(2));
    let arrivals = rig.crowd(3);
    let claimed = rig.claim(arrivals[0]).unwrap();
    rig.order(&Command::Close);
    assert_eq!(rig.claim(arrivals[0]), Ok(claimed));
    assert_eq!(rig.claim(arrivals[1]), Err(ClaimRefusal::Closed));
    assert_eq!(rig.claim(arrivals[2]), Err(ClaimRefusal::Closed));
    assert_eq!(rig.queue.command(&Command::Open, rig.now), Err(CommandRefusal::Closed));
    rig.pass(300_000);
    assert_eq!((rig.busy(), rig.queue.view(rig.now).totals.ended), (0, 1));
}

#[test]
fn orders_are_refused_in_the_wrong_phase_and_repeat_harmlessly() {
    let mut rig = Rig::new(drawn_sale());
    for early in [Command::Pause { reason: reason("") }, Command::Resume, Command::SoldOut, Command::Restock]
    {
        assert_eq!(rig.queue.command(&early, rig.now), Err(CommandRefusal::NotOpen), "{early:?}");
    }
    rig.order(&Command::Open);
    rig.pass(20_000);
    rig.pass(REVEAL_AFTER_MS);
    for twice in [Command::Open, Command::Resume, Command::SoldOut, Command::Restock, Command::Close] {
        rig.order(&twice);
        let phase = rig.phase();
        rig.order(&twice);
        assert_eq!(rig.phase(), phase);
    }
}

#[test]
fn a_halted_sale_is_not_opened_but_resumed_or_restocked() {
    let mut rig = Rig::new(open_sale(2));
    rig.order(&Command::Pause { reason: reason("x") });
    assert_eq!(rig.queue.command(&Command::Open, rig.now), Err(CommandRefusal::Paused));
    assert_eq!(rig.phase(), Phase::Paused);
    rig.order(&Command::SoldOut);
    assert_eq!(rig.queue.command(&Command::Open, rig.now), Err(CommandRefusal::SoldOut));
    rig.order(&Command::Restock);
    rig.order(&Command::Resume);
    rig.order(&Command::Open);
    assert_eq!(rig.phase(), Phase::Open);
}

#[test]
fn a_change_made_on_an_older_definition_takes_nothing_back() {
    let mut rig = Rig::new(open_sale(2));
    let read = SaleDefinition::clone(rig.queue.definition());
    let wider = open_sale(9).check().unwrap();
    assert_eq!(rig.queue.change(wider.clone(), Some(&read), rig.now), Ok(()));
    let mut titled = open_sale(2);
    titled.title = "x".to_owned();
    let titled = titled.check().unwrap();
    assert_eq!(rig.queue.change(titled.clone(), Some(&read), rig.now), Err(crate::ChangeRefusal::Overtaken));
    assert_eq!(rig.queue.definition().max_active, 9);
    // What is so already can be said again: whoever lost the answer asks once more.
    assert_eq!(rig.queue.change(wider.clone(), Some(&read), rig.now), Ok(()));
    assert_eq!(rig.queue.change(titled, Some(&wider), rig.now), Ok(()));
    assert_eq!(rig.queue.definition().title, "x");
}

// === forgetting ===

const DAY: u64 = 24 * 3_600_000;

#[test]
fn a_sale_that_is_always_on_keeps_a_day_of_visitors_and_no_more() {
    let mut rig = Rig::new(open_sale(1_000));
    let mut kept = Vec::new();
    for hour in 0..24 * 10 {
        let arrivals = rig.crowd(20);
        rig.tick();
        for arrival in &arrivals[..15] {
            rig.claim(*arrival).unwrap();
        }
        rig.leave(arrivals[15]);
        rig.pass(3_600_000);
        if hour % 24 == 23 {
            kept.push((
                rig.queue.lines.first.visitors.len(),
                rig.queue.admissions.len(),
                rig.queue.left.len(),
            ));
        }
    }
    // A day, and the hours that are not over.
    assert!(
        kept.iter().all(|(visitors, admissions, _)| *visitors <= 27 * 20 && *admissions <= 27 * 20),
        "{kept:?}"
    );
    assert_eq!(kept[2], kept[9], "it grows: {kept:?}");
    assert!(serde_json::to_string(&rig.queue.core).unwrap().len() < 4_000);
}

#[test]
fn who_is_forgotten_is_never_admitted_again_and_starts_anew() {
    let mut rig = Rig::new(open_sale(1));
    let (claimed, gone, lapsed) = (0, 1, 2);
    for who in [claimed, gone, lapsed] {
        rig.join_as(who, false).unwrap();
    }
    rig.leave(Arrival(gone));
    rig.claim(Arrival(claimed)).unwrap();
    rig.pass(300_000);
    assert!(matches!(rig.standing(Arrival(lapsed)), Standing::Called { .. }));
    rig.pass(DAY - 1);
    assert_eq!(rig.join_as(claimed, false).unwrap().arrival, Arrival(claimed), "remembered for a day");
    rig.pass(2 * DAY);
    assert!(
        rig.queue.lines.first.visitors.is_empty()
            && rig.queue.admissions.is_empty()
            && rig.queue.left.is_empty()
    );
    for who in [claimed, lapsed, gone] {
        assert_eq!(rig.claim(Arrival(who)), Err(ClaimRefusal::Lapsed), "{who}");
        assert_eq!(rig.standing(Arrival(who)), Standing::Lapsed { recallable: false });
        let left = rig.queue.view(rig.now).totals.left;
        rig.leave(Arrival(who));
        assert_eq!((rig.queue.view(rig.now).totals.left, rig.queue.admissions.len()), (left, 0));
    }
    let joined = rig.join_as(claimed, false).unwrap();
    assert_eq!((joined.arrival, joined.new), (Arrival(3), true), "no number is given twice");
    assert!(rig.claim(Arrival(3)).is_ok());
}

#[test]
fn a_lease_that_still_runs_is_not_forgotten_nor_are_those_behind_it() {
    let mut raw = open_sale(10);
    raw.lease_ms = 5 * DAY;
    let mut rig = Rig::new(raw);
    let arrivals = rig.crowd(3);
    rig.claim(arrivals[1]).unwrap();
    rig.pass(DAY);
    rig.pass(3 * DAY);
    assert_eq!(rig.queue.forgotten(), [Arrival(0)..Arrival(1)]);
    assert!(rig.claim(arrivals[1]).is_ok(), "the same answer until the lease ends");
    rig.pass(2 * DAY);
    assert_eq!(rig.queue.forgotten(), [Arrival(0)..Arrival(3)]);
}

#[test]
fn who_was_drawn_and_came_again_is_forgotten_over_a_restart_too() {
    let mut raw = drawn_sale();
    raw.closes_at = None;
    let mut rig = Rig::new(raw);
    rig.pass(10_000);
    rig.join_as(1, false).unwrap();
    rig.pass(20_000);
    rig.pass(REVEAL_AFTER_MS);
    rig.pass(DAY);
    let again = rig.join_as(1, true).unwrap();
    assert_eq!((again.arrival, again.new), (Arrival(1), true));
    let changes = rig.queue.take_changes();
    rig.pass(DAY);
    rig.pass(DAY);
    rig.pass(DAY);
    assert!(rig.queue.lines.first.visitors.is_empty());
    let kept: Vec<_> = changes.admissions.into_iter().filter(|record| record.arrival == Arrival(0)).collect();
    let first = changes.joins[0];
    let definition = SaleDefinition::clone(rig.queue.definition());
    let restored = Queue::restore(definition, rig.queue.core.clone(), [first], kept, []);
    assert!(restored.lines.first.visitors.is_empty(), "the number before the last came back to life");
}

#[test]
fn who_was_drawn_is_remembered_for_good() {
    let mut raw = drawn_sale();
    raw.closes_at = None;
    let mut rig = Rig::new(raw);
    rig.pass(10_000);
    let drawn = rig.crowd(5);
    rig.pass(20_000);
    rig.pass(REVEAL_AFTER_MS);
    let late = rig.crowd(2);
    rig.pass(DAY);
    rig.pass(DAY);
    rig.pass(DAY);
    assert_eq!(rig.queue.forgotten(), [Arrival(5)..Arrival(7)]);
    assert_eq!((drawn.len(), rig.queue.lines.first.visitors.len(), late.len()), (5, 5, 2));
}

// === extremes ===

#[test]
fn the_ends_of_time_and_of_the_numbers_overflow_nothing() {
    let mut raw = open_sale(u32::MAX);
    raw.pace = Pace::Smooth { admit: u32::MAX, per_ms: 1, burst: u32::MAX };
    let mut rig = Rig::new(raw);
    rig.stock(u64::MAX, Some(u64::MAX));
    let arrival = rig.crowd(1)[0];
    rig.claim(arrival).unwrap();
    rig.queue.core.lines.first.next_arrival = MAX_ARRIVALS - 1;
    let last = rig.join_as(1, false).unwrap().arrival;
    assert_eq!(last, Arrival(MAX_ARRIVALS - 1));
    assert_eq!(rig.join_as(2, false), Err(JoinRefusal::Full));
    rig.now = UnixMillis(u64::MAX);
    rig.tick();
    rig.tick();
    assert_eq!(rig.queue.view(UnixMillis(0)).as_of, UnixMillis(u64::MAX));
    assert_eq!(rig.order(&Command::Admit { batch_size: u32::MAX, lease_ms: None }), 0);
}
