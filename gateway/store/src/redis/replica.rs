//! A gateway's own copy of a sale, and how it gets there.

use std::ops::Range;

use redis::{Cmd, Pipeline};
use ropeline_queue::{AdmissionRecord, Arrival, JoinRecord, Queue, SaleId};

use super::entry::{LEFT, read_admission};
use super::keys;
use super::link::Link;
use super::standing::{Standing, unreadable};
use crate::StoreError;
use crate::records::{JOIN_BYTES, read_join};

/// Chunks and buckets that are asked for at once: about a megabyte.
const CHUNKS_AT_ONCE: u64 = 16;
const BUCKETS_AT_ONCE: u64 = 256;

/// The sale up to one version of one line.
pub(super) struct Replica {
    pub(super) queue: Queue,
    pub(super) version: u64,
    pub(super) generation: u64,
    /// Tells this course of the sale from any that went another way after a loss.
    pub(super) line: String,
    /// What the names of the sale's joins and admissions begin with.
    pub(super) base: String,
    /// The server that took the last commit.
    pub(super) head_run: String,
}

// === impl Replica ===

impl Replica {
    /// Reads the sale. What is committed meanwhile may be half in it: the entries from the version on, applied again, make
    /// it whole.
    pub(super) async fn load(link: &Link, sale: &SaleId, standing: &Standing) -> Result<Self, StoreError> {
        let definition = standing.definition()?.ok_or_else(|| unreadable("its definition"))?;
        let core = standing.core()?.ok_or_else(|| unreadable("its state"))?;
        let mut joins = Vec::new();
        for range in core.joins() {
            let chunks = keys::parts(&range, keys::CHUNK);
            let found = load_joins(link, sale, &standing.base, chunks).await?;
            // Those after that are entries still to be read.
            joins.extend(found.into_iter().filter(|join| range.contains(&join.arrival)));
        }
        let (mut admissions, mut left) = (Vec::new(), Vec::new());
        for range in core.arrivals() {
            let buckets = keys::parts(&range, keys::BUCKET);
            let (found, gone) = load_admissions(link, sale, &standing.base, buckets).await?;
            admissions.extend(found);
            left.extend(gone);
        }
        // A crowd's worth of hashing: not beside the requests.
        let restored = move || Queue::restore(definition, core, joins, admissions, left);
        let queue = tokio::task::spawn_blocking(restored)
            .await
            .map_err(|_| StoreError::Unavailable { reason: "a sale could not be put together".into() })?;
        Ok(Self {
            queue,
            version: standing.version,
            generation: standing.generation,
            line: standing.line.clone(),
            base: standing.base.clone(),
            head_run: standing.head_run.clone(),
        })
    }
}

async fn load_joins(
    link: &Link,
    sale: &SaleId,
    base: &str,
    chunks: Range<u64>,
) -> Result<Vec<JoinRecord>, StoreError> {
    let mut joins = Vec::new();
    let mut from = chunks.start;
    while from < chunks.end {
        let to = chunks.end.min(from + CHUNKS_AT_ONCE);
        let mut ask = Cmd::new();
        ask.arg("MGET");
        for chunk in from..to {
            ask.arg(keys::joins(sale, base, chunk));
        }
        let found: Vec<Option<Vec<u8>>> = link.ask(&ask).await?;
        for (chunk, bytes) in (from..to).zip(found) {
            let bytes = bytes.unwrap_or_default();
            let records = (chunk * keys::CHUNK..).zip(bytes.chunks_exact(JOIN_BYTES));
            // Numbers that a loss has passed over are vacant.
            let given = records.filter(|(_, record)| record.iter().any(|byte| *byte != 0));
            joins.extend(given.map(|(arrival, record)| read_join(Arrival(arrival), record)));
        }
        from = to;
    }
    Ok(joins)
}

async fn load_admissions(
    link: &Link,
    sale: &SaleId,
    base: &str,
    buckets: Range<u64>,
) -> Result<(Vec<AdmissionRecord>, Vec<Arrival>), StoreError> {
    let (mut admissions, mut left) = (Vec::new(), Vec::new());
    let mut from = buckets.start;
    while from < buckets.end {
        let to = buckets.end.min(from + BUCKETS_AT_ONCE);
        let mut ask = Pipeline::new();
        for bucket in from..to {
            ask.cmd("HGETALL").arg(keys::admissions(sale, base, bucket));
        }
        let found: Vec<Vec<(u64, Vec<u8>)>> = link.ask_all(&ask).await?;
        for (arrival, record) in found.into_iter().flatten() {
            if record == LEFT {
                left.push(Arrival(arrival));
            } else {
                let read = read_admission(Arrival(arrival), &record);
                admissions.push(read.map_err(|_| unreadable("an admission"))?);
            }
        }
        from = to;
    }
    Ok((admissions, left))
}
