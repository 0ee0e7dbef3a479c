//! Claims that are served together: a pure decision over what was loaded for them.
//!
//! A back end loads what its claims need, under its locks, lets [`decide`] decide, writes what it says, and answers after
//! the commit.

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::answer::Answer;
use crate::checkout::Hold;
use crate::model::{Kind, Product, Reservation, Stock, new_id};
use crate::store::tx::{Known, Standing};
use crate::store::{Claim, KeyUse, Settings, Wanted};

/// What the claims of one transaction need to be decided.
#[derive(Debug)]
pub(in crate::store) struct Loaded {
    /// Unix milliseconds of the database's clock, read after the locks were taken.
    pub(in crate::store) now: i64,
    /// The keys of these claims that are known, by visitor and key; locked, as those that are not known.
    pub(in crate::store) keys: HashMap<(String, String), Known>,
    /// The products of these claims, by name.
    pub(in crate::store) shelves: HashMap<String, Shelf>,
    /// The reservations that are held, paying, capturing or sold of these products and visitors, by product and visitor;
    /// those that were due have been ended.
    pub(in crate::store) live: HashMap<(String, String), Reservation>,
    /// Units that these visitors hold and own of all products together. Asked for only where there is a limit.
    pub(in crate::store) taken: HashMap<String, i64>,
}

/// A product of the batch and what may be taken of it.
#[derive(Debug)]
pub(in crate::store) struct Shelf {
    pub(in crate::store) product: Product,
    /// Whether its sale is stopped.
    pub(in crate::store) stopped: bool,
    /// What is left of it, to be told to those who get nothing; counted down here.
    pub(in crate::store) left: Stock,
    /// What is locked for this batch.
    pub(in crate::store) supply: Supply,
}

/// Units that are locked for this batch.
#[derive(Debug)]
pub(in crate::store) enum Supply {
    /// Of a counted product.
    Buckets(Vec<Bucket>),
    /// Of a numbered product.
    Units(Units),
}

/// Units that are like each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Bucket {
    pub(in crate::store) id: i64,
    /// Units in it that may be taken; counted down here.
    pub(in crate::store) available: i64,
    /// Units that this batch brought in from other buckets, or took to others if negative: by so much its total and what
    /// is available change. Zero at first.
    pub(in crate::store) moved: i64,
    /// Units that this batch took. Zero at first.
    pub(in crate::store) taken: i64,
}

/// Numbered units.
#[derive(Debug, Default)]
pub(in crate::store) struct Units {
    /// The next free ones: as many as this batch asks for without choosing and, since some may be chosen by others, as
    /// it chooses; or all there are.
    next: VecDeque<Unit>,
    /// Of those that this batch chooses, the ones that there are: their number, and whether they are free.
    chosen: HashMap<String, (i64, bool)>,
    /// Given away by this batch.
    given: HashSet<i64>,
}

/// A numbered unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Unit {
    pub(in crate::store) number: i64,
    pub(in crate::store) label: String,
}

/// What is to be written, and answered after the commit.
#[derive(Debug, Default)]
pub(in crate::store) struct Decision {
    /// In the order of the claims.
    pub(in crate::store) answers: Vec<Answer>,
    /// Reservations to write, and the numbers of their units that are theirs from now on.
    pub(in crate::store) holds: Vec<(Reservation, Vec<i64>)>,
    /// Keys to write.
    pub(in crate::store) keys: Vec<(KeyUse, Answer)>,
    /// The shelves as they are left: what each bucket lost.
    pub(in crate::store) shelves: HashMap<String, Shelf>,
    /// Whether somebody was refused for lack of units: who had not loaded all there are loads them, and decides again.
    pub(in crate::store) short: bool,
}

/// Why a claim gets nothing.
enum Lack {
    /// Not so many left.
    Units,
    /// These labels are taken.
    Taken(Vec<String>),
    /// There are no units of these labels.
    Unknown(Vec<String>),
}

