//! Where to begin looking.
//!
//! A row that has changed leaves its old version behind in table and index, and as long as some transaction somewhere may
//! still see it, everybody who looks there steps over it. So nobody looks where nothing can be found any more: this node
//! remembers how far it has looked. What it remembers is never needed: without it a search takes longer, and what could
//! be passed over is looked for again from the beginning now and then.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::BUCKETS;

/// How often due holds are looked for from the beginning: some transaction may have taken longer than its hold.
const THOROUGH: Duration = Duration::from_secs(30);
/// The same when somebody would have to be refused.
const THOROUGH_IN_NEED: Duration = Duration::from_secs(3);

/// How far this node has looked, of every product.
#[derive(Debug, Default)]
pub(super) struct Cursors(Mutex<HashMap<String, Cursor>>);

/// How far it has looked for one product.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    /// The latest generation seen of each bucket.
    pub(super) generations: Vec<i64>,
    /// No unit up to this place is free, nor will be.
    pub(super) passed: i64,
    /// Units up to this place were taken, though one that was locked may have been left out.
    pub(super) skimmed: i64,
    /// Every hold that was due by this time has been ended.
    pub(super) due: i64,
    thorough_at: Option<Instant>,
}

// === impl Cursor ===

impl Default for Cursor {
    fn default() -> Self {
        let generations = (0..BUCKETS).map(|_| 0).collect();
        Self { generations, passed: -1, skimmed: -1, due: i64::MIN, thorough_at: None }
    }
}

// === impl Cursors ===

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Cursor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, product: &str, change: impl FnOnce(&mut Cursor) -> T) -> T {
        let mut cursors = self.lock();
        if let Some(cursor) = cursors.get_mut(product) {
            return change(cursor);
        }
        change(cursors.entry(product.to_owned()).or_default())
    }

    pub(super) fn of(&self, product: &str) -> Cursor {
        self.with(product, |cursor| cursor.clone())
    }

    /// The products that are known, and how far their units are passed.
    pub(super) fn passed(&self) -> (Vec<String>, Vec<i64>) {
        self.lock().iter().map(|(product, cursor)| (product.clone(), cursor.passed)).unzip()
    }

    /// A bucket has been seen in this generation.
    pub(super) fn generation(&self, product: &str, slot: i64, generation: i64) {
        self.with(product, |cursor| {
            if let Some(known) = usize::try_from(slot).ok().and_then(|slot| cursor.generations.get_mut(slot))
            {
                *known = generation.max(*known);
            }
        });
    }

    /// The database knows less than was seen: another server has taken over.
    pub(super) fn forget(&self, product: &str) {
        self.with(product, |cursor| *cursor = Cursor::default());
    }

    /// Units up to this place were taken.
    pub(super) fn skim(&self, product: &str, place: i64) {
        self.with(product, |cursor| cursor.skimmed = place.max(cursor.skimmed));
    }

    /// No unit up to this place is free: found under the product's lock, waiting for those that were locked. Whoever
    /// looks on begins there.
    pub(super) fn pass(&self, product: &str, place: i64) {
        self.with(product, |cursor| {
            cursor.passed = place.max(cursor.passed);
            cursor.skimmed = cursor.passed;
        });
    }

    /// From when on due holds are to be looked for at `now`. A clock that was set back has made some due before that.
    pub(super) fn due(&self, product: &str, now: i64) -> i64 {
        self.with(product, |cursor| {
            if now < cursor.due {
                cursor.due = i64::MIN;
            }
            cursor.due
        })
    }

    /// Every hold that was due by `now` has been ended, as far as they were looked for from `from` on.
    pub(super) fn ended(&self, product: &str, from: i64, now: i64) {
        self.with(product, |cursor| {
            cursor.due = now.max(cursor.due);
            if from == i64::MIN {
                cursor.thorough_at = Some(Instant::now());
            }
        });
    }

    /// Makes the next search for due holds begin at the beginning, if the last such one was long enough ago.
    pub(super) fn look_thoroughly(&self, product: &str, in_need: bool) -> bool {
        let often = if in_need { THOROUGH_IN_NEED } else { THOROUGH };
        self.with(product, |cursor| {
            let due = cursor.thorough_at.is_none_or(|at| at.elapsed() > often);
            if due {
                cursor.due = i64::MIN;
            }
            due
        })
    }
}
