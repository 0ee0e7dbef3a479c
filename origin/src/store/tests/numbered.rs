//! Holds and payments of a product whose units are numbered.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::bench::{Bench, MOST, claim, product, settings};
use super::sale::{begun, block_on, on_cases};
use crate::answer::Answer;
use crate::checkout::Report;
use crate::model::Kind;
use crate::store::{ProductSeed, SeedStock, Store, Wanted};

const LABELS: [&str; 6] = ["A-1", "A-2", "A-3", "B-1", "B-2", "B-3"];

fn seats(labels: &[&str]) -> ProductSeed {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    ProductSeed { product: product("runner", Kind::Units), stock: SeedStock::Units(labels) }
}

fn chosen(labels: &[&str]) -> Wanted {
    Wanted::Chosen(labels.iter().map(|label| (*label).to_owned()).collect())
}

fn labels(answer: &Answer, member: &str) -> Vec<String> {
    let labels = answer.body[member].as_array().unwrap_or_else(|| panic!("no {member} in {answer:?}"));
    labels.iter().map(|label| label.as_str().unwrap().to_owned()).collect()
}

pub(super) async fn chosen_units_go_all_or_nothing_and_come_back_together(bench: &Bench) {
    let store = bench.open(&[seats(&LABELS)], settings()).await;
    let ann = claim(&store, "ann", "k", chosen(&["B-2", "A-1"])).await;
    assert_eq!((ann.status, labels(&ann, "units")), (201, vec!["B-2".to_owned(), "A-1".to_owned()]));
    let bob = claim(&store, "bob", "k", chosen(&["A-1", "A-2", "B-2"])).await;
    assert_eq!((bob.status, bob.text("code")), (409, "unit_taken"));
    assert_eq!(labels(&bob, "taken"), ["A-1", "B-2"]);
    let cid = claim(&store, "cid", "k", chosen(&["A-2", "Z-1"])).await;
    assert_eq!((cid.status, labels(&cid, "unknown")), (422, vec!["Z-1".to_owned()]));
    let free = bench.texts("SELECT label FROM units WHERE state = 'free' ORDER BY number").await;
    assert_eq!(free, ["A-2", "A-3", "B-1", "B-3"], "nothing was taken of what was not given");
    let id = ann.text("id").to_owned();
    store.cancel("ann".into(), id.clone(), None).await.unwrap();
    let free =
        bench.number("SELECT COUNT(*) FROM units WHERE state = 'free' AND reservation_id IS NULL").await;
    assert_eq!(free, 6);
    let over = store.reservation(&id, "ann").await.unwrap().unwrap();
    assert_eq!(over.reservation.units, ["B-2", "A-1"], "what it was is still told");
}

/// By a method that captures at once.
pub(super) async fn money_that_moved_as_the_hold_ended_buys_other_units_unless_they_were_chosen(
    bench: &Bench,
) {
    let store = bench.open(&[seats(&LABELS)], settings()).await;
    // Who, what they wanted and had, what somebody else took as the hold ended, and what they have bought.
    let any = Wanted::Any;
    for (visitor, wanted, had, gone, bought) in [
        ("ann", chosen(&["B-2"]), &["B-2"][..], &[][..], Some(&["B-2"][..])),
        ("bob", chosen(&["B-3", "A-3"]), &["B-3", "A-3"], &["A-3"], None),
        ("cid", any(1), &["A-1"], &[], Some(&["A-1"])),
        ("dan", any(2), &["A-2", "B-1"], &["A-2"], Some(&["B-1", "B-3"])),
        ("eve", any(1), &[], &[], None),
    ] {
        let held = claim(&store, visitor, "k", wanted.clone()).await;
        if visitor == "eve" {
            assert_eq!(held.text("code"), "sold_out", "{held:?}");
            continue;
        }
        let mut units = labels(&held, "units");
        if let Wanted::Any(_) = wanted {
            units.sort();
        }
        assert_eq!(units, had, "{visitor}");
        let id = held.text("id").to_owned();
        let purchase = begun(&store, visitor, &id).await;
        bench.run_out(&[&id]).await;
        store.sweep().await.unwrap();
        if !gone.is_empty() {
            let taken = claim(&store, &format!("not {visitor}"), "k", chosen(gone)).await;
            assert_eq!(taken.status, 201, "{taken:?}");
            let taken = begun(&store, &format!("not {visitor}"), taken.text("id")).await;
            let taken = store.report(taken, Report::Captured, None).await.unwrap().unwrap();
            assert_eq!(taken.state.as_str(), "sold");
        }
        let after = store.report(purchase.clone(), Report::Captured, None).await.unwrap().unwrap();
        let again = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
        assert_eq!(again, after, "once");
        assert_eq!(after.state.as_str(), if bought.is_some() { "sold" } else { "refunding" }, "{visitor}");
        let mut units = after.reservation.units.clone();
        if let Wanted::Any(_) = wanted {
            units.sort();
        }
        assert_eq!(units, bought.unwrap_or(had), "{visitor}");
        let kept = store.reservation(&id, visitor).await.unwrap().unwrap();
        assert_eq!(kept.reservation, after.reservation);
        let owned = bench
            .texts(&format!("SELECT label FROM units WHERE reservation_id = '{id}' ORDER BY label"))
            .await;
        let mut meant = bought.unwrap_or_default().to_vec();
        meant.sort_unstable();
        assert_eq!(owned, meant);
        let replayed = claim(&store, visitor, "k", wanted).await;
        assert_eq!((replayed.status, replayed.text("id")), (201, id.as_str()));
        assert_eq!(labels(&replayed, "units"), labels(&held, "units"), "a key gets the answer that it got");
        assert!(store.audit().await.unwrap().balanced);
    }
}

