//! Rows to things, whichever database they come from.

use sqlx::{ColumnIndex, Database, Decode, FromRow, Row, Type};

use crate::checkout::{Hold, Payment};
use crate::model::{Kind, Product, Purchase, Reservation};

/// Columns of a [`Reservation`]; `r` is the table.
macro_rules! select_reservation {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.product_id, r.visitor, r.quantity, r.amount_minor, r.currency, r.state, r.created_at, \
             r.expires_at, r.extended, r.bucket, r.version, r.units, r.chosen FROM reservations r ",
            $rest
        )
    };
}

/// Columns of a [`Purchase`] with its reservation; `p` and `r` are the tables.
macro_rules! select_purchase {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.product_id, r.visitor, r.quantity, r.amount_minor, r.currency, r.state, r.created_at, \
             r.expires_at, r.extended, r.bucket, r.version, r.units, r.chosen, p.id AS purchase_id, p.state AS purchase_state, \
             p.method, p.reason, p.created_at AS purchase_created_at, p.provider_ref, p.redirect_url, p.email \
             FROM purchases p JOIN reservations r ON r.id = p.reservation_id ",
            $rest
        )
    };
}
pub(super) use {select_purchase, select_reservation};

pub(super) fn unknown(column: &str, word: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("{column}: unknown word {word:?}").into())
}

/// What is kept of the labels: a JSON array, or nothing where units have none.
pub(super) fn labels_json(labels: &[String]) -> Option<String> {
    (!labels.is_empty()).then(|| serde_json::Value::from(labels.to_vec()).to_string())
}

fn labels(json: Option<&str>) -> Result<Vec<String>, sqlx::Error> {
    let labels = json.map(serde_json::from_str).transpose();
    Ok(labels.map_err(|error| sqlx::Error::Decode(error.into()))?.unwrap_or_default())
}

impl<'r, R> FromRow<'r, R> for Reservation
where
    R: Row,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
    R::Database: Database,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let state: String = row.try_get("state")?;
        Ok(Self {
            id: row.try_get("id")?,
            product: row.try_get("product_id")?,
            visitor: row.try_get("visitor")?,
            quantity: row.try_get("quantity")?,
            amount_minor: row.try_get("amount_minor")?,
            currency: row.try_get("currency")?,
            state: Hold::parse(&state).ok_or_else(|| unknown("reservations.state", &state))?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            extended: row.try_get("extended")?,
            bucket: row.try_get("bucket")?,
            version: row.try_get("version")?,
            units: labels(row.try_get::<Option<String>, _>("units")?.as_deref())?,
            chosen: row.try_get("chosen")?,
        })
    }
}

impl<'r, R> FromRow<'r, R> for Purchase
where
    R: Row,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let state: String = row.try_get("purchase_state")?;
        Ok(Self {
            id: row.try_get("purchase_id")?,
            state: Payment::parse(&state).ok_or_else(|| unknown("purchases.state", &state))?,
            method: row.try_get("method")?,
            reason: row.try_get("reason")?,
            created_at: row.try_get("purchase_created_at")?,
            provider_ref: row.try_get("provider_ref")?,
            redirect_url: row.try_get("redirect_url")?,
            email: row.try_get("email")?,
            reservation: Reservation::from_row(row)?,
        })
    }
}

impl<'r, R> FromRow<'r, R> for Product
where
    R: Row,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let kind: String = row.try_get("kind")?;
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            description: row.try_get("description")?,
            price_minor: row.try_get("price_minor")?,
            currency: row.try_get("currency")?,
            max_quantity: row.try_get("max_quantity")?,
            kind: Kind::parse(&kind).ok_or_else(|| unknown("products.kind", &kind))?,
        })
    }
}
