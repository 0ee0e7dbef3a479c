//! One sale, as one gateway serves it.
//!
//! The calls that wait are run together on the gateway's replica, after it has heard what the others have committed, and
//! what they change is committed if nobody was faster; else it is taken back and run again on what the others have done.
//! Calls that arrive meanwhile make up the next batch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ropeline_queue::{Arrival, Changes, PutBack, Queue, SaleId, UnixMillis, Update};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::checkpoint::{Floor, Known, Mark};
use super::entry::{self, Nonce};
use super::keys;
use super::loss::PutBacks;
use super::replica::Replica;
use super::report::Counts;
use super::spread::{Done, Spreading};
use super::standing::{Standing, Status, Turn, unreadable};
use super::writes::Writes;
use crate::StoreError;
use crate::clock::{Steady, wall_ms};

/// Calls that may wait; further callers wait for room.
pub(super) const INBOX: usize = 4_096;

/// Joins in one batch, each other call counting for one: bounds the time the first of them waits.
const BATCH: usize = 4_096;

/// Entries and bytes of the log: what a gateway may fall behind without reading the whole sale again.
const LOG_ENTRIES: &str = "4096";
const LOG_BYTES: &str = "4194304";

/// How often a batch is run before it is given back to its callers. Who was too late once has a turn the next time.
const ATTEMPTS: usize = 32;

/// Visitors, and as many of what became of them, that are put back in one commit.
const PUT_BACK: usize = 65_536;

/// Words of a commit up to which more groups are moved with it: the server takes a million. A group adds a quarter of that at
/// most.
const MOST_WORDS: usize = 65_536;

/// How long those before this gateway may take each until it asks again.
const TURN: Duration = Duration::from_millis(1);

/// `TURN_MS` of the scripts.
const LONGEST_TURN: Duration = Duration::from_millis(250);

/// A call that can be run more than once and is answered once.
pub(super) trait Call: Send {
    /// About how many visitors it is about.
    fn weight(&self) -> usize;
    /// It has mostly something to commit.
    fn writes(&self) -> bool;
    /// Asks the queue and keeps what it says.
    fn run(&mut self, queue: &mut Queue, now: UnixMillis);
    /// Tells the caller what the queue said last, or that it came to nothing.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// A call made of a function.
pub(super) struct Work<T, W> {
    weight: usize,
    writes: bool,
    work: W,
    said: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

// === impl Work ===

impl<T: Send + 'static, W: FnMut(&mut Queue, UnixMillis) -> T + Send + 'static> Work<T, W> {
    /// A call, and where its answer comes.
    pub(super) fn call(
        weight: usize,
        writes: bool,
        work: W,
    ) -> (Box<dyn Call>, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { weight, writes, work, said: None, reply }), answer)
    }
}

impl<T: Send, W: FnMut(&mut Queue, UnixMillis) -> T + Send> Call for Work<T, W> {
    fn weight(&self) -> usize {
        self.weight
    }

    fn writes(&self) -> bool {
        self.writes
    }

    fn run(&mut self, queue: &mut Queue, now: UnixMillis) {
        self.said = Some((self.work)(queue, now));
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let unasked = || StoreError::Unavailable { reason: "the call was not run".into() };
        let Self { said, reply, .. } = *self;
        // A caller who has gone away needs no answer; the work is done all the same.
        let _ = reply.send(outcome.and_then(|()| said.ok_or_else(unasked)));
    }
}

type Inbox = mpsc::Receiver<Box<dyn Call>>;

/// Calls that are run together.
#[derive(Default)]
struct Batch {
    calls: Vec<Box<dyn Call>>,
    weight: usize,
    writes: bool,
}

// === impl Batch ===

impl Batch {
    fn add(&mut self, call: Box<dyn Call>) {
        self.weight += call.weight();
        self.writes |= call.writes();
        self.calls.push(call);
    }

    /// Adds what is waiting, as far as there is room.
    fn fill(&mut self, inbox: &mut Inbox) {
        while self.weight < BATCH
            && let Ok(next) = inbox.try_recv()
        {
            self.add(next);
        }
    }
}

/// What was true before another gateway went on from less, as far as it is not yet put back.
struct Former {
    queue: Queue,
    /// The next number to put back.
    from: Arrival,
}

