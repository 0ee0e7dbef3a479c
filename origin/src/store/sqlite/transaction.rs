//! The primitives of a transaction. It has every lock from its beginning, so none is taken here.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::{Connection, Sqlite, SqliteConnection, Transaction};

use super::outbox;
use crate::answer::Answer;
use crate::checkout::StockMove;
use crate::model::{Purchase, Reservation};
use crate::store::outbox::{Again, Leased, Settled};
use crate::store::rows::{labels_json, select_purchase, select_reservation};
use crate::store::tx::{Halt, Known, NewEvent, Standing, Turn, Tx, WriteError};
use crate::store::{KeyUse, Settings};

/// An open transaction and the moment it stands for.
pub(super) struct SqliteTx<'c> {
    tx: Transaction<'c, Sqlite>,
    now: i64,
    settings: &'c Settings,
}

/// A kept key, apart from its name: fingerprint, purchase, answer, and the lease's owner and end.
pub(super) type KeyRow = (Vec<u8>, Option<String>, Option<String>, Option<String>, Option<i64>);

/// What a kept key stands for. `None`: the table's check rules it out.
pub(super) fn known(row: KeyRow) -> Result<Option<Known>, WriteError> {
    let (fingerprint, purchase, answer, owner, until) = row;
    let standing = match (answer, purchase) {
        (Some(answer), _) => Standing::Answered(serde_json::from_str(&answer)?),
        (None, Some(purchase)) => Standing::UnderWay { purchase, lease: owner.zip(until) },
        (None, None) => return Ok(None),
    };
    Ok(Some(Known { fingerprint, standing }))
}

// === impl SqliteTx ===

impl<'c> SqliteTx<'c> {
    pub(super) async fn begin(
        connection: &'c mut SqliteConnection,
        settings: &'c Settings,
    ) -> Result<Self, WriteError> {
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let now = sqlx::query_scalar("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")
            .fetch_one(&mut *tx)
            .await?;
        Ok(Self { tx, now, settings })
    }

    pub(super) async fn commit(self) -> Result<(), WriteError> {
        Ok(self.tx.commit().await?)
    }

    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }

    /// The same moment throughout.
    pub(super) fn moment(&self) -> i64 {
        self.now
    }

    /// Moves units of each product between the counters of its stock.
    async fn count(&mut self, moves: &BTreeMap<&str, Moved>) -> Result<(), WriteError> {
        for (product, Moved { available, held, sold }) in moves {
            sqlx::query(
                "UPDATE stock SET available = available + ?2, held = held + ?3, sold = sold + ?4 WHERE product_id = ?1",
            )
            .bind(product)
            .bind(available)
            .bind(held)
            .bind(sold)
            .execute(&mut *self.tx)
            .await?;
        }
        Ok(())
    }

    /// Gives numbered units of reservations a state; `free` ones are nobody's.
    async fn mark(&mut self, reservations: &[&str], state: &str) -> Result<(), WriteError> {
        if reservations.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "UPDATE units SET state = ?2, reservation_id = iif(?2 = 'free', NULL, reservation_id)
             WHERE reservation_id IN (SELECT value FROM json_each(?1))",
        )
        .bind(json!(reservations).to_string())
        .bind(state)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }
}

/// What is added to the counters of a stock.
#[derive(Default)]
struct Moved {
    available: i64,
    held: i64,
    sold: i64,
}