/// Serves the claims in their order.
///
/// # Errors
/// When the operating system has no randomness to give.
pub(in crate::store) fn decide(
    settings: &Settings,
    loaded: Loaded,
    claims: &[Claim],
) -> Result<Decision, getrandom::Error> {
    let Loaded { now, mut keys, mut shelves, mut live, mut taken } = loaded;
    let mut decision = Decision::default();
    for Claim { key, product, wanted } in claims {
        let unused = match keys.entry((key.visitor.clone(), key.key.clone())) {
            Entry::Vacant(unused) => unused,
            Entry::Occupied(known) => {
                let known = known.get();
                decision.answers.push(match &known.standing {
                    _ if known.fingerprint != key.fingerprint => Answer::key_reused(),
                    Standing::Answered(answer) => answer.clone(),
                    Standing::UnderWay { .. } => Answer::in_flight(),
                });
                continue;
            }
        };
        let Some(shelf) = shelves.get_mut(product) else {
            decision.answers.push(Answer::no_product());
            continue;
        };
        let quantity = wanted.quantity();
        if let Some(refusal) = shelf.refuse(wanted) {
            decision.answers.push(refusal);
            continue;
        }
        let answer = match live.entry((product.clone(), key.visitor.clone())) {
            Entry::Occupied(hold) if hold.get().state == Hold::Sold => Answer::already_bought(hold.get()),
            Entry::Occupied(hold) => Answer::reservation(hold.get()),
            Entry::Vacant(_) if shelf.stopped => Answer::stopped(&shelf.product),
            Entry::Vacant(free) => {
                let has = taken.entry(key.visitor.clone()).or_default();
                match settings.units_per_visitor {
                    Some(limit) if has.saturating_add(quantity) > limit => {
                        Answer::visitor_limit(&shelf.product, limit, *has)
                    }
                    _ => match shelf.take(wanted) {
                        Err(lack) => {
                            decision.short |= matches!(lack, Lack::Units);
                            shelf.lacking(&lack, quantity)
                        }
                        Ok((bucket, units)) => {
                            *has = has.saturating_add(quantity);
                            let (numbers, units) =
                                units.into_iter().map(|unit| (unit.number, unit.label)).unzip();
                            let hold = Reservation {
                                id: new_id("rsv_", now)?,
                                product: product.clone(),
                                visitor: key.visitor.clone(),
                                quantity,
                                amount_minor: shelf.product.price_minor.saturating_mul(quantity),
                                currency: shelf.product.currency.clone(),
                                state: Hold::Held,
                                created_at: now,
                                expires_at: now.saturating_add(settings.hold_ms),
                                extended: false,
                                bucket,
                                version: 0,
                                units,
                                chosen: matches!(wanted, Wanted::Chosen(_)),
                            };
                            decision.holds.push((hold.clone(), numbers));
                            Answer::reserved(free.insert(hold))
                        }
                    },
                }
            }
        };
        if !answer.is_passing() {
            decision.keys.push((key.clone(), answer.clone()));
            unused.insert(Known {
                fingerprint: key.fingerprint.to_vec(),
                standing: Standing::Answered(answer.clone()),
            });
        }
        decision.answers.push(answer);
    }
    decision.shelves = shelves;
    Ok(decision)
}

// === impl Shelf ===

impl Shelf {
    /// What cannot be asked of this product, whatever is left of it.
    fn refuse(&self, wanted: &Wanted) -> Option<Answer> {
        if wanted.quantity() > self.product.max_quantity {
            let asked = match wanted {
                Wanted::Any(_) => "quantity",
                Wanted::Chosen(_) => "units",
            };
            return Some(Answer::too_many(&self.product, asked));
        }
        match (self.product.kind, wanted) {
            (Kind::Count, Wanted::Chosen(_)) => Some(Answer::not_numbered(&self.product)),
            (Kind::Count, Wanted::Any(_)) | (Kind::Units, _) => None,
        }
    }