/// Serves one sale for as long as anybody may call.
pub(super) struct Sale {
    pub(super) id: SaleId,
    pub(super) shared: Arc<Shared>,
    pub(super) replica: Option<Replica>,
    /// What went another way than the server has, and may know of visitors that the server has lost. The latest is last.
    former: Vec<Former>,
    /// Since when the server knows nothing of the sale, and neither does this gateway.
    pub(super) lost: Option<Instant>,
    pub(super) put_backs: PutBacks,
    /// What the checkpoint is known to allow.
    marked: Mark,
    /// The server has failed or refused what was asked of it last. Until something is committed, each batch commits something,
    /// whatever its calls change: where nothing can be written, who ticks and changes nothing is told the same as who joins.
    unproven: bool,
    clock: Option<Steady>,
    /// What this gateway is called on the list of turns.
    pub(super) name: String,
    /// It may be on that list.
    waiting: bool,
    /// Where it was on that list when it was last told.
    turn: Option<Turn>,
    pub(super) spreading: Spreading,
}

// === impl Sale ===

impl Sale {
    pub(super) fn new(id: SaleId, shared: Arc<Shared>, name: String) -> Self {
        Self {
            id,
            shared,
            replica: None,
            former: Vec::new(),
            lost: None,
            put_backs: PutBacks::default(),
            marked: Mark::default(),
            unproven: false,
            clock: None,
            name,
            waiting: false,
            turn: None,
            spreading: Spreading::default(),
        }
    }

    /// Serves calls until every sender is gone, or the sale turns out not to exist.
    pub(super) async fn run(mut self, mut inbox: Inbox) {
        while let Some(first) = inbox.recv().await {
            let mut batch = Batch::default();
            batch.add(first);
            // On the heap: it is larger than a task may be.
            let outcome = Box::pin(self.serve(&mut batch, &mut inbox)).await;
            let unknown = matches!(outcome, Err(StoreError::UnknownSale(_)));
            // Anybody can ask for a sale that does not exist.
            if let Err(error) = &outcome
                && !unknown
            {
                tracing::debug!(sale = %self.id, %error, "calls came to nothing");
            }
            if matches!(outcome, Err(StoreError::Newer { place: keys::IN_REDIS, .. })) {
                // What this gateway knows is no more than what the sale once was: nothing of it is to be put back.
                self.replica = None;
                self.former.clear();
            }
            if outcome.is_err() && !unknown && !self.shared.link.is_connected() {
                // Who waited behind them has waited for the same server.
                while let Ok(call) = inbox.try_recv() {
                    batch.add(call);
                }
            }
            for call in batch.calls {
                call.answer(outcome.clone());
            }
            if unknown {
                inbox.close();
                while let Some(call) = inbox.recv().await {
                    call.answer(Err(StoreError::UnknownSale(self.id.clone())));
                }
                return;
            }
            // Whatever became of the batch: those behind this gateway do not wait for its next one.
            if std::mem::take(&mut self.waiting) {
                self.end_turn().await;
            }
            self.spread().await;
        }
    }

