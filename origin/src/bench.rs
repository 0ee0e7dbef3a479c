//! The books without HTTP around them, for benchmarks.

use crate::model::{Audit, Kind, Product, unguessable};
use crate::store::{Claim, KeyUse, OpenError, ProductSeed, SeedStock, Settings, Store, StoreError, Wanted};

/// Books on PostgreSQL that sell one product of each kind.
#[derive(Clone, Debug)]
pub struct Books(Store);

// === impl Books ===

impl Books {
    /// The product whose units are like each other.
    pub const COUNTED: &str = "counted";
    /// The product of numbered units.
    pub const NUMBERED: &str = "numbered";

    /// Makes the tables at `url` and puts on sale so many units of each product.
    ///
    /// # Errors
    /// When the database cannot be opened.
    pub async fn open(url: &str, counted: i64, numbered: i64) -> Result<Self, OpenError> {
        Store::migrate_postgres(url).await?;
        let product = |id: &str, kind| Product {
            id: id.to_owned(),
            name: id.to_owned(),
            description: String::new(),
            price_minor: 18_900,
            currency: "EUR".to_owned(),
            max_quantity: 1,
            kind,
        };
        let labels = (1..=numbered).map(|number| number.to_string()).collect();
        let products = [
            ProductSeed { product: product(Self::COUNTED, Kind::Count), stock: SeedStock::Count(counted) },
            ProductSeed { product: product(Self::NUMBERED, Kind::Units), stock: SeedStock::Units(labels) },
        ];
        let settings = Settings {
            hold_ms: 3_600_000,
            extension_ms: 0,
            units_per_visitor: None,
            sinks: Vec::new(),
            node: unguessable("node_").unwrap_or_default(),
            lease_ms: 60_000,
        };
        Ok(Self(Store::open_postgres(url, &products, settings).await?))
    }

    /// Holds one unit of a product. `true`: there was one.
    ///
    /// # Errors
    /// When the books cannot be written.
    pub async fn claim(&self, product: &str, visitor: String, key: String) -> Result<bool, StoreError> {
        let key = KeyUse { visitor, key, fingerprint: [7; 32] };
        let claim = Claim { key, product: product.to_owned(), wanted: Wanted::Any(1) };
        Ok(self.0.claim(claim).await?.status == 201)
    }

    /// The books of both products.
    ///
    /// # Errors
    /// When the books cannot be read.
    pub async fn audit(&self) -> Result<Audit, StoreError> {
        self.0.audit().await
    }
}
