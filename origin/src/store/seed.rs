//! What is put on sale, whichever database keeps it.

use crate::model::Product;

/// A product and what there is of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProductSeed {
    /// The product.
    pub product: Product,
    /// Its units, sold ones included; they fit the product's kind.
    pub stock: SeedStock,
}

/// The units of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeedStock {
    /// So many.
    Count(i64),
    /// These, by their labels, each once, in the order in which they are given away.
    Units(Vec<String>),
}

/// What is done about a product that the books have already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It is made to be as it is given now.
    Update,
    /// It is left as it is, and nothing is done.
    Refuse,
}

/// The configured products do not fit the books.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// It is there, and was to be new.
    #[error("product {0:?} is in the books already")]
    Exists(String),
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
    /// A product that was sold by count is to be numbered, or the other way round.
    #[error(
        "products.{product}: the books have it as kind = \"{was}\"; leave it so, or give the product another id"
    )]
    KindChanged {
        /// The product.
        product: String,
        /// What it is in the books.
        was: String,
    },
    /// A unit that somebody has is not among the units any more.
    #[error("products.{product}: unit {label:?} is held or sold, so it has to stay among the labels")]
    UnitTaken {
        /// The product.
        product: String,
        /// The unit.
        label: String,
    },
}

// === impl SeedStock ===

impl SeedStock {
    /// Units in all.
    #[must_use]
    pub(crate) fn total(&self) -> i64 {
        match self {
            Self::Count(total) => *total,
            Self::Units(labels) => i64::try_from(labels.len()).unwrap_or(i64::MAX),
        }
    }
}
