//! The store is the queue, made durable: over any sequence of calls, restarts and power losses it
//! answers what the queue alone would have answered.

use std::sync::Arc;

use proptest::prelude::*;
use ropeline_queue::{
    Arrival, Command, JoinOptions, LeaseEvent, Pace, PauseReason, Position, Queue, SaleDefinition, SaleId,
    Stock, TickInput, UnixMillis, VisitorKey,
};

use super::platter::{Platter, Survives};
use super::power::{formatted, start};
use crate::contract::{ManualClock, definition};
use crate::embedded::EmbeddedStore;
use crate::{Clock, Join, QueueStore};

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    ClockBack(u64),
    Join(Vec<(u8, bool)>),
    Claim(u64),
    Leave(u64),
    Lease(u64, LeaseEvent),
    Stock(Stock),
    Tick(Option<u32>),
    Command(Command),
    Widen(u32),
    Restart(Survives),
}

fn step() -> impl Strategy<Value = Step> {
    let arrival = 0..30u64;
    let stock = (0..12u64, proptest::option::of(0..3u64));
    let command = prop_oneof![
        Just(Command::Open),
        Just(Command::Pause { reason: PauseReason { text: "A moment".into(), ..PauseReason::default() } }),
        Just(Command::Resume),
        Just(Command::SoldOut),
        Just(Command::Restock),
        Just(Command::Revoke),
        (0..4u32, proptest::option::of(1_000..9_000u64))
            .prop_map(|(batch_size, lease_ms)| Command::Admit { batch_size, lease_ms }),
    ];
    let survives = prop_oneof![Just(Survives::None), Just(Survives::EverySecond), Just(Survives::All)];
    prop_oneof![
        4 => (1..4_000u64).prop_map(Step::Advance),
        1 => (1..2_000u64).prop_map(Step::ClockBack),
        6 => proptest::collection::vec((0..25u8, any::<bool>()), 1..6).prop_map(Step::Join),
        6 => arrival.clone().prop_map(Step::Claim),
        2 => arrival.clone().prop_map(Step::Leave),
        1 => arrival.clone().prop_map(|arrival| Step::Lease(arrival, LeaseEvent::Holding)),
        1 => arrival.clone().prop_map(|arrival| Step::Lease(arrival, LeaseEvent::Released)),
        2 => arrival.prop_map(|arrival| Step::Lease(arrival, LeaseEvent::Ended)),
        1 => stock.prop_map(|(available, held)| Step::Stock(Stock { available, held })),
        5 => proptest::option::weighted(0.2, 0..6u32).prop_map(Step::Tick),
        2 => command.prop_map(Step::Command),
        1 => (1..6u32).prop_map(Step::Widen),
        3 => survives.prop_map(Step::Restart),
    ]
}

/// A sale in which every clock runs out within a few steps.
fn brisk(max_active: u32, opens_at: UnixMillis, drawn: bool) -> SaleDefinition {
    let mut raw = definition("drop", max_active);
    raw.joins_open_at = Some(UnixMillis(0));
    raw.opens_at = Some(opens_at);
    raw.draw = drawn.then_some(ropeline_queue::DrawDefinition::by_secret(opens_at));
    raw.pace = Pace::Batch { admit: 2, every_ms: 1_000 };
    raw.claim_window_ms = 3_000;
    raw.recall_grace_ms = 6_000;
    raw.lease_ms = 5_000;
    raw.compensate_no_shows = true;
    raw.check().unwrap()
}

/// The queue alone and the store, side by side on one clock.
struct Pair {
    clock: Arc<ManualClock>,
    platter: Platter,
    store: Option<EmbeddedStore>,
    model: Queue,
    sale: SaleId,
    definition: SaleDefinition,
}

// === impl Pair ===

impl Pair {
    async fn new(drawn: bool) -> Self {
        let clock = Arc::new(ManualClock::default());
        let definition = brisk(3, clock.now().plus(5_000), drawn);
        let platter = formatted();
        let store = start(&platter, &clock).unwrap();
        store.create(definition.clone(), [5; 32]).await.unwrap();
        let model = Queue::create(definition.clone(), [5; 32], clock.now());
        let sale = definition.id.clone();
        Self { clock, platter, store: Some(store), model, sale, definition }
    }

    fn position(&self, arrival: u64) -> Position {
        self.model.view(self.clock.now()).position(Arrival(arrival))
    }

    async fn step(&mut self, step: Step) {
        let now = self.clock.now();
        let (sale, store) = (&self.sale, self.store.as_ref().unwrap());
        match step {
            Step::Advance(millis) => self.clock.advance(millis),
            Step::ClockBack(millis) => self.clock.step_back(millis),
            Step::Join(who) => {
                let visitor = |who| VisitorKey([who; 16]);
                let joins = who.iter().map(|(who, again)| Join { again: *again, ..Join::of(visitor(*who)) });
                let answers = store.join(sale, joins.collect()).await.unwrap();
                let expected: Vec<_> = who
                    .iter()
                    .map(|(who, again)| {
                        self.model.join(
                            visitor(*who),
                            JoinOptions { again: *again, ..JoinOptions::default() },
                            now,
                        )
                    })
                    .collect();
                assert_eq!(answers, expected);
            }
            Step::Claim(arrival) => {
                let position = self.position(arrival);
                assert_eq!(store.claim(sale, position).await.unwrap(), self.model.claim(position, now));
            }
            Step::Leave(arrival) => {
                let position = self.position(arrival);
                assert_eq!(store.leave(sale, position).await.unwrap(), self.model.leave(position, now));
            }
            Step::Lease(arrival, event) => {
                store.lease(sale, Arrival(arrival), event).await.unwrap();
                self.model.lease(Arrival(arrival), event, now);
            }
            Step::Stock(stock) => {
                store.stock(sale, stock).await.unwrap();
                self.model.stock(stock, now);
            }
            Step::Tick(health_limit) => self.tick(TickInput { health_limit }).await,
            Step::Command(command) => {
                let answer = store.command(sale, command.clone()).await.unwrap();
                assert_eq!(answer, self.model.command(&command, now));
            }
            Step::Widen(max_active) => {
                let mut raw = ropeline_queue::RawDefinition::from(self.definition.clone());
                raw.max_active = max_active;
                let definition = raw.check().unwrap();
                let answer = store.change(definition.clone(), None).await.unwrap();
                assert_eq!(answer, self.model.change(definition, None, now));
            }
            Step::Restart(survives) => {
                // Time in which nothing changed is not written, so a clock set back over a restart is
                // believed as far as the last change; the model would hold out for longer.
                self.clock.advance(self.model.view(now).as_of.since(now));
                self.store = None;
                self.platter.lose_power(survives);
                self.store = Some(start(&self.platter, &self.clock).unwrap());
                // What the shop's health allowed is the gateways' to say anew, with their first tick.
                self.tick(TickInput::default()).await;
            }
        }
        let view = self.store.as_ref().unwrap().view(&self.sale).await.unwrap();
        let mut expected = self.model.view(self.clock.now());
        expected.as_of = view.as_of;
        assert_eq!(*view, expected);
    }

    async fn tick(&mut self, input: TickInput) {
        let now = self.clock.now();
        let view = self.store.as_ref().unwrap().tick(&self.sale, input).await.unwrap();
        self.model.tick(input, now);
        assert_eq!(*view, self.model.view(now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_store_answers_what_the_queue_alone_would(
        drawn in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut pair = Pair::new(drawn).await;
            for step in steps {
                pair.step(step).await;
            }
        });
    }
}
