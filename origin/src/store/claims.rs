//! Claims that arrived together: four statements for all of them, however many they are.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Value, json};
use sqlx::{FromRow, Row};

use super::KeyUse;
use super::rows::select_reservation;
use super::writer::{Deferred, Moment, Reply, WriteError, later};
use crate::answer::Answer;
use crate::checkout::Hold;
use crate::model::{Product, Reservation, Stock, new_id};

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: KeyUse,
    pub(super) product: String,
    pub(super) quantity: i64,
    pub(super) reply: Reply<Answer>,
}

/// A product of this batch: what is left of it, and what the batch takes.
struct Shelf {
    product: Product,
    left: Stock,
    taken: i64,
}

/// What a key stands for already.
struct Known {
    fingerprint: Vec<u8>,
    /// None while a purchase is under way.
    answer: Option<Answer>,
}

/// Serves the claims in the order of their arrival.
pub(super) async fn claim(
    moment: &mut Moment<'_>,
    claims: Vec<Claim>,
    answers: &mut Vec<Deferred>,
) -> Result<(), WriteError> {
    let mut keys = known_keys(moment, &claims).await?;
    let mut shelves = shelves(moment, &claims).await?;
    let mut live = live_holds(moment, &claims).await?;
    let (mut new_holds, mut new_keys) = (Vec::new(), Vec::new());
    for Claim { key, product, quantity, reply } in claims {
        let unused = match keys.entry((key.visitor.clone(), key.key.clone())) {
            Entry::Vacant(unused) => unused,
            Entry::Occupied(known) => {
                let known = known.get();
                let answer = match &known.answer {
                    _ if known.fingerprint != key.fingerprint => Answer::key_reused(),
                    Some(answer) => answer.clone(),
                    None => Answer::in_flight(),
                };
                answers.push(later(reply, answer));
                continue;
            }
        };
        let Some(shelf) = shelves.get_mut(&product) else {
            answers.push(later(reply, Answer::no_product()));
            continue;
        };
        if quantity > shelf.product.max_quantity {
            answers.push(later(reply, Answer::too_many(&shelf.product)));
            continue;
        }
        let answer = match live.entry((product, key.visitor)) {
            Entry::Occupied(hold) if hold.get().state == Hold::Sold => Answer::already_bought(hold.get()),
            Entry::Occupied(hold) => Answer::reservation(hold.get()),
            Entry::Vacant(free) => match shelf.take(quantity) {
                false => Answer::nothing_left(&shelf.product, shelf.left, quantity),
                true => {
                    let (product, visitor) = free.key().clone();
                    let hold = Reservation {
                        id: new_id("rsv_")?,
                        product,
                        visitor,
                        quantity,
                        amount_minor: shelf.product.price_minor.saturating_mul(quantity),
                        currency: shelf.product.currency.clone(),
                        state: Hold::Held,
                        created_at: moment.now,
                        expires_at: moment.now.saturating_add(moment.hold_ms),
                    };
                    new_holds.push(json!([
                        hold.id,
                        hold.product,
                        hold.visitor,
                        hold.quantity,
                        hold.amount_minor,
                        hold.currency,
                        hold.created_at,
                        hold.expires_at
                    ]));
                    Answer::reserved(free.insert(hold))
                }
            },
        };
        if !answer.is_passing() {
            let (visitor, word) = unused.key();
            new_keys.push(json!([visitor, word, hex(&key.fingerprint), serde_json::to_string(&answer)?]));
            unused.insert(Known { fingerprint: key.fingerprint.to_vec(), answer: Some(answer.clone()) });
        }
        answers.push(later(reply, answer));
    }
    write(moment, &shelves, new_holds, new_keys).await
}

