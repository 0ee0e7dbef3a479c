//! Claims that arrived together: loaded, decided and written with a few statements for all of them.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use sqlx::{FromRow, Row};

use super::transaction::{self, KeyRow, SqliteTx};
use crate::answer::Answer;
use crate::model::{Kind, Product, Reservation, Stock};
use crate::store::ops::claim::{Bucket, Decision, Loaded, Shelf, Supply, Unit, Units, decide};
use crate::store::rows::{labels_json, select_reservation};
use crate::store::tx::{Known, Tx, WriteError};
use crate::store::{Claim, Wanted};

/// Serves the claims in the order of their arrival; the answers, in the same order.
pub(super) async fn claim(tx: &mut SqliteTx<'_>, claims: &[Claim]) -> Result<Vec<Answer>, WriteError> {
    let loaded = Loaded {
        now: tx.moment(),
        keys: known_keys(tx, claims).await?,
        shelves: shelves(tx, claims).await?,
        live: live_holds(tx, claims).await?,
        taken: taken(tx, claims).await?,
    };
    let decision = decide(tx.settings(), loaded, claims)?;
    write(tx, &decision).await?;
    Ok(decision.answers)
}

async fn known_keys(
    tx: &mut SqliteTx<'_>,
    claims: &[Claim],
) -> Result<HashMap<(String, String), Known>, WriteError> {
    let asked: Value = claims.iter().map(|claim| json!([claim.key.visitor, claim.key.key])).collect();
    let rows = sqlx::query(
        "SELECT k.visitor, k.key, k.fingerprint, k.purchase_id, k.answer, k.lease_owner, k.lease_until
         FROM json_each(?1) asked
         JOIN idempotency_keys k ON k.visitor = asked.value ->> 0 AND k.key = asked.value ->> 1",
    )
    .bind(asked.to_string())
    .fetch_all(tx.connection())
    .await?;
    let mut keys = HashMap::with_capacity(claims.len());
    for row in &rows {
        let name = (row.try_get("visitor")?, row.try_get("key")?);
        let kept: KeyRow = (
            row.try_get("fingerprint")?,
            row.try_get("purchase_id")?,
            row.try_get("answer")?,
            row.try_get("lease_owner")?,
            row.try_get("lease_until")?,
        );
        keys.extend(transaction::known(kept)?.map(|known| (name, known)));
    }
    Ok(keys)
}

async fn shelves(tx: &mut SqliteTx<'_>, claims: &[Claim]) -> Result<HashMap<String, Shelf>, WriteError> {
    let asked: Value = claims.iter().map(|claim| claim.product.as_str()).collect();
    let rows = sqlx::query(
        "SELECT p.*, s.available, s.held FROM products p JOIN stock s ON s.product_id = p.id
         WHERE p.id IN (SELECT value FROM json_each(?1))",
    )
    .bind(asked.to_string())
    .fetch_all(tx.connection())
    .await?;
    let mut shelves = HashMap::with_capacity(rows.len());
    for row in &rows {
        let product = Product::from_row(row)?;
        let left = Stock { available: row.try_get("available")?, held: row.try_get("held")? };
        let supply = match product.kind {
            Kind::Count => {
                Supply::Buckets(vec![Bucket { id: 0, available: left.available, moved: 0, taken: 0 }])
            }
            Kind::Units => Supply::Units(units(tx, &product.id, claims).await?),
        };
        let stopped = row.try_get::<Option<i64>, _>("stopped_at")?.is_some();
        shelves.insert(product.id.clone(), Shelf { product, stopped, left, supply });
    }
    Ok(shelves)
}

/// The units of a numbered product that these claims may come to.
async fn units(tx: &mut SqliteTx<'_>, product: &str, claims: &[Claim]) -> Result<Units, WriteError> {
    let wanted = || claims.iter().filter(|claim| claim.product == product).map(|claim| &claim.wanted);
    let most: i64 = wanted().map(Wanted::quantity).fold(0, i64::saturating_add);
    let next: Vec<(i64, String)> = sqlx::query_as(
        "SELECT number, label FROM units WHERE product_id = ?1 AND state = 'free' ORDER BY number LIMIT ?2",
    )
    .bind(product)
    .bind(most)
    .fetch_all(tx.connection())
    .await?;
    let labels: Vec<&String> = wanted()
        .filter_map(|wanted| match wanted {
            Wanted::Chosen(labels) => Some(labels),
            Wanted::Any(_) => None,
        })
        .flatten()
        .collect();
    let chosen: Vec<(String, i64, bool)> = if labels.is_empty() {
        Vec::new()
    } else {
        sqlx::query_as(
            "SELECT label, number, state = 'free' FROM units
             WHERE product_id = ?1 AND label IN (SELECT value FROM json_each(?2))",
        )
        .bind(product)
        .bind(json!(labels).to_string())
        .fetch_all(tx.connection())
        .await?
    };
    Ok(Units::new(
        next.into_iter().map(|(number, label)| Unit { number, label }),
        chosen.into_iter().map(|(label, number, free)| (label, (number, free))),
    ))
}

