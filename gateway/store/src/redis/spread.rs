//! The joins of a large sale, spread over the nodes of a cluster.
//!
//! All that a commit writes is in one slot, so that one script writes it. What is joined long ago hardly changes: when all
//! numbers of a [`GROUP`](keys::GROUP) of chunks have been given, they are copied into a slot of the group's own, and a
//! commit then says so and drops them from the sale's, both at once. A copy never changes: it is written where there is none,
//! and whatever the queue says otherwise when the group is moved, or later, is kept beside the admissions. So a step may be
//! done twice and by any gateway, and one that stops between two leaves a copy that the next one takes as it is. The head has
//! a digest of each group's copies: what is found there is what was meant, or is missing.
//!
//! A node may lose copies where the sale is not. The gateways look for them in turn, a group a second, whatever there is of
//! them, and put back what they know. Whoever reads the sale and misses a group asks for it; if nobody knows it, its visitors
//! are passed over as after any other loss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Cmd;
use ropeline_queue::{Arrival, JoinRecord, Queue, SaleId, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use super::keys;
use super::link::Link;
use super::replica::Replica;
use super::sale::Sale;
use super::standing::Standing;
use crate::StoreError;
use crate::records::{JOIN_BYTES, read_join, write_join};

/// How long whoever filled a group has it to itself.
const OWN: Duration = Duration::from_secs(5);

/// How often copies are looked for, and how soon after something has failed.
const LOOK: Duration = Duration::from_secs(1);

/// Each failure doubles that, up to so many.
const MOST_FAILURES: u32 = 6;

/// Groups that are copied in one step, and committed together.
const AT_ONCE: usize = 4;

/// How long the others have to put back what a node has lost, until it is taken for lost.
const MISSED_FOR: Duration = Duration::from_secs(10);

/// The groups that have a slot of their own, with a digest of their copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Spread(BTreeMap<u64, String>);

// === impl Spread ===

impl Spread {
    pub(super) fn has(&self, group: u64) -> bool {
        self.0.contains_key(&group)
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// The copies are those of the group.
    fn is(&self, group: u64, copies: &[Option<Vec<u8>>]) -> bool {
        let whole: Option<Vec<&Vec<u8>>> = copies.iter().map(Option::as_ref).collect();
        whole.is_some_and(|whole| self.0.get(&group).is_some_and(|known| *known == digest(whole)))
    }

    /// Groups of which something else is true there.
    pub(super) fn differing(&self, other: &Self) -> BTreeSet<u64> {
        let groups = self.0.keys().chain(other.0.keys()).copied();
        groups.filter(|group| self.0.get(group) != other.0.get(group)).collect()
    }

    pub(super) fn with(&self, group: u64, digest: &str) -> Self {
        let mut spread = self.clone();
        spread.0.insert(group, digest.to_owned());
        spread
    }

    pub(super) fn without(&self, group: u64) -> Self {
        let mut spread = self.clone();
        spread.0.remove(&group);
        spread
    }
}

fn digest<'c>(copies: impl IntoIterator<Item = &'c Vec<u8>>) -> String {
    let mut hash = Sha256::new();
    for copy in copies {
        hash.update(copy.len().to_le_bytes());
        hash.update(copy);
    }
    hex(&hash.finalize()[..8])
}

/// What a record in a chunk says, if not that the number is nobody's.
pub(super) fn given(arrival: Arrival, record: &[u8]) -> Option<JoinRecord> {
    record.iter().any(|byte| *byte != 0).then(|| read_join(arrival, record))
}

/// The chunks of a group, of what a gateway knows of it now.
pub(super) fn packed(queue: &Queue, group: u64) -> Vec<Vec<u8>> {
    let pack = |chunk: u64| {
        let mut bytes = Vec::new();
        for (at, arrival) in (chunk * keys::CHUNK..(chunk + 1) * keys::CHUNK).enumerate() {
            if let Some(record) = queue.holder(Arrival(arrival)) {
                bytes.resize((at + 1) * JOIN_BYTES, 0);
                write_join(&mut bytes[at * JOIN_BYTES..], &record);
            }
        }
        bytes
    };
    keys::chunks(group).map(pack).collect()
}

/// Groups of which all numbers have been given to visitors, and not all been forgotten.
pub(super) fn full(queue: &Queue) -> impl Iterator<Item = u64> + use<> {
    let forgotten = queue.forgotten();
    let given = queue.core().arrivals().into_iter();
    given.flat_map(move |range| {
        let full = range.start..keys::arrivals(keys::group(range.end)).start;
        keys::kept(&full, keys::GROUP * keys::CHUNK, &forgotten)
    })
}

/// The full groups of which nobody is missing since a loss. Whoever shows up after the copies are made is kept beside them, in
/// several times the memory.
pub(super) fn whole(queue: &Queue) -> impl Iterator<Item = u64> {
    full(queue).filter(|group| !queue.misses_any(&keys::arrivals(*group)))
}

fn is_forgotten(queue: &Queue, group: u64) -> bool {
    let arrivals = keys::arrivals(group);
    queue.forgotten().iter().any(|range| range.start <= arrivals.start && arrivals.end <= range.end)
}

/// Something to be done elsewhere than in the sale's slot.
pub(super) enum Step {
    /// The chunks of some groups are to have slots of their own, or had them and may be lost.
    Copy { groups: Vec<(u64, Vec<Vec<u8>>)>, again: bool },
    /// All of the group are forgotten.
    Remove(u64),
    /// The copies may have been lost.
    Look(u64),
}

/// What has been done there.
pub(super) enum Done {
    Copied {
        groups: Vec<Copied>,
        again: bool,
    },
    Removed(u64),
    /// The copies were looked for and are not there, or they are.
    Looked(u64, bool),
}

/// A group in a slot of its own.
pub(super) struct Copied {
    pub(super) group: u64,
    pub(super) copies: Vec<Vec<u8>>,
    pub(super) digest: String,
}

// === impl Step ===

impl Step {
    pub(super) async fn take(self, link: &Link, sale: &SaleId, base: &str) -> Result<Done, StoreError> {
        Ok(match self {
            Self::Copy { groups, again } => {
                let mut copied = Vec::new();
                for (group, chunks) in groups {
                    copied.push(copy(link, sale, base, group, chunks).await?);
                }
                Done::Copied { groups: copied, again }
            }
            Self::Remove(group) => {
                remove(link, sale, base, group).await?;
                Done::Removed(group)
            }
            Self::Look(group) => {
                let mut ask = Cmd::new();
                ask.arg("EXISTS");
                for chunk in keys::chunks(group) {
                    ask.arg(keys::away(sale, base, chunk));
                }
                let there: u64 = link.ask(&ask).await?;
                Done::Looked(group, there == keys::GROUP)
            }
        })
    }
}

/// Writes the copies of a group where there are none, and answers with those that there are.
pub(super) async fn copy(
    link: &Link,
    sale: &SaleId,
    base: &str,
    group: u64,
    chunks: Vec<Vec<u8>>,
) -> Result<Copied, StoreError> {
    let mut copies = Vec::new();
    for (chunk, bytes) in keys::chunks(group).zip(chunks) {
        let name = keys::away(sale, base, chunk);
        let made: Option<String> = link.ask(redis::cmd("SET").arg(&name).arg(&bytes).arg("NX")).await?;
        copies.push(if made.is_some() {
            bytes
        } else {
            let found: Option<Vec<u8>> = link.ask(redis::cmd("GET").arg(&name)).await?;
            let gone = || StoreError::Unavailable { reason: "a copy of joins is gone again".into() };
            found.ok_or_else(gone)?
        });
    }
    let digest = digest(&copies);
    Ok(Copied { group, copies, digest })
}

/// Removes the copies of a group, if there are any.
pub(super) async fn remove(link: &Link, sale: &SaleId, base: &str, group: u64) -> Result<(), StoreError> {
    let names: Vec<String> = keys::chunks(group).map(|chunk| keys::away(sale, base, chunk)).collect();
    link.ask::<u64>(redis::cmd("UNLINK").arg(names)).await.map(drop)
}

/// The joins of a group that has a slot of its own; none if they are missing there.
pub(super) async fn load(
    link: &Link,
    sale: &SaleId,
    base: &str,
    spread: &Spread,
    group: u64,
) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
    let mut ask = Cmd::new();
    ask.arg("MGET");
    for chunk in keys::chunks(group) {
        ask.arg(keys::away(sale, base, chunk));
    }
    let found: Vec<Option<Vec<u8>>> = link.ask(&ask).await?;
    Ok(if spread.is(group, &found) { found.into_iter().collect() } else { None })
}

