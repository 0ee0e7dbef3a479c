//! What is told of the books, to whom, in which order.

use serde_json::Value;

use super::bench::{Bench, counted, held, key, settings};
use super::sale::begun;
use crate::checkout::Report;
use crate::store::{Settings, Store};

/// Goes through every outcome that is told of; the reservations, each with its events in their order.
async fn outcomes(bench: &Bench, store: &Store) -> Vec<(String, Vec<&'static str>)> {
    let mut told = Vec::new();
    let mut pay = async |visitor: &str, reports: &[Report], kinds: &[&'static str]| {
        let id = held(store, visitor, 1).await;
        let purchase = begun(store, visitor, &id).await;
        for report in reports {
            // Twice: a report that says nothing new is not told again.
            store.report(purchase.clone(), *report, None).await.unwrap();
            store.report(purchase.clone(), *report, None).await.unwrap();
        }
        told.push((id, kinds.to_vec()));
    };
    pay("sold", &[Report::Authorised, Report::Captured], &["purchase.sold"]).await;
    pay("declined", &[Report::Declined], &["purchase.declined"]).await;
    pay("voided", &[Report::Authorised, Report::CaptureRefused, Report::Voided], &["purchase.voided"]).await;
    let id = held(store, "late", 1).await;
    let purchase = begun(store, "late", &id).await;
    store.cancel("late".into(), id.clone(), Some(key("late", "cancel"))).await.unwrap();
    store.cancel("late".into(), id.clone(), None).await.unwrap();
    store.report(purchase.clone(), Report::Captured, None).await.unwrap();
    store.report(purchase, Report::Refunded, None).await.unwrap();
    told.push((id, vec!["reservation.cancelled", "purchase.refunded"]));
    let id = held(store, "slow", 1).await;
    let purchase = begun(store, "slow", &id).await;
    bench.run_out(&[&id]).await;
    store.sweep().await.unwrap();
    store.report(purchase.clone(), Report::Authorised, None).await.unwrap();
    store.report(purchase, Report::Voided, None).await.unwrap();
    told.push((id, vec!["reservation.expired", "purchase.voided"]));
    // Its time was over, and it was given back: that is no news, but the money does not buy it after that.
    let id = held(store, "both", 1).await;
    let purchase = begun(store, "both", &id).await;
    bench.run_out(&[&id]).await;
    store.sweep().await.unwrap();
    store.cancel("both".into(), id.clone(), Some(key("both", "cancel"))).await.unwrap();
    store.report(purchase.clone(), Report::Captured, None).await.unwrap();
    store.report(purchase, Report::Refunded, None).await.unwrap();
    told.push((id, vec!["reservation.expired", "purchase.refunded"]));
    let id = held(store, "still holding", 1).await;
    told.push((id, vec![]));
    told
}

pub(super) async fn every_outcome_is_told_once_to_each_sink_in_order(bench: &Bench) {
    let sinks = vec!["redis".to_owned(), "hook".to_owned()];
    let store = bench.open(&[counted(9)], Settings { sinks: sinks.clone(), ..settings() }).await;
    for (id, kinds) in outcomes(bench, &store).await {
        for sink in &sinks {
            let rows = |column: &str| {
                let sql = format!(
                    "SELECT {column} FROM outbox WHERE aggregate = '{id}' AND sink = '{sink}' ORDER BY seq"
                );
                async move { bench.texts(&sql).await }
            };
            assert_eq!(rows("kind").await, kinds, "{id}");
            let seqs: Vec<String> = (1..=kinds.len()).map(|seq| seq.to_string()).collect();
            assert_eq!(rows("CAST(seq AS TEXT)").await, seqs);
            for payload in rows("payload").await {
                let payload: Value = serde_json::from_str(&payload).unwrap();
                let of = payload["purchase"].get("reservation").unwrap_or(&payload["reservation"]);
                assert_eq!(of["id"], *id, "{payload}");
            }
        }
    }
    let ids = bench.texts("SELECT id FROM outbox ORDER BY sink, aggregate, seq").await;
    let (ours, theirs) = ids.split_at(ids.len() / 2);
    assert_eq!(ours, theirs, "one event has one name, whoever is told");
    let names: std::collections::HashSet<&String> = ours.iter().collect();
    assert_eq!(names.len(), ours.len());
}

pub(super) async fn nobody_is_told_where_nobody_listens(bench: &Bench) {
    let store = bench.open(&[counted(9)], settings()).await;
    outcomes(bench, &store).await;
    assert_eq!(bench.number("SELECT COUNT(*) FROM outbox").await, 0);
}
