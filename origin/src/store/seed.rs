//! Puts the configured products on sale.

use sqlx::{Connection, SqliteConnection};

use crate::model::Product;

/// A product and how many of it there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProductSeed {
    /// The product.
    pub product: Product,
    /// Units there are in all, sold ones included.
    pub total: i64,
}

/// The configured products do not fit the books.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The database said no.
    #[error("the products cannot be stored: {0}")]
    Database(#[from] sqlx::Error),
    /// More is held and sold than there would be.
    #[error(
        "products.{product}: total = {total} is below the {taken} units that are held or sold; set it to {taken} or more"
    )]
    TotalTooSmall {
        /// The product.
        product: String,
        /// As configured.
        total: i64,
        /// Held and sold.
        taken: i64,
    },
}

pub(super) async fn seed(
    connection: &mut SqliteConnection,
    products: &[ProductSeed],
) -> Result<(), SeedError> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    for ProductSeed { product, total } in products {
        sqlx::query(
            "INSERT INTO products (id, name, description, price_minor, currency, max_quantity, kind)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'count')
             ON CONFLICT (id) DO UPDATE SET name = ?2, description = ?3, price_minor = ?4, currency = ?5, max_quantity = ?6",
        )
        .bind(&product.id)
        .bind(&product.name)
        .bind(&product.description)
        .bind(product.price_minor)
        .bind(&product.currency)
        .bind(product.max_quantity)
        .execute(&mut *tx)
        .await?;
        let taken: Option<i64> = sqlx::query_scalar("SELECT held + sold FROM stock WHERE product_id = ?1")
            .bind(&product.id)
            .fetch_optional(&mut *tx)
            .await?;
        let taken = taken.unwrap_or(0);
        if taken > *total {
            return Err(SeedError::TotalTooSmall { product: product.id.clone(), total: *total, taken });
        }
        sqlx::query(
            "INSERT INTO stock (product_id, total, available, held, sold) VALUES (?1, ?2, ?2, 0, 0)
             ON CONFLICT (product_id) DO UPDATE SET total = ?2, available = ?2 - held - sold",
        )
        .bind(&product.id)
        .bind(total)
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(())
}
