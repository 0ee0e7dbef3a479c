//! The primitives of a transaction, with the locks that they are said to take.
//!
//! Buckets and units are the exception to the order of locks: they are locked when units move, so that a step of a
//! payment keeps no claim waiting. Whoever holds a bucket or a unit and goes on to reservations skips those that are
//! locked, so no circle comes of it but one that two changes of the same visitor can close; the database ends one of
//! them, and it is tried again.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection, Postgres, Row, Transaction};

use super::Shared;
use super::figures::Deltas;
use super::outbox;
use crate::answer::Answer;
use crate::checkout::{Hold, StockMove};
use crate::model::{Purchase, Reservation};
use crate::store::outbox::{Again, Leased, Settled};
use crate::store::rows::{labels_json, select_purchase, select_reservation};
use crate::store::tx::{Halt, Known, NewEvent, Standing, Turn, Tx, WriteError};
use crate::store::{KeyUse, Settings};

/// Unix milliseconds of the database's clock, whenever it is evaluated.
macro_rules! clock {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}
/// A selection that locks, and the time after it has locked.
macro_rules! and_time {
    ($select:expr) => {
        concat!("SELECT locked.*, ", clock!(), " AS locked_at FROM (", $select, ") locked")
    };
}
pub(super) use clock;

/// The first of the two numbers of a product's lock.
const PRODUCT_LOCK: i32 = 0x726f_7065;

/// An open transaction.
pub(super) struct PgTx<'c> {
    tx: Transaction<'c, Postgres>,
    shared: &'c Shared,
    /// Read after the last lock.
    now: Option<i64>,
    /// Whether the key that was looked up was there.
    known: bool,
    deltas: Deltas,
    seen: Vec<(String, i64, i64)>,
}

