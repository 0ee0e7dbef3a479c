//! Claims that arrived together, served in one transaction: units locked, what is known of the claims loaded, decided,
//! written.
//!
//! A list of keys, visitors or labels is always gone through one by one, each looked up in its index: that is what LATERAL
//! with LIMIT is for, and an update by `ctid` of rows that are locked. A plain join may be planned the other way round
//! while a table is small, and stays so while it grows.
//!
//! Claims take no lock on keys and visitors. Two nodes that serve the same one at once write the same key, or a second
//! live reservation of one visitor: the database refuses the later, which is tried again and finds what the first has
//! made. That costs nothing where nobody does it. The limit of units for each visitor has no such index to stand guard,
//! so where there is one, visitors are locked.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use super::transaction::{PgTx, clock, count, key_id, known, visitor_lock};
use super::{BUCKETS, Shared};
use crate::answer::Answer;
use crate::model::{Kind, Product, Reservation};
use crate::store::ops::claim::{Bucket, Decision, Loaded, Shelf, Supply, Unit, Units, decide};
use crate::store::ops::end;
use crate::store::rows::labels_json;
use crate::store::tx::WriteError;
use crate::store::{Claim, Wanted};

/// Holds that are ended at once at most.
const AT_A_TIME: u32 = 1_000;
/// Below so many units in each bucket they are left where they are.
const WORTH_SPREADING: i64 = 16;

/// The latest version of each of these buckets, `known` being one that it has surely reached.
macro_rules! buckets {
    ($lock:literal, $rest:literal) => {
        concat!(
            "SELECT k.slot, b.generation, b.available
             FROM unnest($2::bigint[], $3::bigint[]) k (slot, known)
             CROSS JOIN LATERAL (SELECT generation, available FROM buckets WHERE product_id = $1 AND slot = k.slot
                                 AND generation >= k.known ORDER BY generation DESC LIMIT 1 ",
            $lock,
            ") b ",
            $rest
        )
    };
}
/// The first bucket that has so many units and that nobody has locked.
pub(super) const ONE_BUCKET: &str = buckets!("FOR UPDATE SKIP LOCKED", "WHERE b.available >= $4 LIMIT 1");
const FREE_BUCKETS: &str = buckets!("FOR UPDATE SKIP LOCKED", "WHERE b.available > 0");
const ALL_BUCKETS: &str = buckets!("FOR UPDATE", "");

macro_rules! next_units {
    ($lock:literal) => {
        concat!(
            "SELECT number, label, place FROM units WHERE product_id = $1 AND place > $2 ORDER BY place LIMIT $3 FOR UPDATE ",
            $lock
        )
    };
}

/// The next free units that nobody has locked.
pub(super) const NEXT_UNITS: &str = next_units!("SKIP LOCKED");

/// How hard to look for units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Take what nobody else has locked.
    Fast,
    /// Alone on the product: end holds that are due, wait for what others have locked, look at everything.
    Reclaim,
}

/// What came of it.
pub(super) enum Served {
    /// Committed; in the order of the claims.
    Answers(Vec<Answer>),
    /// Nothing was done: somebody would have to be refused who may be served with more effort.
    Short,
}

/// What a product's claims are served from.
pub(super) struct Counter<'a> {
    pub(super) shared: &'a Shared,
    pub(super) product: &'a str,
    pub(super) kind: Kind,
    /// Where among the buckets to begin looking, so that those who work side by side begin apart.
    pub(super) first: i64,
}

/// Units that are locked.
enum Locked {
    Buckets(Vec<(i64, i64, i64)>),
    Units { next: Vec<(i64, String, i64)>, chosen: Vec<String>, all: bool },
}

/// Of a batch that is decided: what is to be known of it besides.
struct Found {
    loaded: Loaded,
    due: Vec<String>,
}

