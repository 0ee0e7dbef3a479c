//! Holds and payments of a counted product.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::bench::{Bench, MOST, claim, counted, held, key, settings};
use crate::checkout::{self, Hold, Payment, Report, StockMove};
use crate::model::Stock;
use crate::store::{Begun, Claim, STUCK, Settings, Store, StoreError, Wanted};

/// In a runtime of its own, as every case of a property needs one.
pub(super) fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

/// Tries a property on so many cases.
pub(super) fn on_cases<S: Strategy>(
    cases: u32,
    file: &'static str,
    strategy: &S,
    property: impl Fn(S::Value),
) {
    let config = ProptestConfig { cases, ..ProptestConfig::with_source_file(file) };
    let tried = TestRunner::new(config).run(strategy, |case| {
        property(case);
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{error}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Claims that arrive together.
    Claim(Vec<(u8, i64)>),
    Cancel(u8),
    Begin(u8),
    Report(u8, Report),
    /// The holds of these visitors are over.
    Expire(Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let visitor = 0..6_u8;
    let report = prop::sample::select(vec![
        Report::Authorised,
        Report::Authorised,
        Report::Captured,
        Report::Declined,
        Report::CaptureRefused,
        Report::Voided,
        Report::Refunded,
        Report::NeverHeard,
    ]);
    let step = prop_oneof![
        4 => prop::collection::vec((visitor.clone(), 1..=MOST + 1), 1..5).prop_map(Step::Claim),
        1 => visitor.clone().prop_map(Step::Cancel),
        3 => visitor.clone().prop_map(Step::Begin),
        5 => (visitor.clone(), report).prop_map(|(visitor, report)| Step::Report(visitor, report)),
        1 => prop::collection::vec(visitor, 1..4).prop_map(Step::Expire),
    ];
    prop::collection::vec(step, 1..30)
}

/// One visitor's latest hold and its latest payment, as the pure machine has them.
struct Own {
    id: String,
    quantity: i64,
    state: Hold,
    payment: Option<(String, Payment)>,
    due: bool,
}

/// What the books must say, kept in the plainest way.
#[derive(Default)]
struct Model {
    available: i64,
    held: i64,
    sold: i64,
    own: HashMap<u8, Own>,
}

impl Model {
    fn shift(&mut self, stock: StockMove, quantity: i64) {
        match stock {
            StockMove::Stay => {}
            StockMove::Release => {
                self.held -= quantity;
                self.available += quantity;
            }
            StockMove::Sell => {
                self.held -= quantity;
                self.sold += quantity;
            }
        }
    }

    fn turn(&mut self, visitor: u8, hold: Hold, stock: StockMove) {
        let own = self.own.get_mut(&visitor).unwrap();
        own.state = hold;
        let quantity = own.quantity;
        self.shift(stock, quantity);
    }

    /// Every transaction begins with the end of what is due.
    fn expire(&mut self) {
        let due: Vec<(u8, Hold)> =
            self.own.iter().filter(|(_, own)| own.due).map(|(visitor, own)| (*visitor, own.state)).collect();
        for (visitor, state) in due {
            let (hold, stock) = checkout::expire(state);
            self.turn(visitor, hold, stock);
        }
    }

    /// The status that a claim is answered with.
    fn claim(&self, visitor: u8, quantity: i64) -> u16 {
        match self.own.get(&visitor).map(|own| own.state) {
            _ if quantity > MOST => 422,
            Some(Hold::Sold) => 409,
            Some(Hold::Held | Hold::Paying | Hold::Capturing) => 200,
            _ if self.available >= quantity => 201,
            _ => 409,
        }
    }
}

async fn play(bench: &Bench, total: i64, steps: Vec<Step>) {
    let store = bench.open(&[counted(total)], Settings { sinks: vec!["a".into()], ..settings() }).await;
    let mut model = Model { available: total, ..Model::default() };
    for (turn, step) in steps.into_iter().enumerate() {
        match step {
            Step::Claim(claims) => {
                // A single-threaded runtime sends them in this order, before the writer sees the first.
                let sent: Vec<_> = claims
                    .iter()
                    .enumerate()
                    .map(|(index, (visitor, quantity))| {
                        let key = key(&visitor.to_string(), &format!("claim-{turn}-{index}"));
                        let claim = Claim { key, product: "runner".into(), wanted: Wanted::Any(*quantity) };
                        let store = store.clone();
                        tokio::spawn(async move { store.claim(claim).await })
                    })
                    .collect();
                model.expire();
                for ((visitor, quantity), answer) in claims.into_iter().zip(sent) {
                    let answer = answer.await.unwrap().unwrap();
                    assert_eq!(answer.status, model.claim(visitor, quantity), "{answer:?}");
                    if answer.status == 201 {
                        model.available -= quantity;
                        model.held += quantity;
                        let id = answer.text("id").to_owned();
                        model.own.insert(
                            visitor,
                            Own { id, quantity, state: Hold::Held, payment: None, due: false },
                        );
                    }
                }
            }
            Step::Cancel(visitor) => {
                model.expire();
                let Some(own) = model.own.get(&visitor) else { continue };
                let answer = store.cancel(visitor.to_string(), own.id.clone(), None).await.unwrap();
                match checkout::cancel(own.state) {
                    Ok((hold, stock)) => {
                        assert_eq!(answer.status, 204);
                        model.turn(visitor, hold, stock);
                    }
                    Err(_) => assert_eq!(answer.status, 409),
                }
            }
            Step::Begin(visitor) => {
                model.expire();
                let Some(own) = model.own.get_mut(&visitor) else { continue };
                let key = key(&visitor.to_string(), &format!("pay-{turn}"));
                let begun = store.begin(key, own.id.clone(), "any".into(), None).await.unwrap();
                match (checkout::begin(own.state), begun) {
                    (Ok((hold, payment)), Begun::Started(id)) => {
                        own.state = hold;
                        own.payment = Some((id, payment));
                    }
                    (Err(_), Begun::Answered(answer)) => assert_eq!(answer.status, 409),
                    (expected, begun) => panic!("{expected:?}, not {begun:?}"),
                }
            }
            Step::Report(visitor, report) => {
                model.expire();
                let Some(own) = model.own.get_mut(&visitor) else { continue };
                let Some((id, payment)) = own.payment.clone() else { continue };
                if let Some(again) = checkout::retake(own.state, payment, report)
                    && model.available >= own.quantity
                {
                    own.state = again;
                    model.available -= own.quantity;
                    model.held += own.quantity;
                }
                let expected = checkout::report(own.state, payment, report);
                let purchase = store.report(id.clone(), report, None).await.unwrap();
                assert_eq!(purchase.unwrap().state, expected.payment);
                own.payment = Some((id, expected.payment));
                let due = own.due;
                model.turn(visitor, expected.hold, expected.stock);
                if due && expected.hold == Hold::Held {
                    let (hold, stock) = checkout::expire(Hold::Held);
                    model.turn(visitor, hold, stock);
                }
            }
            Step::Expire(visitors) => {
                for visitor in visitors {
                    if let Some(own) = model.own.get_mut(&visitor) {
                        own.due = true;
                        bench.run_out(&[&own.id]).await;
                    }
                }
                model.expire();
                store.sweep().await.unwrap();
            }
        }
        // Even a step that came to nothing has ended what was due.
        store.sweep().await.unwrap();
        let left = store.stock();
        let audit = store.audit().await.unwrap();
        assert!(audit.balanced, "{audit:?}");
        let product = &audit.products[0];
        assert_eq!(product.total, product.available + product.held + product.sold, "{audit:?}");
        assert_eq!(
            (product.available, product.held, product.sold),
            (model.available, model.held, model.sold)
        );
        assert_eq!((left.available, left.held), (model.available, model.held));
        // Of each reservation, its events are 1, 2, 3, … to as many as it counts, and none is for a mere hold.
        let gaps = bench
            .number(
                "SELECT COUNT(*) FROM reservations r LEFT JOIN (
                     SELECT aggregate, COUNT(*) AS told, MIN(seq) AS lowest, MAX(seq) AS highest
                     FROM outbox GROUP BY aggregate
                 ) o ON o.aggregate = r.id
                 WHERE r.version <> COALESCE(o.told, 0) OR r.version <> COALESCE(o.highest, 0) OR o.lowest <> 1",
            )
            .await;
        assert_eq!(gaps, 0);
    }
    for (table, state, kind) in [
        ("reservations", "expired", "reservation.expired"),
        ("reservations", "cancelled", "reservation.cancelled"),
        ("purchases", "sold", "purchase.sold"),
        ("purchases", "refunded", "purchase.refunded"),
    ] {
        let states = bench.number(&format!("SELECT COUNT(*) FROM {table} WHERE state = '{state}'")).await;
        let told = bench.number(&format!("SELECT COUNT(*) FROM outbox WHERE kind = '{kind}'")).await;
        match state {
            // A hold that ran out may yet have bought another unit, or have been given back.
            "expired" => assert!(told >= states, "{kind}: {told} of {states}"),
            "cancelled" => assert!(told <= states, "{kind}: {told} of {states}"),
            _ => assert_eq!(told, states, "{kind}"),
        }
    }
}

pub(super) fn any_sale_s_books_add_up_after_every_step(bench: &Bench) {
    on_cases(bench.cases(), file!(), &(0..8_i64, steps()), |(total, steps)| {
        block_on(play(&bench.another(), total, steps));
    });
}

/// A payment is begun for this hold; its purchase.
pub(super) async fn begun(store: &Store, visitor: &str, reservation: &str) -> String {
    let begun = store.begin(key(visitor, "pay"), reservation.to_owned(), "any".into(), None).await.unwrap();
    let Begun::Started(purchase) = begun else { panic!("{begun:?}") };
    purchase
}

/// A hold that is brought to `state`; its name.
async fn hold_in(store: &Store, state: Hold) -> String {
    let visitor = state.as_str();
    let id = held(store, visitor, 1).await;
    let report = match state {
        Hold::Held | Hold::Expired => return id,
        Hold::Cancelled => {
            store.cancel(visitor.into(), id.clone(), None).await.unwrap();
            return id;
        }
        Hold::Paying => None,
        Hold::Capturing => Some(Report::Authorised),
        Hold::Sold => Some(Report::Captured),
    };
    let purchase = begun(store, visitor, &id).await;
    if let Some(report) = report {
        store.report(purchase, report, None).await.unwrap();
    }
    id
}

pub(super) async fn the_end_of_a_hold_agrees_with_the_state_machine(bench: &Bench) {
    let store = bench.open(&[counted(10)], settings()).await;
    let mut holds = Vec::new();
    for state in Hold::ALL {
        let id = hold_in(&store, state).await;
        if state == Hold::Expired {
            bench.run_out(&[&id]).await;
            store.sweep().await.unwrap();
        }
        let now = bench.texts(&format!("SELECT state FROM reservations WHERE id = '{id}'")).await;
        assert_eq!(now, [state.as_str()]);
        holds.push((state, id));
    }
    assert_eq!(store.stock(), Stock { available: 6, held: 3 });
    bench.run_out(&[]).await;
    store.sweep().await.unwrap();
    assert_eq!(store.stock(), Stock { available: 8, held: 1 });
    for (state, id) in holds {
        let now = bench.texts(&format!("SELECT state FROM reservations WHERE id = '{id}'")).await;
        assert_eq!(now, [checkout::expire(state).0.as_str()], "{state:?}");
    }
}

pub(super) async fn a_total_can_grow_but_not_below_what_is_taken(bench: &Bench) {
    let store = bench.open(&[counted(3)], settings()).await;
    held(&store, "ann", 2).await;
    drop(store);
    let store = bench.open(&[counted(5)], settings()).await;
    assert_eq!(store.stock(), Stock { available: 3, held: 2 }, "known before the first change");
    drop(store);
    let refused = bench.try_open(&[counted(1)], settings()).await.unwrap_err();
    assert!(refused.to_string().contains("total = 1 is below the 2 units"), "{refused}");
}

/// By a method that captures at once.
pub(super) async fn money_that_moved_as_the_hold_ended_buys_another_unit_if_there_is_one(bench: &Bench) {
    let store = bench.open(&[counted(2)], settings()).await;
    for (visitor, left, state) in [("ann", 1, Payment::Sold), ("bob", 0, Payment::Refunding)] {
        let id = held(&store, visitor, 1).await;
        let purchase = begun(&store, visitor, &id).await;
        bench.run_out(&[&id]).await;
        store.sweep().await.unwrap();
        if left == 0 {
            held(&store, "cid", 1).await;
        }
        let after = store.report(purchase.clone(), Report::Captured, None).await.unwrap().unwrap();
        assert_eq!(after.state, state, "{visitor}");
        let again = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
        assert_eq!(again, after, "once");
        assert!(store.audit().await.unwrap().balanced);
    }
    // Who has another hold by then is not sold two.
    let store = bench.open(&[counted(9)], settings()).await;
    let id = held(&store, "dan", 1).await;
    let purchase = begun(&store, "dan", &id).await;
    bench.run_out(&[&id]).await;
    assert_eq!(claim(&store, "dan", "second", Wanted::Any(1)).await.status, 201);
    let after = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
    assert_eq!(after.state, Payment::Refunding);
    // What was given back is not bought after all.
    let id = held(&store, "eve", 1).await;
    let purchase = begun(&store, "eve", &id).await;
    store.cancel("eve".into(), id, None).await.unwrap();
    let after = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
    assert_eq!(after.state, Payment::Refunding);
    assert!(store.audit().await.unwrap().balanced);
}

pub(super) async fn what_is_shut_because_its_hold_is_over_was_refused_by_nobody(bench: &Bench) {
    let store = bench.open(&[counted(9)], settings()).await;
    for (end, report, said, reason) in [
        (Hold::Expired, Report::Voided, None, None),
        (Hold::Cancelled, Report::Voided, None, None),
        (Hold::Held, Report::Voided, None, Some("The payment service did not take the payment.")),
        (Hold::Expired, Report::Declined, Some("No."), Some("No.")),
        (Hold::Cancelled, Report::Declined, Some("No."), Some("No.")),
    ] {
        let visitor = format!("{end:?} {report:?}");
        let id = held(&store, &visitor, 1).await;
        let purchase = begun(&store, &visitor, &id).await;
        match end {
            Hold::Expired => bench.run_out(&[&id]).await,
            Hold::Cancelled => {
                store.cancel(visitor.clone(), id, None).await.unwrap();
            }
            _ => {}
        }
        let after = store.report(purchase, report, said.map(str::to_owned)).await.unwrap().unwrap();
        assert_eq!((after.reservation.state, after.reason.as_deref()), (end, reason), "{visitor}");
    }
}

pub(super) async fn a_writer_that_commits_no_more_is_unhealthy(bench: &Bench) {
    let store = bench.open(&[counted(1)], settings()).await;
    let opened = store.committed_at();
    assert!(store.health(opened + STUCK).await.is_ok());
    let late = opened + STUCK + Duration::from_millis(1);
    assert!(matches!(store.health(late).await, Err(StoreError::Failed)));
    store.sweep().await.unwrap();
    let committed = store.committed_at();
    assert!(committed > opened);
    assert!(store.health(committed + STUCK).await.is_ok());
}
