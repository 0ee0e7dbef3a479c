//! Draws that rest on a beacon's round.

use super::*;
use crate::beacon::{Beacon, BeaconOutput, FALLBACK_AFTER_MS, LATE_AFTER_MS, MARGIN_MS};
use crate::definition::DrawBeacon;
use crate::manifest::{DrawState, Fallback, Promise, Trust};
use crate::outcome::ChangeRefusal;
use crate::view::{Awaited, Snapshot};

const BEACON: Beacon = Beacon::DrandQuicknet;
const DUE_AT: UnixMillis = BEACON.round_at(1_000);
const CLOSES_AT: UnixMillis = UnixMillis(DUE_AT.0 - MARGIN_MS);
const SIGNATURE: &str =
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39";

fn sale(fallback: bool) -> RawDefinition {
    let mut raw = open_sale(1_000);
    let beacon = Some(DrawBeacon { name: BEACON, round: None, fallback });
    raw.draw = Some(DrawDefinition { closes_at: CLOSES_AT, beacon });
    raw.opens_at = Some(DUE_AT);
    raw
}

/// A sale a minute before its draw closes.
fn rig(fallback: bool) -> Rig {
    Rig::at(UnixMillis(CLOSES_AT.0 - 60_000), sale(fallback))
}

fn round(round: u64) -> Command {
    Command::Beacon(BeaconOutput { beacon: BEACON, round, signature: SIGNATURE.parse().unwrap() })
}

fn by_secret() -> Command {
    Command::DrawBySecret { reason: "no relay has it".to_owned() }
}

impl Rig {
    fn refused(&mut self, command: &Command) -> CommandRefusal {
        self.queue.command(command, self.now).unwrap_err()
    }

    fn draw(&self) -> DrawView {
        self.queue.view(self.now).draw.unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        self.queue.view(self.now).snapshot()
    }
}

#[test]
fn the_draw_waits_for_its_round_with_the_number_public_and_is_made_with_that_round_alone() {
    let mut rig = rig(false);
    let early = rig.crowd(50);
    assert_eq!((rig.draw().awaited(), rig.draw().trust()), (None, Trust::Beacon));
    assert_eq!(
        rig.refused(&round(1_000)),
        CommandRefusal::NotDrawing,
        "the number of arrivals is not fixed yet"
    );

    rig.pass(60_000);
    let late = rig.crowd(5);
    let draw = rig.draw();
    assert_eq!(draw.state, DrawState::Frozen { size: 50, at: CLOSES_AT });
    assert_eq!((draw.frozen_at, draw.source.clone()), (Some(CLOSES_AT), None));
    assert_eq!(draw.awaited(), Some(Awaited { beacon: BEACON, round: 1_000, due_at: DUE_AT }));
    assert_eq!(draw.manifest.randomness, Promise::Beacon { beacon: BEACON, round: 1_000, fallback: None });

    // The time of the opening changes nothing: no round, no draw, nobody is called.
    rig.pass(MARGIN_MS + LATE_AFTER_MS - 1);
    assert!(!rig.snapshot().draw.unwrap().beacon.unwrap().late);
    rig.pass(3_600_000);
    assert!(rig.snapshot().draw.unwrap().beacon.unwrap().late);
    assert_eq!((rig.phase(), rig.busy(), rig.position(early[0]).place), (Phase::Drawing, 0, None));
    assert_eq!(rig.position(late[0]).place, Some(Place(50)));
    assert_eq!(rig.refused(&round(1_001)), CommandRefusal::OtherRound);

    rig.order(&round(1_000));
    let draw = rig.draw();
    let randomness = SIGNATURE.parse::<crate::beacon::BeaconSignature>().unwrap().randomness();
    let seed = crate::draw::seed(draw.manifest.canonical().as_bytes(), 50, &randomness);
    assert_eq!(draw.state, DrawState::Drawn { size: 50, seed });
    assert_eq!(
        (draw.source.clone(), draw.trust()),
        (Some(Source::Beacon(SIGNATURE.parse().unwrap())), Trust::Beacon)
    );
    assert_eq!((rig.phase(), rig.busy()), (Phase::Open, 55));
    let shown = rig.snapshot().draw.unwrap();
    assert_eq!((shown.secret, shown.commitment, shown.beacon.unwrap().late), (None, None, false));

    // Every gateway fetches the round: the second that hands it in changes nothing.
    rig.order(&round(1_000));
    assert_eq!(rig.draw(), draw);
}

