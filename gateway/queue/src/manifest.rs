//! The draw as it is promised beforehand, frozen, and made.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::beacon::{Beacon, BeaconSignature};
use crate::draw::{self, Seed, Shuffle};
use crate::types::{Arrival, Place, SaleId, UnixMillis};

/// Who has to be trusted for a draw to be fair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The operator, who knew the secret behind the commitment beforehand, or fixed the number of arrivals late.
    Operator,
    /// The beacon: nobody could know its randomness when the number of arrivals was fixed.
    Beacon,
}

// === impl Trust ===

impl Trust {
    /// The name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Beacon => "beacon",
        }
    }
}

/// What a sale promises about its draw before joining opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The sale that draws.
    pub sale: SaleId,
    /// Arrivals before this time are drawn.
    pub closes_at: UnixMillis,
    /// What is drawn with.
    pub randomness: Promise,
    /// The sale's lanes and what each was promised of the pace; empty: there are none.
    pub lanes: Vec<LanePromise>,
}

/// What is promised of a lane in a [`Manifest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePromise {
    /// Its name.
    pub name: SaleId,
    /// Its share of the calls, in percent, while somebody waits in it.
    pub share: u8,
    /// Whether it takes an invitation to join it.
    pub invitation: bool,
}

/// The randomness a draw is promised to be made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A secret of the operator, revealed after the draw.
    Secret {
        /// Its SHA-256.
        commitment: [u8; 32],
    },
    /// A round of a public beacon.
    Beacon {
        /// Whose.
        beacon: Beacon,
        /// Which.
        round: u64,
        /// SHA-256 of the secret that the operator may draw with should the round be overdue; none: there is no such
        /// way, and the draw waits for the round however long it takes.
        fallback: Option<[u8; 32]>,
    },
}

impl Promise {
    /// SHA-256 of the secret that is, or may be, drawn with.
    pub const fn commitment(&self) -> Option<[u8; 32]> {
        match *self {
            Self::Secret { commitment } => Some(commitment),
            Self::Beacon { fallback, .. } => fallback,
        }
    }

    /// Who is to be trusted, if the promise is kept.
    pub const fn trust(&self) -> Trust {
        match self {
            Self::Secret { .. } => Trust::Operator,
            Self::Beacon { .. } => Trust::Beacon,
        }
    }
}

impl Manifest {
    /// The bytes that are signed, published, and hashed into the seed: JSON with sorted members and no spaces.
    pub fn canonical(&self) -> String {
        let beacon = match self.randomness {
            Promise::Secret { .. } => String::new(),
            Promise::Beacon { beacon, round, .. } => {
                format!(r#""beacon":{{"chain":"{}","round":{round}}},"#, beacon.chain_hash())
            }
        };
        let commitment = self.randomness.commitment();
        let commitment =
            commitment.map_or_else(String::new, |hash| format!(r#""commitment":"{}","#, hex(&hash)));
        let lanes: Vec<String> = self.lanes.iter().map(LanePromise::canonical).collect();
        let lanes =
            if lanes.is_empty() { String::new() } else { format!(r#""lanes":[{}],"#, lanes.join(",")) };
        format!(
            r#"{{"algorithm":"{}",{beacon}"closes_at":{},{commitment}{lanes}"rounds":{},"sale":"{}","trust":"{}"}}"#,
            draw::ALGORITHM,
            self.closes_at,
            draw::ROUNDS,
            self.sale,
            self.randomness.trust().as_str(),
        )
    }
}

impl LanePromise {
    fn canonical(&self) -> String {
        let Self { name, share, invitation } = self;
        format!(r#"{{"invitation":{invitation},"name":"{name}","share":{share}}}"#)
    }
}

/// What a draw was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The operator's secret, as promised. It may be known now: it can choose no place any more.
    Secret([u8; 32]),
    /// The beacon's round, as promised.
    Beacon(BeaconSignature),
    /// The operator's secret in place of a round that was overdue.
    Fallback {
        /// What the manifest's commitment is of.
        secret: [u8; 32],
        /// What was decided.
        decision: Fallback,
    },
}

/// An operator's decision to draw by the secret because the beacon's round is overdue. It is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// When it was taken.
    pub at: UnixMillis,
    /// Why, in the operator's words.
    pub reason: String,
}

/// How far a sale's draw has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrawState {
    /// The sale has no draw: a place is the arrival.
    #[default]
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
            Self::Frozen { size, .. } => (arrival.number() >= u64::from(size)).then_some(Place(arrival.0)),
            Self::Drawn { size, seed } => Some(Shuffle::new(seed, size).place(arrival)),
        }
    }

    /// This draw has come further than the other.
    pub(crate) const fn is_ahead_of(&self, other: &Self) -> bool {
        self.step() > other.step()
    }

    const fn step(&self) -> u8 {
        match self {
            Self::NotHeld | Self::Collecting => 0,
            Self::Frozen { .. } => 1,
            Self::Drawn { .. } => 2,
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
            randomness: Promise::Secret { commitment: draw::commitment(&[0; 32]) },
            lanes: Vec::new(),
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
    fn a_beacons_manifest_names_chain_and_round_and_the_secret_only_where_it_may_be_used() {
        let manifest = |fallback| Manifest {
            sale: "drop".parse().unwrap(),
            closes_at: UnixMillis(1_692_806_334_000),
            randomness: Promise::Beacon { beacon: Beacon::DrandQuicknet, round: 1_000, fallback },
            lanes: Vec::new(),
        };
        assert_eq!(
            manifest(None).canonical(),
            concat!(
                r#"{"algorithm":"swap-or-not-sha256","beacon":{"chain":"#,
                r#""52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971","round":1000},"#,
                r#""closes_at":1692806334000,"rounds":255,"sale":"drop","trust":"beacon"}"#
            )
        );
        let kept_open = manifest(Some(draw::commitment(&[0; 32]))).canonical();
        assert!(kept_open.contains(r#""closes_at":1692806334000,"commitment":"66687aad"#), "{kept_open}");
        // The members stand in their order, whichever there are.
        let sorted: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&kept_open).unwrap();
        assert_eq!(serde_json::to_string(&sorted).unwrap(), kept_open);
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
