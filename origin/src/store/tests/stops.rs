//! Products whose books do not add up.

use super::bench::{Bench, claim, counted, held, product, settings};
use super::sale::begun;
use crate::checkout::{Payment, Report};
use crate::model::Kind;
use crate::store::{ProductSeed, Resumed, SeedStock, Settings, Wanted};

pub(super) async fn a_product_whose_books_differ_is_stopped_until_they_add_up(bench: &Bench) {
    let other = ProductSeed { product: product("walker", Kind::Count), stock: SeedStock::Count(5) };
    let settings = Settings { sinks: vec!["hook".into()], ..settings() };
    let store = bench.open(&[counted(5), other], settings).await;
    let id = held(&store, "ann", 2).await;
    assert!(store.guard().await.unwrap().balanced);
    assert_eq!(store.resume("runner").await.unwrap(), Resumed::Running);
    assert_eq!(store.resume("none").await.unwrap(), Resumed::Unknown);

    bench.run(&format!("UPDATE reservations SET quantity = 1 WHERE id = '{id}'")).await;
    for _ in 0..2 {
        let audit = store.guard().await.unwrap();
        assert!(!audit.balanced, "{audit:?}");
        let states: Vec<_> = audit.products.iter().map(|one| (one.balanced, one.stopped)).collect();
        assert_eq!(states, [(false, true), (true, false)], "the other product goes on");
        let [runner, walker] = &audit.products[..] else { panic!("{audit:?}") };
        let says = |what: &str| runner.differs.iter().any(|one| one.contains(what));
        assert!(says("held = 2, the reservations say 1") || says("its reservations held = 1"), "{audit:?}");
        assert!(walker.differs.is_empty(), "{audit:?}");
    }
    let refused = claim(&store, "bob", "k", Wanted::Any(1)).await;
    assert_eq!((refused.status, refused.text("code")), (503, "product_stopped"));
    assert!(refused.is_passing(), "the same key may try again");
    assert_eq!(claim(&store, "ann", "again", Wanted::Any(1)).await.text("id"), id, "who has a hold keeps it");
    assert!(store.product("runner", "bob").await.unwrap().unwrap().stopped);
    assert_eq!(store.resume("runner").await.unwrap(), Resumed::Unbalanced);
    let told = bench.texts("SELECT kind FROM outbox WHERE aggregate = 'runner' ORDER BY seq").await;
    assert_eq!(told, ["product.stopped"], "once");

    bench.run(&format!("UPDATE reservations SET quantity = 2 WHERE id = '{id}'")).await;
    assert!(store.guard().await.unwrap().balanced);
    assert_eq!(claim(&store, "bob", "k", Wanted::Any(1)).await.status, 503, "nobody said that it goes on");
    assert_eq!(store.resume("runner").await.unwrap(), Resumed::Resumed);
    assert_eq!(claim(&store, "bob", "k", Wanted::Any(1)).await.status, 201);

    bench.run(&format!("UPDATE reservations SET quantity = 1 WHERE id = '{id}'")).await;
    store.guard().await.unwrap();
    let seqs =
        bench.texts("SELECT CAST(seq AS TEXT) FROM outbox WHERE aggregate = 'runner' ORDER BY seq").await;
    assert_eq!(seqs, ["1", "2"]);
}

pub(super) async fn a_unit_that_is_not_set_aside_is_not_sold_until_the_books_are_mended(bench: &Bench) {
    let labels = ["A-1", "A-2", "A-3"].map(str::to_owned).to_vec();
    let seats = ProductSeed { product: product("runner", Kind::Units), stock: SeedStock::Units(labels) };
    let settings = Settings { sinks: vec!["hook".into()], ..settings() };
    let store = bench.open(&[seats], settings).await;
    let choose = |label: &str| Wanted::Chosen(vec![label.to_owned()]);
    let ann = claim(&store, "ann", "k", choose("A-1")).await.text("id").to_owned();
    let bob = claim(&store, "bob", "k", choose("A-2")).await.text("id").to_owned();
    let purchase = begun(&store, "ann", &ann).await;
    store.report(purchase.clone(), Report::Authorised, None).await.unwrap();
    let theirs = begun(&store, "bob", &bob).await;
    assert!(store.guard().await.unwrap().balanced);

    // The counts are right, and the unit is not: two reservations say that it is theirs.
    bench.run(&format!("UPDATE units SET reservation_id = '{bob}' WHERE label = 'A-1'")).await;
    let waits = store.report(purchase.clone(), Report::Captured, None).await.unwrap().unwrap();
    assert_eq!(waits.state, Payment::Capturing, "it was told that it is sold");
    let other = store.report(theirs, Report::Captured, None).await.unwrap().unwrap();
    assert_eq!(other.state, Payment::Sold, "whose unit is set aside is sold it");
    let told = bench.texts("SELECT kind FROM outbox ORDER BY created_at").await;
    assert_eq!(told, ["purchase.sold"]);
    let audit = store.guard().await.unwrap();
    assert!(!audit.balanced && audit.products[0].stopped, "{audit:?}");
    assert_eq!(claim(&store, "cid", "k", choose("A-3")).await.text("code"), "product_stopped");

    bench
        .run(&format!("UPDATE units SET reservation_id = '{ann}', state = 'held' WHERE label = 'A-1'"))
        .await;
    let sold = store.report(purchase, Report::Captured, None).await.unwrap().unwrap();
    assert_eq!(sold.state, Payment::Sold, "what was paid for is told as soon as it can be");
    assert!(store.guard().await.unwrap().balanced);
    assert_eq!(store.resume("runner").await.unwrap(), Resumed::Resumed);
    assert_eq!(claim(&store, "cid", "k", choose("A-3")).await.status, 201);
}
