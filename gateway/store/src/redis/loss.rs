//! When the server has changed, or has lost what it was told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use redis::Pipeline;
use ropeline_queue::{Changes, Queue, Reach, SaleId};

use super::checkpoint::{BLOCK, Known};
use super::entry::{self, LEFT, admission_record};
use super::keys;
use super::link::Link;
use super::replica::Replica;
use super::report::Counts;
use super::sale::{Line, Sale, commit, document, fault, name, nonce};
use super::spread::{self, Spread, full, packed, whole};
use super::standing::{Standing, Status};
use super::writes::Writes;
use crate::StoreError;
use crate::records::{JOIN_BYTES, write_join};

/// How long a sale that could not be put back is left alone: each time twice as long.
const SHORTEST_REST: Duration = Duration::from_millis(250);
const LONGEST_REST: Duration = Duration::from_secs(16);

/// Keys in one pipeline: chunks of joins make about a megabyte.
const CHUNKS_AT_ONCE: usize = 16;
const BUCKETS_AT_ONCE: usize = 256;

/// How long those who know the sale have to put it back, until a gateway that does not goes on from the checkpoint.
const KNOWN_FOR: Duration = Duration::from_secs(10);

impl Sale {
    /// The server has all that this gateway knows, but is not the one that took the last commit. What that one was told
    /// after it may be lost: a new line begins.
    pub(super) async fn begin_line(&mut self) -> Result<(), StoreError> {
        let Some(line) = self.line(0).await? else { return Ok(()) };
        let Some(replica) = &mut self.replica else { return Ok(()) };
        let changes = Changes { core: true, ..Changes::default() };
        let forgotten = replica.queue.forgotten();
        let writes = Writes::new(&self.id, &replica.base, &replica.spread, &changes, &forgotten);
        let standing =
            commit(&self.shared, replica, &self.name, &changes, nonce()?, writes, Some(&line)).await?;
        if standing.status == Status::Done {
            let generation = line.generation;
            Counts::one(&self.shared.counts.recoveries);
            tracing::warn!(sale = %self.id, generation, "the sale goes on after a restart or on another server");
            replica.version += 1;
            replica.head_run = standing.run;
            replica.line = line.name;
            replica.generation = generation;
        }
        Ok(())
    }

    /// A line of a generation after all that are known of, which is nobody else's where there is a checkpoint.
    async fn line(&self, found: u64) -> Result<Option<Line>, StoreError> {
        let Some(replica) = &self.replica else { return Ok(None) };
        let seen = replica.generation.max(found);
        let generation = match &self.shared.checkpoint {
            Some(checkpoint) => {
                let known = Known::of(&replica.line, replica.version, &replica.queue);
                checkpoint.reserve(&self.id, seen, known).await?
            }
            None => seen + 1,
        };
        Ok(Some(Line { name: name()?, generation }))
    }

    /// The server knows no such sale, and neither does this gateway. The checkpoint may: all but its visitors. Those who know
    /// them, too, come first.
    pub(super) async fn remember(&mut self, found: &Standing) -> Result<bool, StoreError> {
        let now = self.now(found.now_ms);
        let Some(checkpoint) = &self.shared.checkpoint else { return Ok(false) };
        let Some((generation, queue)) = checkpoint.read(&self.id, now).await? else { return Ok(false) };
        let lost = *self.lost.get_or_insert_with(Instant::now);
        if lost.elapsed() < KNOWN_FOR && checkpoint.is_marked(&self.id).await? {
            let reason = "the server has lost the sale, which others may put back".to_owned();
            return Err(StoreError::Unavailable { reason });
        }
        self.replica = Some(Replica {
            queue,
            version: 0,
            generation,
            line: String::new(),
            base: String::new(),
            head_run: found.run.clone(),
            spread: Spread::default(),
        });
        Ok(true)
    }