    /// Runs the batch on what all gateways have done, and commits what it changes.
    async fn serve(&mut self, batch: &mut Batch, inbox: &mut Inbox) -> Result<(), StoreError> {
        self.shared.agree().await?;
        let mut now = self.catch_up(batch, inbox).await?;
        for _ in 0..ATTEMPTS {
            let Some(replica) = &mut self.replica else { return Err(unreadable("everything")) };
            let orders = replica.queue.core().orders();
            if !self.marked.is_of(replica.generation, &replica.line) {
                reach(&self.shared, &self.id, replica, orders, &mut self.marked).await?;
            }
            let forgotten = replica.queue.forgotten();
            replica.queue.begin();
            // A panic is a fault of ours in one call. The replica may then be half changed, Redis is not.
            let ran = catch_unwind(AssertUnwindSafe(|| {
                self.marked.floor.pass(&mut replica.queue, now);
                let mut put_back = PutBack::default();
                if let Some(Former { queue, from }) = self.former.last() {
                    // Who went on from less may have been told neither what was ordered nor who was called.
                    Floor::known_to(queue).pass(&mut replica.queue, now);
                    put_back = replica.queue.reenter_from(queue, *from, PUT_BACK, now);
                    let PutBack { visitors, admissions, .. } = put_back;
                    tracing::warn!(sale = %self.id, visitors, admissions, "put back what the server had lost");
                }
                // Nobody who is yet to be put back is to be taken for a stranger.
                let all = put_back.next.is_none() && self.former.len() <= 1;
                if all {
                    for call in &mut batch.calls {
                        call.run(&mut replica.queue, now);
                    }
                }
                (replica.queue.take_changes(), put_back.next, all)
            }));
            let Ok((mut changes, next, all)) = ran else {
                self.replica = None;
                return Err(fault());
            };
            // What was ordered in a commit that failed is settled by the next one, even where nothing else is new.
            changes.core |= self.unproven || self.marked.reach.has_later_orders(replica.queue.core());
            let moves = self.spreading.done(replica);
            if changes.is_empty() && moves.is_none() {
                replica.queue.keep();
                self.went_on(next);
                if all {
                    return Ok(());
                }
                continue;
            }
            if let Err(error) = reach(&self.shared, &self.id, replica, orders, &mut self.marked).await {
                // The server is as it was: who needs nothing of the checkpoint goes on.
                replica.queue.undo();
                return Err(error);
            }
            let nonce = nonce()?;
            let mut writes = Writes::new(&self.id, &replica.base, &replica.spread, &changes, &forgotten);
            match moves {
                Some(Done::Copied { groups, again }) => {
                    let mut spread = replica.spread.clone();
                    for copied in groups.iter().filter(|copied| *again || !replica.spread.has(copied.group)) {
                        writes.moved(copied.group, &copied.copies, &replica.queue);
                        spread = spread.with(copied.group, &copied.digest);
                        // The others are moved again, for which their copies are there.
                        if writes.words.len() > MOST_WORDS {
                            break;
                        }
                    }
                    writes.spread = Some(spread);
                }
                Some(Done::Removed(group)) => writes.spread = Some(replica.spread.without(*group)),
                Some(Done::Looked(..)) | None => {}
            }
            let (spread, moving) = (writes.spread.clone(), moves.is_some());
            let committed = commit(&self.shared, replica, &self.name, &changes, nonce, writes, None).await;
            let standing = match committed {
                Ok(standing) => standing,
                Err(error) => {
                    // Whether it took effect is seen in the log by the next batch.
                    replica.queue.undo();
                    self.unproven = true;
                    if moving {
                        self.spreading.failed();
                    }
                    return Err(error);
                }
            };
            let counts = &self.shared.counts;
            if standing.status == Status::Done {
                self.unproven = false;
                counts.waited(let_pass(self.turn.take(), replica));
                replica.queue.keep();
                replica.version += 1;
                if let Some(spread) = spread {
                    replica.spread = spread;
                    self.spreading.over();
                }
                self.spreading.filled |= changes.joins.iter().any(|join| keys::ends_group(join.arrival));
                self.went_on(next);
                self.waiting = false;
                if all {
                    return Ok(());
                }
                now = self.catch_up(batch, inbox).await?;
                continue;
            }
            self.waiting = true;
            if standing.status == Status::Since {
                let (update, nonces) = standing.update()?;
                if nonces.first() == Some(&nonce) {
                    // It was sent twice, and took effect the first time.
                    self.unproven = false;
                    counts.waited(let_pass(self.turn.take(), replica));
                    replica.queue.keep();
                    self.take_in(&standing, update)?;
                    if spread.is_some() {
                        self.spreading.over();
                    }
                    self.went_on(next);
                    if all {
                        return Ok(());
                    }
                    now = self.catch_up(batch, inbox).await?;
                    continue;
                }
                Counts::one(&counts.conflicts);
                replica.queue.undo();
                self.heard_of_turn(standing.turn);
                if !standing.moved() && self.turn.is_some_and(|turn| turn.before == 0) {
                    now = self.now(standing.now_ms);
                    self.take_in(&standing, update)?;
                    continue;
                }
            } else {
                Counts::one(&counts.conflicts);
                replica.queue.undo();
                self.heard_of_turn(standing.turn);
            }
            now = self.catch_up(batch, inbox).await?;
        }
        Err(StoreError::Unavailable { reason: "other gateways were faster each time".into() })
    }

