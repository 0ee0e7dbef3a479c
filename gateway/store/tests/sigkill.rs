//! A store killed at any instant: what it had answered is still true.
//!
//! The test runs itself as a child that joins, ticks and claims without pause and prints each
//! answer it gets. The parent kills it without warning, again and again, over one file.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what broke by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ropeline_queue::{Arrival, Pace, RawDefinition, SaleId, TickInput, VisitorKey};
use ropeline_store::{EmbeddedStore, Join, QueueStore, StoreError, SystemClock};

const ROUNDS: u32 = 40;
const FILE: &str = "ROPELINE_SIGKILL_FILE";
/// Lines of answers begin with it; the test harness prints lines of its own.
const MARK: &str = "answer ";

fn sale() -> SaleId {
    "drop".parse().unwrap()
}

fn join(who: u64) -> Join {
    Join::of(VisitorKey((u128::from(who) << 64 | 1).to_le_bytes()))
}

/// What the children were answered, over all rounds. The lines of one round come in any order, as
/// several callers print them; between rounds the order is certain.
#[derive(Default)]
struct History {
    round: u32,
    /// Visitor → arrival, and the round that first said so.
    arrivals: HashMap<u64, (u64, u32)>,
    holders: HashMap<u64, u64>,
    /// Arrival → when its admission ends.
    claims: BTreeMap<u64, u64>,
    /// Serving and next arrival at most, up to the round before this one and up to now.
    before: (u64, u64),
    so_far: (u64, u64),
    answers: u64,
}

// === impl History ===

impl History {
    fn take(&mut self, line: &str) {
        self.answers += 1;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "join" => {
                let (who, arrival, new) = (number(1), number(2), words[3] == "true");
                let (known, since) = *self.arrivals.entry(who).or_insert((arrival, self.round));
                assert_eq!(known, arrival, "visitor {who} was given another number");
                assert!(!new || since == self.round, "visitor {who} was forgotten");
                let holder = *self.holders.entry(arrival).or_insert(who);
                assert_eq!(holder, who, "arrival {arrival} was given to two visitors");
            }
            "claim" => {
                let (arrival, expires_at) = (number(1), number(2));
                let known = *self.claims.entry(arrival).or_insert(expires_at);
                assert_eq!(known, expires_at, "the admission of arrival {arrival} changed");
            }
            "tick" => {
                let (serving, next_arrival) = (number(1), number(2));
                assert!(serving >= self.before.0, "serving went back to {serving}");
                assert!(next_arrival >= self.before.1, "numbers went back to {next_arrival}");
                self.so_far = (self.so_far.0.max(serving), self.so_far.1.max(next_arrival));
            }
            other => panic!("the child said {other}"),
        }
    }
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_killed_store_keeps_all_it_has_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    let random = RandomState::new();
    let mut history = History::default();
    for round in 0..ROUNDS {
        (history.round, history.before) = (round, history.so_far);
        let mut child = spawn(&path);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // The first answer says that it has opened the file; some rounds die while opening it.
        let mut text = String::new();
        if round % 4 != 3 {
            while !text.contains(MARK) {
                assert!(output.read_line(&mut text).unwrap() > 0, "the child ended by itself: {text}");
            }
        }
        std::thread::sleep(Duration::from_micros(random.hash_one(round) % 60_000));
        child.kill().unwrap();
        output.read_to_string(&mut text).unwrap();
        assert!(!child.wait().unwrap().success(), "the child ended by itself: {text}");
        // The last line may be cut off: then nobody was answered.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines().filter_map(|line| line.split_once(MARK)) {
            history.take(line.1);
        }
    }

    let store = EmbeddedStore::open(&path, Arc::new(SystemClock::new())).unwrap();
    let view = store.view(&sale()).await.unwrap();
    assert!(view.serving.0 >= history.so_far.0 && view.next_arrival.0 >= history.so_far.1);
    for (who, (arrival, _)) in &history.arrivals {
        let joined = store.join(&sale(), vec![join(*who)]).await.unwrap().remove(0).unwrap();
        assert_eq!((joined.arrival, joined.new), (Arrival(*arrival), false), "visitor {who}");
    }
    for (arrival, expires_at) in &history.claims {
        let claimed = store.claim(&sale(), view.position(Arrival(*arrival))).await.unwrap().unwrap();
        assert_eq!(claimed.expires_at.0, *expires_at, "the admission of arrival {arrival}");
    }
    println!(
        "{ROUNDS} kills: {} answers, {} visitors, {} admissions, none lost",
        history.answers,
        history.arrivals.len(),
        history.claims.len()
    );
    assert!(
        history.arrivals.len() > 100 && history.claims.len() > 10,
        "too little happened to prove anything"
    );
}

/// Works until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of the test above, which runs it"]
async fn child() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let store = Arc::new(EmbeddedStore::open(path, Arc::new(SystemClock::new())).unwrap());
    let mut raw = RawDefinition::new(sale(), 1_000_000);
    raw.pace = Pace::Smooth { admit: 2_000, per_ms: 1_000, burst: 400 };
    match store.create(raw.check().unwrap(), [3; 32]).await {
        Ok(()) | Err(StoreError::SaleExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
    let mut tasks = Vec::new();
    for worker in 0..6u64 {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            let random = RandomState::new();
            for step in 0u64.. {
                work(&store, random.hash_one(worker << 32 | step)).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

async fn work(store: &EmbeddedStore, dice: u64) {
    let mut said = String::new();
    match dice % 4 {
        kind @ (0 | 1) => {
            // Half of them are well known, half are likely new.
            let range = [500, 5_000_000][usize::from(kind == 1)];
            let who: Vec<u64> =
                (0..1 + dice / 4 % 30).map(|step| (dice >> 16).wrapping_add(step * 7) % range).collect();
            let answers = store.join(&sale(), who.iter().copied().map(join).collect()).await.unwrap();
            for (who, joined) in who.into_iter().zip(answers) {
                let joined = joined.unwrap();
                said += &format!("{MARK}join {who} {} {}\n", joined.arrival, joined.new);
            }
        }
        2 => {
            let view = store.tick(&sale(), TickInput::default()).await.unwrap();
            said += &format!("{MARK}tick {} {}\n", view.serving, view.next_arrival);
        }
        _ => {
            let view = store.view(&sale()).await.unwrap();
            if view.serving.0 == 0 {
                return;
            }
            let arrival = (dice >> 16) % view.serving.0;
            if let Ok(claimed) = store.claim(&sale(), view.position(Arrival(arrival))).await.unwrap() {
                said += &format!("{MARK}claim {arrival} {}\n", claimed.expires_at);
            }
        }
    }
    let mut out = std::io::stdout().lock();
    out.write_all(said.as_bytes()).and_then(|()| out.flush()).unwrap();
}