/// What a gateway does about the spreading of a sale.
#[derive(Default)]
pub(super) struct Spreading {
    /// A step that is being taken, and for which base.
    pub(super) task: Option<(String, JoinHandle<Result<Done, StoreError>>)>,
    /// What the next commit is to say, and of which base.
    done: Option<(String, Done)>,
    /// This gateway has given the last number of a group.
    pub(super) filled: bool,
    /// Since when a group has been full.
    seen: Option<(u64, Instant)>,
    /// When a full group was last found of which somebody is missing.
    partial: Option<Instant>,
    /// When something was last looked for or has failed, and what comes next.
    looked: Option<Instant>,
    next: u64,
    /// How often what was done could not be committed, without success since.
    failures: u32,
    /// What is not there, by others or by this gateway.
    missing: Vec<u64>,
    /// Which groups are missed that this gateway does not know, and since when.
    pub(super) missed: Option<(Vec<u64>, Instant)>,
}

// === impl Spreading ===

impl Spreading {
    /// Something is to be committed.
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// What is to be committed on this replica.
    pub(super) fn done(&self, replica: &Replica) -> Option<&Done> {
        let news = |done: &Done| match done {
            // Who asked for it hears that it is there, even where it is what it was.
            Done::Copied { groups, again } => {
                *again || groups.iter().any(|copied| !replica.spread.has(copied.group))
            }
            Done::Removed(group) => replica.spread.has(*group),
            Done::Looked(..) => false,
        };
        let (base, done) = self.done.as_ref()?;
        Some(done).filter(|done| *base == replica.base && news(done))
    }

