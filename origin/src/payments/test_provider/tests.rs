use super::*;

async fn provider(dir: &tempfile::TempDir) -> TestProvider {
    let secret = WebhookSecret::new("whsec_0123456789abcdef").unwrap();
    TestProvider::open(&dir.path().join("payments.db"), secret, Duration::from_secs(3_600)).await.unwrap()
}

fn charge(purchase: &str, card: Card) -> Charge {
    Charge {
        purchase: purchase.into(),
        amount_minor: 100,
        currency: "EUR".into(),
        method: card.name().into(),
        reference: None,
    }
}

#[tokio::test]
async fn asking_again_does_the_work_once_and_a_lost_reply_is_told_the_second_time() {
    let dir = tempfile::tempdir().unwrap();
    let provider = provider(&dir).await;
    for card in [Card::LostReply, Card::Silent] {
        let charge = charge(card.name(), card);
        assert!(provider.authorise(&charge).await.is_err());
        assert_eq!(provider.authorise(&charge).await.unwrap(), Status::Authorised);
        assert!(provider.capture(&charge).await.is_err());
        assert_eq!(provider.capture(&charge).await.unwrap(), Status::Captured);
        assert_eq!(
            provider.void(&charge).await.unwrap(),
            Status::Captured,
            "what has moved cannot be voided"
        );
    }
    let mut books = provider.books.lock().await;
    let events: Vec<String> = sqlx::query_scalar("SELECT body ->> '$.type' FROM events ORDER BY rowid")
        .fetch_all(&mut *books)
        .await
        .unwrap();
    assert_eq!(
        events,
        ["payment.authorised", "payment.captured"],
        "one event for each step, and none for the silent card"
    );
}

#[tokio::test]
async fn the_books_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let first = provider(&dir).await;
    first.authorise(&charge("a", Card::Accepted)).await.unwrap();
    first.authorise(&charge("b", Card::Slow)).await.unwrap();
    first.authorise(&charge("c", Card::Declined)).await.unwrap();
    drop(first);
    let second = provider(&dir).await;
    assert_eq!(second.status(&charge("a", Card::Accepted)).await.unwrap(), Status::Authorised);
    assert_eq!(second.status(&charge("b", Card::Slow)).await.unwrap(), Status::Pending { redirect: None });
    assert_eq!(
        second.status(&charge("c", Card::Declined)).await.unwrap(),
        Status::Declined("The bank declined the card.".into())
    );
    assert_eq!(second.status(&charge("d", Card::Accepted)).await.unwrap(), Status::Unknown);
}

#[tokio::test]
async fn cards_are_known_by_name_and_number_and_others_are_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let provider = provider(&dir).await;
    for given in ["test_accepted", "4242 4242 4242 4242", "4242424242424242", "4242-4242-4242-4242"] {
        assert_eq!(provider.method(given).as_deref(), Ok("test_accepted"), "{given}");
    }
    for given in ["", "5555555555554444", "4242", "test_Accepted"] {
        let why = provider.method(given).unwrap_err();
        assert!(why.contains("test_accepted") && !why.contains("5555"), "{why}");
    }
    assert_eq!(provider.till().offers.len(), Card::ALL.len());
}

/// As on a full disk: SQLite ends the transaction by itself, behind the driver's back.
#[tokio::test]
async fn a_rollback_by_the_database_itself_does_not_end_all_payments() {
    let dir = tempfile::tempdir().unwrap();
    let provider = provider(&dir).await;
    sqlx::raw_sql(
        "CREATE TRIGGER disk_full BEFORE INSERT ON payments BEGIN SELECT RAISE(ROLLBACK, 'disk full'); END",
    )
    .execute(&mut *provider.books.lock().await)
    .await
    .unwrap();
    let charge = charge("a", Card::Accepted);
    assert!(provider.authorise(&charge).await.is_err());
    sqlx::raw_sql("DROP TRIGGER disk_full").execute(&mut *provider.books.lock().await).await.unwrap();
    assert_eq!(provider.authorise(&charge).await.unwrap(), Status::Authorised);
}