/// Due holds have been ended before, so every row found is one that counts.
async fn live_holds(
    tx: &mut SqliteTx<'_>,
    claims: &[Claim],
) -> Result<HashMap<(String, String), Reservation>, WriteError> {
    let asked: Value = claims.iter().map(|claim| json!([claim.product, claim.key.visitor])).collect();
    let rows: Vec<Reservation> = sqlx::query_as(select_reservation!(
        "JOIN json_each(?1) asked ON r.product_id = asked.value ->> 0 AND r.visitor = asked.value ->> 1
         WHERE r.state IN ('held', 'paying', 'capturing', 'sold')"
    ))
    .bind(asked.to_string())
    .fetch_all(tx.connection())
    .await?;
    Ok(rows.into_iter().map(|hold| ((hold.product.clone(), hold.visitor.clone()), hold)).collect())
}

/// What these visitors have of all products together, where that matters.
async fn taken(tx: &mut SqliteTx<'_>, claims: &[Claim]) -> Result<HashMap<String, i64>, WriteError> {
    if tx.settings().units_per_visitor.is_none() {
        return Ok(HashMap::new());
    }
    let asked: Value = claims.iter().map(|claim| claim.key.visitor.as_str()).collect();
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT visitor, SUM(quantity) FROM reservations
         WHERE visitor IN (SELECT value FROM json_each(?1)) AND state IN ('held', 'paying', 'capturing', 'sold')
         GROUP BY visitor",
    )
    .bind(asked.to_string())
    .fetch_all(tx.connection())
    .await?;
    Ok(rows.into_iter().collect())
}

async fn write(tx: &mut SqliteTx<'_>, decision: &Decision) -> Result<(), WriteError> {
    let now = tx.moment();
    let mut taken = BTreeMap::<&str, i64>::new();
    let (mut holds, mut numbers) = (Vec::new(), Vec::new());
    for (hold, own) in &decision.holds {
        *taken.entry(&hold.product).or_default() += hold.quantity;
        numbers.extend(own.iter().map(|number| json!([hold.product, number, hold.id])));
        holds.push(json!([
            hold.id,
            hold.product,
            hold.visitor,
            hold.quantity,
            hold.amount_minor,
            hold.currency,
            hold.created_at,
            hold.expires_at,
            hold.bucket,
            labels_json(&hold.units),
            hold.chosen
        ]));
    }
    for (product, quantity) in taken {
        sqlx::query("UPDATE stock SET available = available - ?2, held = held + ?2 WHERE product_id = ?1")
            .bind(product)
            .bind(quantity)
            .execute(tx.connection())
            .await?;
    }
    if !holds.is_empty() {
        sqlx::query(
            "INSERT INTO reservations (id, product_id, visitor, quantity, amount_minor, currency, state, created_at,
                                       expires_at, changed_at, bucket, units, chosen)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, 'held', value ->> 6,
                    value ->> 7, value ->> 6, value ->> 8, value ->> 9, value ->> 10
             FROM json_each(?1)",
        )
        .bind(Value::Array(holds).to_string())
        .execute(tx.connection())
        .await?;
    }
    if !numbers.is_empty() {
        sqlx::query(
            "UPDATE units SET state = 'held', reservation_id = taken.value ->> 2 FROM json_each(?1) taken
             WHERE units.product_id = taken.value ->> 0 AND units.number = taken.value ->> 1 AND units.state = 'free'",
        )
        .bind(Value::Array(numbers).to_string())
        .execute(tx.connection())
        .await?;
    }
    if !decision.keys.is_empty() {
        let keys = decision
            .keys
            .iter()
            .map(|(key, answer)| {
                let answer = serde_json::to_string(answer)?;
                Ok(json!([key.visitor, key.key, hex(&key.fingerprint), answer]))
            })
            .collect::<Result<Value, serde_json::Error>>()?;
        sqlx::query(
            "INSERT INTO idempotency_keys (visitor, key, fingerprint, answer, created_at)
             SELECT value ->> 0, value ->> 1, unhex(value ->> 2), value ->> 3, ?2 FROM json_each(?1)",
        )
        .bind(keys.to_string())
        .bind(now)
        .execute(tx.connection())
        .await?;
    }
    Ok(())
}

fn hex(bytes: &[u8; 32]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