/// The name that a key is kept under.
pub(super) fn key_id(key: &KeyUse) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(u64::try_from(key.visitor.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(&key.visitor);
    hash.update(&key.key);
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    id
}

/// The number of a lock on a visitor.
pub(super) fn visitor_lock(visitor: &str) -> i64 {
    first_i64(&Sha256::new().chain_update("visitor").chain_update(visitor).finalize())
}

fn product_lock(product: &str) -> i32 {
    let hash = Sha256::digest(product);
    i32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// See [`PgTx::lock_product`].
pub(super) async fn lock_product(connection: &mut PgConnection, product: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_xact_lock($1, $2)")
        .bind(PRODUCT_LOCK)
        .bind(product_lock(product))
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) fn first_i64(bytes: &[u8]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    i64::from_be_bytes(first)
}

/// What a kept key stands for. The row has the key's columns, and with `first_expires_at` and `first_units` those of the
/// reservation that it made, if it made one.
pub(super) fn known(row: &PgRow) -> Result<Known, WriteError> {
    let answer: Option<&str> = row.try_get("answer")?;
    let purchase: Option<String> = row.try_get("purchase_id")?;
    let standing = match (answer, purchase) {
        (Some(answer), _) => Standing::Answered(serde_json::from_str(answer)?),
        (None, Some(purchase)) => {
            let owner: Option<String> = row.try_get("lease_owner")?;
            let until: Option<i64> = row.try_get("lease_until")?;
            Standing::UnderWay { purchase, lease: owner.zip(until) }
        }
        (None, None) => {
            let made = Reservation::from_row(row)?;
            let first: Option<i64> = row.try_get("first_expires_at")?;
            let expires_at = first.unwrap_or(made.expires_at);
            let first: Option<String> = row.try_get("first_units")?;
            let units = first.map_or(Ok(made.units), |first| serde_json::from_str(&first))?;
            let made = Reservation { state: Hold::Held, expires_at, extended: false, units, ..made };
            Standing::Answered(Answer::reserved(&made))
        }
    };
    Ok(Known { fingerprint: row.try_get("fingerprint")?, standing })
}

// === impl PgTx ===

impl<'c> PgTx<'c> {
    pub(super) async fn begin(
        connection: &'c mut PgConnection,
        shared: &'c Shared,
    ) -> Result<Self, WriteError> {
        let tx = connection.begin().await?;
        Ok(Self { tx, shared, now: None, known: false, deltas: Deltas::default(), seen: Vec::new() })
    }

    pub(super) async fn commit(self) -> Result<(), WriteError> {
        let commit = self.shared.figures.commit(self.deltas);
        self.tx.commit().await?;
        commit.done();
        for (product, slot, generation) in &self.seen {
            self.shared.cursors.generation(product, *slot, *generation);
        }
        Ok(())
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// Units move, as the figures are to show once it is committed.
    pub(super) fn moves(&mut self, product: &str, available: i64, held: i64) {
        self.deltas.add(product, available, held);
    }

    /// A bucket is in this generation once it is committed.
    pub(super) fn bucket_is(&mut self, product: &str, slot: i64, generation: i64) {
        self.seen.push((product.to_owned(), slot, generation));
    }

    /// From here on nobody else reclaims holds of the product, and no unit of it comes back.
    pub(super) async fn lock_product(&mut self, product: &str) -> Result<(), WriteError> {
        Ok(lock_product(&mut self.tx, product).await?)
    }

    /// From here on nobody reclaims holds of the product.
    async fn share_product(&mut self, product: &str) -> Result<(), WriteError> {
        sqlx::query("SELECT pg_advisory_xact_lock_shared($1, $2)")
            .bind(PRODUCT_LOCK)
            .bind(product_lock(product))
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Takes the time that a row was locked at.
    fn locked_at(&mut self, row: &PgRow) -> Result<(), sqlx::Error> {
        self.now = Some(row.try_get("locked_at")?);
        Ok(())
    }

    fn reservations(&mut self, rows: &[PgRow]) -> Result<Vec<Reservation>, WriteError> {
        if let Some(row) = rows.last() {
            self.locked_at(row)?;
        }
        Ok(rows.iter().map(Reservation::from_row).collect::<Result<_, _>>()?)
    }

    /// Up to `limit` due holds of a product, locked, but not those that others have locked.
    pub(super) async fn due_of(&mut self, product: &str, limit: u32) -> Result<Vec<Reservation>, WriteError> {
        let now: i64 = sqlx::query_scalar(concat!("SELECT ", clock!())).fetch_one(&mut *self.tx).await?;
        let from = self.shared.cursors.due(product, now);
        let rows = sqlx::query(and_time!(select_reservation!(
            "WHERE r.product_id = $1 AND r.due_at > $2 AND r.due_at <= $3 ORDER BY r.due_at LIMIT $4
             FOR UPDATE SKIP LOCKED"
        )))
        .bind(product)
        .bind(from)
        .bind(now)
        .bind(i64::from(limit))
        .fetch_all(&mut *self.tx)
        .await?;
        if rows.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
            self.shared.cursors.ended(product, from, now);
        }
        self.reservations(&rows)
    }

    /// These reservations, locked, but not those that others have locked.
    pub(super) async fn lock_all(&mut self, ids: &[&str]) -> Result<Vec<Reservation>, WriteError> {
        let rows =
            sqlx::query(and_time!(select_reservation!("WHERE r.id = ANY ($1) FOR UPDATE SKIP LOCKED")))
                .bind(ids)
                .fetch_all(&mut *self.tx)
                .await?;
        self.reservations(&rows)
    }

    /// Gives units back to their buckets.
    async fn refill(&mut self, back: &BTreeMap<(&str, i64), i64>) -> Result<(), WriteError> {
        let (mut products, mut slots, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for (product, slot) in back.keys() {
            let cursor = self.shared.cursors.of(product);
            let generation =
                usize::try_from(*slot).ok().and_then(|slot| cursor.generations.get(slot).copied());
            products.push(*product);
            slots.push(*slot);
            known.push(generation.unwrap_or(0));
        }
        let found: Vec<(String, i64, i64)> = sqlx::query_as(
            "SELECT k.product, k.slot, b.generation FROM unnest($1::text[], $2::bigint[], $3::bigint[]) k (product, slot, known)
             CROSS JOIN LATERAL (SELECT generation FROM buckets WHERE product_id = k.product AND slot = k.slot
                                 AND generation >= k.known ORDER BY generation DESC LIMIT 1 FOR UPDATE) b",
        )
        .bind(&products)
        .bind(&slots)
        .bind(&known)
        .fetch_all(&mut *self.tx)
        .await?;
        let quantities: Vec<i64> = found
            .iter()
            .map(|(product, slot, _)| back.get(&(product.as_str(), *slot)).copied().unwrap_or(0))
            .collect();
        let filled = sqlx::query(
            "UPDATE buckets b SET available = b.available + k.units, generation = b.generation + 1
             FROM (SELECT b.ctid, k.units
                   FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) k (product, slot, generation, units)
                   CROSS JOIN LATERAL (SELECT ctid FROM buckets WHERE product_id = k.product AND slot = k.slot
                                       AND generation = k.generation LIMIT 1) b) k
             WHERE b.ctid = k.ctid",
        )
        .bind(found.iter().map(|(product, ..)| product.as_str()).collect::<Vec<_>>())
        .bind(found.iter().map(|(_, slot, _)| *slot).collect::<Vec<_>>())
        .bind(found.iter().map(|(.., generation)| *generation).collect::<Vec<_>>())
        .bind(quantities)
        .execute(&mut *self.tx)
        .await?;
        if filled.rows_affected() != count(back.len()) {
            products.iter().for_each(|product| self.shared.cursors.forget(product));
            return Err(sqlx::Error::RowNotFound.into());
        }
        self.seen
            .extend(found.into_iter().map(|(product, slot, generation)| (product, slot, generation + 1)));
        Ok(())
    }

    /// Gives numbered units back to nobody. A hold whose units are not its own ends all the same: it shall not keep those
    /// that end with it, and the audit stops its product.
    async fn free(
        &mut self,
        products: &[&str],
        reservations: &[&str],
        labels: &[&str],
    ) -> Result<(), WriteError> {
        let mut locks: Vec<&str> = products.to_vec();
        locks.sort_unstable();
        locks.dedup();
        for product in locks {
            self.share_product(product).await?;
        }
        let freed = sqlx::query(
            "UPDATE units u SET state = 'free', reservation_id = NULL, place = nextval('unit_places')
             FROM (SELECT u.ctid FROM unnest($1::text[], $2::text[], $3::text[]) k (product, reservation, label)
                   CROSS JOIN LATERAL (SELECT ctid FROM units WHERE product_id = k.product AND label = k.label
                                       AND reservation_id = k.reservation LIMIT 1) u) k
             WHERE u.ctid = k.ctid",
        )
        .bind(products)
        .bind(reservations)
        .bind(labels)
        .execute(&mut *self.tx)
        .await?;
        if freed.rows_affected() != count(labels.len()) {
            tracing::error!(?labels, "units that were to come back are not those of their reservation");
        }
        Ok(())
    }

    /// Marks numbered units as sold, all of them or none: [`Tx::has_units`] has looked.
    async fn sell(
        &mut self,
        products: &[&str],
        reservations: &[&str],
        labels: &[&str],
    ) -> Result<(), WriteError> {
        let sold = sqlx::query(
            "UPDATE units u SET state = 'sold'
             FROM (SELECT u.ctid FROM unnest($1::text[], $2::text[], $3::text[]) k (product, reservation, label)
                   CROSS JOIN LATERAL (SELECT ctid FROM units WHERE product_id = k.product AND label = k.label
                                       AND reservation_id = k.reservation LIMIT 1) u) k
             WHERE u.ctid = k.ctid",
        )
        .bind(products)
        .bind(reservations)
        .bind(labels)
        .execute(&mut *self.tx)
        .await?;
        if sold.rows_affected() != count(labels.len()) {
            return Err(sqlx::Error::RowNotFound.into());
        }
        Ok(())
    }

    async fn retake_bucket(&mut self, reservation: &mut Reservation) -> Result<bool, WriteError> {
        let Reservation { id, product, quantity, .. } = &*reservation;
        let cursor = self.shared.cursors.of(product);
        let slots: Vec<i64> = (0..super::BUCKETS).collect();
        let found: Option<(i64, i64)> = sqlx::query_as(super::claims::ONE_BUCKET)
            .bind(product)
            .bind(&slots)
            .bind(&cursor.generations)
            .bind(quantity)
            .fetch_optional(&mut *self.tx)
            .await?;
        let Some((slot, generation)) = found else { return Ok(false) };
        sqlx::query(
            "UPDATE buckets SET available = available - $4, generation = generation + 1
             WHERE product_id = $1 AND slot = $2 AND generation = $3",
        )
        .bind(product)
        .bind(slot)
        .bind(generation)
        .bind(quantity)
        .execute(&mut *self.tx)
        .await?;
        sqlx::query("UPDATE reservations SET bucket = $2 WHERE id = $1")
            .bind(id)
            .bind(slot)
            .execute(&mut *self.tx)
            .await?;
        self.seen.push((product.clone(), slot, generation + 1));
        reservation.bucket = slot;
        Ok(true)
    }

    async fn retake_units(&mut self, reservation: &mut Reservation) -> Result<bool, WriteError> {
        let Reservation { id, product, quantity, units, chosen, .. } = reservation;
        let same: Vec<String> = sqlx::query_scalar(
            "SELECT label FROM units WHERE product_id = $1 AND label = ANY ($2) AND place IS NOT NULL
             FOR UPDATE SKIP LOCKED",
        )
        .bind(&*product)
        .bind(&*units)
        .fetch_all(&mut *self.tx)
        .await?;
        if same.len() != units.len() {
            if *chosen {
                return Ok(false);
            }
            let others: Vec<(i64, String, i64)> = sqlx::query_as(super::claims::NEXT_UNITS)
                .bind(&*product)
                .bind(self.shared.cursors.of(product).passed)
                .bind(*quantity)
                .fetch_all(&mut *self.tx)
                .await?;
            if others.len() != units.len() {
                return Ok(false);
            }
            *units = others.into_iter().map(|(_, label, _)| label).collect();
            sqlx::query(
                "UPDATE reservations SET units = $2, first_units = COALESCE(first_units, units) WHERE id = $1",
            )
            .bind(&*id)
            .bind(labels_json(units))
            .execute(&mut *self.tx)
            .await?;
        }
        sqlx::query(
            "UPDATE units SET state = 'held', reservation_id = $3, place = NULL
             WHERE product_id = $1 AND label = ANY ($2)",
        )
        .bind(&*product)
        .bind(&*units)
        .bind(&*id)
        .execute(&mut *self.tx)
        .await?;
        Ok(true)
    }
}

pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Tx for PgTx<'_> {
    fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    async fn now(&mut self) -> Result<i64, WriteError> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let now = sqlx::query_scalar(concat!("SELECT ", clock!())).fetch_one(&mut *self.tx).await?;
        self.now = Some(now);
        Ok(now)
    }

    async fn key(&mut self, key: &KeyUse) -> Result<Option<Known>, WriteError> {
        let id = key_id(key);
        // What is read after it is as it is left by whoever had the lock.
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(first_i64(&id)).execute(&mut *self.tx).await?;
        self.now = None;
        let row = sqlx::query(
            "SELECT r.*, k.fingerprint, k.purchase_id, k.answer, k.lease_owner, k.lease_until
             FROM idempotency_keys k LEFT JOIN reservations r ON r.id = k.reservation_id WHERE k.id = $1",
        )
        .bind(id.as_slice())
        .fetch_optional(&mut *self.tx)
        .await?;
        self.known = row.is_some();
        row.as_ref().map(known).transpose()
    }

    async fn keep_key(&mut self, key: &KeyUse, standing: &Standing) -> Result<(), WriteError> {
        let (purchase, answer, lease): (Option<&String>, Option<&Answer>, _) = match standing {
            Standing::Answered(answer) => (None, Some(answer), None),
            Standing::UnderWay { purchase, lease } => (Some(purchase), None, lease.as_ref()),
        };
        let answer = answer.map(serde_json::to_string).transpose()?;
        let (owner, until) = (lease.map(|(owner, _)| owner), lease.map(|(_, until)| until));
        let id = key_id(key);
        if self.known {
            sqlx::query(
                "UPDATE idempotency_keys SET purchase_id = COALESCE($2, purchase_id), answer = $3, lease_owner = $4,
                     lease_until = $5
                 WHERE id = $1",
            )
            .bind(id.as_slice())
            .bind(purchase)
            .bind(answer)
            .bind(owner)
            .bind(until)
            .execute(&mut *self.tx)
            .await?;
        } else {
            let now = self.now().await?;
            // Claims take no lock on their keys. What one has written meanwhile shall not be written over: the insert
            // fails, and the operation is tried again.
            sqlx::query(
                "INSERT INTO idempotency_keys (id, fingerprint, purchase_id, answer, lease_owner, lease_until, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(id.as_slice())
            .bind(key.fingerprint.as_slice())
            .bind(purchase)
            .bind(answer)
            .bind(owner)
            .bind(until)
            .bind(now)
            .execute(&mut *self.tx)
            .await?;
        }
        self.known = true;
        Ok(())
    }

    async fn forget_keys(&mut self, before: i64) -> Result<(), WriteError> {
        sqlx::query(
            "DELETE FROM idempotency_keys WHERE id IN (
                 SELECT id FROM idempotency_keys
                 WHERE created_at < $1 AND (answer IS NOT NULL OR purchase_id IS NULL)
                 ORDER BY created_at LIMIT 5000 FOR UPDATE SKIP LOCKED)",
        )
        .bind(before)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    async fn forget_events(&mut self, before: i64) -> Result<(), WriteError> {
        sqlx::query(
            "DELETE FROM payment_events WHERE id IN (
                 SELECT id FROM payment_events WHERE received_at < $1
                 ORDER BY received_at LIMIT 5000 FOR UPDATE SKIP LOCKED)",
        )
        .bind(before)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    async fn reservation(&mut self, id: &str) -> Result<Option<Reservation>, WriteError> {
        let row = sqlx::query(and_time!(select_reservation!("WHERE r.id = $1 FOR UPDATE")))
            .bind(id)
            .fetch_all(&mut *self.tx)
            .await?;
        Ok(self.reservations(&row)?.pop())
    }

    async fn due(&mut self, limit: u32) -> Result<Vec<Reservation>, WriteError> {
        let products: Vec<String> =
            sqlx::query_scalar("SELECT id FROM products ORDER BY id").fetch_all(&mut *self.tx).await?;
        let mut due = Vec::new();
        for product in products {
            let left = limit.saturating_sub(u32::try_from(due.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            self.shared.cursors.look_thoroughly(&product, false);
            due.extend(self.due_of(&product, left).await?);
        }
        Ok(due)
    }

    async fn put(&mut self, turns: &[Turn]) -> Result<(), WriteError> {
        let now = self.now().await?;
        let all = || turns.iter().map(|turn| &turn.reservation);
        sqlx::query(
            "UPDATE reservations r SET state = k.state, expires_at = k.expires_at, version = k.version, changed_at = $6,
                 extended = k.extended,
                 first_expires_at = CASE WHEN k.extended AND NOT r.extended THEN r.expires_at ELSE r.first_expires_at END
             FROM (SELECT r.ctid, k.* FROM unnest($1::text[], $2::text[], $3::bigint[], $4::boolean[], $5::bigint[])
                        k (id, state, expires_at, extended, version)
                   CROSS JOIN LATERAL (SELECT ctid FROM reservations WHERE id = k.id LIMIT 1) r) k
             WHERE r.ctid = k.ctid",
        )
        .bind(all().map(|hold| hold.id.as_str()).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.state.as_str()).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.expires_at).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.extended).collect::<Vec<_>>())
        .bind(all().map(|hold| hold.version).collect::<Vec<_>>())
        .bind(now)
        .execute(&mut *self.tx)
        .await?;
        let mut back = BTreeMap::new();
        let mut freed = (Vec::new(), Vec::new(), Vec::new());
        let mut sold = (Vec::new(), Vec::new(), Vec::new());
        for Turn { reservation, units } in turns {
            let Reservation { id, product, quantity, bucket, units: labels, .. } = reservation;
            let numbered = match units {
                StockMove::Stay => continue,
                StockMove::Release => {
                    self.deltas.add(product, *quantity, -*quantity);
                    if labels.is_empty() {
                        *back.entry((product.as_str(), *bucket)).or_insert(0) += *quantity;
                    }
                    &mut freed
                }
                StockMove::Sell => {
                    self.deltas.add(product, 0, -*quantity);
                    &mut sold
                }
            };
            for label in labels {
                numbered.0.push(product.as_str());
                numbered.1.push(id.as_str());
                numbered.2.push(label.as_str());
            }
        }
        if !freed.0.is_empty() {
            self.free(&freed.0, &freed.1, &freed.2).await?;
        }
        if !sold.0.is_empty() {
            self.sell(&sold.0, &sold.1, &sold.2).await?;
        }
        if !back.is_empty() {
            self.refill(&back).await?;
        }
        Ok(())
    }

    async fn retake(&mut self, reservation: &mut Reservation) -> Result<bool, WriteError> {
        let other: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM reservations WHERE visitor = $1 AND product_id = $2 AND over = '')",
        )
        .bind(&reservation.visitor)
        .bind(&reservation.product)
        .fetch_one(&mut *self.tx)
        .await?;
        if other {
            return Ok(false);
        }
        let taken = if reservation.units.is_empty() {
            self.retake_bucket(reservation).await?
        } else {
            self.retake_units(reservation).await?
        };
        if taken {
            self.deltas.add(&reservation.product, -reservation.quantity, reservation.quantity);
        }
        Ok(taken)
    }

    async fn has_units(&mut self, reservation: &Reservation) -> Result<bool, WriteError> {
        let Reservation { id, product, units, .. } = reservation;
        if units.is_empty() {
            return Ok(true);
        }
        let own: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM units WHERE product_id = $1 AND label = ANY ($2) AND reservation_id = $3 AND state = 'held'",
        )
        .bind(product)
        .bind(units)
        .bind(id)
        .fetch_one(&mut *self.tx)
        .await?;
        Ok(u64::try_from(own) == Ok(count(units.len())))
    }

    async fn purchase(&mut self, id: &str) -> Result<Option<Purchase>, WriteError> {
        sqlx::query(
            "SELECT 1 FROM reservations WHERE id = (SELECT reservation_id FROM purchases WHERE id = $1) FOR UPDATE",
        )
        .bind(id)
        .execute(&mut *self.tx)
        .await?;
        let row = sqlx::query(and_time!(select_purchase!("WHERE p.id = $1 FOR UPDATE OF p")))
            .bind(id)
            .fetch_optional(&mut *self.tx)
            .await?;
        let Some(row) = row else { return Ok(None) };
        self.locked_at(&row)?;
        Ok(Some(Purchase::from_row(&row)?))
    }

    async fn add_purchase(&mut self, purchase: &Purchase) -> Result<(), WriteError> {
        sqlx::query(
            "INSERT INTO purchases (id, reservation_id, state, method, email, created_at, changed_at)
             VALUES ($1, $2, $3, $4, $5, $6, $6)",
        )
        .bind(&purchase.id)
        .bind(&purchase.reservation.id)
        .bind(purchase.state.as_str())
        .bind(&purchase.method)
        .bind(&purchase.email)
        .bind(purchase.created_at)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    async fn put_purchase(&mut self, purchase: &Purchase) -> Result<(), WriteError> {
        let now = self.now().await?;
        sqlx::query(
            "UPDATE purchases SET state = $2, reason = $3, provider_ref = $4, redirect_url = $5, changed_at = $6
             WHERE id = $1",
        )
        .bind(&purchase.id)
        .bind(purchase.state.as_str())
        .bind(&purchase.reason)
        .bind(&purchase.provider_ref)
        .bind(&purchase.redirect_url)
        .bind(now)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    async fn fresh(&mut self, id: &str, kind: &str, purchase: &str) -> Result<bool, WriteError> {
        let noted = sqlx::query(concat!(
            "INSERT INTO payment_events (id, kind, purchase_id, received_at) VALUES ($1, $2, $3, ",
            clock!(),
            ") ON CONFLICT DO NOTHING"
        ))
        .bind(id)
        .bind(kind)
        .bind(purchase)
        .execute(&mut *self.tx)
        .await?;
        self.now = None;
        Ok(noted.rows_affected() == 1)
    }

    async fn halt(&mut self, product: &str) -> Result<Option<Halt>, WriteError> {
        let row: Option<(Option<i64>, Option<String>, i64)> =
            sqlx::query_as("SELECT stopped_at, stopped_why, version FROM products WHERE id = $1 FOR UPDATE")
                .bind(product)
                .fetch_optional(&mut *self.tx)
                .await?;
        self.now = None;
        Ok(row
            .map(|(at, why, version)| Halt { stopped: at.map(|at| (at, why.unwrap_or_default())), version }))
    }

    async fn put_halt(&mut self, product: &str, halt: &Halt) -> Result<(), WriteError> {
        sqlx::query("UPDATE products SET stopped_at = $2, stopped_why = $3, version = $4 WHERE id = $1")
            .bind(product)
            .bind(halt.stopped.as_ref().map(|(at, _)| at))
            .bind(halt.stopped.as_ref().map(|(_, why)| why))
            .bind(halt.version)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    async fn emit(&mut self, events: &[NewEvent]) -> Result<(), WriteError> {
        let now = self.now().await?;
        sqlx::query(
            "INSERT INTO outbox (sink, aggregate, seq, id, kind, payload, created_at, next_try, put_off_at)
             SELECT sink, k.aggregate, k.seq, k.id, k.kind, k.payload, $7, $7, $7
             FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[]) k (aggregate, seq, id, kind, payload)
             CROSS JOIN unnest($6::text[]) sink",
        )
        .bind(events.iter().map(|event| event.aggregate.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.seq).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.id.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.kind).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.payload.to_string()).collect::<Vec<_>>())
        .bind(&self.shared.settings.sinks)
        .bind(now)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    async fn lease(&mut self, sink: &str, lease_ms: i64, limit: u32) -> Result<Vec<Leased>, WriteError> {
        outbox::lease(self, sink, lease_ms, limit).await
    }

    async fn settle(&mut self, sink: &str, settled: &[Settled]) -> Result<(), WriteError> {
        outbox::settle(self, sink, settled).await
    }

    async fn send_again(&mut self, which: &Again, sink: Option<&str>) -> Result<u64, WriteError> {
        outbox::send_again(self, which, sink).await
    }
}