    /// Takes what is wanted, all of it or nothing: the bucket it is from, and the units if they are numbered.
    fn take(&mut self, wanted: &Wanted) -> Result<(i64, Vec<Unit>), Lack> {
        let taken = match &mut self.supply {
            Supply::Buckets(buckets) => {
                take_of(buckets, wanted.quantity()).map(|bucket| (bucket, Vec::new())).ok_or(Lack::Units)
            }
            Supply::Units(units) => units.take(wanted).map(|units| (0, units)),
        }?;
        self.left.available = self.left.available.saturating_sub(wanted.quantity());
        self.left.held = self.left.held.saturating_add(wanted.quantity());
        Ok(taken)
    }

    fn lacking(&self, lack: &Lack, quantity: i64) -> Answer {
        match lack {
            Lack::Units => Answer::nothing_left(&self.product, self.left, quantity),
            Lack::Taken(labels) => Answer::unit_taken(&self.product, labels),
            Lack::Unknown(labels) => Answer::unit_unknown(&self.product, labels),
        }
    }
}

/// Takes `quantity` units out of one bucket, if need be after moving units there from the others; the bucket.
fn take_of(buckets: &mut [Bucket], quantity: i64) -> Option<i64> {
    let full = buckets.iter().position(|bucket| bucket.available >= quantity);
    let at = match full {
        Some(at) => at,
        None => gather(buckets, quantity)?,
    };
    let bucket = buckets.get_mut(at)?;
    bucket.available -= quantity;
    bucket.taken += quantity;
    Some(bucket.id)
}

/// Moves units into the fullest bucket until it has `quantity`; where it is. `None`: there are not so many.
fn gather(buckets: &mut [Bucket], quantity: i64) -> Option<usize> {
    let all: i64 = buckets.iter().map(|bucket| bucket.available).sum();
    if all < quantity {
        return None;
    }
    let at = (0..buckets.len()).max_by_key(|at| buckets[*at].available)?;
    let mut missing = quantity - buckets[at].available;
    for from in (0..buckets.len()).filter(|from| *from != at) {
        let moved = missing.min(buckets[from].available);
        buckets[from].available -= moved;
        buckets[from].moved -= moved;
        buckets[at].available += moved;
        buckets[at].moved += moved;
        missing -= moved;
    }
    Some(at)
}

// === impl Units ===

impl Units {
    /// Units of which none is given away yet.
    pub(in crate::store) fn new(
        next: impl IntoIterator<Item = Unit>,
        chosen: impl IntoIterator<Item = (String, (i64, bool))>,
    ) -> Self {
        let (next, chosen) = (next.into_iter().collect(), chosen.into_iter().collect());
        Self { next, chosen, given: HashSet::new() }
    }

    fn take(&mut self, wanted: &Wanted) -> Result<Vec<Unit>, Lack> {
        match wanted {
            Wanted::Any(quantity) => self.take_next(*quantity),
            Wanted::Chosen(labels) => self.take_chosen(labels),
        }
    }

    fn take_next(&mut self, quantity: i64) -> Result<Vec<Unit>, Lack> {
        self.next.retain(|unit| !self.given.contains(&unit.number));
        let quantity = usize::try_from(quantity).unwrap_or(usize::MAX);
        if self.next.len() < quantity {
            return Err(Lack::Units);
        }
        let taken: Vec<Unit> = self.next.drain(..quantity).collect();
        self.given.extend(taken.iter().map(|unit| unit.number));
        Ok(taken)
    }

    fn take_chosen(&mut self, labels: &[String]) -> Result<Vec<Unit>, Lack> {
        let (mut units, mut taken, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for label in labels {
            match self.chosen.get(label) {
                None => unknown.push(label.clone()),
                Some((number, free)) if !free || self.given.contains(number) => taken.push(label.clone()),
                Some((number, _)) => units.push(Unit { number: *number, label: label.clone() }),
            }
        }
        if !unknown.is_empty() {
            return Err(Lack::Unknown(unknown));
        }
        if !taken.is_empty() {
            return Err(Lack::Taken(taken));
        }
        self.given.extend(units.iter().map(|unit| unit.number));
        Ok(units)
    }
}