    /// What was to be put back from there on is put back up to `next`.
    fn went_on(&mut self, next: Option<Arrival>) {
        match (self.former.last_mut(), next) {
            (Some(former), Some(next)) => former.from = next,
            _ => drop(self.former.pop()),
        }
    }

    /// Hears of everything that was committed before this, and answers with the time. If the batch is to be committed and
    /// others wait for that, they come first.
    async fn catch_up(&mut self, batch: &mut Batch, inbox: &mut Inbox) -> Result<UnixMillis, StoreError> {
        let (mut attempts, mut queued_at) = (0, None);
        while attempts < ATTEMPTS {
            // Whatever was called before Redis is asked is answered with all that was true by then.
            batch.fill(inbox);
            let waits = batch.writes || self.waiting || self.spreading.is_done();
            let asked = self.ask(if waits { "wait" } else { "" }, "").await;
            // Nor do those who know what is missed reach the server then.
            let standing = asked.inspect_err(|_| {
                self.spreading.missed = None;
                self.unproven = true;
            })?;
            if standing.status != Status::None {
                self.lost = None;
            }
            let current = match standing.status {
                Status::None if self.replica.is_none() && !self.remember(&standing).await? => {
                    return Err(StoreError::UnknownSale(self.id.clone()));
                }
                Status::None | Status::Behind => {
                    self.put_back(&standing, false).await?;
                    false
                }
                Status::Load => {
                    self.load(&standing).await?;
                    false
                }
                Status::Far => {
                    self.replica = None;
                    false
                }
                Status::Other => {
                    let former = self.replica.take().map(|replica| replica.queue);
                    self.former.extend(former.map(|queue| Former { queue, from: Arrival(0) }));
                    false
                }
                Status::Since => {
                    let (update, _) = standing.update()?;
                    self.take_in(&standing, update)?;
                    true
                }
                Status::Same | Status::Done => true,
            };
            if !current {
                attempts += 1;
            } else if standing.moved() {
                attempts += 1;
                self.begin_line().await?;
            } else {
                self.spreading.want(&standing.wanted);
                self.heard_of_turn(standing.turn);
                self.waiting = self.turn.is_some();
                match self.turn {
                    Some(Turn { before: before @ 1.., .. }) if waits => {
                        let queued_at: &mut Instant = queued_at.get_or_insert_with(Instant::now);
                        if queued_at.elapsed() > self.shared.link.patience() {
                            let reason = "the gateways before this one take too long".to_owned();
                            return Err(StoreError::Unavailable { reason });
                        }
                        sleep(TURN * u32::try_from(before).unwrap_or(1)).await;
                    }
                    _ => return Ok(self.now(standing.now_ms)),
                }
            }
        }
        Err(StoreError::Unavailable { reason: "the sale does not come to rest".into() })
    }

    /// What was missed, and whose turn it is.
    pub(super) async fn ask(&self, wish: &str, wanted: &str) -> Result<Standing, StoreError> {
        let Shared { link, scripts, .. } = &*self.shared;
        let (line, version) =
            self.replica.as_ref().map_or(("", 0), |replica| (&*replica.line, replica.version));
        let keys = [keys::head(&self.id), keys::log(&self.id)];
        link.run(&scripts.sync, &keys, &[line, &version.to_string(), &self.name, wish, wanted]).await
    }

    /// Takes note of where this gateway is on the list of turns.
    fn heard_of_turn(&mut self, turn: Option<Turn>) {
        let since = |turn: Option<Turn>| turn.map(|turn| turn.since);
        if self.turn.is_some() && since(self.turn) != since(turn) {
            Counts::one(&self.shared.counts.turns_lost);
        }
        self.turn = turn;
    }

    /// There is nothing to commit after all. If this is not heard in time, the turn has ended by itself.
    async fn end_turn(&mut self) {
        self.turn = None;
        if let Ok(Ok(standing)) = timeout(LONGEST_TURN, self.ask("end", "")).await
            && standing.status == Status::Since
            && !standing.moved()
            && let Ok((update, _)) = standing.update()
            && self.take_in(&standing, update).is_err()
        {
            // It is read anew.
            self.replica = None;
        }
    }