impl Counter<'_> {
    pub(super) async fn serve(
        &self,
        connection: &mut PgConnection,
        claims: &[Claim],
        effort: Effort,
    ) -> Result<Served, WriteError> {
        let mut tx = PgTx::begin(connection, self.shared).await?;
        self.lock_visitors(&mut tx, claims).await?;
        if effort == Effort::Reclaim {
            tx.lock_product(self.product).await?;
            let mut due = tx.due_of(self.product, AT_A_TIME).await?;
            end(&mut tx, &mut due).await?;
        }
        let mut locked = self.lock_stock(&mut tx, claims, effort).await?;
        let mut found = self.load(&mut tx, claims, &locked, effort).await?;
        if !found.due.is_empty() {
            if effort == Effort::Fast {
                return Ok(Served::Short);
            }
            let ids: Vec<&str> = found.due.iter().map(String::as_str).collect();
            let mut due = tx.lock_all(&ids).await?;
            end(&mut tx, &mut due).await?;
            locked = self.lock_stock(&mut tx, claims, effort).await?;
            found = self.load(&mut tx, claims, &locked, effort).await?;
        }
        let now = found.loaded.now;
        let mut decision = decide(&self.shared.settings, found.loaded, claims)?;
        let short =
            decision.short || decision.answers.iter().any(|answer| answer.text("code") == "unit_taken");
        if short && (effort == Effort::Fast || self.shared.cursors.look_thoroughly(self.product, true)) {
            return Ok(Served::Short);
        }
        if let Some(Supply::Buckets(buckets)) =
            decision.shelves.get_mut(self.product).map(|shelf| &mut shelf.supply)
            && effort == Effort::Reclaim
        {
            spread(buckets);
        }
        self.write(&mut tx, &decision, &locked, now).await?;
        tx.commit().await?;
        self.advance(&decision, &locked, effort);
        Ok(Served::Answers(decision.answers))
    }

    async fn lock_visitors(&self, tx: &mut PgTx<'_>, claims: &[Claim]) -> Result<(), WriteError> {
        if self.shared.settings.units_per_visitor.is_none() {
            return Ok(());
        }
        let mut locks: Vec<i64> = claims.iter().map(|claim| visitor_lock(&claim.key.visitor)).collect();
        locks.sort_unstable();
        locks.dedup();
        sqlx::query("SELECT pg_advisory_xact_lock(visitor) FROM unnest($1::bigint[]) visitor")
            .bind(locks)
            .execute(tx.connection())
            .await?;
        Ok(())
    }

    async fn lock_stock(
        &self,
        tx: &mut PgTx<'_>,
        claims: &[Claim],
        effort: Effort,
    ) -> Result<Locked, WriteError> {
        let wanted: i64 = claims.iter().map(|claim| claim.wanted.quantity()).fold(0, i64::saturating_add);
        match self.kind {
            Kind::Count => self.lock_buckets(tx, wanted, effort).await,
            Kind::Units => self.lock_units(tx, claims, wanted, effort).await,
        }
    }

    async fn lock_buckets(
        &self,
        tx: &mut PgTx<'_>,
        wanted: i64,
        effort: Effort,
    ) -> Result<Locked, WriteError> {
        let cursor = self.shared.cursors.of(self.product);
        let first = if effort == Effort::Fast { self.first } else { 0 };
        let slots: Vec<i64> = (0..BUCKETS).map(|slot| (first + slot).rem_euclid(BUCKETS)).collect();
        let generations: Vec<i64> = slots
            .iter()
            .map(|slot| {
                usize::try_from(*slot)
                    .ok()
                    .and_then(|slot| cursor.generations.get(slot).copied())
                    .unwrap_or(0)
            })
            .collect();
        let select = |statement: &'static str| {
            sqlx::query_as(statement).bind(self.product).bind(slots.clone()).bind(generations.clone())
        };
        if effort == Effort::Fast {
            let enough: Vec<(i64, i64, i64)> =
                select(ONE_BUCKET).bind(wanted).fetch_all(tx.connection()).await?;
            if !enough.is_empty() {
                return Ok(Locked::Buckets(enough));
            }
            return Ok(Locked::Buckets(select(FREE_BUCKETS).fetch_all(tx.connection()).await?));
        }
        let all: Vec<(i64, i64, i64)> = select(ALL_BUCKETS).fetch_all(tx.connection()).await?;
        if count(all.len()) != count(slots.len()) {
            self.shared.cursors.forget(self.product);
            return Err(sqlx::Error::RowNotFound.into());
        }
        Ok(Locked::Buckets(all))
    }

    async fn lock_units(
        &self,
        tx: &mut PgTx<'_>,
        claims: &[Claim],
        wanted: i64,
        effort: Effort,
    ) -> Result<Locked, WriteError> {
        let labels = chosen(claims);
        let chosen: Vec<String> = if labels.is_empty() {
            Vec::new()
        } else {
            sqlx::query_scalar(
                "SELECT u.label FROM (SELECT DISTINCT label FROM unnest($2::text[]) label ORDER BY label) k
                 CROSS JOIN LATERAL (SELECT label FROM units WHERE product_id = $1 AND label = k.label
                                     AND place IS NOT NULL LIMIT 1 FOR UPDATE) u",
            )
            .bind(self.product)
            .bind(labels)
            .fetch_all(tx.connection())
            .await?
        };
        let cursor = self.shared.cursors.of(self.product);
        let (statement, from) = match effort {
            Effort::Fast => (NEXT_UNITS, cursor.skimmed),
            Effort::Reclaim => (next_units!(""), cursor.passed),
        };
        let next: Vec<(i64, String, i64)> = sqlx::query_as(statement)
            .bind(self.product)
            .bind(from)
            .bind(wanted)
            .fetch_all(tx.connection())
            .await?;
        let all = effort == Effort::Reclaim && count(next.len()) < u64::try_from(wanted).unwrap_or(0);
        Ok(Locked::Units { next, chosen, all })
    }

    async fn load(
        &self,
        tx: &mut PgTx<'_>,
        claims: &[Claim],
        locked: &Locked,
        effort: Effort,
    ) -> Result<Found, WriteError> {
        let ids: Vec<[u8; 16]> = claims.iter().map(|claim| key_id(&claim.key)).collect();
        let visitors: Vec<&str> = claims.iter().map(|claim| claim.key.visitor.as_str()).collect();
        let rows = sqlx::query(concat!(
            "SELECT shelf.*, x.* FROM
                 (SELECT ",
            clock!(),
            " AS now, p.id AS shelf_id, p.name, p.description, p.price_minor, p.currency AS shelf_currency,
                         p.max_quantity, p.kind, p.stopped_at
                  FROM products p WHERE p.id = $3) shelf
             LEFT JOIN LATERAL (
                 SELECT k.id AS key_id, k.fingerprint, k.purchase_id, k.answer, k.lease_owner, k.lease_until, r.*
                 FROM unnest($1::bytea[]) asked (id)
                 CROSS JOIN LATERAL (SELECT * FROM idempotency_keys WHERE id = asked.id LIMIT 1) k
                 LEFT JOIN reservations r ON r.id = k.reservation_id
                 UNION ALL
                 SELECT NULL, NULL, NULL, NULL, NULL, NULL, r.*
                 FROM unnest($2::text[]) asked (visitor)
                 CROSS JOIN LATERAL (SELECT * FROM reservations WHERE visitor = asked.visitor AND product_id = $3
                                     AND over = '' LIMIT 1) r
             ) x ON TRUE"
        ))
        .bind(ids.iter().map(<[u8; 16]>::as_slice).collect::<Vec<_>>())
        .bind(&visitors)
        .bind(self.product)
        .fetch_all(tx.connection())
        .await?;
        let mut loaded = Loaded {
            now: 0,
            keys: HashMap::new(),
            shelves: HashMap::new(),
            live: HashMap::new(),
            taken: HashMap::new(),
        };
        let mut due = Vec::new();
        let Some(shelf) = rows.first() else { return Ok(Found { loaded, due }) };
        loaded.now = shelf.try_get("now")?;
        for row in &rows {
            if let Some(id) = row.try_get::<Option<&[u8]>, _>("key_id")? {
                let asked = claims.iter().zip(&ids).find(|(_, asked)| asked.as_slice() == id);
                if let Some((Claim { key, .. }, _)) = asked {
                    loaded.keys.insert((key.visitor.clone(), key.key.clone()), known(row)?);
                }
            } else if row.try_get::<Option<&str>, _>("id")?.is_some() {
                let hold = Reservation::from_row(row)?;
                if hold.clone().at(loaded.now).state != hold.state {
                    due.push(hold.id.clone());
                }
                loaded.live.insert((hold.product.clone(), hold.visitor.clone()), hold);
            }
        }
        loaded.taken = self.taken(tx, &visitors, loaded.now).await?;
        let shelf = self.shelf(tx, shelf, claims, locked, effort).await?;
        loaded.shelves.insert(self.product.to_owned(), shelf);
        Ok(Found { loaded, due })
    }

    async fn taken(
        &self,
        tx: &mut PgTx<'_>,
        visitors: &[&str],
        now: i64,
    ) -> Result<HashMap<String, i64>, WriteError> {
        if self.shared.settings.units_per_visitor.is_none() {
            return Ok(HashMap::new());
        }
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT visitor, SUM(quantity)::bigint FROM reservations
             WHERE visitor = ANY ($1) AND over = '' AND (due_at IS NULL OR due_at > $2) GROUP BY visitor",
        )
        .bind(visitors)
        .bind(now)
        .fetch_all(tx.connection())
        .await?;
        Ok(rows.into_iter().collect())
    }

    async fn shelf(
        &self,
        tx: &mut PgTx<'_>,
        row: &PgRow,
        claims: &[Claim],
        locked: &Locked,
        effort: Effort,
    ) -> Result<Shelf, WriteError> {
        let product = Product {
            id: self.product.to_owned(),
            name: row.try_get("name")?,
            description: row.try_get("description")?,
            price_minor: row.try_get("price_minor")?,
            currency: row.try_get("shelf_currency")?,
            max_quantity: row.try_get("max_quantity")?,
            kind: self.kind,
        };
        let mut left = self.shared.figures.of(self.product);
        let (supply, known, all) = match locked {
            Locked::Buckets(buckets) => {
                let known: i64 = buckets.iter().map(|(.., available)| available).sum();
                let buckets = buckets
                    .iter()
                    .map(|&(id, _, available)| Bucket { id, available, moved: 0, taken: 0 })
                    .collect();
                (Supply::Buckets(buckets), known, effort == Effort::Reclaim)
            }
            Locked::Units { next, chosen, all } => {
                let free =
                    next.iter().map(|(number, label, _)| Unit { number: *number, label: label.clone() });
                let chosen = self.chosen_units(tx, claims, chosen).await?;
                (Supply::Units(Units::new(free, chosen)), i64::try_from(next.len()).unwrap_or(i64::MAX), *all)
            }
        };
        if all {
            let seen = left;
            left.available = known;
            // Nothing can come back where nothing is held, so that once it is known it stays so.
            if seen.held == 0 && seen.available > 0 {
                left.held = sqlx::query_scalar(
                    "SELECT COALESCE(SUM(quantity), 0)::bigint FROM reservations
                     WHERE product_id = $1 AND due_at IS NOT NULL",
                )
                .bind(self.product)
                .fetch_one(tx.connection())
                .await?;
            }
        } else {
            left.available = left.available.max(known);
        }
        let stopped = row.try_get::<Option<i64>, _>("stopped_at")?.is_some();
        Ok(Shelf { product, stopped, left, supply })
    }

    /// Of the units that these claims choose, those that there are: their number, and whether they are locked as free.
    async fn chosen_units(
        &self,
        tx: &mut PgTx<'_>,
        claims: &[Claim],
        free: &[String],
    ) -> Result<Vec<(String, (i64, bool))>, WriteError> {
        let labels = chosen(claims);
        if labels.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT label, number FROM units WHERE product_id = $1 AND label = ANY ($2)")
                .bind(self.product)
                .bind(labels)
                .fetch_all(tx.connection())
                .await?;
        Ok(rows
            .into_iter()
            .map(|(label, number)| {
                let free = free.contains(&label);
                (label, (number, free))
            })
            .collect())
    }

    async fn write(
        &self,
        tx: &mut PgTx<'_>,
        decision: &Decision,
        locked: &Locked,
        now: i64,
    ) -> Result<(), WriteError> {
        // In one order everywhere, so that two nodes that write the same visitors wait for each other and no more.
        let mut holds: Vec<&(Reservation, Vec<i64>)> = decision.holds.iter().collect();
        holds.sort_unstable_by(|(one, _), (other, _)| one.visitor.cmp(&other.visitor));
        let moved = match (decision.shelves.get(self.product).map(|shelf| &shelf.supply), locked) {
            (Some(Supply::Buckets(buckets)), Locked::Buckets(locked)) => {
                self.write_buckets(tx, buckets, locked).await?
            }
            (Some(Supply::Units(_)), Locked::Units { .. }) => self.write_units(tx, &holds).await?,
            _ => true,
        };
        if !moved {
            return Err(sqlx::Error::RowNotFound.into());
        }
        let quantity: i64 = holds.iter().map(|(hold, _)| hold.quantity).sum();
        if quantity > 0 {
            tx.moves(self.product, -quantity, quantity);
        }
        if decision.keys.is_empty() {
            return Ok(());
        }
        let mut keys = Vec::with_capacity(decision.keys.len());
        for (key, answer) in &decision.keys {
            let made = answer.status == 201;
            let answer = if made { Err(answer.text("id")) } else { Ok(serde_json::to_string(answer)?) };
            keys.push((key_id(key), key.fingerprint.as_slice(), answer));
        }
        keys.sort_unstable();
        let all = || holds.iter().map(|(hold, _)| hold);
        let first = decision.holds.first().map(|(hold, _)| hold);
        sqlx::query(
            "WITH made AS (
                 INSERT INTO reservations (id, product_id, visitor, quantity, amount_minor, currency, state, created_at,
                                           expires_at, changed_at, bucket, units, chosen)
                 SELECT id, $1, visitor, quantity, amount, $2, 'held', $3, $4, $3, bucket, units, chosen
                 FROM unnest($5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[],
                             $15::boolean[]) k (id, visitor, quantity, amount, bucket, units, chosen))
             INSERT INTO idempotency_keys (id, fingerprint, reservation_id, answer, created_at)
             SELECT k.*, $3 FROM unnest($11::bytea[], $12::bytea[], $13::text[], $14::text[]) k",
        )
        .bind(self.product)
        .bind(first.map_or("", |hold| hold.currency.as_str()))
        .bind(now)
        .bind(first.map_or(now, |hold| hold.expires_at))
        .bind(all().map(|hold| hold.id.as_str()).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.visitor.as_str()).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.quantity).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.amount_minor).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.bucket).collect::<Vec<_>>())
        .bind(all().map(|hold| labels_json(&hold.units)).collect::<Vec<_>>())
        .bind(keys.iter().map(|(id, ..)| id.as_slice()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, fingerprint, _)| *fingerprint).collect::<Vec<_>>())
        .bind(keys.iter().map(|(.., answer)| answer.as_ref().err().copied()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(.., answer)| answer.as_ref().ok().map(String::as_str)).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.chosen).collect::<Vec<_>>())
        .execute(tx.connection())
        .await?;
        Ok(())
    }

    /// `false`: they are not as they were locked.
    async fn write_buckets(
        &self,
        tx: &mut PgTx<'_>,
        buckets: &[Bucket],
        locked: &[(i64, i64, i64)],
    ) -> Result<bool, WriteError> {
        let changed: Vec<(&Bucket, i64)> = buckets
            .iter()
            .zip(locked)
            .filter(|(bucket, _)| bucket.taken != 0 || bucket.moved != 0)
            .map(|(bucket, (_, generation, _))| (bucket, *generation))
            .collect();
        if changed.is_empty() {
            return Ok(true);
        }
        let written = sqlx::query(
            "UPDATE buckets b SET available = b.available + k.moved - k.taken, total = b.total + k.moved,
                 generation = b.generation + 1
             FROM (SELECT b.ctid, k.moved, k.taken
                   FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) k (slot, generation, moved, taken)
                   CROSS JOIN LATERAL (SELECT ctid FROM buckets WHERE product_id = $1 AND slot = k.slot
                                       AND generation = k.generation LIMIT 1) b) k
             WHERE b.ctid = k.ctid",
        )
        .bind(self.product)
        .bind(changed.iter().map(|(bucket, _)| bucket.id).collect::<Vec<_>>())
        .bind(changed.iter().map(|(_, generation)| *generation).collect::<Vec<_>>())
        .bind(changed.iter().map(|(bucket, _)| bucket.moved).collect::<Vec<_>>())
        .bind(changed.iter().map(|(bucket, _)| bucket.taken).collect::<Vec<_>>())
        .execute(tx.connection())
        .await?;
        for (bucket, generation) in &changed {
            tx.bucket_is(self.product, bucket.id, generation + 1);
        }
        Ok(written.rows_affected() == count(changed.len()))
    }

    async fn write_units(
        &self,
        tx: &mut PgTx<'_>,
        holds: &[&(Reservation, Vec<i64>)],
    ) -> Result<bool, WriteError> {
        let (mut labels, mut owners) = (Vec::new(), Vec::new());
        for (hold, _) in holds {
            for label in &hold.units {
                labels.push(label.as_str());
                owners.push(hold.id.as_str());
            }
        }
        if labels.is_empty() {
            return Ok(true);
        }
        let written = sqlx::query(
            "UPDATE units u SET state = 'held', place = NULL, reservation_id = k.owner
             FROM (SELECT u.ctid, k.owner FROM unnest($2::text[], $3::text[]) k (label, owner)
                   CROSS JOIN LATERAL (SELECT ctid FROM units WHERE product_id = $1 AND label = k.label
                                       AND place IS NOT NULL LIMIT 1) u) k
             WHERE u.ctid = k.ctid",
        )
        .bind(self.product)
        .bind(&labels)
        .bind(owners)
        .execute(tx.connection())
        .await?;
        Ok(written.rows_affected() == count(labels.len()))
    }

    /// Whoever looks for units next begins after those that were taken.
    fn advance(&self, decision: &Decision, locked: &Locked, effort: Effort) {
        let Locked::Units { next, .. } = locked else { return };
        let taken: std::collections::HashSet<&str> =
            decision.holds.iter().flat_map(|(hold, _)| &hold.units).map(String::as_str).collect();
        let mut passed = None;
        for (_, label, place) in next {
            if !taken.contains(label.as_str()) {
                // The first that is left.
                passed = Some(place - 1);
                break;
            }
            passed = Some(*place);
        }
        let Some(passed) = passed else { return };
        match effort {
            Effort::Fast => self.shared.cursors.skim(self.product, passed),
            Effort::Reclaim => self.shared.cursors.pass(self.product, passed),
        }
    }
}

