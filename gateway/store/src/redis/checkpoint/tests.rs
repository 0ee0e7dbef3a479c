//! What a checkpoint promises, wherever it is kept.

use std::sync::Arc;
use std::time::Duration;

use ropeline_queue::{
    Command, JoinOptions, LaneDefinition, Queue, SaleId, TickInput, UnixMillis, VisitorKey,
};

use super::{BLOCK, Checkpoint, Known, Mark};
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

/// Asks for `queue` to go as far as it has, in a line of that generation.
async fn reach(
    checkpoint: &Checkpoint,
    generation: u64,
    line: &str,
    queue: &Queue,
) -> Result<Mark, StoreError> {
    checkpoint.reach(&sale(), generation, Known::of(line, generation, queue)).await
}

/// The sale may be committed as it is.
fn allows(mark: &Mark, queue: &Queue) -> bool {
    mark.allows(queue, 1, queue.core().orders())
}

fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
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
    assert!(one.read(&sale(), NOW).await.unwrap().is_none());

    // Ahead of use, in blocks.
    let mut queue = queue();
    let mark = reach(&one, 1, "a", &queue).await.unwrap();
    assert_eq!((mark.generation, given(&mark.reach)), (1, 0));
    join(&mut queue, 0..1);
    let mark = reach(&one, 1, "a", &queue).await.unwrap();
    assert_eq!(given(&mark.reach), 1 + BLOCK);
    join(&mut queue, 1..100);
    let same = reach(&two, 1, "a", &queue).await.unwrap();
    assert_eq!(same, mark, "a block is enough for all gateways");
    assert!(allows(&mark, &queue) && mark.is_of(1, "a"));
    join(&mut queue, 100..2 + BLOCK);
    assert!(!allows(&mark, &queue), "a block has an end");
    let mark = reach(&two, 1, "a", &queue).await.unwrap();
    assert_eq!(given(&mark.reach), 2 + 2 * BLOCK);
    refused(reach(&one, 1, "b", &queue).await);

    // A newer generation passes over all that the older ones may have given, which get no further.
    let next = one.reserve(&sale(), 1, Known::of("a", 1, &queue)).await.unwrap();
    let other = two.reserve(&sale(), 1, Known::of("a", 1, &queue)).await.unwrap();
    assert_eq!((next, other), (2, 3), "two servers go on in one generation");
    let same = reach(&two, 1, "a", &queue).await.unwrap();
    assert_eq!(same, mark, "who only means to begin ends nothing");
    let newer = reach(&one, next, "b", &self::queue()).await.unwrap();
    assert_eq!(given(&newer.floor), given(&mark.reach));
    refused(reach(&two, 1, "a", &queue).await);
    let newest = reach(&two, other, "c", &self::queue()).await.unwrap();
    assert_eq!(given(&newest.floor), given(&newer.reach));
    refused(reach(&one, next, "b", &queue).await);
    assert_eq!(two.reserve(&sale(), 1, Known::of("a", 1, &queue)).await.unwrap(), 4);

    // It is read by whoever comes later.
    let (generation, read) = open(place).read(&sale(), NOW).await.unwrap().unwrap();
    assert_eq!((generation, read.definition()), (3, queue.definition()));
    assert!(one.read(&"other".parse().unwrap(), NOW).await.unwrap().is_none());
    // Whoever does not know of the sale learns of it; of one that was merely asked for there is nothing to learn.
    assert_eq!(one.mark(&sale()).await.unwrap(), None);
    for mark in [7, u64::MAX] {
        one.leave_mark(&sale(), mark).await.unwrap();
        assert_eq!(two.mark(&sale()).await.unwrap(), Some(mark));
    }
    // All know it by one name, which is no sale's.
    let name = one.name().await.unwrap();
    assert_eq!((name.len(), open(place).name().await.unwrap()), (32, name));
    assert!(open(place).sales().await.unwrap().into_iter().eq([sale()]));

    // Of many at once each sees what the one before it has written.
    let checkpoints: Vec<_> = (0..4).map(|_| Arc::new(open(place))).collect();
    let mut tasks = Vec::new();
    for step in 0..40u64 {
        let checkpoint = Arc::clone(&checkpoints[usize::try_from(step % 4).unwrap()]);
        tasks.push(tokio::spawn(async move {
            let mut queue = self::queue();
            join(&mut queue, 0..step + 1);
            checkpoint.reach(&"raced".parse().unwrap(), 1, Known::of("a", 1, &queue)).await.unwrap()
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
    let place = RedisCheckpoint::Folder(folder.path().to_path_buf());
    Box::pin(keeps_its_promises(&place)).await;
    Box::pin(keeps_what_was_ordered(&place)).await;
    Box::pin(is_not_held_up(&place, refused)).await;
}

/// What an operator has ordered is written down, though no number was given since.
async fn keeps_what_was_ordered(place: &RedisCheckpoint) {
    let (checkpoint, id) = (open(place), "ordered".parse::<SaleId>().unwrap());
    let mut queue = Queue::create(definition("ordered", 10).check().unwrap(), [1; 32], NOW);
    let mark = checkpoint.reach(&id, 1, Known::of("a", 1, &queue)).await.unwrap();
    assert!(allows(&mark, &queue));
    let mut raw = definition("ordered", 10);
    raw.claim_window_ms += 1_000;
    queue.change(raw.check().unwrap(), None, NOW).unwrap();
    assert!(!allows(&mark, &queue), "a change is not written down");
    let mark = checkpoint.reach(&id, 1, Known::of("a", 1, &queue)).await.unwrap();
    assert!(allows(&mark, &queue));
    let mut mark = mark;
    for command in [Command::Revoke, Command::SoldOut, Command::Restock, Command::Close] {
        queue.command(&command, NOW).unwrap();
        assert!(!allows(&mark, &queue), "{command:?} is not written down");
        mark = checkpoint.reach(&id, 1, Known::of("a", 1, &queue)).await.unwrap();
        assert!(allows(&mark, &queue));
    }
    let (_, read) = open(place).read(&id, NOW).await.unwrap().unwrap();
    assert_eq!(read.definition(), queue.definition());
    assert_eq!(read.view(NOW).phase, queue.view(NOW).phase);
}

/// What was ordered last counts until it is known to have come to nothing, with the sale that it was ordered in.
#[tokio::test]
async fn an_order_that_came_to_nothing_is_taken_back_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(&RedisCheckpoint::Folder(folder.path().to_path_buf()));
    let mut raw = definition("drop", 10);
    raw.joins_open_at = Some(NOW.plus(60_000));
    let queue = Queue::create(raw.clone().check().unwrap(), [1; 32], NOW);
    let reach = async |version: u64, queue: &Queue| {
        checkpoint.reach(&sale(), 1, Known::after("a", version, 0, queue)).await.unwrap()
    };
    let lanes = async || {
        let read = checkpoint.read(&sale(), NOW).await.unwrap().unwrap().1;
        let lanes = read.definition().lanes.len().max(1);
        assert_eq!(lanes, read.view(NOW).lines.count(), "they are of two times");
        lanes
    };
    reach(1, &queue).await;
    let mut ordered = Queue::create(raw.clone().check().unwrap(), [1; 32], NOW);
    let lane = |name: &str, share, invitation| LaneDefinition {
        name: name.parse().unwrap(),
        title: String::new(),
        share,
        invitation,
    };
    raw.lanes = vec![lane("members", 60, true), lane("all", 40, false)];
    ordered.change(raw.check().unwrap(), None, NOW).unwrap();

    // To be committed as the second version; it is not known yet what became of that.
    let mark = reach(1, &ordered).await;
    assert!(mark.allows(&ordered, 1, 0));
    assert!(!reach(1, &queue).await.allows(&queue, 1, 0));
    assert_eq!(lanes().await, 2);
    // Another one was committed as that. Who tries again has to write it down again.
    assert!(!mark.allows(&ordered, 2, 0), "it may have been taken back");
    reach(2, &ordered).await;
    assert!(!reach(2, &queue).await.allows(&queue, 2, 0), "what is under way is taken back");
    assert_eq!(lanes().await, 2);
    assert!(reach(3, &queue).await.allows(&queue, 3, 0), "each commit asks from now on");
    assert_eq!(lanes().await, 1);
    // Before a generation begins that would be told of it.
    reach(3, &ordered).await;
    assert_eq!(lanes().await, 2);
    checkpoint.reserve(&sale(), 1, Known::of("b", 9, &queue)).await.unwrap();
    assert_eq!(lanes().await, 2, "of another line nothing is known");
    checkpoint.reserve(&sale(), 1, Known::of("a", 4, &queue)).await.unwrap();
    assert_eq!(lanes().await, 1);
    // Committed, it stays.
    reach(4, &ordered).await;
    checkpoint.reserve(&sale(), 1, Known::of("a", 5, &ordered)).await.unwrap();
    assert!(checkpoint.reach(&sale(), 1, Known::of("a", 9, &ordered)).await.unwrap().allows(&ordered, 9, 1));
    assert_eq!(lanes().await, 2);
}

#[tokio::test]
async fn an_order_that_leaves_no_trace_is_settled_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(&RedisCheckpoint::Folder(folder.path().to_path_buf()));
    let (mut queue, mut ordered) = (queue(), queue());
    for queue in [&mut queue, &mut ordered] {
        queue.tick(TickInput::default(), NOW);
    }
    let orders = queue.core().orders();
    ordered.command(&Command::Resume, NOW).unwrap();
    let mark = checkpoint.reach(&sale(), 1, Known::after("a", 1, orders, &ordered)).await.unwrap();
    assert!(mark.allows(&ordered, 1, orders));
    assert!(!mark.allows(&queue, 2, orders), "it is never taken back");
    let mark = checkpoint.reach(&sale(), 1, Known::of("a", 2, &queue)).await.unwrap();
    assert!(mark.allows(&queue, 2, orders) && !mark.reach.has_later_orders(queue.core()));
}

/// A gateway that stops while it has the lock holds nobody up for good.
async fn is_not_held_up(place: &RedisCheckpoint, check: impl FnOnce(Result<(), StoreError>)) {
    let id: SaleId = "held".parse().unwrap();
    let impatient = || Checkpoint::new(place, Duration::from_secs(2)).unwrap();
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let (stopped, sale) = (impatient(), id.clone());
    let held = tokio::spawn(async move {
        let look = move |_| {
            locked.send(()).unwrap();
            // As long as the other one waits.
            let _ = goes_on.recv();
            Ok((None, ()))
        };
        let _ = stopped.look(&sale, look).await;
    });
    tokio::task::spawn_blocking(move || is_locked.recv().unwrap()).await.unwrap();
    let waits = match place {
        RedisCheckpoint::Folder(_) => impatient(),
        #[cfg(feature = "postgres")]
        RedisCheckpoint::Postgres(_) => open(place),
    };
    // Longer than either is patient. The other one lets go after that alone.
    let waited = tokio::time::timeout(Duration::from_secs(60), waits.look(&id, |_| Ok((None, ())))).await;
    drop(go_on);
    check(waited.expect("it is held up"));
    held.await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().join("mount");
    let refused = reach(&open(&RedisCheckpoint::Folder(mount.clone())), 1, "a", &queue()).await.unwrap_err();
    assert!(refused.to_string().contains("mounted"), "{refused}");
    assert!(!mount.exists());
}

#[tokio::test]
async fn nobody_else_may_read_the_secret_of_a_draw() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let draft = folder.path().join("drop.new");
    std::fs::write(&draft, "of one that was killed").unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o644)).unwrap();
    reach(&open(&RedisCheckpoint::Folder(folder.path().to_path_buf())), 1, "a", &queue()).await.unwrap();
    for name in ["drop.json", "drop.lock"] {
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[cfg(feature = "postgres")]
mod in_postgres {
    use ropeline_test_postgres::Postgres;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_database_keeps_its_promises() {
        // As strict as an operator may have set it up.
        let server = Postgres::start_with(&[("default_transaction_isolation", "repeatable read")]);
        let place = RedisCheckpoint::Postgres(server.create("sales"));
        Box::pin(keeps_its_promises(&place)).await;
        Box::pin(is_not_held_up(&place, Result::unwrap)).await;
        // Where the user may not make tables.
        let url = server.create("bare");
        server.psql("bare", "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE USER gateway");
        let url = url.replace("postgres@", "gateway@");
        let checkpoint = open(&RedisCheckpoint::Postgres(url.clone()));
        refused(checkpoint.read(&sale(), NOW).await.map(drop));
        let page = include_str!("postgres.rs");
        let (_, sql) = page.split_once("//! ```sql\n").unwrap();
        let sql = sql.split_once("//! ```").unwrap().0.replace("//!", "").replace("the_user", "gateway");
        server.psql("bare", &sql);
        Box::pin(keeps_its_promises(&RedisCheckpoint::Postgres(url))).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_mark_outlives_a_database_that_is_set_up_to_forget_what_came_last() {
        // Nobody else writes it to the disk in time.
        let mut server =
            Postgres::start_with(&[("synchronous_commit", "off"), ("wal_writer_delay", "10000ms")]);
        let checkpoint = open(&RedisCheckpoint::Postgres(server.create("sales")));
        for mark in 1..=3 {
            checkpoint.leave_mark(&sale(), mark).await.unwrap();
        }
        server.kill();
        server.launch();
        let again = open(&RedisCheckpoint::Postgres(server.url("sales")));
        assert_eq!(again.mark(&sale()).await.unwrap(), Some(3));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_database_that_does_not_answer_is_not_waited_for_for_long() {
        let server = Postgres::start();
        let place = RedisCheckpoint::Postgres(server.create("sales"));
        reach(&open(&place), 1, "a", &queue()).await.unwrap();
        let impatient = Checkpoint::new(&place, Duration::from_millis(300)).unwrap();
        server.pause();
        refused(reach(&impatient, 2, "b", &queue()).await);
    }

    #[test]
    fn an_address_that_makes_no_sense_names_no_password() {
        let place = RedisCheckpoint::Postgres("postgres://who:s3cret@host:port/x".into());
        let refused = Checkpoint::new(&place, Duration::from_secs(1)).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("s3cret"), "{refused}");
    }
}
