//! Which visitor holds which arrival: the only state that grows with the crowd.
//!
//! JoinRecords of 20 bytes lie in chunks in order of arrival; a hash table holds nothing but arrivals and compares
//! keys through them. At its emptiest, just after it grew, the table takes 11.5 bytes a visitor, so that
//! a large crowd costs 32 bytes a visitor at most. After the loss of a store numbers skip forward: chunks
//! that no visitor falls into are not allocated.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::mem::size_of;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::outcome::JoinRecord;
use crate::types::{Arrival, VisitorKey};

#[cfg(test)]
mod tests;

/// Arrivals in one chunk.
const CHUNK: usize = 1024;

/// The table is split, so that it grows in steps of a millisecond and never stops a sale to move all of its
/// entries at once.
const SHARDS: usize = 64;

/// Why a record was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// The arrival is past what one sale can number.
    #[error("arrival {0} is past the last number of a sale")]
    PastTheLast(Arrival),
    /// The arrival belongs to another visitor.
    #[error("arrival {0} belongs to another visitor")]
    Taken(Arrival),
    /// The visitor holds a newer arrival.
    #[error("the visitor holds the newer arrival {0}")]
    Superseded(Arrival),
}

/// The visitors of one sale, found by key and by arrival.
#[derive(Debug)]
pub struct VisitorMap {
    /// The first number of all.
    base: u64,
    chunks: Vec<Option<Box<Chunk>>>,
    shards: Box<[HashTable<u32>; SHARDS]>,
    /// Keys are digests, but where account names can be chosen their digests can be ground; a secret seed
    /// costs a few nanoseconds beside the cache miss that follows and makes a flood of collisions impossible.
    hasher: RandomState,
    len: usize,
}

// === impl VisitorMap ===

impl Default for VisitorMap {
    fn default() -> Self {
        Self {
            base: 0,
            chunks: Vec::new(),
            shards: Box::new([const { HashTable::new() }; SHARDS]),
            hasher: RandomState::new(),
            len: 0,
        }
    }
}

impl VisitorMap {
    /// A map of nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A map of nobody, for the numbers from `base` on.
    #[must_use]
    pub(crate) fn from(base: u64) -> Self {
        Self { base, ..Self::default() }
    }

    /// How many visitors hold an arrival.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody holds an arrival.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The record of a visitor.
    #[must_use]
    pub fn get(&self, visitor: &VisitorKey) -> Option<JoinRecord> {
        let hash = hash(&self.hasher, visitor);
        let index = self.shards[shard(hash)].find(hash, |index| holds(&self.chunks, *index, visitor))?;
        self.record(*index)
    }

    fn index(&self, arrival: Arrival) -> Option<u32> {
        u32::try_from(arrival.0.checked_sub(self.base)?).ok()
    }

    fn arrival(&self, index: u32) -> Arrival {
        Arrival(self.base + u64::from(index))
    }

    fn record(&self, index: u32) -> Option<JoinRecord> {
        let (chunk, slot) = split(index);
        let (visitor, joined_at) = self.chunks.get(chunk)?.as_ref()?.get(slot)?;
        Some(JoinRecord { arrival: self.arrival(index), visitor, joined_at })
    }

    /// The record of an arrival; none if it was never given, was left, or was replaced by a newer one.
    #[must_use]
    pub fn at(&self, arrival: Arrival) -> Option<JoinRecord> {
        self.record(self.index(arrival)?)
    }

    /// Takes a record and answers with the older arrival of the same visitor that it replaces, if any.
    /// A record that is there already changes nothing.
    ///
    /// # Errors
    ///
    /// When the number is past the last, is somebody else's, or older than what the visitor holds.
    pub fn insert(&mut self, new: JoinRecord) -> Result<Option<Arrival>, InsertError> {
        let index = self.index(new.arrival).ok_or(InsertError::PastTheLast(new.arrival))?;
        if self.at(new.arrival).is_some_and(|held| held.visitor != new.visitor) {
            return Err(InsertError::Taken(new.arrival));
        }
        let Self { base, chunks, shards, hasher, len } = self;
        let hash_of = |index: &u32| hash_at(hasher, chunks, *index);
        let hash = hash(hasher, &new.visitor);
        let entry = shards[shard(hash)].entry(hash, |index| holds(chunks, *index, &new.visitor), hash_of);
        let replaced = match entry {
            Entry::Occupied(held) if *held.get() == index => return Ok(None),
            Entry::Occupied(held) if *held.get() > index => {
                return Err(InsertError::Superseded(Arrival(*base + u64::from(*held.get()))));
            }
            Entry::Occupied(mut held) => Some(std::mem::replace(held.get_mut(), index)),
            Entry::Vacant(free) => {
                free.insert(index);
                *len += 1;
                None
            }
        };
        let (chunk, slot) = split(index);
        if chunks.len() <= chunk {
            chunks.resize_with(chunk + 1, || None);
        }
        chunks[chunk].get_or_insert_with(Chunk::boxed).put(slot, &new);
        if let Some(old) = replaced {
            vacate(chunks, old);
        }
        Ok(replaced.map(|old| Arrival(*base + u64::from(old))))
    }