    /// The server lacks something of what this gateway knows, or all of it: it is told again, beside what is there, and
    /// that is then replaced at once. Where this gateway itself `lacks` something of it, others may know more, and do not
    /// take the sale for the one they know.
    pub(super) async fn put_back(&mut self, found: &Standing, lacks: bool) -> Result<(), StoreError> {
        if let Some((failed, rest)) = self.put_backs.failed
            && failed.elapsed() < rest
        {
            let reason = "the sale could not be put back, which is tried again soon".to_owned();
            return Err(StoreError::Unavailable { reason });
        }
        let now = self.now(found.now_ms);
        let mut changes = Changes::default();
        if let Some(Replica { queue, .. }) = &mut self.replica {
            queue.begin();
            // Others may have given numbers of which this gateway has not heard; where they are written down, they are passed
            // over as far as is written.
            if self.shared.checkpoint.is_none() && !lacks {
                let skipped = catch_unwind(AssertUnwindSafe(|| {
                    queue.skip(&Reach::beyond(queue.core(), BLOCK), now);
                    queue.take_changes()
                }));
                match skipped {
                    Ok(skipped) => changes = skipped,
                    Err(_) => {
                        // It may be all that is known of the sale, so it is not given up.
                        queue.undo();
                        self.put_backs.ended(false);
                        return Err(fault());
                    }
                }
            }
        }
        let line = self.replica.as_ref().map(|replica| replica.line.clone());
        let put_back = self.try_to_put_back(found, lacks, changes).await;
        if let Some(replica) = &mut self.replica {
            if line.as_ref() == Some(&replica.line) {
                replica.queue.undo();
            } else {
                replica.queue.keep();
            }
        }
        self.put_backs.ended(put_back.is_ok());
        put_back
    }

    async fn try_to_put_back(
        &mut self,
        found: &Standing,
        lacks: bool,
        changes: Changes,
    ) -> Result<(), StoreError> {
        let Some(line) = self.line(found.generation).await? else { return Ok(()) };
        let Some(replica) = &mut self.replica else { return Ok(()) };
        let base = line.name.clone();
        tracing::warn!(
            sale = %self.id, version = replica.version, found = found.version, generation = line.generation,
            "the server has lost a part of the sale, which is put back"
        );
        let link = &self.shared.link;
        let spread = match upload(link, &self.id, &base, &replica.queue).await {
            Ok(spread) => spread,
            Err(error) => {
                // Memory is perhaps what there was too little of.
                if remove(link, &self.id, &base, &replica.queue).await.is_err() {
                    self.put_backs.unused.push(base);
                }
                return Err(error);
            }
        };
        let version = replica.version + 1;
        let changes = Changes { core: true, definition: true, ..changes };
        let args = [
            found.line.clone().into_bytes(),
            found.version.to_string().into_bytes(),
            entry::encode(nonce()?, &changes),
            document(replica.queue.core())?,
            document(&**replica.queue.definition())?,
            line.name.clone().into_bytes(),
            line.generation.to_string().into_bytes(),
            base.clone().into_bytes(),
            version.to_string().into_bytes(),
            if lacks { Vec::new() } else { replica.line.clone().into_bytes() },
            if lacks { b"0".to_vec() } else { replica.version.to_string().into_bytes() },
            document(&spread)?,
        ];
        let keys = [keys::head(&self.id), keys::log(&self.id)];
        // Until it is known what became of this, the base may be in use. After that nothing that is still under way does
        // anything any more.
        self.put_backs.unused.push(base.clone());
        let standing: Standing = link.run(&self.shared.scripts.replace, &keys, &args).await?;
        self.put_backs.unused.retain(|unused| *unused != standing.base);
        if standing.status == Status::Done {
            Counts::one(&self.shared.counts.recoveries);
            list(link, &self.id).await?;
            replica.version = version;
            replica.head_run = standing.run;
            replica.line = line.name;
            replica.generation = line.generation;
            replica.spread = spread;
            let before = std::mem::replace(&mut replica.base, base.clone());
            self.put_backs.unused.retain(|unused| *unused != base);
            self.put_backs.unused.push(before);
        }
        while let Some(base) = self.put_backs.unused.last() {
            remove(link, &self.id, base, &replica.queue).await?;
            self.put_backs.unused.pop();
        }
        Ok(())
    }
}