async fn known_keys(
    moment: &mut Moment<'_>,
    claims: &[Claim],
) -> Result<HashMap<(String, String), Known>, WriteError> {
    let asked: Value = claims.iter().map(|claim| json!([claim.key.visitor, claim.key.key])).collect();
    let rows: Vec<(String, String, Vec<u8>, Option<String>)> = sqlx::query_as(
        "SELECT k.visitor, k.key, k.fingerprint, k.answer FROM json_each(?1) asked
         JOIN idempotency_keys k ON k.visitor = asked.value ->> 0 AND k.key = asked.value ->> 1",
    )
    .bind(asked.to_string())
    .fetch_all(&mut *moment.tx)
    .await?;
    let mut known = HashMap::with_capacity(claims.len());
    for (visitor, key, fingerprint, answer) in rows {
        let answer = answer.as_deref().map(serde_json::from_str).transpose()?;
        known.insert((visitor, key), Known { fingerprint, answer });
    }
    Ok(known)
}

async fn shelves(moment: &mut Moment<'_>, claims: &[Claim]) -> Result<HashMap<String, Shelf>, WriteError> {
    let asked: Value = claims.iter().map(|claim| claim.product.as_str()).collect();
    let rows = sqlx::query(
        "SELECT p.*, s.available, s.held FROM products p JOIN stock s ON s.product_id = p.id
         WHERE p.id IN (SELECT value FROM json_each(?1))",
    )
    .bind(asked.to_string())
    .fetch_all(&mut *moment.tx)
    .await?;
    let mut shelves = HashMap::with_capacity(rows.len());
    for row in &rows {
        let product = Product::from_row(row)?;
        let left = Stock { available: row.try_get("available")?, held: row.try_get("held")? };
        shelves.insert(product.id.clone(), Shelf { product, left, taken: 0 });
    }
    Ok(shelves)
}

/// Due holds have been ended before, so every row found is one that counts.
async fn live_holds(
    moment: &mut Moment<'_>,
    claims: &[Claim],
) -> Result<HashMap<(String, String), Reservation>, WriteError> {
    let asked: Value = claims.iter().map(|claim| json!([claim.product, claim.key.visitor])).collect();
    let rows: Vec<Reservation> = sqlx::query_as(select_reservation!(
        "JOIN json_each(?1) asked ON r.product_id = asked.value ->> 0 AND r.visitor = asked.value ->> 1
         WHERE r.state IN ('held', 'paying', 'capturing', 'sold')"
    ))
    .bind(asked.to_string())
    .fetch_all(&mut *moment.tx)
    .await?;
    Ok(rows.into_iter().map(|hold| ((hold.product.clone(), hold.visitor.clone()), hold)).collect())
}

async fn write(
    moment: &mut Moment<'_>,
    shelves: &HashMap<String, Shelf>,
    new_holds: Vec<Value>,
    new_keys: Vec<Value>,
) -> Result<(), WriteError> {
    for shelf in shelves.values().filter(|shelf| shelf.taken > 0) {
        sqlx::query("UPDATE stock SET available = available - ?2, held = held + ?2 WHERE product_id = ?1")
            .bind(&shelf.product.id)
            .bind(shelf.taken)
            .execute(&mut *moment.tx)
            .await?;
    }
    if !new_holds.is_empty() {
        sqlx::query(
            "INSERT INTO reservations (id, product_id, visitor, quantity, amount_minor, currency, state, created_at,
                                       expires_at, changed_at)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, 'held', value ->> 6,
                    value ->> 7, value ->> 6
             FROM json_each(?1)",
        )
        .bind(Value::Array(new_holds).to_string())
        .execute(&mut *moment.tx)
        .await?;
    }
    if !new_keys.is_empty() {
        sqlx::query(
            "INSERT INTO idempotency_keys (visitor, key, fingerprint, answer, created_at)
             SELECT value ->> 0, value ->> 1, unhex(value ->> 2), value ->> 3, ?2 FROM json_each(?1)",
        )
        .bind(Value::Array(new_keys).to_string())
        .bind(moment.now)
        .execute(&mut *moment.tx)
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

// === impl Shelf ===

impl Shelf {
    /// Takes `quantity` units if there are as many.
    fn take(&mut self, quantity: i64) -> bool {
        if self.left.available < quantity {
            return false;
        }
        self.left.available -= quantity;
        self.left.held += quantity;
        self.taken += quantity;
        true
    }
}