    /// It is committed, or of no use.
    pub(super) fn over(&mut self) {
        self.done = None;
        self.failures = 0;
    }

    /// It could not be committed: the sale goes on without it, and it is tried again after a while.
    pub(super) fn failed(&mut self) {
        self.done = None;
        self.looked = Some(Instant::now());
        self.failures = (self.failures + 1).min(MOST_FAILURES);
    }

    /// Since when it is these that are missed. While others put back what they know, nothing of it is taken for lost.
    pub(super) fn missed_since(&mut self, missing: &[u64]) -> Instant {
        match &self.missed {
            Some((before, since)) if before == missing => *since,
            _ => self.missed.insert((missing.to_vec(), Instant::now())).1,
        }
    }

    pub(super) fn want(&mut self, wanted: &str) {
        self.missing.extend(wanted.split(' ').filter_map(|group| group.parse::<u64>().ok()));
        self.missing.sort_unstable();
        self.missing.dedup();
    }

    /// Some whole groups that have no slots of their own. Where somebody is missing, which takes a while to find, they are not
    /// looked for all the time.
    fn unspread(&mut self, queue: &Queue, spread: &Spread) -> Vec<u64> {
        if self.partial.is_some_and(|found| found.elapsed() < OWN) {
            return Vec::new();
        }
        self.partial = None;
        let mut found = Vec::new();
        for group in full(queue).filter(|group| !spread.has(*group)) {
            if queue.misses_any(&keys::arrivals(group)) {
                self.partial = Some(Instant::now());
                continue;
            }
            found.push(group);
            if found.len() == AT_ONCE {
                break;
            }
        }
        found
    }

