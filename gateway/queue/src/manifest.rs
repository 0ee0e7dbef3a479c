//! The draw as it is promised beforehand, frozen, and made.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::draw::{self, Seed, Shuffle};
use crate::types::{Arrival, Place, SaleId, UnixMillis};

/// Who has to be trusted: the operator, who knows the secret behind the commitment beforehand.
pub const TRUST: &str = "operator";

/// What a sale promises about its draw before joining opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The sale that draws.
    pub sale: SaleId,
    /// Arrivals before this time are drawn.
    pub closes_at: UnixMillis,
    /// SHA-256 of the secret that is revealed after the draw.
    pub commitment: [u8; 32],
}

impl Manifest {
    /// The bytes that are signed, published, and hashed into the seed: JSON with sorted members and no spaces.
    pub fn canonical(&self) -> String {
        format!(
            r#"{{"algorithm":"{}","closes_at":{},"commitment":"{}","rounds":{},"sale":"{}","trust":"{TRUST}"}}"#,
            draw::ALGORITHM,
            self.closes_at,
            hex(&self.commitment),
            draw::ROUNDS,
            self.sale,
        )
    }
}

/// How far a sale's draw has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrawState {
    /// The sale has no draw: a place is the arrival.
    NotHeld,
    /// Arrivals are still coming in.
    Collecting,
    /// The number of arrivals is fixed and published, the seed is not.
    Frozen {
        /// Arrivals that are drawn.
        size: u32,
        /// When it was fixed.
        at: UnixMillis,
    },
    /// Every arrival has its place.
    Drawn {
        /// Arrivals that were drawn.
        size: u32,
        /// What anybody can recompute the places with.
        seed: Seed,
    },
}

impl DrawState {
    /// The place of an arrival, as soon as there is one. Costs some 500 hashes for a drawn arrival.
    pub fn place(&self, arrival: Arrival) -> Option<Place> {
        match *self {
            Self::NotHeld => Some(Place(arrival.0)),
            Self::Collecting => None,
            Self::Frozen { size, .. } => (arrival.0 >= u64::from(size)).then_some(Place(arrival.0)),
            Self::Drawn { size, seed } => Some(Shuffle::new(seed, size).place(arrival)),
        }
    }

    /// What places are computed with, once the draw is made.
    pub(crate) fn shuffle(&self) -> Option<Shuffle> {
        match *self {
            Self::NotHeld | Self::Collecting | Self::Frozen { .. } => None,
            Self::Drawn { size, seed } => Some(Shuffle::new(seed, size)),
        }
    }

    /// The number of arrivals that are drawn, once it is fixed.
    pub const fn size(&self) -> Option<u32> {
        match *self {
            Self::NotHeld | Self::Collecting => None,
            Self::Frozen { size, .. } | Self::Drawn { size, .. } => Some(size),
        }
    }

    /// The seed, once it may be known.
    pub const fn seed(&self) -> Option<Seed> {
        match *self {
            Self::NotHeld | Self::Collecting | Self::Frozen { .. } => None,
            Self::Drawn { seed, .. } => Some(seed),
        }
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_bytes_are_fixed() {
        // Checked with: python3 -c 'import json,hashlib; print(json.dumps({...}, sort_keys=True,
        // separators=(",",":")))' where commitment is hashlib.sha256(bytes(32)).hexdigest().
        let manifest = Manifest {
            sale: "drop".parse().unwrap(),
            closes_at: UnixMillis(1_700_000_000_000),
            commitment: draw::commitment(&[0; 32]),
        };
        assert_eq!(
            manifest.canonical(),
            concat!(
                r#"{"algorithm":"swap-or-not-sha256","closes_at":1700000000000,"#,
                r#""commitment":"66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925","#,
                r#""rounds":255,"sale":"drop","trust":"operator"}"#
            )
        );
    }

    #[test]
    fn a_place_is_known_only_once_nothing_can_change_it() {
        let (early, late) = (Arrival(1), Arrival(2));
        let frozen = DrawState::Frozen { size: 2, at: UnixMillis(0) };
        assert_eq!(DrawState::NotHeld.place(early), Some(Place(1)));
        assert_eq!(DrawState::Collecting.place(early), None);
        assert_eq!((frozen.place(early), frozen.place(late)), (None, Some(Place(2))));
        let drawn = DrawState::Drawn { size: 2, seed: [7; 32] };
        let mut places = [drawn.place(Arrival(0)).unwrap(), drawn.place(early).unwrap()];
        places.sort();
        assert_eq!(places, [Place(0), Place(1)]);
        assert_eq!(drawn.place(late), Some(Place(2)));
    }
}