/// How the sale was tried to be put back.
#[derive(Default)]
pub(super) struct PutBacks {
    /// When it failed last, and how long it is left alone after that.
    failed: Option<(Instant, Duration)>,
    /// Bases that nobody reads, or will once it is known that they were not put in place.
    unused: Vec<String>,
}

// === impl PutBacks ===

impl PutBacks {
    fn ended(&mut self, well: bool) {
        let rest = self.failed.map_or(SHORTEST_REST, |(_, rest)| LONGEST_REST.min(rest * 2));
        self.failed = (!well).then(|| (Instant::now(), rest));
    }
}

/// Puts a sale on the list of all.
pub(super) async fn list(link: &Link, sale: &SaleId) -> Result<(), StoreError> {
    link.ask::<u64>(redis::cmd("SADD").arg(keys::SALES).arg(sale.as_str())).await.map(drop)
}

/// Writes all joins and admissions under a base that nobody reads yet; groups that are whole into slots of their own.
async fn upload(link: &Link, sale: &SaleId, base: &str, queue: &Queue) -> Result<Spread, StoreError> {
    let mut spread = Spread::default();
    for group in whole(queue) {
        let copied = spread::copy(link, sale, base, group, packed(queue, group)).await?;
        spread = spread.with(group, &copied.digest);
    }
    let records: Vec<_> = queue.joins().filter(|join| !spread.has(keys::group(join.arrival))).collect();
    let chunks = records.chunk_by(|a, b| keys::chunk(a.arrival).0 == keys::chunk(b.arrival).0);
    let chunks: Vec<_> = chunks.collect();
    for some in chunks.chunks(CHUNKS_AT_ONCE) {
        let mut tell = Pipeline::new();
        for records in some {
            let chunk = keys::chunk(records[0].arrival).0;
            let length = records.last().map_or(0, |last| keys::chunk(last.arrival).1 + 1);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0) * JOIN_BYTES];
            for record in *records {
                let at = usize::try_from(keys::chunk(record.arrival).1).unwrap_or(0) * JOIN_BYTES;
                write_join(&mut bytes[at..at + JOIN_BYTES], record);
            }
            tell.cmd("SET").arg(keys::joins(sale, base, chunk)).arg(bytes).ignore();
        }
        link.ask_all::<()>(&tell).await?;
    }
    let called = queue.admissions().map(|admission| (admission.arrival, admission_record(&admission)));
    let left = queue.left().map(|arrival| (arrival, LEFT.to_owned()));
    let mut records: Vec<_> = called.chain(left).collect();
    records.sort_unstable();
    let buckets: Vec<_> =
        records.chunk_by(|(a, _), (b, _)| a.0 / keys::BUCKET == b.0 / keys::BUCKET).collect();
    for some in buckets.chunks(BUCKETS_AT_ONCE) {
        let mut tell = Pipeline::new();
        for records in some {
            let set = tell.cmd("HSET").arg(keys::admissions(sale, base, records[0].0.0 / keys::BUCKET));
            for (arrival, record) in *records {
                set.arg(arrival.0).arg(record);
            }
            set.ignore();
        }
        link.ask_all::<()>(&tell).await?;
    }
    Ok(spread)
}

/// Removes the joins and admissions of a base that nobody reads any more.
async fn remove(link: &Link, sale: &SaleId, base: &str, queue: &Queue) -> Result<(), StoreError> {
    let core = queue.core();
    let chunks = core.joins().into_iter().flat_map(|range| keys::parts(&range, keys::CHUNK));
    let buckets = core.arrivals().into_iter().flat_map(|range| keys::parts(&range, keys::BUCKET));
    let joins = chunks.map(|chunk| keys::joins(sale, base, chunk));
    let admissions = buckets.map(|bucket| keys::admissions(sale, base, bucket));
    let names: Vec<String> = joins.chain(admissions).collect();
    for some in names.chunks(BUCKETS_AT_ONCE) {
        link.ask::<u64>(redis::cmd("UNLINK").arg(some)).await?;
    }
    // Copied, whether that was ever committed or not.
    for group in full(queue) {
        spread::remove(link, sale, base, group).await?;
    }
    Ok(())
}