    /// What to do next, if anything.
    fn step(&mut self, replica: &Replica) -> Option<Step> {
        let Replica { queue, spread, .. } = replica;
        let copy = |groups: Vec<u64>, again| {
            let groups = groups.into_iter().map(|group| (group, packed(queue, group))).collect();
            Some(Step::Copy { groups, again })
        };
        let rest = LOOK * 2u32.pow(self.failures);
        let rested = self.looked.is_none_or(|looked| looked.elapsed() >= rest);
        if self.failures > 0 && !rested {
            return None;
        }
        self.missing.retain(|group| spread.has(*group) && !is_forgotten(queue, *group));
        if !self.missing.is_empty() {
            let some = self.missing.split_off(self.missing.len().saturating_sub(AT_ONCE));
            return copy(some, true);
        }
        let unspread = self.unspread(queue, spread);
        if let Some(&group) = unspread.first() {
            let since = match self.seen {
                Some((seen, since)) if seen == group => since,
                _ => self.seen.insert((group, Instant::now())).1,
            };
            if rested && (self.filled || since.elapsed() >= OWN) {
                return copy(unspread, false);
            }
        } else if self.partial.is_none() {
            self.filled = false;
        }
        if !rested {
            return None;
        }
        let next = spread.groups().find(|group| *group >= self.next).or_else(|| spread.groups().next())?;
        self.next = next + 1;
        self.looked = Some(Instant::now());
        Some(if is_forgotten(queue, next) { Step::Remove(next) } else { Step::Look(next) })
    }
}

impl Sale {
    /// Sees what has become of the last step, and begins the next. Nobody waits for it.
    pub(super) async fn spread(&mut self) {
        let Some(replica) = &self.replica else { return };
        let spreading = &mut self.spreading;
        if let Some((base, task)) = spreading.task.take() {
            if !task.is_finished() {
                spreading.task = Some((base, task));
                return;
            }
            match task.await {
                Ok(Ok(Done::Looked(group, there))) => {
                    // What another base lacks is nobody's loss any more.
                    if !there && base == replica.base {
                        tracing::warn!(sale = %self.id, group, "a node has lost joins, which are put back");
                        spreading.missing.push(group);
                    }
                }
                Ok(Ok(done)) => spreading.done = Some((base, done)),
                Ok(Err(error)) => {
                    spreading.looked = Some(Instant::now());
                    tracing::warn!(sale = %self.id, %error, "joins were not moved, which is tried again");
                }
                Err(_) => spreading.looked = Some(Instant::now()),
            }
        }
        if spreading.done(replica).is_some() {
            return;
        }
        spreading.done = None;
        let Some(step) = spreading.step(replica) else { return };
        let (shared, sale, base) = (Arc::clone(&self.shared), self.id.clone(), replica.base.clone());
        let of = base.clone();
        let taken = self.shared.link.spawn(async move { step.take(&shared.link, &sale, &base).await });
        spreading.task = Some((of, taken));
    }

    /// Reads the sale, if it stays where it is meanwhile. What is missing is asked for, and passed over if nobody has it.
    pub(super) async fn load(&mut self, standing: &Standing) -> Result<(), StoreError> {
        let loaded = Replica::load(self, standing).await.inspect_err(|_| self.spreading.missed = None)?;
        let Some((replica, missing)) = loaded else { return Ok(()) };
        if missing.is_empty() {
            self.spreading.missed = None;
            self.replica = Some(replica);
            return Ok(());
        }
        if self.spreading.missed_since(&missing).elapsed() < MISSED_FOR {
            let wanted: Vec<String> = missing.iter().map(u64::to_string).collect();
            let asked = self.ask("want", &wanted.join(" ")).await;
            asked.inspect_err(|_| self.spreading.missed = None)?;
            let reason = "a node has lost a part of the sale, which others may put back".to_owned();
            return Err(StoreError::Unavailable { reason });
        }
        self.spreading.missed = None;
        self.replica = Some(replica);
        let now = self.now(standing.now_ms);
        if let Some(replica) = &mut self.replica {
            for group in missing {
                replica.queue.miss(keys::arrivals(group), now);
            }
        }
        let put_back = self.put_back(standing, true).await;
        if self.replica.as_ref().is_some_and(|replica| replica.base == standing.base) {
            // It is not what was committed: another gateway was faster, or nobody knows.
            self.replica = None;
        }
        put_back
    }
}