impl Tx for SqliteTx<'_> {
    fn settings(&self) -> &Settings {
        self.settings
    }

    async fn now(&mut self) -> Result<i64, WriteError> {
        Ok(self.now)
    }

    async fn key(&mut self, key: &KeyUse) -> Result<Option<Known>, WriteError> {
        let row: Option<KeyRow> = sqlx::query_as(
            "SELECT fingerprint, purchase_id, answer, lease_owner, lease_until FROM idempotency_keys
             WHERE visitor = ?1 AND key = ?2",
        )
        .bind(&key.visitor)
        .bind(&key.key)
        .fetch_optional(&mut *self.tx)
        .await?;
        row.map_or(Ok(None), known)
    }

    async fn keep_key(&mut self, key: &KeyUse, standing: &Standing) -> Result<(), WriteError> {
        let (purchase, answer, lease): (Option<&String>, Option<&Answer>, _) = match standing {
            Standing::Answered(answer) => (None, Some(answer), None),
            Standing::UnderWay { purchase, lease } => (Some(purchase), None, lease.as_ref()),
        };
        sqlx::query(
            "INSERT INTO idempotency_keys
                 (visitor, key, fingerprint, purchase_id, answer, lease_owner, lease_until, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (visitor, key) DO UPDATE SET
                 purchase_id = COALESCE(?4, purchase_id), answer = ?5, lease_owner = ?6, lease_until = ?7",
        )
        .bind(&key.visitor)
        .bind(&key.key)
        .bind(key.fingerprint.as_slice())
        .bind(purchase)
        .bind(answer.map(serde_json::to_string).transpose()?)
        .bind(lease.map(|(owner, _)| owner))
        .bind(lease.map(|(_, until)| until))
        .bind(self.now)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    async fn forget_keys(&mut self, before: i64) -> Result<(), WriteError> {
        sqlx::query("DELETE FROM idempotency_keys WHERE created_at < ?1 AND answer IS NOT NULL")
            .bind(before)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    async fn forget_events(&mut self, before: i64) -> Result<(), WriteError> {
        sqlx::query("DELETE FROM payment_events WHERE received_at < ?1")
            .bind(before)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    async fn reservation(&mut self, id: &str) -> Result<Option<Reservation>, WriteError> {
        Ok(sqlx::query_as(select_reservation!("WHERE r.id = ?1"))
            .bind(id)
            .fetch_optional(&mut *self.tx)
            .await?)
    }

    async fn due(&mut self, limit: u32) -> Result<Vec<Reservation>, WriteError> {
        Ok(sqlx::query_as(select_reservation!(
            "WHERE r.state IN ('held', 'paying') AND r.expires_at <= ?1 ORDER BY r.expires_at LIMIT ?2"
        ))
        .bind(self.now)
        .bind(limit)
        .fetch_all(&mut *self.tx)
        .await?)
    }

    async fn put(&mut self, turns: &[Turn]) -> Result<(), WriteError> {
        let rows: Value = turns
            .iter()
            .map(|Turn { reservation, .. }| {
                let Reservation { id, state, expires_at, extended, version, .. } = reservation;
                json!([id, state.as_str(), expires_at, extended, version])
            })
            .collect();
        sqlx::query(
            "UPDATE reservations SET state = turned.value ->> 1, expires_at = turned.value ->> 2,
                 extended = turned.value ->> 3, version = turned.value ->> 4, changed_at = ?2
             FROM json_each(?1) turned WHERE reservations.id = turned.value ->> 0",
        )
        .bind(rows.to_string())
        .bind(self.now)
        .execute(&mut *self.tx)
        .await?;
        let mut moves = BTreeMap::<&str, Moved>::new();
        let (mut freed, mut sold) = (Vec::new(), Vec::new());
        for Turn { reservation, units } in turns {
            let numbered = (!reservation.units.is_empty()).then_some(reservation.id.as_str());
            match units {
                StockMove::Stay => {}
                StockMove::Release => {
                    let moved = moves.entry(&reservation.product).or_default();
                    moved.held -= reservation.quantity;
                    moved.available += reservation.quantity;
                    freed.extend(numbered);
                }
                StockMove::Sell => {
                    let moved = moves.entry(&reservation.product).or_default();
                    moved.held -= reservation.quantity;
                    moved.sold += reservation.quantity;
                    sold.extend(numbered);
                }
            }
        }
        self.mark(&freed, "free").await?;
        self.mark(&sold, "sold").await?;
        self.count(&moves).await
    }

    async fn retake(&mut self, reservation: &mut Reservation) -> Result<bool, WriteError> {
        let Reservation { id, product, visitor, quantity, units, chosen, .. } = reservation;
        let enough: bool = sqlx::query_scalar(
            "SELECT s.available >= ?3
                 AND NOT EXISTS (SELECT 1 FROM reservations r WHERE r.product_id = ?1 AND r.visitor = ?2
                                 AND r.state IN ('held', 'paying', 'capturing', 'sold'))
             FROM stock s WHERE s.product_id = ?1",
        )
        .bind(&*product)
        .bind(&*visitor)
        .bind(*quantity)
        .fetch_one(&mut *self.tx)
        .await?;
        if !enough {
            return Ok(false);
        }
        let same: bool = sqlx::query_scalar(
            "SELECT COUNT(*) = json_array_length(?2) FROM units WHERE product_id = ?1 AND state = 'free'
             AND label IN (SELECT value FROM json_each(?2))",
        )
        .bind(&*product)
        .bind(json!(units).to_string())
        .fetch_one(&mut *self.tx)
        .await?;
        if !same {
            if *chosen {
                return Ok(false);
            }
            *units = sqlx::query_scalar(
                "SELECT label FROM units WHERE product_id = ?1 AND state = 'free' ORDER BY number LIMIT ?2",
            )
            .bind(&*product)
            .bind(*quantity)
            .fetch_all(&mut *self.tx)
            .await?;
            sqlx::query("UPDATE reservations SET units = ?2 WHERE id = ?1")
                .bind(&*id)
                .bind(labels_json(units))
                .execute(&mut *self.tx)
                .await?;
        }
        sqlx::query(
            "UPDATE units SET state = 'held', reservation_id = ?3
             WHERE product_id = ?1 AND label IN (SELECT value FROM json_each(?2))",
        )
        .bind(&*product)
        .bind(json!(units).to_string())
        .bind(&*id)
        .execute(&mut *self.tx)
        .await?;
        let moved = Moved { available: -*quantity, held: *quantity, sold: 0 };
        self.count(&BTreeMap::from([(product.as_str(), moved)])).await?;
        Ok(true)
    }

    async fn has_units(&mut self, reservation: &Reservation) -> Result<bool, WriteError> {
        let Reservation { id, product, units, .. } = reservation;
        Ok(sqlx::query_scalar(
            "SELECT COUNT(*) = json_array_length(?3) FROM units WHERE product_id = ?1 AND reservation_id = ?2
             AND state = 'held' AND label IN (SELECT value FROM json_each(?3))",
        )
        .bind(product)
        .bind(id)
        .bind(json!(units).to_string())
        .fetch_one(&mut *self.tx)
        .await?)
    }

    async fn purchase(&mut self, id: &str) -> Result<Option<Purchase>, WriteError> {
        Ok(sqlx::query_as(select_purchase!("WHERE p.id = ?1")).bind(id).fetch_optional(&mut *self.tx).await?)
    }

    async fn add_purchase(&mut self, purchase: &Purchase) -> Result<(), WriteError> {
        sqlx::query(
            "INSERT INTO purchases (id, reservation_id, state, method, email, created_at, changed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
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
        sqlx::query(
            "UPDATE purchases SET state = ?2, reason = ?3, provider_ref = ?4, redirect_url = ?5, changed_at = ?6
             WHERE id = ?1",
        )
        .bind(&purchase.id)
        .bind(purchase.state.as_str())
        .bind(&purchase.reason)
        .bind(&purchase.provider_ref)
        .bind(&purchase.redirect_url)
        .bind(self.now)
        .execute(&mut *self.tx)
        .await?;
        Ok(())
    }

    async fn fresh(&mut self, id: &str, kind: &str, purchase: &str) -> Result<bool, WriteError> {
        let noted = sqlx::query(
            "INSERT INTO payment_events (id, kind, purchase_id, received_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
        )
        .bind(id)
        .bind(kind)
        .bind(purchase)
        .bind(self.now)
        .execute(&mut *self.tx)
        .await?;
        Ok(noted.rows_affected() == 1)
    }

    async fn halt(&mut self, product: &str) -> Result<Option<Halt>, WriteError> {
        let row: Option<(Option<i64>, Option<String>, i64)> =
            sqlx::query_as("SELECT stopped_at, stopped_why, version FROM products WHERE id = ?1")
                .bind(product)
                .fetch_optional(&mut *self.tx)
                .await?;
        Ok(row
            .map(|(at, why, version)| Halt { stopped: at.map(|at| (at, why.unwrap_or_default())), version }))
    }

    async fn put_halt(&mut self, product: &str, halt: &Halt) -> Result<(), WriteError> {
        sqlx::query("UPDATE products SET stopped_at = ?2, stopped_why = ?3, version = ?4 WHERE id = ?1")
            .bind(product)
            .bind(halt.stopped.as_ref().map(|(at, _)| at))
            .bind(halt.stopped.as_ref().map(|(_, why)| why))
            .bind(halt.version)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    async fn emit(&mut self, events: &[NewEvent]) -> Result<(), WriteError> {
        let rows: Value = events
            .iter()
            .map(|NewEvent { id, aggregate, seq, kind, payload }| {
                json!([aggregate, seq, id, kind, payload.to_string()])
            })
            .collect();
        sqlx::query(
            "INSERT INTO outbox (sink, aggregate, seq, id, kind, payload, created_at, next_try, put_off_at)
             SELECT sink.value, event.value ->> 0, event.value ->> 1, event.value ->> 2, event.value ->> 3,
                    event.value ->> 4, ?3, ?3, ?3
             FROM json_each(?1) event, json_each(?2) sink",
        )
        .bind(rows.to_string())
        .bind(json!(self.settings.sinks).to_string())
        .bind(self.now)
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
