//! A gateway's own copy of a sale, and how it gets there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use redis::{Cmd, Pipeline};
use ropeline_queue::{AdmissionRecord, Arrival, JoinRecord, Queue, SaleId};

use super::entry::{LEFT, read_admission};
use super::keys;
use super::link::Link;
use super::sale::Sale;
use super::spread::{self, Spread, full, given};
use super::standing::{Standing, unreadable};
use crate::StoreError;
use crate::records::{JOIN_BYTES, read_join};

/// Buckets that are asked for at once: about a megabyte, as the chunks of a group are.
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
    /// Which joins are in slots of their own.
    pub(super) spread: Spread,
}

// === impl Replica ===

impl Replica {
    /// Reads the sale. What is committed meanwhile may be half in it: the entries from the version on, applied again, make
    /// it whole. It comes with the groups that should be in slots of their own and are not: who joined in them is not known.
    /// None if another gateway has put the sale elsewhere meanwhile.
    pub(super) async fn load(
        sale: &Sale,
        standing: &Standing,
    ) -> Result<Option<(Self, Vec<u64>)>, StoreError> {
        let definition = standing.definition()?.ok_or_else(|| unreadable("its definition"))?;
        let core = standing.core()?.ok_or_else(|| unreadable("its state"))?;
        let mut spread = standing.spread()?.unwrap_or_default();
        let (visitors, all, forgotten) = (core.arrivals(), core.joins(), core.forgotten());
        let groups = |range: &Range<Arrival>| keys::kept(range, keys::GROUP * keys::CHUNK, &forgotten);
        let mut due: BTreeSet<u64> = all.iter().flat_map(groups).collect();
        let (mut parts, mut missing) = (BTreeMap::new(), BTreeSet::new());
        loop {
            for range in &all {
                let beside = visitors.contains(range);
                for group in groups(range).filter(|group| due.contains(group)) {
                    let (part, whole) =
                        Part::load(sale, &standing.base, &spread, group, range, beside).await?;
                    if whole {
                        missing.remove(&group)
                    } else {
                        missing.insert(group)
                    };
                    parts.insert(group, part);
                }
            }
            // What has moved meanwhile may have been looked for where it was no more, or its changes before they were there.
            let after = sale.ask("", "").await?;
            if after.base != standing.base {
                return Ok(None);
            }
            let moved = after.spread()?.unwrap_or_default();
            due = spread.differing(&moved);
            spread = moved;
            if due.is_empty() {
                break;
            }
        }
        let (mut joins, mut admissions, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts.into_values() {
            joins.extend(part.joins);
            admissions.extend(part.admissions);
            left.extend(part.left);
        }
        // A crowd's worth of hashing: not beside the requests.
        let restored = move || Queue::restore(definition, core, joins, admissions, left);
        let queue = tokio::task::spawn_blocking(restored)
            .await
            .map_err(|_| StoreError::Unavailable { reason: "a sale could not be put together".into() })?;
        // Of those who were forgotten nothing is kept.
        let missing = full(&queue).filter(|group| missing.contains(group)).collect();
        let replica = Self {
            queue,
            version: standing.version,
            generation: standing.generation,
            line: standing.line.clone(),
            base: standing.base.clone(),
            head_run: standing.head_run.clone(),
            spread,
        };
        Ok(Some((replica, missing)))
    }
}

/// What is kept of one group.
#[derive(Default)]
struct Part {
    joins: Vec<JoinRecord>,
    admissions: Vec<AdmissionRecord>,
    left: Vec<Arrival>,
}

// === impl Part ===

impl Part {
    /// Reads it as far as it is in the range, with what is kept beside the joins, if anything is. It is not whole if the joins
    /// should be in a slot of their own and are not.
    async fn load(
        sale: &Sale,
        base: &str,
        spread: &Spread,
        group: u64,
        range: &Range<Arrival>,
        beside: bool,
    ) -> Result<(Self, bool), StoreError> {
        let (link, id) = (&sale.shared.link, &sale.id);
        let chunks = if spread.has(group) {
            spread::load(link, id, base, spread, group).await?
        } else {
            Some(load_chunks(link, id, base, group).await?)
        };
        let mut part = Self::default();
        if let Some(chunks) = &chunks {
            for (chunk, bytes) in keys::chunks(group).zip(chunks) {
                let records = (chunk * keys::CHUNK..).map(Arrival).zip(bytes.chunks_exact(JOIN_BYTES));
                // Numbers that a loss has passed over are vacant; those after the range are entries still to be read.
                let joins = records.filter_map(|(arrival, record)| given(arrival, record));
                part.joins.extend(joins.filter(|join| range.contains(&join.arrival)));
            }
        }
        if beside {
            let arrivals = keys::arrivals(group);
            let buckets = keys::parts(&(arrivals.start..arrivals.end.min(range.end)), keys::BUCKET);
            part.load_beside(link, id, base, buckets).await?;
        }
        Ok((part, chunks.is_some()))
    }

    async fn load_beside(
        &mut self,
        link: &Link,
        sale: &SaleId,
        base: &str,
        buckets: Range<u64>,
    ) -> Result<(), StoreError> {
        // Who joined, or that nobody did, where the copies say otherwise.
        let mut late = BTreeMap::new();
        let mut from = buckets.start;
        while from < buckets.end {
            let to = buckets.end.min(from + BUCKETS_AT_ONCE);
            let mut ask = Pipeline::new();
            for bucket in from..to {
                ask.cmd("HGETALL").arg(keys::admissions(sale, base, bucket));
            }
            let found: Vec<Vec<(String, Vec<u8>)>> = link.ask_all(&ask).await?;
            for (name, record) in found.into_iter().flatten() {
                let number = name.strip_prefix(keys::LATE);
                let arrival = number.unwrap_or(&name).parse().map_err(|_| unreadable("an admission"))?;
                let arrival = Arrival(arrival);
                if number.is_some() {
                    let join = (record.len() == JOIN_BYTES).then(|| read_join(arrival, &record));
                    late.insert(arrival, join);
                } else if record == LEFT {
                    self.left.push(arrival);
                } else {
                    let read = read_admission(arrival, &record);
                    self.admissions.push(read.map_err(|_| unreadable("an admission"))?);
                }
            }
            from = to;
        }
        if !late.is_empty() {
            self.joins.retain(|join| !late.contains_key(&join.arrival));
            self.joins.extend(late.into_values().flatten());
            self.joins.sort_unstable_by_key(|join| join.arrival);
        }
        Ok(())
    }
}

/// The chunks of a group that has no slot of its own.
async fn load_chunks(link: &Link, sale: &SaleId, base: &str, group: u64) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut ask = Cmd::new();
    ask.arg("MGET");
    for chunk in keys::chunks(group) {
        ask.arg(keys::joins(sale, base, chunk));
    }
    let found: Vec<Option<Vec<u8>>> = link.ask(&ask).await?;
    Ok(found.into_iter().map(Option::unwrap_or_default).collect())
}
