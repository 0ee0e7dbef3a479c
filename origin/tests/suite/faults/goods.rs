//! What is sold in a run.

/// Units that are like each other, or numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    Units,
}

/// A product.
#[derive(Clone, Debug)]
pub(super) struct Ware {
    pub(super) id: &'static str,
    pub(super) kind: Kind,
    pub(super) total: i64,
    /// In cents.
    pub(super) price: i64,
    /// Units in one reservation at most.
    pub(super) most: i64,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Goods(pub(super) Vec<Ware>);

// === impl Goods ===

impl Goods {
    /// Two products of each kind, of `units` in all.
    pub(super) fn of(units: i64) -> Self {
        let ware = |id, kind, total, price, most| Ware { id, kind, total, price, most };
        let (many, few) = (units * 2 / 5, units / 10);
        Self(vec![
            ware("runner", Kind::Count, units - 2 * few - many, 18_900, 1),
            ware("socks", Kind::Count, few, 900, 3),
            ware("seat", Kind::Units, many, 4_500, 2),
            ware("print", Kind::Units, few, 25_000, 1),
        ])
    }

    /// One of them, the more often the more there are of it.
    pub(super) fn any(&self, chance: &mut fastrand::Rng) -> &Ware {
        let mut left = chance.i64(0..self.0.iter().map(|ware| ware.total).sum());
        for ware in &self.0 {
            if left < ware.total {
                return ware;
            }
            left -= ware.total;
        }
        &self.0[0]
    }
}
