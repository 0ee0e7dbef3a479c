//! The books are opened by one service at a time, and never in place of lost ones.

use std::path::PathBuf;

use ropeline_origin::Origin;

use crate::common::Shop;

impl Shop {
    /// Why a further service on these books does not start.
    async fn refusal(&self) -> String {
        Origin::bind(self.raw.clone().check().unwrap()).await.unwrap_err().to_string()
    }

    /// The books of the payments.
    fn payments_file(&self) -> PathBuf {
        self.raw.database.with_file_name("shop.db-payments")
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

/// What shoppers bought, and where they are written to.
#[tokio::test]
async fn books_are_read_by_nobody_else_on_the_machine() {
    use std::os::unix::fs::PermissionsExt;
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    assert_eq!(shop.pay("ann", "k", &held, "test_accepted").await.status, 201);
    for suffix in ["", "-wal", "-shm", "-payments", "-payments-wal"] {
        let file = shop.raw.database.with_file_name(format!("shop.db{suffix}"));
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", file.display());
    }
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

#[tokio::test]
async fn lost_payments_are_not_taken_for_none() {
    let mut shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    assert_eq!(shop.pay("ann", "k", &held, "test_accepted").await.status, 201);
    shop.close().await;
    let (payments, kept) = (shop.payments_file(), shop.raw.database.with_extension("kept"));
    std::fs::rename(&payments, &kept).unwrap();
    let missing = shop.refusal().await;
    assert!(missing.contains("shop.db-payments is missing") && missing.contains("restore"), "{missing}");
    assert!(!payments.exists(), "a refusal makes no books");
    std::fs::write(&payments, "").unwrap();
    let empty = shop.refusal().await;
    assert!(empty.contains("missing or empty"), "{empty}");
    std::fs::rename(&kept, &payments).unwrap();
    shop.reopen().await;
    assert_eq!(shop.stock().await, (0, 0, 1));
}

#[tokio::test]
async fn a_shop_that_was_stopped_before_its_first_sale_needs_no_payments() {
    let mut shop = Shop::open(1).await;
    shop.held("ann").await;
    shop.close().await;
    std::fs::remove_file(shop.payments_file()).unwrap();
    shop.reopen().await;
    assert_eq!(shop.stock().await, (0, 1, 0));
}
