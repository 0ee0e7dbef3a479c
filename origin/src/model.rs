//! What the service sells, holds and settles, as stored and as shown.

use serde::Serialize;
use utoipa::ToSchema;

use crate::checkout::{Hold, Payment};
use crate::documents::{NextAction, PurchaseDocument, PurchaseLinks, ReservationDocument, ReservationLinks};

/// What the units of a product are to a shopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One like the other.
    Count,
    /// Each with a number or name of its own: seats, numbered pairs.
    Units,
}

/// A product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    /// Its name in addresses.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// A sentence or two.
    pub description: String,
    /// Price of one unit in the currency's minor unit (cents).
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// The most one visitor may hold.
    pub max_quantity: i64,
    /// What its units are.
    pub kind: Kind,
}

/// What is left of the sale, or of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Stock {
    /// Units anybody may claim.
    pub available: i64,
    /// Units under a hold, which may come back.
    pub held: i64,
}

/// A hold and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Unguessable.
    pub id: String,
    /// The product.
    pub product: String,
    /// The token's `sub`.
    pub visitor: String,
    /// Units.
    pub quantity: i64,
    /// For all units, fixed when the hold was made.
    pub amount_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// Where it stands.
    pub state: Hold,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds; a hold that is held or paying ends here.
    pub expires_at: i64,
    /// Whether its time has been extended.
    pub extended: bool,
    /// Which bucket of the stock its units come from.
    pub bucket: i64,
    /// Events told of it so far.
    pub version: i64,
    /// The labels of numbered units, in their order; kept when the hold is over.
    pub units: Vec<String>,
    /// Whether the visitor chose these very units, so that no others will do.
    pub chosen: bool,
}

/// A payment for a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Purchase {
    /// Unguessable; the payment service knows the payment by it.
    pub id: String,
    /// Where it stands.
    pub state: Payment,
    /// The payment service's name for the means of payment; never a card number.
    pub method: String,
    /// Why it was declined, in words for the shopper.
    pub reason: Option<String>,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The payment service's own name of the payment, once it gave one.
    pub provider_ref: Option<String>,
    /// Where the shopper has to confirm the payment, while that is so.
    pub redirect_url: Option<String>,
    /// The shopper's address for the confirmation.
    pub email: Option<String>,
    /// What is paid for.
    pub reservation: Reservation,
}

/// The books of one product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProductAudit {
    /// The product.
    pub id: String,
    /// Units there ever were.
    pub total: i64,
    /// Units anybody may claim.
    pub available: i64,
    /// Units counted over the reservations that are held, paying or capturing.
    pub held: i64,
    /// Units counted over the reservations that are sold.
    pub sold: i64,
    /// Whether `total = available + held + sold`, and the stock's own counters and numbered units say the same.
    pub balanced: bool,
    /// What does not add up, a sentence for each; empty when it is balanced.
    pub differs: Vec<String>,
    /// Whether its sale is stopped.
    pub stopped: bool,
}

/// The books of the shop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// Whether every product is balanced.
    pub balanced: bool,
    /// Every product.
    pub products: Vec<ProductAudit>,
}

/// What the gateway is told about the visitor's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lease {
    /// The visitor has a hold.
    Hold,
    /// The visitor had a hold that is over, and may take another.
    Open,
    /// The visitor is done and needs the lease no more.
    End,
}

// === impl Kind ===

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Self; 2] = [Self::Count, Self::Units];

    /// The word for it in the database, in configurations and in answers.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Units => "units",
        }
    }

    /// The kind of this word.
    #[must_use]
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

// === impl ProductAudit ===

impl ProductAudit {
    /// The books of a product whose parts differ in what `differs` says: counters, buckets or units.
    pub(crate) fn new(
        id: String,
        [total, available, held, sold]: [i64; 4],
        stopped: bool,
        differs: Vec<String>,
    ) -> Self {
        let mut differs = differs;
        if total != available + held + sold {
            differs.insert(
                0,
                format!("total is {total}, but available + held + sold is {}", available + held + sold),
            );
        }
        Self { id, total, available, held, sold, balanced: differs.is_empty(), differs, stopped }
    }

    /// What to say of numbered units that differ, one of which is `label`.
    pub(crate) fn unfit_unit(label: &str) -> String {
        format!("unit {label:?}, and maybe others, is not as the reservation says that has it")
    }
}

// === impl Lease ===

impl Lease {
    /// What the states of a visitor's reservations come to: a hold counts most, then a purchase. `None`: there are none.
    #[must_use]
    pub(crate) fn of(reservations: impl IntoIterator<Item = Hold>) -> Option<Self> {
        let mut lease = None;
        for state in reservations {
            match state {
                Hold::Held | Hold::Paying | Hold::Capturing => return Some(Self::Hold),
                Hold::Sold => lease = Some(Self::End),
                Hold::Cancelled | Hold::Expired => lease = lease.or(Some(Self::Open)),
            }
        }
        lease
    }

    /// The value of the `Ropeline-Lease` header.
    #[must_use]
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Open => "open",
            Self::End => "end",
        }
    }
}

// === impl Stock ===

impl Stock {
    /// The value of the `Ropeline-Stock` header.
    #[must_use]
    pub(crate) fn header(self) -> String {
        format!("{}; held={}", self.available, self.held)
    }
}

// === impl Reservation ===

impl Reservation {
    /// The state at `now`: a due hold is over, whether or not it has been swept.
    #[must_use]
    pub(crate) fn at(mut self, now: i64) -> Self {
        if now >= self.expires_at {
            self.state = crate::checkout::expire(self.state).0;
        }
        self
    }