    /// The store's time, from a reading of the server's clock. The sale itself and this machine's clock bear witness to the
    /// first: a gateway may start while the server's is set wrong.
    pub(super) fn now(&mut self, server_ms: u64) -> UnixMillis {
        if let Some(given) = &self.shared.clock {
            return given.now();
        }
        let read_at = Instant::now();
        let replica = self.replica.as_ref();
        let clock = self.clock.get_or_insert_with(|| {
            let witness = replica.map_or(0, |replica| replica.queue.core().last_now().0).max(wall_ms());
            Steady::witnessed(server_ms, witness, read_at)
        });
        UnixMillis(clock.read(server_ms, read_at))
    }

    /// Takes in what others have committed.
    fn take_in(&mut self, standing: &Standing, update: Update) -> Result<(), StoreError> {
        let spread = standing.spread()?;
        let Some(replica) = &mut self.replica else { return Ok(()) };
        replica.queue.apply(update);
        replica.version = standing.version;
        replica.generation = standing.generation;
        replica.line.clone_from(&standing.line);
        replica.base.clone_from(&standing.base);
        replica.head_run.clone_from(&standing.head_run);
        if let Some(spread) = spread {
            replica.spread = spread;
        }
        Ok(())
    }
}

/// Commits of others since this gateway has asked for its turn, where the batch was committed on what the replica is.
fn let_pass(turn: Option<Turn>, replica: &Replica) -> u64 {
    turn.map_or(0, |turn| replica.version.saturating_sub(turn.since))
}

/// Has the checkpoint allow what is about to be committed after a version that had so many `orders`.
async fn reach(
    shared: &Shared,
    sale: &SaleId,
    replica: &Replica,
    orders: u64,
    marked: &mut Mark,
) -> Result<(), StoreError> {
    let Some(checkpoint) = &shared.checkpoint else { return Ok(()) };
    let Replica { queue, generation, line, version, .. } = replica;
    if !marked.is_of(*generation, line) || !marked.allows(queue, *version, orders) {
        *marked = checkpoint.reach(sale, *generation, Known::after(line, *version, orders, queue)).await?;
    }
    Ok(())
}

/// What begins with a commit after the server has changed.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) generation: u64,
}

/// Tries to commit what the batch has changed.
pub(super) async fn commit(
    shared: &Shared,
    replica: &Replica,
    gateway: &str,
    changes: &Changes,
    nonce: Nonce,
    writes: Writes<'_>,
    begins: Option<&Line>,
) -> Result<Standing, StoreError> {
    let queue = &replica.queue;
    let definition = if changes.definition { document(&**queue.definition())? } else { Vec::new() };
    let (line, generation) =
        begins.map_or_else(Default::default, |line| (line.name.clone(), line.generation.to_string()));
    let mut args = vec![
        replica.line.clone().into_bytes(),
        replica.version.to_string().into_bytes(),
        entry::encode(nonce, changes),
        document(queue.core())?,
        definition,
        line.into_bytes(),
        generation.into_bytes(),
        replica.head_run.clone().into_bytes(),
        LOG_ENTRIES.into(),
        LOG_BYTES.into(),
        gateway.into(),
        writes.spread.as_ref().map_or_else(|| Ok(Vec::new()), document)?,
    ];
    args.extend(writes.words);
    shared.link.run_surely(&shared.scripts.commit, &writes.keys, &args).await
}

/// A panic, which is a fault of ours.
pub(super) fn fault() -> StoreError {
    StoreError::Unavailable { reason: "a fault in Ropeline, see the panic before this".into() }
}

/// A document as it is kept.
pub(super) fn document(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError::Unavailable { reason: error.to_string() })
}

/// Bytes that nobody else has.
pub(super) fn nonce() -> Result<Nonce, StoreError> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(|error| StoreError::Unavailable { reason: error.to_string() })?;
    Ok(nonce)
}

/// A name that nobody else has.
pub(super) fn name() -> Result<String, StoreError> {
    nonce().map(|bytes| ropeline_queue::hex(&bytes))
}
