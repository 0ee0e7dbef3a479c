//! The words of the queue as types that cannot be mixed up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Most arrivals one lane can number, or a sale without lanes. It keeps every place within 32 bits, which the draw's list
/// of places needs.
pub const MAX_ARRIVALS: u64 = u32::MAX as u64;

/// Names a sale: 1 to 40 characters of `a-z`, `0-9` and `-`.
///
/// The alphabet is narrow so that an id can stand unescaped in cookie names, paths and the draw's manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SaleId(String);

/// The text is not a [`SaleId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sale id has 1 to 40 characters of a-z, 0-9 and -")]
pub struct SaleIdError;

impl SaleId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SaleId {
    type Error = SaleIdError;

    fn try_from(text: String) -> Result<Self, SaleIdError> {
        let fits = (1..=40).contains(&text.len());
        if fits && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
            Ok(Self(text))
        } else {
            Err(SaleIdError)
        }
    }
}

impl FromStr for SaleId {
    type Err = SaleIdError;

    fn from_str(text: &str) -> Result<Self, SaleIdError> {
        Self::try_from(text.to_owned())
    }
}

impl From<SaleId> for String {
    fn from(id: SaleId) -> Self {
        id.0
    }
}

impl fmt::Display for SaleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stands for a visitor inside one sale's queue.
///
/// It is a digest, so that the queue holds no account name, and a fixed size, so that two million of them fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VisitorKey(pub [u8; 16]);

impl VisitorKey {
    /// The first 16 bytes of `SHA-256("ropeline-visitor-v1" ‖ 0 ‖ sale ‖ 0 ‖ sub)`.
    pub fn derive(sale: &SaleId, sub: &str) -> Self {
        Self::digest(b"ropeline-visitor-v1\0", sale, sub)
    }

    fn digest(domain: &[u8], sale: &SaleId, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(domain);
        hash.update(sale.as_str().as_bytes());
        hash.update([0]);
        hash.update(name.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self(key)
    }

    /// Names an invitation that is good for one: the first 16 bytes of
    /// `SHA-256("ropeline-invitation-v1" ‖ 0 ‖ sale ‖ 0 ‖ jti)`.
    pub fn of_invitation(sale: &SaleId, jti: &str) -> Self {
        Self::digest(b"ropeline-invitation-v1\0", sale, jti)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The dense number 0, 1, 2, … that a visitor is given at join. Never given twice. In a sale with lanes each counts on
    /// its own, and the number names its lane above bit 32: see [`Lane`](crate::Lane).
    Arrival(u64)
}
number! {
    /// The position after the draw: `draw(arrival)` for arrivals below the draw's size, else the arrival itself.
    /// In a sale with lanes it names its lane as the arrival does.
    Place(u64)
}
number! {
    /// The generation of a sale's tokens. Tokens of an older epoch are refused.
    Epoch(u32)
}
number! {
    /// A wall time in Unix milliseconds.
    UnixMillis(u64)
}

impl UnixMillis {
    /// This time and `millis` later; stays at the end of time instead of wrapping.
    #[must_use]
    pub const fn plus(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this time; 0 if `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whole Unix seconds, rounded down, as tokens carry them.
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000
    }
}

/// Where a ticket stands: its arrival and, once the draw knows it, its place.
///
/// Made with [`SaleView::position`](crate::SaleView::position), or from a node's own list of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The ticket's number.
    pub arrival: Arrival,
    /// None while the arrival is to be drawn and the draw has not been made.
    pub place: Option<Place>,
}

/// Where a sale is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nobody can join yet.
    Scheduled,
    /// Visitors join; nobody is called.
    PreQueue,
    /// The draw's arrivals are frozen; it is being made, or made and waiting for the opening.
    Drawing,
    /// Visitors are called.
    Open,
    /// Nobody new is called; those already called may claim, and their time stands still.
    Paused,
    /// Nothing is left: nobody is called and nobody new can join.
    SoldOut,
    /// The sale is over.
    Closed,
}

impl Phase {
    /// The name used in documents and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::PreQueue => "pre_queue",
            Self::Drawing => "drawing",
            Self::Open => "open",
            Self::Paused => "paused",
            Self::SoldOut => "sold_out",
            Self::Closed => "closed",
        }
    }
}

/// What the shop says is left to sell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    /// Units that can be reserved now.
    pub available: u64,
    /// Units on hold that may come back, where the shop says so.
    pub held: Option<u64>,
}

impl Stock {
    /// Nothing is available and nothing is known to come back.
    pub fn is_gone(self) -> bool {
        self.available == 0 && self.held.unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sale_id_takes_only_its_alphabet() {
        for good in ["a", "drop-2026", &"x".repeat(40)] {
            assert_eq!(good.parse::<SaleId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "A", "a b", "a/b", "ä", "a\n", &"x".repeat(41)] {
            assert_eq!(bad.parse::<SaleId>(), Err(SaleIdError), "{bad:?}");
        }
        assert!(serde_json::from_str::<SaleId>("\"No\"").is_err());
    }

    #[test]
    fn visitor_key_is_the_prefix_of_the_documented_digest() {
        // printf 'ropeline-visitor-v1\0drop\0alice' | sha256sum | cut -c1-32
        let expected = "055e36a5c9df428b19a2b679b0994807";
        let key = VisitorKey::derive(&"drop".parse().unwrap(), "alice");
        let hex: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn times_saturate() {
        assert_eq!(UnixMillis(u64::MAX).plus(1), UnixMillis(u64::MAX));
        assert_eq!(UnixMillis(1).since(UnixMillis(2)), 0);
        assert_eq!(UnixMillis(1_999).seconds(), 1);
    }
}
