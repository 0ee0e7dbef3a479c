//! What is sold: as written, and as checked.

use std::collections::HashSet;

use serde::Deserialize;

use super::{ConfigError, Faults, unreadable};
use crate::model::{Kind, Product};
use crate::store::{ProductSeed, SeedStock};

/// A product, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawProduct {
    /// Its name in addresses: `a-z`, `0-9`, `-`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// A sentence or two.
    #[serde(default)]
    pub description: String,
    /// Price of one unit in the currency's minor unit (cents).
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// Units there are in all, sold ones included.
    pub total: i64,
    /// The most one visitor may hold.
    #[serde(default = "default_max_quantity")]
    pub max_quantity: i64,
    /// What its units are.
    #[serde(default)]
    pub kind: RawKind,
    /// The names of the units, of kind `units`; without them they are numbered from 1.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// What the units of a product are, as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RawKind {
    /// One like the other.
    #[default]
    Count,
    /// Each with a number or name of its own, which shoppers may choose by.
    Units,
}

/// The longest name of a unit, in characters.
pub(crate) const LONGEST_LABEL: usize = 40;
/// Each of them is a row.
const MOST_UNITS: i64 = 1_000_000;

fn default_max_quantity() -> i64 {
    1
}

pub(super) fn check_product(product: &RawProduct, at: &str, faults: &mut Faults) {
    let id_good = (1..=40).contains(&product.id.len())
        && product.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    faults.check(
        id_good,
        &format!("{at}.id"),
        format!("{:?} must be 1 to 40 characters of a-z, 0-9 and -", product.id),
    );
    faults.check(
        (1..=200).contains(&product.name.chars().count())
            && product.name.trim() == product.name
            && !product.name.contains(char::is_control),
        &format!("{at}.name"),
        "must have 1 to 200 characters on one line, no space around them",
    );
    faults.check(
        product.description.len() <= 4_000
            && !product.description.contains(|c: char| c.is_control() && !c.is_whitespace()),
        &format!("{at}.description"),
        "must have at most 4000 bytes, and no control characters",
    );
    faults.check(
        (0..=100_000_000_000).contains(&product.price_minor),
        &format!("{at}.price_minor"),
        format!("must be from 0 to 100000000000 (in cents), is {}", product.price_minor),
    );
    faults.check(
        product.currency.len() == 3 && product.currency.bytes().all(|byte| byte.is_ascii_uppercase()),
        &format!("{at}.currency"),
        format!("{:?} must be a code of three capitals, as \"EUR\"", product.currency),
    );
    faults.check(
        (0..=1_000_000_000).contains(&product.total),
        &format!("{at}.total"),
        format!("must be from 0 to 1000000000, is {}", product.total),
    );
    faults.check(
        (1..=100).contains(&product.max_quantity),
        &format!("{at}.max_quantity"),
        format!("must be from 1 to 100, is {}", product.max_quantity),
    );
    check_labels(product, at, faults);
}

fn check_labels(product: &RawProduct, at: &str, faults: &mut Faults) {
    let field = format!("{at}.labels");
    if product.kind == RawKind::Units {
        faults.check(
            product.total <= MOST_UNITS,
            &format!("{at}.total"),
            format!("must be at most {MOST_UNITS} of a product of kind \"units\", is {}", product.total),
        );
    }
    if product.labels.is_empty() {
        return;
    }
    let (count, mut seen) = (product.labels.len(), HashSet::new());
    faults.check(
        product.kind == RawKind::Units,
        &field,
        "are for kind = \"units\"; set that, or leave them out",
    );
    faults.check(
        i64::try_from(count) == Ok(product.total),
        &field,
        format!("are {count}, but total = {}; name each unit once", product.total),
    );
    for label in &product.labels {
        let good = (1..=LONGEST_LABEL).contains(&label.chars().count())
            && label.trim() == label
            && !label.chars().any(char::is_control);
        if !good || !seen.insert(label.as_str()) {
            faults.add(
                &field,
                format!("{label:?} must be 1 to 40 characters, no space around them, and be there once"),
            );
            return;
        }
    }
}

// === impl RawProduct ===

impl RawProduct {
    /// Reads the TOML of a `[[products]]` table, without that line.
    ///
    /// # Errors
    /// As [`RawConfig::from_toml`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| unreadable(text, &error))
    }

    /// Checks a product that is in no file.
    ///
    /// # Errors
    /// With everything that is wrong.
    pub(crate) fn check(self) -> Result<ProductSeed, ConfigError> {
        let mut faults = Faults::default();
        check_product(&self, "product", &mut faults);
        if faults.0.is_empty() { Ok(self.seed()) } else { Err(ConfigError(faults.0)) }
    }

    pub(super) fn seed(self) -> ProductSeed {
        let stock = match self.kind {
            RawKind::Count => SeedStock::Count(self.total),
            RawKind::Units if self.labels.is_empty() => {
                SeedStock::Units((1..=self.total).map(|number| number.to_string()).collect())
            }
            RawKind::Units => SeedStock::Units(self.labels),
        };
        ProductSeed {
            product: Product {
                id: self.id,
                name: self.name,
                description: self.description,
                price_minor: self.price_minor,
                currency: self.currency,
                max_quantity: self.max_quantity,
                kind: match self.kind {
                    RawKind::Count => Kind::Count,
                    RawKind::Units => Kind::Units,
                },
            },
            stock,
        }
    }
}