    /// Its address for programs.
    #[must_use]
    pub(crate) fn path(&self) -> String {
        format!("/reservations/{}", self.id)
    }

    /// Its address for people.
    #[must_use]
    pub(crate) fn page(&self) -> String {
        format!("/checkout/{}", self.id)
    }

    /// How long it still lasts at `now`, in milliseconds; `None` when it has no end, or is over.
    #[must_use]
    pub(crate) fn time_left_ms(&self, now: i64) -> Option<i64> {
        match self.state {
            Hold::Held | Hold::Paying => Some(self.expires_at.saturating_sub(now).max(0)),
            Hold::Capturing | Hold::Sold | Hold::Cancelled | Hold::Expired => None,
        }
    }

    /// As answered to programs that look at it at `now`: with the time left, which an answer that is kept cannot tell.
    #[must_use]
    pub(crate) fn document_at(&self, now: i64) -> ReservationDocument {
        ReservationDocument { time_left_ms: self.time_left_ms(now), ..self.document() }
    }

    /// As answered to programs.
    #[must_use]
    pub(crate) fn document(&self) -> ReservationDocument {
        ReservationDocument {
            id: self.id.clone(),
            product: self.product.clone(),
            quantity: self.quantity,
            amount_minor: self.amount_minor,
            currency: self.currency.clone(),
            state: self.state,
            created_at: self.created_at,
            expires_at: self.expires_at,
            extended: self.extended,
            time_left_ms: None,
            units: self.units.clone(),
            links: ReservationLinks {
                this: self.path(),
                checkout: self.page(),
                purchases: self.may_change().then(|| format!("{}/purchases", self.path())),
                extension: self.may_change().then(|| format!("{}/extension", self.path())),
                purchase: None,
            },
        }
    }

    /// Not once it is certain whose the units are: then there is nothing to pay or to extend.
    fn may_change(&self) -> bool {
        !matches!(self.state, Hold::Capturing | Hold::Sold)
    }
}

// === impl Purchase ===

impl Purchase {
    /// Its address, for programs and people.
    #[must_use]
    pub(crate) fn path(&self) -> String {
        format!("/purchases/{}", self.id)
    }

    /// As answered to programs.
    #[must_use]
    pub(crate) fn document(&self) -> PurchaseDocument {
        let mut reservation = self.reservation.document();
        reservation.links.purchase = Some(self.path());
        PurchaseDocument {
            id: self.id.clone(),
            state: self.state,
            reason: self.reason.clone(),
            amount_minor: self.reservation.amount_minor,
            currency: self.reservation.currency.clone(),
            created_at: self.created_at,
            reservation,
            next_action: self.redirect_url.clone().map(|redirect_to| NextAction { redirect_to }),
            links: PurchaseLinks { this: self.path() },
        }
    }
}

/// Characters of [`new_id`], in the order of their values and of their bytes.
const BASE_32: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// A new unguessable name: the prefix, the milliseconds of `now` in 45 bits, and 100 random bits, so that rows made
/// together lie together in every index.
///
/// # Errors
/// When the operating system has no randomness to give.
pub(crate) fn new_id(prefix: &str, now: i64) -> Result<String, getrandom::Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    let random = u128::from_be_bytes(bits);
    let time = u128::from(now.unsigned_abs());
    let mut id = String::with_capacity(prefix.len() + 29);
    id.push_str(prefix);
    for (value, digits) in [(time, 9), (random, 20)] {
        for digit in (0..digits).rev() {
            let index = usize::try_from((value >> (5 * digit)) & 31).unwrap_or_default();
            id.push(char::from(BASE_32[index]));
        }
    }
    Ok(id)
}

/// A word that nobody else has: the prefix and 128 random bits.
///
/// # Errors
/// When the operating system has no randomness to give.
pub(crate) fn unguessable(prefix: &str) -> Result<String, getrandom::Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    Ok(format!("{prefix}{:032x}", u128::from_be_bytes(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_counts_more_than_a_purchase_and_both_more_than_what_is_over() {
        use Hold::{Cancelled, Capturing, Expired, Held, Paying, Sold};
        assert_eq!(Lease::of([]), None);
        for (states, lease) in [
            (vec![Held], Lease::Hold),
            (vec![Sold, Paying], Lease::Hold),
            (vec![Capturing, Expired], Lease::Hold),
            (vec![Sold], Lease::End),
            (vec![Expired, Sold], Lease::End),
            (vec![Sold, Cancelled], Lease::End),
            (vec![Cancelled], Lease::Open),
            (vec![Expired, Cancelled], Lease::Open),
            (vec![Expired, Held], Lease::Hold),
        ] {
            assert_eq!(Lease::of(states.clone()), Some(lease), "{states:?}");
        }
    }

    #[test]
    fn names_are_in_the_order_of_their_making_and_never_the_same() {
        let id = |now| new_id("rsv_", now).unwrap();
        assert_eq!(id(1_700_000_000_123).len(), 4 + 29);
        let mut before = String::new();
        for now in [0, 1, 31, 32, 1_699_999_999_999, 1_700_000_000_000, 1_700_000_000_001, (1 << 45) - 1] {
            let next = id(now);
            assert!(before < next, "{before} {next}");
            before = next;
        }
        assert!(id(0).starts_with("rsv_000000000") && id((1 << 45) - 1).starts_with("rsv_vvvvvvvvv"));
        let many: std::collections::HashSet<String> = (0..1_000).map(|_| id(5)).collect();
        assert_eq!(many.len(), 1_000);
    }
}
