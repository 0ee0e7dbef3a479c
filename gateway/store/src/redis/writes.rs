//! What a commit writes.

use std::ops::Range;

use ropeline_queue::{Arrival, Changes, JoinRecord, Queue, SaleId};

use super::entry::{LEFT, admission_record};
use super::keys;
use super::spread::{Spread, given};
use crate::records::{JOIN_BYTES, write_join};

/// The writes of a batch in the words of `commit.lua`, and the keys that they name.
pub(super) struct Writes<'s> {
    sale: &'s SaleId,
    base: &'s str,
    pub(super) keys: Vec<String>,
    pub(super) words: Vec<Vec<u8>>,
    /// Which joins are in slots of their own once this is committed, if that changes.
    pub(super) spread: Option<Spread>,
}

// === impl Writes ===

impl<'s> Writes<'s> {
    /// `forgotten` are the arrivals that were forgotten before these changes; joins that are in slots of their own by `spread`
    /// are not written where they are.
    pub(super) fn new(
        sale: &'s SaleId,
        base: &'s str,
        spread: &Spread,
        changes: &Changes,
        forgotten: &[Range<Arrival>],
    ) -> Self {
        let keys = vec![keys::head(sale), keys::log(sale)];
        let mut writes = Self { sale, base, keys, words: Vec::new(), spread: None };
        let same_chunk = |a: &JoinRecord, b: &JoinRecord| {
            a.arrival.0 + 1 == b.arrival.0 && keys::chunk(a.arrival).0 == keys::chunk(b.arrival).0
        };
        for run in changes.joins.chunk_by(same_chunk) {
            let (chunk, at) = keys::chunk(run[0].arrival);
            if spread.has(keys::group(run[0].arrival)) {
                for join in run {
                    writes.late(join.arrival, Some(join));
                }
                continue;
            }
            let mut bytes = vec![0; run.len() * JOIN_BYTES];
            for (bytes, join) in bytes.chunks_exact_mut(JOIN_BYTES).zip(run) {
                write_join(bytes, join);
            }
            let key = writes.key(&keys::joins(sale, base, chunk));
            let offset = at * JOIN_BYTES as u64;
            writes.word(b"w").word(&key).word(offset.to_string().as_bytes()).words.push(bytes);
            if at + run.len() as u64 == keys::CHUNK {
                writes.word(b"s").word(&key);
            }
        }
        for arrival in &changes.vacated {
            if spread.has(keys::group(*arrival)) {
                writes.late(*arrival, None);
                continue;
            }
            let (chunk, at) = keys::chunk(*arrival);
            let key = writes.key(&keys::joins(sale, base, chunk));
            let offset = at * JOIN_BYTES as u64;
            writes.word(b"w").word(&key).word(offset.to_string().as_bytes()).word(&[0; JOIN_BYTES]);
        }
        for admission in &changes.admissions {
            writes.admission(admission.arrival, &admission_record(admission));
        }
        for arrival in &changes.left {
            writes.admission(*arrival, LEFT);
        }
        for range in &changes.forgotten {
            // No two lanes share a chunk or a bucket.
            let before = forgotten.iter().find(|before| before.start == range.start);
            let from = before.map_or(range.start, |before| before.end).max(range.start).0;
            let whole = |size: u64| {
                // The first is begun by arrivals before it that stay, or ended by one that was removed already.
                (from / size..range.end.0 / size).filter(move |part| part * size >= range.start.0)
            };
            for chunk in whole(keys::CHUNK) {
                writes.remove(&keys::joins(sale, base, chunk));
            }
            for bucket in whole(keys::BUCKET) {
                writes.remove(&keys::admissions(sale, base, bucket));
            }
        }
        writes
    }

    /// From this commit on the joins of a group are in a slot of its own, where they are `copies`. What the queue says
    /// otherwise now is kept beside them.
    pub(super) fn moved(&mut self, group: u64, copies: &[Vec<u8>], queue: &Queue) {
        for (chunk, copy) in keys::chunks(group).zip(copies) {
            let mut records = copy.chunks_exact(JOIN_BYTES);
            for arrival in (chunk * keys::CHUNK..(chunk + 1) * keys::CHUNK).map(Arrival) {
                let copied = records.next().and_then(|record| given(arrival, record));
                let holder = queue.holder(arrival);
                if copied != holder {
                    self.late(arrival, holder.as_ref());
                }
            }
            self.remove(&keys::joins(self.sale, self.base, chunk));
        }
    }

    /// Who joined under a number, or nobody, where that is not written into its chunk.
    fn late(&mut self, arrival: Arrival, join: Option<&JoinRecord>) {
        let mut bytes = Vec::new();
        if let Some(join) = join {
            bytes.resize(JOIN_BYTES, 0);
            write_join(&mut bytes, join);
        }
        let key = self.key(&keys::admissions(self.sale, self.base, arrival.0 / keys::BUCKET));
        self.word(b"h").word(&key).word(format!("{}{arrival}", keys::LATE).as_bytes()).word(&bytes);
    }

    fn admission(&mut self, arrival: Arrival, record: &[u8]) {
        let key = self.key(&keys::admissions(self.sale, self.base, arrival.0 / keys::BUCKET));
        self.word(b"h").word(&key).word(arrival.to_string().as_bytes()).word(record);
    }

    fn remove(&mut self, name: &str) {
        let key = self.key(name);
        self.word(b"x").word(&key);
    }

    fn word(&mut self, word: &[u8]) -> &mut Self {
        self.words.push(word.to_owned());
        self
    }

    /// The number of a key, as Lua counts.
    fn key(&mut self, name: &str) -> Vec<u8> {
        // Batches name few keys, and mostly the last again.
        let known = self.keys.iter().rposition(|key| key == name);
        let index = known.unwrap_or_else(|| {
            self.keys.push(name.to_owned());
            self.keys.len() - 1
        });
        (index + 1).to_string().into_bytes()
    }
}
