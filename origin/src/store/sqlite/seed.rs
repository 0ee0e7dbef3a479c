//! Puts the configured products on sale.

use serde_json::json;
use sqlx::{Connection, SqliteConnection};

use crate::store::seed::Existing;
use crate::store::{ProductSeed, SeedError, SeedStock};

pub(super) async fn seed(
    connection: &mut SqliteConnection,
    products: &[ProductSeed],
    existing: Existing,
) -> Result<(), SeedError> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    for ProductSeed { product, stock } in products {
        let id = product.id.as_str();
        let was: Option<String> = sqlx::query_scalar("SELECT kind FROM products WHERE id = ?1")
            .bind(id)
            .fetch_optional(&mut *tx)
            .await?;
        if was.is_some() && existing == Existing::Refuse {
            return Err(SeedError::Exists(id.to_owned()));
        }
        if let Some(was) = was.filter(|was| was != product.kind.as_str()) {
            return Err(SeedError::KindChanged { product: id.to_owned(), was });
        }
        sqlx::query(
            "INSERT INTO products (id, name, description, price_minor, currency, max_quantity, kind)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (id) DO UPDATE SET name = ?2, description = ?3, price_minor = ?4, currency = ?5, max_quantity = ?6",
        )
        .bind(id)
        .bind(&product.name)
        .bind(&product.description)
        .bind(product.price_minor)
        .bind(&product.currency)
        .bind(product.max_quantity)
        .bind(product.kind.as_str())
        .execute(&mut *tx)
        .await?;
        let taken: Option<i64> = sqlx::query_scalar("SELECT held + sold FROM stock WHERE product_id = ?1")
            .bind(id)
            .fetch_optional(&mut *tx)
            .await?;
        let (taken, total) = (taken.unwrap_or(0), stock.total());
        if let SeedStock::Units(labels) = stock {
            units(&mut tx, id, labels).await?;
        }
        if taken > total {
            return Err(SeedError::TotalTooSmall { product: id.to_owned(), total, taken });
        }
        sqlx::query(
            "INSERT INTO stock (product_id, total, available, held, sold) VALUES (?1, ?2, ?2, 0, 0)
             ON CONFLICT (product_id) DO UPDATE SET total = ?2, available = ?2 - held - sold",
        )
        .bind(id)
        .bind(total)
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Makes the units of a numbered product those of `labels`. Their numbers are the order in which they are given away; a
/// unit that is there already keeps its own.
async fn units(connection: &mut SqliteConnection, product: &str, labels: &[String]) -> Result<(), SeedError> {
    let asked = json!(labels).to_string();
    let gone: Option<String> = sqlx::query_scalar(
        "SELECT label FROM units WHERE product_id = ?1 AND state <> 'free'
         AND label NOT IN (SELECT value FROM json_each(?2)) ORDER BY number LIMIT 1",
    )
    .bind(product)
    .bind(&asked)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(label) = gone {
        return Err(SeedError::UnitTaken { product: product.to_owned(), label });
    }
    sqlx::query("DELETE FROM units WHERE product_id = ?1 AND label NOT IN (SELECT value FROM json_each(?2))")
        .bind(product)
        .bind(&asked)
        .execute(&mut *connection)
        .await?;
    sqlx::query(
        "INSERT INTO units (product_id, number, label)
         SELECT ?1, asked.key + 1 + (SELECT COALESCE(MAX(number), 0) FROM units WHERE product_id = ?1), asked.value
         FROM json_each(?2) asked WHERE true
         ON CONFLICT (product_id, label) DO NOTHING",
    )
    .bind(product)
    .bind(&asked)
    .execute(&mut *connection)
    .await?;
    Ok(())
}