fn chosen(claims: &[Claim]) -> Vec<&str> {
    let labels = claims.iter().filter_map(|claim| match &claim.wanted {
        Wanted::Chosen(labels) => Some(labels),
        Wanted::Any(_) => None,
    });
    labels.flatten().map(String::as_str).collect()
}

/// Makes the buckets about as full as each other, where it is worth it.
fn spread(buckets: &mut [Bucket]) {
    let Ok(many) = i64::try_from(buckets.len()) else { return };
    let all: i64 = buckets.iter().map(|bucket| bucket.available).sum();
    if many == 0
        || all < many * WORTH_SPREADING
        || buckets.iter().all(|bucket| bucket.available * 2 >= all / many)
    {
        return;
    }
    let mut rest = all % many;
    for bucket in buckets {
        let share = all / many + i64::from(rest > 0);
        rest -= i64::from(rest > 0);
        bucket.moved += share - bucket.available;
        bucket.available = share;
    }
}

/// What is left is told apart from what is not known.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreading_loses_no_unit_and_makes_buckets_alike() {
        let mut buckets: Vec<Bucket> = [500, 0, 3, 0]
            .into_iter()
            .zip(0..)
            .map(|(available, id)| Bucket { id, available, moved: 0, taken: 0 })
            .collect();
        spread(&mut buckets);
        assert_eq!(buckets.iter().map(|bucket| bucket.available).collect::<Vec<_>>(), [126, 126, 126, 125]);
        assert_eq!(buckets.iter().map(|bucket| bucket.moved).sum::<i64>(), 0);
    }
}