/// By a method that captures at once, where nothing is free any more, and where too little is.
pub(super) async fn money_that_moved_as_the_hold_ended_comes_back_where_too_few_units_are_left(
    bench: &Bench,
) {
    let store = bench.open(&[seats(&LABELS[..3])], settings()).await;
    let held = claim(&store, "ann", "k", Wanted::Any(2)).await;
    let purchase = begun(&store, "ann", held.text("id")).await;
    bench.run_out(&[held.text("id")]).await;
    assert_eq!(claim(&store, "bob", "k", chosen(&["A-1", "A-3"])).await.status, 201);
    let after = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
    assert_eq!((after.state.as_str(), after.reservation.units), ("refunding", labels(&held, "units")));
    let free = bench.texts("SELECT label FROM units WHERE state = 'free'").await;
    assert_eq!(free, ["A-2"]);
    assert!(store.audit().await.unwrap().balanced);
}

/// By a method that captures at once; the unit that was held is no more among those that are sold.
pub(super) async fn money_that_moved_as_the_hold_ended_buys_no_unit_that_was_taken_off_sale(bench: &Bench) {
    let store = bench.open(&[seats(&LABELS[..1])], settings()).await;
    let held = claim(&store, "ann", "k", Wanted::Any(1)).await;
    let purchase = begun(&store, "ann", held.text("id")).await;
    bench.run_out(&[held.text("id")]).await;
    store.sweep().await.unwrap();
    drop(store);
    let store = bench.open(&[seats(&LABELS[1..2])], settings()).await;
    let after = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
    assert_eq!((after.state.as_str(), &after.reservation.units[..]), ("sold", &["A-2".to_owned()][..]));
    let audit = store.audit().await.unwrap();
    assert!(audit.balanced && audit.products[0].sold == 1, "{audit:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Claim(Vec<(u8, Wanted)>),
    Cancel(u8),
    Buy(u8),
    Expire(Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let visitor = 0..5_u8;
    let choice = prop::sample::subsequence(LABELS.to_vec(), 1..=3).prop_shuffle();
    let wanted = prop_oneof![(1..=MOST).prop_map(Wanted::Any), choice.prop_map(|labels| chosen(&labels)),];
    let step = prop_oneof![
        4 => prop::collection::vec((visitor.clone(), wanted), 1..5).prop_map(Step::Claim),
        1 => visitor.clone().prop_map(Step::Cancel),
        1 => visitor.clone().prop_map(Step::Buy),
        1 => prop::collection::vec(visitor, 1..3).prop_map(Step::Expire),
    ];
    prop::collection::vec(step, 1..20)
}

/// What a visitor has: the reservation, its units, and whether they are bought.
type Own = (String, Vec<String>, bool);

/// The units that this wish is to be answered with; `None`: it is refused.
fn expected(free: &[&str], wanted: &Wanted) -> Option<Vec<String>> {
    match wanted {
        Wanted::Any(quantity) => {
            let quantity = usize::try_from(*quantity).unwrap();
            (free.len() >= quantity)
                .then(|| free[..quantity].iter().map(|label| (*label).to_owned()).collect())
        }
        Wanted::Chosen(labels) => {
            labels.iter().all(|label| free.contains(&label.as_str())).then(|| labels.clone())
        }
    }
}

async fn play(bench: &Bench, steps: Vec<Step>) {
    let store: Store = bench.open(&[seats(&LABELS)], settings()).await;
    let mut own = HashMap::<u8, Own>::new();
    for (turn, step) in steps.into_iter().enumerate() {
        match step {
            Step::Claim(claims) => {
                let sent: Vec<_> = claims
                    .iter()
                    .enumerate()
                    .map(|(index, (visitor, wanted))| {
                        let (store, wanted, visitor) = (store.clone(), wanted.clone(), visitor.to_string());
                        tokio::spawn(async move {
                            claim(&store, &visitor, &format!("{turn}-{index}"), wanted).await
                        })
                    })
                    .collect();
                for ((visitor, wanted), answer) in claims.iter().zip(sent) {
                    let answer = answer.await.unwrap();
                    let given: Vec<&String> = own.values().flat_map(|(_, units, _)| units).collect();
                    let free: Vec<&str> =
                        LABELS.into_iter().filter(|label| !given.iter().any(|one| one == label)).collect();
                    match (own.get(visitor), expected(&free, wanted)) {
                        (Some((_, _, true)), _) => assert_eq!(answer.text("code"), "already_bought"),
                        (Some((id, units, false)), _) => {
                            assert_eq!((answer.text("id"), &labels(&answer, "units")), (id.as_str(), units));
                        }
                        (None, None) => assert_eq!(answer.status, 409, "{answer:?}"),
                        (None, Some(mut units)) => {
                            assert_eq!(answer.status, 201, "{answer:?}");
                            let told = labels(&answer, "units");
                            // A back end may give those that came back after the others.
                            if let (Wanted::Any(_), Bench::Postgres { .. }) = (wanted, bench) {
                                let different: HashSet<&String> = told.iter().collect();
                                assert_eq!((told.len(), different.len()), (units.len(), units.len()));
                                assert!(
                                    told.iter().all(|label| free.contains(&label.as_str())),
                                    "{answer:?}"
                                );
                                units.clone_from(&told);
                            }
                            assert_eq!(told, units, "{answer:?}");
                            own.insert(*visitor, (answer.text("id").to_owned(), units, false));
                        }
                    }
                }
            }
            Step::Cancel(visitor) => {
                let Some((id, _, sold)) = own.get(&visitor) else { continue };
                let answer = store.cancel(visitor.to_string(), id.clone(), None).await.unwrap();
                assert_eq!(answer.status, if *sold { 409 } else { 204 });
                if !sold {
                    own.remove(&visitor);
                }
            }
            Step::Buy(visitor) => {
                let Some((id, _, sold)) = own.get_mut(&visitor).filter(|(_, _, sold)| !sold) else {
                    continue;
                };
                let key = super::bench::key(&visitor.to_string(), &format!("buy-{turn}"));
                let begun = store.begin(key, id.clone(), "any".into(), None).await.unwrap();
                let crate::store::Begun::Started(purchase) = begun else { panic!("{begun:?}") };
                store.report(purchase.clone(), Report::Authorised, None).await.unwrap();
                store.report(purchase, Report::Captured, None).await.unwrap();
                *sold = true;
            }
            Step::Expire(visitors) => {
                for visitor in visitors {
                    if let Some((id, _, sold)) = own.get(&visitor) {
                        bench.run_out(&[id]).await;
                        if !sold {
                            own.remove(&visitor);
                        }
                    }
                }
                store.sweep().await.unwrap();
            }
        }
        let audit = store.audit().await.unwrap();
        assert!(audit.balanced, "{audit:?}");
        let rows = bench
            .texts(
                "SELECT label || ' ' || state || ' ' || COALESCE(reservation_id, '-') FROM units ORDER BY number",
            )
            .await;
        let mut owners: BTreeMap<&str, (&str, &str)> = LABELS.map(|label| (label, ("free", "-"))).into();
        for (id, units, sold) in own.values() {
            for unit in units {
                owners.insert(unit, (if *sold { "sold" } else { "held" }, id));
            }
        }
        let meant: Vec<String> =
            LABELS.map(|label| format!("{label} {} {}", owners[label].0, owners[label].1)).into();
        assert_eq!(rows, meant);
    }
}

pub(super) fn any_sale_of_numbered_units_gives_each_to_one(bench: &Bench) {
    on_cases(bench.cases(), file!(), &steps(), |steps| block_on(play(&bench.another(), steps)));
}
