//! Events on their way out. Each is as its namesake of [`crate::store::Store`] and of [`crate::store::tx::Tx`].

use serde_json::{Value, json};

use super::Sqlite;
use super::transaction::SqliteTx;
use crate::store::outbox::{Again, Backlog, Fate, Leased, OutboxEvent, Settled};
use crate::store::tx::WriteError;
use crate::store::{StoreError, unreadable};

pub(super) async fn lease(
    tx: &mut SqliteTx<'_>,
    sink: &str,
    lease_ms: i64,
    limit: u32,
) -> Result<Vec<Leased>, WriteError> {
    let now = tx.moment();
    // What is leased is not due before its lease is over, so nothing else has to be asked about it.
    Ok(sqlx::query_as(
        "UPDATE outbox SET leased_until = ?2, next_try = ?2, put_off_at = ?3, tries = tries + 1
         WHERE sink = ?1 AND (aggregate, seq) IN (
             SELECT o.aggregate, o.seq FROM outbox o
             WHERE o.sink = ?1 AND o.dead = 0 AND (o.next_try <= ?3 OR o.put_off_at > ?3) AND NOT EXISTS (
                 SELECT 1 FROM outbox before WHERE before.sink = ?1 AND before.aggregate = o.aggregate
                 AND before.seq < o.seq AND before.dead = 0)
             ORDER BY o.next_try LIMIT ?4)
         RETURNING id, aggregate, seq, kind, payload, created_at, tries, leased_until",
    )
    .bind(sink)
    .bind(now + lease_ms)
    .bind(now)
    .bind(limit)
    .fetch_all(tx.connection())
    .await?)
}

pub(super) async fn settle(tx: &mut SqliteTx<'_>, sink: &str, settled: &[Settled]) -> Result<(), WriteError> {
    let now = tx.moment();
    let (mut told, mut kept) = (Vec::<Value>::new(), Vec::<Value>::new());
    for Settled { aggregate, seq, leased_until, fate } in settled {
        match fate {
            Fate::Told => told.push(json!([aggregate, seq, leased_until])),
            Fate::Again { wait_ms, why, tried } => {
                let untried = i32::from(!tried);
                kept.push(json!([aggregate, seq, leased_until, now + wait_ms, 0, why, untried]));
            }
            Fate::Dead { why } => kept.push(json!([aggregate, seq, leased_until, now, 1, why, 0])),
        }
    }
    if !told.is_empty() {
        sqlx::query(
            "DELETE FROM outbox WHERE sink = ?1 AND (aggregate, seq) IN (
                 SELECT o.aggregate, o.seq FROM json_each(?2) told
                 CROSS JOIN outbox o ON o.sink = ?1 AND o.aggregate = told.value ->> 0 AND o.seq = told.value ->> 1
                 WHERE o.leased_until = told.value ->> 2)",
        )
        .bind(sink)
        .bind(Value::from(told).to_string())
        .execute(tx.connection())
        .await?;
    }
    if !kept.is_empty() {
        sqlx::query(
            "UPDATE outbox SET leased_until = NULL, next_try = kept.value ->> 3, dead = kept.value ->> 4,
                 failure = kept.value ->> 5, put_off_at = ?3, tries = tries - (kept.value ->> 6)
             FROM json_each(?2) kept WHERE outbox.sink = ?1 AND outbox.aggregate = kept.value ->> 0
                 AND outbox.seq = kept.value ->> 1 AND outbox.leased_until = kept.value ->> 2",
        )
        .bind(sink)
        .bind(Value::from(kept).to_string())
        .bind(now)
        .execute(tx.connection())
        .await?;
    }
    Ok(())
}

pub(super) async fn send_again(
    tx: &mut SqliteTx<'_>,
    which: &Again,
    sink: Option<&str>,
) -> Result<u64, WriteError> {
    let now = tx.moment();
    let id = match which {
        Again::One(id) => Some(id),
        Again::AllDead => None,
    };
    let changed = sqlx::query(
        "UPDATE outbox SET dead = 0, tries = 0, next_try = ?3, put_off_at = ?3, leased_until = NULL
         WHERE iif(?1 IS NULL, dead = 1, id = ?1) AND (?2 IS NULL OR sink = ?2)
         AND (leased_until IS NULL OR leased_until <= ?3)",
    )
    .bind(id)
    .bind(sink)
    .bind(now)
    .execute(tx.connection())
    .await?;
    Ok(changed.rows_affected())
}

impl Sqlite {
    pub(in crate::store) async fn outbox(
        &self,
        sink: Option<&str>,
        only_dead: bool,
        limit: u32,
    ) -> Result<Vec<OutboxEvent>, StoreError> {
        sqlx::query_as(
            "SELECT sink, id, aggregate, seq, kind, created_at, tries, next_try, dead, failure FROM outbox
             WHERE (?1 IS NULL OR sink = ?1) AND (dead = 1 OR NOT ?2) ORDER BY created_at, sink, aggregate, seq LIMIT ?3",
        )
        .bind(sink)
        .bind(only_dead)
        .bind(limit)
        .fetch_all(&self.reads)
        .await
        .map_err(|error| unreadable(&error))
    }

    pub(in crate::store) async fn backlog(&self) -> Result<Vec<Backlog>, StoreError> {
        sqlx::query_as(
            "SELECT sink, COUNT(*) FILTER (WHERE dead = 0) AS waiting, COUNT(*) FILTER (WHERE dead = 1) AS dead,
                 CAST(max(0, COALESCE(
                     round(unixepoch('subsec') * 1000) - MIN(created_at) FILTER (WHERE dead = 0), 0)) AS INTEGER)
                     AS oldest_ms
             FROM outbox GROUP BY sink ORDER BY sink",
        )
        .fetch_all(&self.reads)
        .await
        .map_err(|error| unreadable(&error))
    }
}