#[test]
fn a_draw_that_was_made_outlives_a_restart_with_its_proof() {
    let mut rig = rig(false);
    rig.crowd(3);
    rig.pass(60_000 + MARGIN_MS);
    rig.order(&round(1_000));
    let core = serde_json::from_str(&serde_json::to_string(rig.queue.core()).unwrap()).unwrap();
    let changes = rig.queue.take_changes();
    let definition = SaleDefinition::clone(rig.queue.definition());
    let restored = Queue::restore(definition, core, changes.joins, changes.admissions, changes.left);
    assert_eq!(restored.view(rig.now).draw, Some(rig.draw()));
}

#[test]
fn a_round_that_is_overdue_is_given_up_in_public_and_only_where_the_manifest_kept_that_way_open() {
    let mut rig = rig(true);
    rig.crowd(3);
    assert_eq!(rig.refused(&by_secret()), CommandRefusal::NotDrawing);
    rig.pass(60_000 + MARGIN_MS + FALLBACK_AFTER_MS - 1);
    assert_eq!(rig.refused(&by_secret()), CommandRefusal::BeaconNotOverdue);
    rig.pass(1);
    rig.order(&by_secret());
    let draw = rig.draw();
    let decision = Fallback { at: rig.now, reason: "no relay has it".to_owned() };
    let source = Source::Fallback { secret: [7; 32], decision: decision.clone() };
    assert_eq!((draw.source.clone(), draw.trust()), (Some(source), Trust::Operator));
    assert_eq!(draw.manifest.randomness.commitment(), Some(crate::draw::commitment(&[7; 32])));
    let seed = crate::draw::seed(draw.manifest.canonical().as_bytes(), 3, &[7; 32]);
    assert_eq!((draw.state.seed(), rig.phase()), (Some(seed), Phase::Open));
    assert_eq!(rig.snapshot().draw.unwrap().fallback, Some(decision));
    // What has been decided stays: the round that comes after all draws nothing anew.
    assert_eq!(rig.refused(&round(1_000)), CommandRefusal::NotDrawing);
    assert_eq!(rig.refused(&by_secret()), CommandRefusal::NotDrawing);
    assert_eq!(rig.draw(), draw);

    let mut strict = self::rig(false);
    strict.pass(3_600_000);
    assert_eq!(strict.refused(&by_secret()), CommandRefusal::NoFallback);
    let mut secret = Rig::new(drawn_sale());
    assert_eq!(secret.refused(&by_secret()), CommandRefusal::NotDrawing);
    assert_eq!(secret.refused(&round(1_000)), CommandRefusal::NotDrawing);
}

#[test]
fn a_number_that_was_fixed_after_the_round_came_is_said_to_rest_on_the_operator() {
    for (closed_late_ms, trust) in [(MARGIN_MS - 1, Trust::Beacon), (MARGIN_MS, Trust::Operator)] {
        let mut rig = rig(false);
        rig.crowd(3);
        // The whole time nobody ticked, as when the machine was down.
        rig.pass(60_000 + closed_late_ms);
        assert_eq!((rig.draw().trust(), rig.draw().frozen_at), (trust, Some(rig.now)), "{closed_late_ms}");
        rig.pass(1_000);
        rig.order(&round(1_000));
        assert_eq!((rig.draw().trust(), rig.snapshot().draw.unwrap().trust), (trust, trust));
    }
}

#[test]
fn the_promise_stays_as_it_was_from_the_opening_of_joins_on() {
    let mut rig = rig(false);
    let mut other = sale(false);
    other.draw.as_mut().unwrap().beacon.as_mut().unwrap().round = Some(1_001);
    other.opens_at = Some(BEACON.round_at(1_001));
    let refused = rig.queue.change(other.check().unwrap(), None, rig.now);
    assert_eq!(refused, Err(ChangeRefusal::DrawFixed));
    let refused = rig.queue.change(sale(true).check().unwrap(), None, rig.now);
    assert_eq!(refused, Err(ChangeRefusal::DrawFixed), "a way out cannot be added afterwards");
}

#[test]
fn what_was_drawn_with_is_published_after_a_loss_as_before() {
    for fallback in [false, true] {
        let mut rig = rig(fallback);
        rig.crowd(50);
        let young = rig.queue.core().clone();
        rig.pass(60_000 + MARGIN_MS + FALLBACK_AFTER_MS);
        for made in [false, true] {
            if made {
                let command = if fallback { by_secret() } else { round(1_000) };
                rig.queue.command(&command, rig.now).unwrap();
            }
            let draw = rig.queue.core().draw();
            let mut restored =
                Queue::without_visitors(sale(fallback).check().unwrap(), young.clone(), rig.now);
            let mut reach = Reach { draw, ..Reach::default() };
            reach.lines.first.next_arrival = Arrival(60);
            restored.skip(&reach, rig.now);
            assert_eq!(restored.view(rig.now).draw, Some(rig.draw()), "fallback {fallback}, made {made}");
        }
    }
}
