//! What a checkpoint promises, wherever it is kept.

use std::sync::Arc;
use std::time::Duration;

use ropeline_queue::{JoinOptions, Queue, SaleId, UnixMillis, VisitorKey};

use super::{BLOCK, Checkpoint, Known};
use crate::StoreError;
use crate::contract::definition;
use crate::redis::RedisCheckpoint;

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

fn sale() -> SaleId {
    "drop".parse().unwrap()
}

fn queue() -> Queue {
    Queue::create(definition("drop", 10).check().unwrap(), [1; 32], NOW)
}

fn join(queue: &mut Queue, who: std::ops::Range<u64>) {
    for who in who {
        queue.join(VisitorKey(u128::from(who + 1).to_le_bytes()), JoinOptions::default(), NOW).unwrap();
    }
}

/// Below which number all may have been given, as it is written down.
fn given(reach: &impl serde::Serialize) -> u64 {
    serde_json::to_value(reach).unwrap()["next_arrival"].as_u64().unwrap()
}

fn open(place: &RedisCheckpoint) -> Checkpoint {
    Checkpoint::new(place, Duration::from_secs(10)).unwrap()
}

/// One test of all, because a database takes its time to start.
async fn keeps_its_promises(place: &RedisCheckpoint) {
    let (one, two) = (open(place), open(place));
    assert_eq!(one.generation(&sale()).await.unwrap(), 0);
    assert!(one.read(&sale()).await.unwrap().is_none());

    // Ahead of use, in blocks.
    let mut queue = queue();
    let mark = one.reach(&sale(), 1, Known::of(&queue)).await.unwrap();
    assert_eq!((mark.generation, given(&mark.reach)), (1, 0));
    join(&mut queue, 0..1);
    let mark = one.reach(&sale(), 1, Known::of(&queue)).await.unwrap();
    assert_eq!(given(&mark.reach), 1 + BLOCK);
    join(&mut queue, 1..100);
    let same = two.reach(&sale(), 1, Known::of(&queue)).await.unwrap();
    assert_eq!(same, mark, "a block is enough for all gateways");
    join(&mut queue, 100..2 + BLOCK);
    let mark = two.reach(&sale(), 1, Known::of(&queue)).await.unwrap();
    assert_eq!(given(&mark.reach), 2 + 2 * BLOCK);

    // A newer generation passes over all that the older ones may have given, which get no further.
    let known = Known::of(&self::queue());
    let newer = one.reach(&sale(), 2, known).await.unwrap();
    assert_eq!(given(&newer.floor), given(&mark.reach));
    let refused = two.reach(&sale(), 1, Known::of(&queue)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    assert_eq!(two.generation(&sale()).await.unwrap(), 2);

    // It is read by whoever comes later.
    let (generation, read) = open(place).read(&sale()).await.unwrap().unwrap();
    assert_eq!((generation, read.definition()), (2, queue.definition()));
    assert_eq!(one.generation(&"other".parse().unwrap()).await.unwrap(), 0);

    // Of many at once each sees what the one before it has written.
    let checkpoints: Vec<_> = (0..4).map(|_| Arc::new(open(place))).collect();
    let mut tasks = Vec::new();
    for step in 0..40u64 {
        let checkpoint = Arc::clone(&checkpoints[usize::try_from(step % 4).unwrap()]);
        tasks.push(tokio::spawn(async move {
            let mut queue = self::queue();
            join(&mut queue, 0..step + 1);
            checkpoint.reach(&"raced".parse().unwrap(), 1, Known::of(&queue)).await.unwrap()
        }));
    }
    let mut marks = Vec::new();
    for task in tasks {
        marks.push(given(&task.await.unwrap().reach));
    }
    marks.dedup();
    assert_eq!(marks.len(), 1, "a block was taken twice: {marks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    Box::pin(keeps_its_promises(&RedisCheckpoint::Folder(folder.path().join("new")))).await;
}

#[cfg(feature = "postgres")]
mod in_postgres {
    use ropeline_test_postgres::Postgres;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_database_keeps_its_promises() {
        // As strict as an operator may have set it up.
        let server = Postgres::start_with(&[("default_transaction_isolation", "repeatable read")]);
        Box::pin(keeps_its_promises(&RedisCheckpoint::Postgres(server.create("sales")))).await;
        // Where the user may not make tables.
        let url = server.create("bare");
        server.psql("bare", "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE USER gateway");
        let url = url.replace("postgres@", "gateway@");
        let checkpoint = open(&RedisCheckpoint::Postgres(url.clone()));
        let refused = checkpoint.generation(&sale()).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
        let page = include_str!("postgres.rs");
        let (_, sql) = page.split_once("//! ```sql\n").unwrap();
        let sql = sql.split_once("//! ```").unwrap().0.replace("//!", "").replace("the_user", "gateway");
        server.psql("bare", &sql);
        Box::pin(keeps_its_promises(&RedisCheckpoint::Postgres(url))).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_database_that_does_not_answer_is_not_waited_for_for_long() {
        let server = Postgres::start();
        let place = RedisCheckpoint::Postgres(server.create("sales"));
        open(&place).reach(&sale(), 1, Known::of(&queue())).await.unwrap();
        let impatient = Checkpoint::new(&place, Duration::from_millis(300)).unwrap();
        server.pause();
        let refused = impatient.reach(&sale(), 2, Known::of(&queue())).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    }

    #[test]
    fn an_address_that_makes_no_sense_names_no_password() {
        let place = RedisCheckpoint::Postgres("postgres://who:s3cret@host:port/x".into());
        let refused = Checkpoint::new(&place, Duration::from_secs(1)).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("s3cret"), "{refused}");
    }
}