    /// Forgets a visitor and answers with the record it had.
    pub fn remove(&mut self, visitor: &VisitorKey) -> Option<JoinRecord> {
        let hash = hash(&self.hasher, visitor);
        let (chunks, shard) = (&self.chunks, &mut self.shards[shard(hash)]);
        let held = shard.find_entry(hash, |index| holds(chunks, *index, visitor)).ok()?;
        let (index, _) = held.remove();
        let removed = self.record(index);
        vacate(&mut self.chunks, index);
        self.len -= 1;
        removed
    }

    /// All records in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = JoinRecord> + '_ {
        (0..self.chunks.len()).filter(|chunk| self.chunks[*chunk].is_some()).flat_map(move |chunk| {
            (chunk * CHUNK..(chunk + 1) * CHUNK)
                .filter_map(move |index| self.record(u32::try_from(index).ok()?))
        })
    }

    /// Bytes of memory the map occupies, itself included.
    #[must_use]
    pub fn resident_bytes(&self) -> usize {
        let chunks = self.chunks.iter().flatten().count() * size_of::<Chunk>();
        let list = self.chunks.capacity() * size_of::<Option<Box<Chunk>>>();
        let tables: usize = self.shards.iter().map(HashTable::allocation_size).sum();
        size_of::<Self>() + size_of::<[HashTable<u32>; SHARDS]>() + chunks + list + tables
    }
}

fn hash(hasher: &RandomState, visitor: &VisitorKey) -> u64 {
    hasher.hash_one(u128::from_ne_bytes(visitor.0))
}

fn hash_at(hasher: &RandomState, chunks: &[Option<Box<Chunk>>], index: u32) -> u64 {
    let (chunk, slot) = split(index);
    // Every index in the table has its chunk.
    chunks[chunk].as_ref().map_or(0, |chunk| hash(hasher, &chunk.visitors[slot]))
}

/// The table itself uses the top seven and the lowest bits.
const fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}

const fn split(index: u32) -> (usize, usize) {
    (index as usize / CHUNK, index as usize % CHUNK)
}

fn holds(chunks: &[Option<Box<Chunk>>], index: u32, visitor: &VisitorKey) -> bool {
    let (chunk, slot) = split(index);
    chunks[chunk].as_ref().is_some_and(|chunk| chunk.visitors[slot] == *visitor)
}

fn vacate(chunks: &mut [Option<Box<Chunk>>], index: u32) {
    let (chunk, slot) = split(index);
    if chunks[chunk].as_mut().is_some_and(|chunk| chunk.take(slot) == 0) {
        chunks[chunk] = None;
    }
}

/// The records of [`CHUNK`] arrivals, fields apart so that none is padded.
#[derive(Debug)]
struct Chunk {
    visitors: [VisitorKey; CHUNK],
    joined_at: [u32; CHUNK],
    given: [u64; CHUNK / 64],
    count: usize,
}

// === impl Chunk ===

impl Chunk {
    fn boxed() -> Box<Self> {
        Box::new(Self {
            visitors: [VisitorKey([0; 16]); CHUNK],
            joined_at: [0; CHUNK],
            given: [0; CHUNK / 64],
            count: 0,
        })
    }

    fn get(&self, slot: usize) -> Option<(VisitorKey, u32)> {
        let given = self.given[slot / 64] >> (slot % 64) & 1 == 1;
        given.then(|| (self.visitors[slot], self.joined_at[slot]))
    }

    /// Fills a slot that is vacant.
    fn put(&mut self, slot: usize, record: &JoinRecord) {
        self.visitors[slot] = record.visitor;
        self.joined_at[slot] = record.joined_at;
        self.given[slot / 64] |= 1 << (slot % 64);
        self.count += 1;
    }

    /// Vacates a slot that is filled and answers how many are left.
    fn take(&mut self, slot: usize) -> usize {
        self.given[slot / 64] &= !(1 << (slot % 64));
        self.count -= 1;
        self.count
    }
}
