//! How the sale goes: its times, its pace, and how many take part.

use std::ops::Range;
use std::time::Duration;

use ropeline_queue::{
    DefinitionErrors, DrawDefinition, Pace, Protect, RawDefinition, SaleDefinition, SaleId,
};
use ropeline_queue::{SaleIdError, UnixMillis};

use crate::config::units::millis;

/// The sale, and the product that is sold in it.
pub(super) const SALE: &str = "sneaker";

/// Where everybody wants to go.
pub(super) const PRODUCT_PAGE: &str = "/products/sneaker";

/// How the sale goes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether a scripted shopper goes through it and the end is checked.
    pub once: bool,
    /// Simulated shoppers.
    pub shoppers: u32,
    /// Decides what each of them does.
    pub seed: u64,
    /// Units for sale.
    pub units: u32,
    /// From the start until the draw closes.
    pub joining: Duration,
    /// From there until calling begins.
    pub drawing: Duration,
    /// In which those of the crowd come who missed the opening.
    pub late: Duration,
    /// Visitors called at once.
    pub batch: u32,
    /// Time between batches.
    pub every: Duration,
    /// Most visitors admitted or called at any instant.
    pub max_active: u32,
    /// Time to claim.
    pub claim_window: Duration,
    /// Time after a lapse in which one may come back.
    pub recall_grace: Duration,
    /// Life of an admission.
    pub lease: Duration,
    /// Life of a hold.
    pub hold: Duration,
    /// Milliseconds that a simulated shopper takes for each step in the shop.
    pub think_ms: Range<u64>,
    /// When it must have come to its end.
    pub deadline: Option<Duration>,
}

/// The plan does not make a sale.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The id is none.
    #[error(transparent)]
    Id(#[from] SaleIdError),
    /// The definition is not accepted.
    #[error(transparent)]
    Definition(#[from] DefinitionErrors),
}

// === impl Plan ===

impl Plan {
    /// For a person who watches, and takes part in a browser: some four minutes, at a pace that can be followed.
    #[must_use]
    pub fn interactive(shoppers: u32, seed: u64) -> Self {
        Self {
            once: false,
            shoppers,
            seed,
            units: units(shoppers),
            joining: Duration::from_secs(42),
            drawing: Duration::from_secs(3),
            late: Duration::from_secs(60),
            batch: (shoppers / 40).max(3),
            every: Duration::from_secs(5),
            max_active: (shoppers * 12 / 100).max(20),
            claim_window: Duration::from_secs(45),
            recall_grace: Duration::from_secs(120),
            lease: Duration::from_secs(300),
            hold: Duration::from_secs(120),
            think_ms: 1_500..6_000,
            deadline: None,
        }
    }

    /// For a program that checks: the same within a minute.
    #[must_use]
    pub fn once(shoppers: u32, seed: u64) -> Self {
        Self {
            once: true,
            shoppers,
            seed,
            units: units(shoppers),
            joining: Duration::from_secs(6),
            drawing: Duration::from_secs(2),
            late: Duration::from_secs(6),
            batch: (shoppers / 20).max(3),
            every: Duration::from_secs(1),
            max_active: (shoppers * 15 / 100).max(10),
            claim_window: Duration::from_secs(6),
            recall_grace: Duration::from_secs(15),
            lease: Duration::from_secs(60),
            hold: Duration::from_secs(15),
            think_ms: 200..1_500,
            deadline: Some(Duration::from_secs(180)),
        }
    }

    /// The sale that begins at `start`.
    ///
    /// # Errors
    /// When the queue does not accept it.
    pub fn definition(&self, start: UnixMillis) -> Result<SaleDefinition, PlanError> {
        let closes_at = start.plus(millis(self.joining));
        let definition = RawDefinition {
            title: "Night Runner".to_owned(),
            draw: Some(DrawDefinition::by_secret(closes_at)),
            opens_at: Some(closes_at.plus(millis(self.drawing))),
            pace: Pace::Batch { admit: self.batch, every_ms: millis(self.every) },
            claim_window_ms: millis(self.claim_window),
            recall_grace_ms: millis(self.recall_grace),
            lease_ms: millis(self.lease),
            entry_url: Some(PRODUCT_PAGE.to_owned()),
            protect: Protect {
                routes: [PRODUCT_PAGE, "/reservations", "/checkout", "/purchases"]
                    .map(str::to_owned)
                    .to_vec(),
                ..Protect::default()
            },
            ..RawDefinition::new(SALE.parse::<SaleId>()?, self.max_active)
        };
        Ok(definition.check()?)
    }
}

/// Three units for four shoppers: whoever comes has a fair chance, and the stock is seen to go.
fn units(shoppers: u32) -> u32 {
    (shoppers * 3 / 4).max(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_any_size_makes_a_sale() {
        for shoppers in [0, 1, 150, 2_000, 50_000] {
            for plan in [Plan::once(shoppers, 1), Plan::interactive(shoppers, 1)] {
                let sale = plan.definition(UnixMillis(1_700_000_000_000)).unwrap();
                assert!(plan.units >= shoppers / 2 && u32::min(sale.max_active, plan.batch) > 0, "{plan:?}");
            }
        }
    }
}
