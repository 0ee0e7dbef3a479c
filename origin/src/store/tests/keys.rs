//! Calls in flight on several nodes, and what is noted of them.

use super::bench::{Bench, counted, held, key, settings};
use super::sale::begun;
use crate::answer::Answer;
use crate::checkout::Report;
use crate::store::{Begun, Event, KeyUse, Settings};

pub(super) async fn a_key_in_flight_is_left_to_its_node_until_the_lease_is_over(bench: &Bench) {
    let here = bench.open(&[counted(3)], settings()).await;
    let there = bench.open(&[counted(3)], Settings { node: "there".into(), ..settings() }).await;
    let id = held(&here, "ann", 1).await;
    let pay = || (key("ann", "pay"), id.clone(), "any".to_owned());
    let purchase = begun(&here, "ann", &id).await;
    let (word, hold, method) = pay();
    let there_too = there.begin(word, hold, method, None).await.unwrap();
    assert_eq!(there_too, Begun::Answered(Answer::in_flight()));
    let other = KeyUse { fingerprint: [2; 32], ..key("ann", "pay") };
    let other = there.begin(other, id.clone(), "other".into(), None).await.unwrap();
    assert_eq!(other, Begun::Answered(Answer::key_reused()), "whatever the lease");
    let (word, hold, method) = pay();
    let again = here.begin(word, hold, method, None).await.unwrap();
    assert_eq!(again, Begun::Started(purchase.clone()), "its own node is not in its own way");

    bench.run("UPDATE idempotency_keys SET lease_until = 1 WHERE lease_until IS NOT NULL").await;
    let (word, hold, method) = pay();
    let over = there.begin(word, hold, method, None).await.unwrap();
    assert_eq!(over, Begun::Started(purchase.clone()), "the same purchase goes on");
    let (word, hold, method) = pay();
    let late = here.begin(word, hold, method, None).await.unwrap();
    assert_eq!(late, Begun::Answered(Answer::in_flight()), "the lease is the other node's now");

    let sold = there.report(purchase, Report::Captured, None).await.unwrap().unwrap();
    let first = there.finish(key("ann", "pay"), Answer::purchased(&sold)).await.unwrap();
    let second = here.finish(key("ann", "pay"), Answer::unavailable()).await.unwrap();
    assert_eq!((first.status, &second), (201, &first), "the first answer is kept");
    let (word, hold, method) = pay();
    assert_eq!(here.begin(word, hold, method, None).await.unwrap(), Begun::Answered(first));
    assert_eq!(bench.number("SELECT COUNT(*) FROM purchases").await, 1);
}

/// The other node is dead, so nobody will keep its answer; the reconciler has settled the payment.
pub(super) async fn a_settled_purchase_is_answered_whatever_the_lease(bench: &Bench) {
    let here = bench.open(&[counted(1)], settings()).await;
    let there = bench.open(&[counted(1)], Settings { node: "there".into(), ..settings() }).await;
    let id = held(&here, "ann", 1).await;
    let purchase = begun(&here, "ann", &id).await;
    there.report(purchase.clone(), Report::Captured, None).await.unwrap();
    let other = KeyUse { fingerprint: [2; 32], ..key("ann", "pay") };
    let other = there.begin(other, id.clone(), "other".into(), None).await.unwrap();
    assert_eq!(other, Begun::Answered(Answer::key_reused()));
    let again = there.begin(key("ann", "pay"), id, "any".into(), None).await.unwrap();
    assert_eq!(again, Begun::Started(purchase));
}

/// What was written while the clock was an hour ahead waits for nobody once it is set right.
pub(super) async fn a_clock_that_is_set_back_leaves_no_payment_waiting(bench: &Bench) {
    let here = bench.open(&[counted(1)], settings()).await;
    let there = bench.open(&[counted(1)], Settings { node: "there".into(), ..settings() }).await;
    let id = held(&here, "ann", 1).await;
    let purchase = begun(&here, "ann", &id).await;
    assert_eq!(here.unsettled(60_000).await.unwrap(), Vec::<String>::new(), "somebody is at it");
    bench
        .run("UPDATE idempotency_keys SET lease_until = lease_until + 3600000 WHERE lease_until IS NOT NULL")
        .await;
    bench.run("UPDATE purchases SET changed_at = changed_at + 3600000").await;
    assert_eq!(there.unsettled(60_000).await.unwrap(), std::slice::from_ref(&purchase));
    let again = there.begin(key("ann", "pay"), id, "any".into(), None).await.unwrap();
    assert_eq!(again, Begun::Started(purchase));
}

pub(super) async fn answers_are_forgotten_after_three_days_but_no_call_that_is_under_way(bench: &Bench) {
    let store = bench.open(&[counted(2)], settings()).await;
    let id = held(&store, "ann", 1).await;
    let purchase = begun(&store, "ann", &id).await;
    bench.run("UPDATE idempotency_keys SET created_at = created_at - 259000000").await;
    store.sweep().await.unwrap();
    assert_eq!(bench.number("SELECT COUNT(*) FROM idempotency_keys").await, 2);
    bench.run("UPDATE idempotency_keys SET created_at = created_at - 400000").await;
    store.sweep().await.unwrap();
    assert_eq!(bench.number("SELECT COUNT(*) FROM idempotency_keys").await, 1, "the hold's is forgotten");
    let again = store.begin(key("ann", "pay"), id, "any".into(), None).await.unwrap();
    assert_eq!(again, Begun::Started(purchase), "a payment that takes so long has its key yet");
}

pub(super) async fn events_are_forgotten_after_thirty_days(bench: &Bench) {
    let store = bench.open(&[counted(1)], settings()).await;
    let event = |id: &str| Event {
        id: id.into(),
        kind: "any".into(),
        purchase: "pur_none".into(),
        report: None,
        reason: None,
    };
    for (id, age) in [("evt_old", 2_593_000_000_i64), ("evt_new", 2_591_000_000)] {
        store.event(event(id)).await.unwrap();
        bench
            .run(&format!("UPDATE payment_events SET received_at = received_at - {age} WHERE id = '{id}'"))
            .await;
    }
    store.sweep().await.unwrap();
    assert_eq!(bench.number("SELECT COUNT(*) FROM payment_events WHERE id = 'evt_new'").await, 1);
    assert_eq!(bench.number("SELECT COUNT(*) FROM payment_events").await, 1);
}

pub(super) async fn what_the_payment_service_calls_a_purchase_is_kept(bench: &Bench) {
    let store = bench.open(&[counted(1)], settings()).await;
    let id = held(&store, "ann", 1).await;
    let purchase = begun(&store, "ann", &id).await;
    let (name, page) = ("pi_1".to_owned(), "https://bank.example/confirm".to_owned());
    store.note(purchase.clone(), Some(name.clone()), Some(page.clone())).await.unwrap();
    let noted = store.any_purchase(&purchase).await.unwrap().unwrap();
    assert_eq!((noted.provider_ref, noted.redirect_url), (Some(name.clone()), Some(page)));
    let sold = store.report(purchase.clone(), Report::Captured, None).await.unwrap().unwrap();
    assert_eq!(
        (sold.provider_ref, sold.redirect_url),
        (Some(name), None),
        "there is nothing to confirm any more"
    );
    assert_eq!(store.note("pur_none".into(), None, None).await.unwrap(), None);
}
