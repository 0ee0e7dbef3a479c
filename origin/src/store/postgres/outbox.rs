//! Events on their way out, shared among the nodes. Each is as its namesake of [`crate::store::Store`] and of
//! [`crate::store::tx::Tx`].

use super::Postgres;
use super::transaction::{PgTx, clock};
use crate::store::StoreError;
use crate::store::outbox::{Again, Backlog, Fate, Leased, OutboxEvent, Settled};
use crate::store::tx::WriteError;

pub(super) async fn lease(
    tx: &mut PgTx<'_>,
    sink: &str,
    lease_ms: i64,
    limit: u32,
) -> Result<Vec<Leased>, WriteError> {
    // What is leased is not due before its lease is over, so nothing else has to be asked about it. An event that another
    // node took since this query began is looked at anew once it is locked, and is not due any more. One that the other
    // told since then is still there for this query, so that the next of its aggregate is left to the next query.
    Ok(sqlx::query_as(concat!(
        "WITH due AS MATERIALIZED (
             SELECT o.aggregate, o.seq FROM outbox o
             WHERE o.sink = $1 AND NOT o.dead AND (o.next_try <= (SELECT ",
        clock!(),
        ") OR o.put_off_at > (SELECT ",
        clock!(),
        ")) AND NOT EXISTS (
                 SELECT 1 FROM outbox earlier WHERE earlier.sink = $1 AND earlier.aggregate = o.aggregate
                 AND earlier.seq < o.seq AND NOT earlier.dead)
             ORDER BY o.next_try LIMIT $2 FOR UPDATE OF o SKIP LOCKED)
         UPDATE outbox o SET leased_until = lease.now + $3, next_try = lease.now + $3, put_off_at = lease.now,
             tries = o.tries + 1
         FROM due, (SELECT ",
        clock!(),
        " AS now) lease
         WHERE o.sink = $1 AND o.aggregate = due.aggregate AND o.seq = due.seq
         RETURNING o.id, o.aggregate, o.seq, o.kind, o.payload, o.created_at, o.tries, o.leased_until"
    ))
    .bind(sink)
    .bind(i64::from(limit))
    .bind(lease_ms)
    .fetch_all(tx.connection())
    .await?)
}

pub(super) async fn settle(tx: &mut PgTx<'_>, sink: &str, settled: &[Settled]) -> Result<(), WriteError> {
    let (told, kept): (Vec<&Settled>, Vec<&Settled>) =
        settled.iter().partition(|settled| settled.fate == Fate::Told);
    let aggregates =
        |of: &[&Settled]| of.iter().map(|settled| settled.aggregate.clone()).collect::<Vec<String>>();
    let seqs = |of: &[&Settled]| of.iter().map(|settled| settled.seq).collect::<Vec<i64>>();
    let leases = |of: &[&Settled]| of.iter().map(|settled| settled.leased_until).collect::<Vec<i64>>();
    if !told.is_empty() {
        sqlx::query(
            "DELETE FROM outbox o USING unnest($2::text[], $3::bigint[], $4::bigint[]) told (aggregate, seq, until)
             WHERE o.sink = $1 AND o.aggregate = told.aggregate AND o.seq = told.seq AND o.leased_until = told.until",
        )
        .bind(sink)
        .bind(aggregates(&told))
        .bind(seqs(&told))
        .bind(leases(&told))
        .execute(tx.connection())
        .await?;
    }
    if !kept.is_empty() {
        let (mut waits, mut deaths, mut reasons, mut untried) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for one in &kept {
            let (wait, dead, why, tried) = match &one.fate {
                Fate::Told => continue,
                Fate::Again { wait_ms, why, tried } => (*wait_ms, false, why.as_str(), *tried),
                Fate::Dead { why } => (0, true, why.as_str(), true),
            };
            waits.push(wait);
            deaths.push(dead);
            reasons.push(why);
            untried.push(i64::from(!tried));
        }
        sqlx::query(concat!(
            "UPDATE outbox o SET leased_until = NULL, next_try = ",
            clock!(),
            " + kept.wait, put_off_at = ",
            clock!(),
            ", dead = kept.dead, failure = kept.why, tries = o.tries - kept.untried
             FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[], $7::text[], $8::bigint[])
                 kept (aggregate, seq, until, wait, dead, why, untried)
             WHERE o.sink = $1 AND o.aggregate = kept.aggregate AND o.seq = kept.seq AND o.leased_until = kept.until"
        ))
        .bind(sink)
        .bind(aggregates(&kept))
        .bind(seqs(&kept))
        .bind(leases(&kept))
        .bind(waits)
        .bind(deaths)
        .bind(reasons)
        .bind(untried)
        .execute(tx.connection())
        .await?;
    }
    Ok(())
}

pub(super) async fn send_again(
    tx: &mut PgTx<'_>,
    which: &Again,
    sink: Option<&str>,
) -> Result<u64, WriteError> {
    let id = match which {
        Again::One(id) => Some(id),
        Again::AllDead => None,
    };
    let changed = sqlx::query(concat!(
        "UPDATE outbox SET dead = FALSE, tries = 0, next_try = ",
        clock!(),
        ", put_off_at = ",
        clock!(),
        ", leased_until = NULL
         WHERE CASE WHEN $1::text IS NULL THEN dead ELSE id = $1 END AND ($2::text IS NULL OR sink = $2)
         AND (leased_until IS NULL OR leased_until <= ",
        clock!(),
        ")"
    ))
    .bind(id)
    .bind(sink)
    .execute(tx.connection())
    .await?;
    Ok(changed.rows_affected())
}

impl Postgres {
    pub(in crate::store) async fn outbox(
        &self,
        sink: Option<&str>,
        only_dead: bool,
        limit: u32,
    ) -> Result<Vec<OutboxEvent>, StoreError> {
        self.read(|| {
            sqlx::query_as(
                "SELECT sink, id, aggregate, seq, kind, created_at, tries, next_try, dead, failure FROM outbox
                 WHERE ($1::text IS NULL OR sink = $1) AND (dead OR NOT $2)
                 ORDER BY created_at, sink, aggregate, seq LIMIT $3",
            )
            .bind(sink)
            .bind(only_dead)
            .bind(i64::from(limit))
            .fetch_all(&self.shared.pool)
        })
        .await
    }

    pub(in crate::store) async fn backlog(&self) -> Result<Vec<Backlog>, StoreError> {
        self.read(|| {
            sqlx::query_as(concat!(
                "SELECT sink, COUNT(*) FILTER (WHERE NOT dead) AS waiting, COUNT(*) FILTER (WHERE dead) AS dead,
                     greatest(0, COALESCE(",
                clock!(),
                " - MIN(created_at) FILTER (WHERE NOT dead), 0)) AS oldest_ms
                 FROM outbox GROUP BY sink ORDER BY sink"
            ))
            .fetch_all(&self.shared.pool)
        })
        .await
    }
}
