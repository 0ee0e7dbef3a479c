//! Puts the configured products on sale. Nodes that start together do it one after the other.

use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, Row};

use super::connect::SETTING_UP;
use super::retry::Tries;
use super::transaction::lock_product;
use super::{BUCKETS, silence};
use crate::store::seed::Existing;
use crate::store::{ProductSeed, SeedError, SeedStock};

/// Far longer than millions of units take; a server that is not done by then will never be.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it is tried for: longer than whoever is in the way can stay there, see [`super::overtime`].
const STUCK: Duration = Duration::from_secs(30);

pub(super) async fn seed(
    options: &PgConnectOptions,
    products: &[ProductSeed],
    existing: Existing,
) -> Result<(), SeedError> {
    let mut tries = Tries::until(Instant::now() + STUCK);
    let seeded = async {
        loop {
            match connect_and_put(options, products, existing).await {
                Err(SeedError::Database(error)) if tries.again_at(&error).await => {}
                done => return done,
            }
        }
    };
    tokio::time::timeout(PATIENCE, seeded).await.unwrap_or_else(|_| Err(silence().into()))
}

async fn connect_and_put(
    options: &PgConnectOptions,
    products: &[ProductSeed],
    existing: Existing,
) -> Result<(), SeedError> {
    // A connection of its own, since it may take longer than others are let.
    let mut connection = options.clone().application_name(SETTING_UP).connect().await?;
    put(&mut connection, products, existing).await?;
    Ok(connection.close().await?)
}

async fn put(
    connection: &mut PgConnection,
    products: &[ProductSeed],
    existing: Existing,
) -> Result<(), SeedError> {
    let mut sorted: Vec<&ProductSeed> = products.iter().collect();
    sorted.sort_by(|one, other| one.product.id.cmp(&other.product.id));
    let mut tx = connection.begin().await?;
    // The other way round than for everything else: all labels meet all units, which two by two would take hours.
    sqlx::query("SET LOCAL enable_hashjoin = on").execute(&mut *tx).await?;
    sqlx::query("SET LOCAL enable_nestloop = off").execute(&mut *tx).await?;
    for ProductSeed { product, stock } in sorted {
        let id = product.id.as_str();
        lock_product(&mut tx, id).await?;
        let was: Option<String> = sqlx::query_scalar("SELECT kind FROM products WHERE id = $1")
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
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (id) DO UPDATE SET name = $2, description = $3, price_minor = $4, currency = $5, max_quantity = $6",
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
        match stock {
            SeedStock::Count(total) => buckets(&mut tx, id, *total).await?,
            SeedStock::Units(labels) => units(&mut tx, id, labels).await?,
        }
    }
    tx.commit().await?;
    Ok(())
}

/// Makes the buckets of a counted product come to `total` together, all about as full as each other.
async fn buckets(connection: &mut PgConnection, product: &str, total: i64) -> Result<(), SeedError> {
    sqlx::query(
        "INSERT INTO buckets (product_id, slot, total, available)
         SELECT $1, slot, 0, 0 FROM generate_series(0::bigint, $2 - 1) slot
         WHERE NOT EXISTS (SELECT 1 FROM buckets WHERE product_id = $1)",
    )
    .bind(product)
    .bind(BUCKETS)
    .execute(&mut *connection)
    .await?;
    let rows = sqlx::query(
        "SELECT slot, generation, total, available FROM buckets WHERE product_id = $1 ORDER BY slot FOR UPDATE",
    )
    .bind(product)
    .fetch_all(&mut *connection)
    .await?;
    let (mut was, mut free) = (0_i64, 0_i64);
    for row in &rows {
        was += row.try_get::<i64, _>("total")?;
        free += row.try_get::<i64, _>("available")?;
    }
    if was == total {
        return Ok(());
    }
    let taken = was - free;
    if taken > total {
        return Err(SeedError::TotalTooSmall { product: product.to_owned(), total, taken });
    }
    let many = i64::try_from(rows.len()).unwrap_or(BUCKETS).max(1);
    let mut rest = (total - taken) % many;
    for row in &rows {
        let share = (total - taken) / many + i64::from(rest > 0);
        rest -= i64::from(rest > 0);
        sqlx::query(
            "UPDATE buckets SET total = total - available + $4, available = $4, generation = generation + 1
             WHERE product_id = $1 AND slot = $2 AND generation = $3",
        )
        .bind(product)
        .bind(row.try_get::<i64, _>("slot")?)
        .bind(row.try_get::<i64, _>("generation")?)
        .bind(share)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Makes the units of a numbered product those of `labels`. Their numbers are the order in which they are given away; a
/// unit that is there already keeps its own.
async fn units(connection: &mut PgConnection, product: &str, labels: &[String]) -> Result<(), SeedError> {
    let gone: Option<String> = sqlx::query_scalar(
        "SELECT label FROM units WHERE product_id = $1 AND state <> 'free' AND NOT EXISTS (
             SELECT 1 FROM unnest($2::text[]) asked (label) WHERE asked.label = units.label)
         ORDER BY number LIMIT 1",
    )
    .bind(product)
    .bind(labels)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(label) = gone {
        return Err(SeedError::UnitTaken { product: product.to_owned(), label });
    }
    let removed = sqlx::query(
        "DELETE FROM units WHERE product_id = $1 AND state = 'free' AND NOT EXISTS (
             SELECT 1 FROM unnest($2::text[]) asked (label) WHERE asked.label = units.label)",
    )
    .bind(product)
    .bind(labels)
    .execute(&mut *connection)
    .await?;
    // The places are given in the order of the labels.
    let added = sqlx::query(
        "INSERT INTO units (product_id, number, label, place)
         SELECT $1, number, label, nextval('unit_places') FROM (
             SELECT asked.label, asked.number + (SELECT COALESCE(MAX(number), 0) FROM units WHERE product_id = $1)
             FROM unnest($2::text[]) WITH ORDINALITY asked (label, number)
             WHERE NOT EXISTS (SELECT 1 FROM units u WHERE u.product_id = $1 AND u.label = asked.label)
             ORDER BY asked.number) fresh (label, number)",
    )
    .bind(product)
    .bind(labels)
    .execute(&mut *connection)
    .await?;
    tracing::debug!(product, removed = removed.rows_affected(), added = added.rows_affected(), "units");
    Ok(())
}
