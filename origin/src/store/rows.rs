//! Rows to things.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use crate::checkout::{Hold, Payment};
use crate::model::{Product, Purchase, Reservation};

/// Columns of a [`Reservation`]; `r` is the table.
macro_rules! select_reservation {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.product_id, r.visitor, r.quantity, r.amount_minor, r.currency, r.state, r.created_at, \
             r.expires_at FROM reservations r ",
            $rest
        )
    };
}

/// Columns of a [`Purchase`] with its reservation; `p` and `r` are the tables.
macro_rules! select_purchase {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.product_id, r.visitor, r.quantity, r.amount_minor, r.currency, r.state, r.created_at, \
             r.expires_at, p.id AS purchase_id, p.state AS purchase_state, p.method, p.reason, \
             p.created_at AS purchase_created_at FROM purchases p JOIN reservations r ON r.id = p.reservation_id ",
            $rest
        )
    };
}
pub(super) use {select_purchase, select_reservation};

pub(super) fn unknown(column: &str, word: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("{column}: unknown state {word:?}").into())
}

impl FromRow<'_, SqliteRow> for Reservation {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let state: &str = row.try_get("state")?;
        Ok(Self {
            id: row.try_get("id")?,
            product: row.try_get("product_id")?,
            visitor: row.try_get("visitor")?,
            quantity: row.try_get("quantity")?,
            amount_minor: row.try_get("amount_minor")?,
            currency: row.try_get("currency")?,
            state: Hold::parse(state).ok_or_else(|| unknown("reservations.state", state))?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
        })
    }
}

impl FromRow<'_, SqliteRow> for Purchase {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let state: &str = row.try_get("purchase_state")?;
        Ok(Self {
            id: row.try_get("purchase_id")?,
            state: Payment::parse(state).ok_or_else(|| unknown("purchases.state", state))?,
            method: row.try_get("method")?,
            reason: row.try_get("reason")?,
            created_at: row.try_get("purchase_created_at")?,
            reservation: Reservation::from_row(row)?,
        })
    }
}

impl FromRow<'_, SqliteRow> for Product {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            description: row.try_get("description")?,
            price_minor: row.try_get("price_minor")?,
            currency: row.try_get("currency")?,
            max_quantity: row.try_get("max_quantity")?,
        })
    }
}
