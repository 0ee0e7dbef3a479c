//! What a commit leaves in the log, and how an admission is kept.

use ropeline_queue::{AdmissionRecord, AdmissionState, Arrival, Changes, Place, UnixMillis, Update};

use crate::records::{JOIN_BYTES, read_join, write_join};

/// Tells one commit from every other.
pub(super) type Nonce = [u8; 8];

/// What stands in the place of the admission of a visitor who left before being called.
pub(super) const LEFT: &[u8] = &[6];

/// Bytes that are no entry, or no admission.
#[derive(Debug)]
pub(super) struct Unreadable;

/// An entry: nonce; runs of joins, each with its first arrival and count; admissions, each with its arrival and length;
/// arrivals that left; arrivals that were vacated. Counts and lengths are u32, arrivals u64, little-endian.
pub(super) fn encode(nonce: Nonce, changes: &Changes) -> Vec<u8> {
    let mut entry = Vec::with_capacity(32 + changes.joins.len() * JOIN_BYTES + changes.admissions.len() * 40);
    entry.extend_from_slice(&nonce);
    let runs: Vec<_> = changes.joins.chunk_by(|a, b| a.arrival.0 + 1 == b.arrival.0).collect();
    put_count(&mut entry, runs.len());
    for run in runs {
        entry.extend_from_slice(&run[0].arrival.0.to_le_bytes());
        put_count(&mut entry, run.len());
        for join in run {
            let at = entry.len();
            entry.resize(at + JOIN_BYTES, 0);
            write_join(&mut entry[at..], join);
        }
    }
    put_count(&mut entry, changes.admissions.len());
    for admission in &changes.admissions {
        entry.extend_from_slice(&admission.arrival.0.to_le_bytes());
        let record = admission_record(admission);
        put_count(&mut entry, record.len());
        entry.extend_from_slice(&record);
    }
    put_count(&mut entry, changes.left.len());
    for arrival in &changes.left {
        entry.extend_from_slice(&arrival.0.to_le_bytes());
    }
    put_count(&mut entry, changes.vacated.len());
    for arrival in &changes.vacated {
        entry.extend_from_slice(&arrival.0.to_le_bytes());
    }
    entry
}

/// Adds an entry to an update, and says which commit it was.
pub(super) fn decode(entry: &[u8], update: &mut Update) -> Result<Nonce, Unreadable> {
    let mut rest = Reader(entry);
    let nonce = rest.array()?;
    for _ in 0..rest.count()? {
        let first = u64::from_le_bytes(rest.array()?);
        for step in 0..rest.count()? {
            let arrival = Arrival(first.checked_add(u64::from(step)).ok_or(Unreadable)?);
            update.joins.push(read_join(arrival, rest.take(JOIN_BYTES)?));
        }
    }
    for _ in 0..rest.count()? {
        let arrival = Arrival(u64::from_le_bytes(rest.array()?));
        let length = usize::try_from(rest.count()?).map_err(|_| Unreadable)?;
        update.admissions.push(read_admission(arrival, rest.take(length)?)?);
    }
    for _ in 0..rest.count()? {
        update.left.push(Arrival(u64::from_le_bytes(rest.array()?)));
    }
    for _ in 0..rest.count()? {
        update.vacated.push(Arrival(u64::from_le_bytes(rest.array()?)));
    }
    if rest.0.is_empty() { Ok(nonce) } else { Err(Unreadable) }
}

/// An admission: what it is, its place, and the times that belong to it. At most 34 bytes, so that a hash of some hundred
/// of them is kept packed.
pub(super) fn admission_record(admission: &AdmissionRecord) -> Vec<u8> {
    let lease = |record: &mut Vec<u8>, lease_ms: Option<u64>| {
        if let Some(lease_ms) = lease_ms {
            record.extend_from_slice(&lease_ms.to_le_bytes());
        }
    };
    let kind = match admission.state {
        AdmissionState::Claimed { .. } => 0,
        AdmissionState::Ended => 1,
        AdmissionState::RecallPending { .. } => 2,
        AdmissionState::Recalled { .. } => 3,
        AdmissionState::Lapsed => 4,
        AdmissionState::Left => 5,
    };
    let mut record = vec![kind];
    record.extend_from_slice(&admission.place.0.to_le_bytes());
    match admission.state {
        AdmissionState::Claimed { claimed_at, expires_at, holding } => {
            record.extend_from_slice(&claimed_at.0.to_le_bytes());
            record.extend_from_slice(&expires_at.0.to_le_bytes());
            record.push(u8::from(holding));
        }
        AdmissionState::RecallPending { lease_ms } => lease(&mut record, lease_ms),
        AdmissionState::Recalled { until, lease_ms } => {
            record.extend_from_slice(&until.0.to_le_bytes());
            lease(&mut record, lease_ms);
        }
        AdmissionState::Ended | AdmissionState::Lapsed | AdmissionState::Left => {}
    }
    record
}

/// The admission of an arrival.
pub(super) fn read_admission(arrival: Arrival, record: &[u8]) -> Result<AdmissionRecord, Unreadable> {
    let mut rest = Reader(record);
    let [kind] = rest.array()?;
    let place = Place(rest.number()?);
    let state = match kind {
        0 => AdmissionState::Claimed {
            claimed_at: UnixMillis(rest.number()?),
            expires_at: UnixMillis(rest.number()?),
            holding: rest.array::<1>()? != [0],
        },
        1 => AdmissionState::Ended,
        2 => AdmissionState::RecallPending { lease_ms: rest.optional()? },
        3 => AdmissionState::Recalled { until: UnixMillis(rest.number()?), lease_ms: rest.optional()? },
        4 => AdmissionState::Lapsed,
        5 => AdmissionState::Left,
        _ => return Err(Unreadable),
    };
    if rest.0.is_empty() { Ok(AdmissionRecord { arrival, place, state }) } else { Err(Unreadable) }
}

fn put_count(entry: &mut Vec<u8>, count: usize) {
    // A batch is far smaller than that.
    entry.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

struct Reader<'b>(&'b [u8]);

// === impl Reader ===

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], Unreadable> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        self.take(N)?.try_into().map_err(|_| Unreadable)
    }

    fn count(&mut self) -> Result<u32, Unreadable> {
        self.array().map(u32::from_le_bytes)
    }

    fn number(&mut self) -> Result<u64, Unreadable> {
        self.array().map(u64::from_le_bytes)
    }

    fn optional(&mut self) -> Result<Option<u64>, Unreadable> {
        if self.0.is_empty() { Ok(None) } else { self.number().map(Some) }
    }
}
