//! The books are opened by one service at a time, and never in place of lost ones.

use ropeline_origin::Origin;

use crate::common::Shop;

impl Shop {
    /// Why a further service on these books does not start.
    async fn refusal(&self) -> String {
        Origin::bind(self.raw.clone().check().unwrap()).await.unwrap_err().to_string()
    }
}

#[tokio::test]
async fn a_second_service_on_the_same_books_does_not_start() {
    let mut shop = Shop::open(1).await;
    let refusal = shop.refusal().await;
    assert!(refusal.contains("shop.db is in use") && refusal.contains("shop.db-lock"), "{refusal}");
    shop.reopen().await;
    shop.held("ann").await;
}

#[tokio::test]
async fn lost_books_are_not_taken_for_new_ones() {
    let mut shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    assert_eq!(shop.pay("ann", "k", &held, "test_accepted").await.status, 201);
    shop.close().await;
    let kept = shop.raw.database.with_extension("kept");
    std::fs::rename(&shop.raw.database, &kept).unwrap();
    let missing = shop.refusal().await;
    assert!(missing.contains("is missing") && missing.contains("restore"), "{missing}");
    assert!(!shop.raw.database.exists(), "a refusal makes no books");
    std::fs::write(&shop.raw.database, "").unwrap();
    let empty = shop.refusal().await;
    assert!(empty.contains("is empty") && empty.contains("restore"), "{empty}");
    std::fs::rename(&kept, &shop.raw.database).unwrap();
    shop.reopen().await;
    assert_eq!(shop.stock().await, (0, 0, 1));
}
