//! Files that are not what they should be.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};
use ropeline_queue::{Arrival, TickInput};

use crate::contract::{ManualClock, definition};
use crate::embedded::EmbeddedStore;
use crate::{Join, QueueStore, StoreError};

fn open(path: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(path, Arc::new(ManualClock::default()))
}

/// A file with a sale and some thousand visitors.
async fn filled(path: &Path) {
    let store = open(path).unwrap();
    let sale = "drop".parse().unwrap();
    store.create(definition("drop", 100).check().unwrap(), [1; 32]).await.unwrap();
    for batch in 0..40u32 {
        let joins = (0..50u32)
            .map(|n| {
                let mut key = [0; 16];
                key[..4].copy_from_slice(&(batch * 50 + n).to_le_bytes());
                Join::of(ropeline_queue::VisitorKey(key))
            })
            .collect();
        store.join(&sale, joins).await.unwrap();
    }
}

#[test]
fn a_file_that_is_open_cannot_be_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    let first = open(&path).unwrap();
    assert_eq!(open(&path).unwrap_err(), StoreError::InUse { path: path.clone() });
    drop(first);
    open(&path).unwrap();
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("queue.redb");
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn making_a_store_leaves_nothing_else_behind() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder.path().join("queue.redb")).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["queue.redb"]);
}

#[test]
fn a_newer_format_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    drop(open(&path).unwrap());
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    transaction.open_table(meta).unwrap().insert("format", 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(open(&path).unwrap_err(), StoreError::Format { path: path.clone(), found: 2, known: 1 });
}

#[test]
fn somebody_elses_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    let text = "dear diary, ".repeat(10_000);
    std::fs::write(&path, &text).unwrap();
    assert!(matches!(open(&path).unwrap_err(), StoreError::Damaged { .. }));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

    let path = folder.path().join("other.redb");
    drop(Database::create(&path).unwrap());
    assert!(matches!(open(&path).unwrap_err(), StoreError::Damaged { .. }));
}

#[tokio::test]
async fn a_file_cut_short_is_said_to_be_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    filled(&path).await;
    let whole = std::fs::read(&path).unwrap();
    // Nothing at all is damage, too: taken for a new store it would give its numbers out again.
    for eighths in 0..8 {
        let cut = folder.path().join(format!("cut-{eighths}.redb"));
        std::fs::write(&cut, &whole[..whole.len() / 8 * eighths]).unwrap();
        let error = open(&cut).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{eighths}/8 of the file: {error}");
    }
}

#[tokio::test]
async fn flipped_bits_are_found_or_harmless_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    filled(&path).await;
    let whole = std::fs::read(&path).unwrap();
    let bent = folder.path().join("bent.redb");
    let mut found = 0;
    for at in (0..whole.len()).step_by(whole.len() / 199) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        std::fs::write(&bent, &bytes).unwrap();
        match open(&bent) {
            // Free pages and old commits may hold anything.
            Ok(store) => {
                let view = store.view(&"drop".parse().unwrap()).await.unwrap();
                assert_eq!(view.next_arrival.0, 2_000, "byte {at}: visitors were lost without a word");
            }
            Err(StoreError::Damaged { .. }) => found += 1,
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(found > 0, "no flipped bit was ever found");
}

#[tokio::test]
async fn what_is_forgotten_is_gone_from_the_file() {
    const DAY: u64 = 24 * 3_600_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    filled(&path).await;
    let clock = Arc::new(ManualClock::default());
    let store = EmbeddedStore::open(&path, Arc::<ManualClock>::clone(&clock)).unwrap();
    let sale: ropeline_queue::SaleId = "drop".parse().unwrap();
    // All are called and claim or leave, a hundred at a time.
    for arrival in 0..2_000 {
        let view = store.tick(&sale, TickInput::default()).await.unwrap();
        let position = view.position(Arrival(arrival));
        if arrival % 3 > 0 {
            store.claim(&sale, position).await.unwrap().unwrap();
        }
        store.leave(&sale, position).await.unwrap().unwrap();
    }
    let late = Join::of(ropeline_queue::VisitorKey([9; 16]));
    for _ in 0..5 {
        clock.advance(DAY);
        store.tick(&sale, TickInput::default()).await.unwrap();
    }
    store.join(&sale, vec![late]).await.unwrap().remove(0).unwrap();
    drop(store);

    let database = Database::open(&path).unwrap();
    let transaction = database.begin_read().unwrap();
    let rows = |name| {
        let table = TableDefinition::<(&str, u64), &[u8]>::new(name);
        transaction.open_table(table).unwrap().len().unwrap()
    };
    let left = TableDefinition::<(&str, u64), ()>::new("left");
    let left = transaction.open_table(left).unwrap().len().unwrap();
    assert_eq!((rows("joins"), rows("admissions"), left), (1, 0, 0));
}
