//! What was ordered on both sides of a loss, where who went on did not know of all that was ordered before it.

use proptest::prelude::*;

use super::*;
use crate::state::{Halts, SoldOutBy, Stage};

#[derive(Clone, Debug)]
enum Event {
    /// An order, so long after the one before.
    Order(Command),
    Change(String),
    Stock(u64),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let pause = "[a-c]".prop_map(|text| Command::Pause { reason: reason(&text) });
    let command = prop_oneof![
        8 => pause,
        8 => Just(Command::Resume),
        4 => Just(Command::SoldOut),
        4 => Just(Command::Restock),
        8 => Just(Command::Revoke),
        1 => Just(Command::Close),
    ];
    let event = prop_oneof![
        6 => command.prop_map(Event::Order),
        2 => "[a-c]".prop_map(Event::Change),
        3 => (0..2u64).prop_map(Event::Stock),
        3 => (1..50_000u64).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 0..8)
}

/// What holds, as far as an operator has ordered it: each with the time of the last order of its kind.
#[derive(Clone, Debug, Default)]
struct Orders {
    pause: (u64, Option<PauseReason>),
    sold_out: (u64, bool),
    title: (u64, String),
    revoked: u64,
    closed: bool,
}

/// Does what it can of these, and says what was ordered.
fn live(rig: &mut Rig, life: &[Event], mut orders: Orders) -> Orders {
    for event in life {
        rig.now = rig.now.plus(1);
        let at = rig.now.0;
        match event {
            Event::Order(command) => {
                if rig.queue.command(command, rig.now).is_err() {
                    continue;
                }
                match command {
                    Command::Pause { reason } => orders.pause = (at, Some(reason.clone())),
                    Command::Resume => orders.pause = (at, None),
                    Command::SoldOut => orders.sold_out = (at, true),
                    Command::Restock => orders.sold_out = (at, false),
                    Command::Revoke => orders.revoked += 1,
                    Command::Close => orders.closed = true,
                    _ => unreachable!(),
                }
            }
            Event::Change(title) => {
                let definition = RawDefinition { title: title.clone(), ..open_sale(5) }.check().unwrap();
                if definition != **rig.queue.definition()
                    && rig.queue.change(definition, None, rig.now).is_ok()
                {
                    orders.title = (at, title.clone());
                }
            }
            Event::Stock(available) => rig.stock(*available, Some(0)),
            Event::Pass(millis) => rig.pass(*millis),
        }
    }
    orders
}

fn fork(rig: &Rig) -> Rig {
    let definition = SaleDefinition::clone(rig.queue.definition());
    let queue = Queue::restore(definition, rig.queue.core.clone(), [], [], []);
    Rig { queue, now: rig.now, visitors: rig.visitors }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_order_is_undone_but_by_a_later_one_of_its_kind(
        common in events(),
        before in events(),
        after in events(),
    ) {
        let mut lost = Rig::new(open_sale(5));
        let common = live(&mut lost, &common, Orders::default());
        let mut rig = fork(&lost);
        let told = live(&mut lost, &before, common.clone());
        rig.now = lost.now.plus(1);
        let mine = live(&mut rig, &after, common.clone());
        let epochs = [&lost, &rig].map(|rig| rig.queue.core.epoch);
        rig.queue.begin();
        let definition = SaleDefinition::clone(lost.queue.definition());
        let reach = Reach::of(&lost.queue.core);
        rig.queue.follow(&reach, Some(&definition));
        let (once, definition_once) = (rig.queue.core.clone(), Arc::clone(rig.queue.definition()));
        for _ in 0..2 {
            rig.queue.follow(&reach, Some(&definition));
        }
        prop_assert_eq!(&rig.queue.core, &once, "what was told again was taken for something new");
        prop_assert!(Arc::ptr_eq(rig.queue.definition(), &definition_once));
        prop_assert!(once.epoch >= epochs[0].max(epochs[1]));
        if told.revoked > common.revoked && mine.revoked > common.revoked {
            prop_assert!(once.epoch > epochs[0], "the later revocation does not reach what the earlier one has");
        }
        let stage = &once.stage;
        if told.closed || mine.closed {
            prop_assert_eq!(stage, &Stage::Closed);
        } else {
            let Stage::Open(Halts { pause, sold_out, .. }) = stage else { panic!("{stage:?}") };
            let (_, ordered) = if mine.pause.0 >= told.pause.0 { &mine.pause } else { &told.pause };
            prop_assert_eq!(pause, ordered);
            let (_, ordered) = if mine.sold_out.0 >= told.sold_out.0 { mine.sold_out } else { told.sold_out };
            prop_assert_eq!(*sold_out == Some(SoldOutBy::Operator), ordered);
        }
        // A sale that is closed is not changed any more.
        if !told.closed && !mine.closed {
            let (_, ordered) = if mine.title.0 >= told.title.0 { &mine.title } else { &told.title };
            prop_assert_eq!(&rig.queue.definition().title, ordered);
        }
    }
}

#[test]
fn what_the_stock_did_outweighs_no_order() {
    let mut lost = Rig::new(open_sale(5));
    let mut rig = fork(&lost);
    lost.order(&Command::Close);
    rig.now = rig.now.plus(10);
    for available in [0, 1, 0, 1, 0, 1] {
        rig.stock(available, Some(0));
    }
    assert!(rig.queue.core.orders > lost.queue.core.orders);
    rig.queue.follow(&Reach::of(&lost.queue.core), None);
    assert_eq!(rig.phase(), Phase::Closed);
}

#[test]
fn what_an_earlier_version_has_written_down_is_followed_by_the_number_of_its_orders() {
    let mut lost = Rig::new(open_sale(5));
    let mut rig = fork(&lost);
    lost.order(&Command::Pause { reason: reason("a moment") });
    lost.order(&Command::Revoke);
    let mut reach = serde_json::to_value(Reach::of(&lost.queue.core)).unwrap();
    assert!(reach.as_object_mut().unwrap().remove("ordered").is_some());
    rig.queue.follow(&serde_json::from_value(reach).unwrap(), None);
    assert_eq!((rig.phase(), rig.queue.core.epoch), (Phase::Paused, Epoch(1)));
}
