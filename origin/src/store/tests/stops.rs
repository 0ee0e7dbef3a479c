//! Products whose books do not add up.

use super::bench::{Bench, claim, counted, held, product, settings};
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
