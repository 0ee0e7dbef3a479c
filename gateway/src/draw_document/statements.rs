//! What is signed of a draw. Members stand in the order of their names; a document with a member too many is refused, so
//! that none of the three can be taken for another.

use ropeline_queue::beacon::Beacon;
use ropeline_queue::{SaleId, Trust};
use serde::{Deserialize, Serialize};

/// What is signed when the draw closes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frozen {
    /// When the number was fixed, in Unix milliseconds. In draws that rest on a beacon: it has to be before the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_at: Option<u64>,
    /// Arrivals that are drawn in each lane but the first, in the manifest's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<u32>,
    /// SHA-256 of the manifest's bytes.
    pub manifest_sha256: String,
    /// The sale that draws.
    pub sale: SaleId,
    /// Arrivals that are drawn; with lanes, in the first.
    pub size: u32,
}

/// What is signed when the operator gives up an overdue round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackStatement {
    /// When that was, in Unix milliseconds.
    pub decided_at: u64,
    /// SHA-256 of the manifest's bytes.
    pub manifest_sha256: String,
    /// Why, in the operator's words.
    pub reason: String,
    /// The round that is given up.
    pub round: u64,
    /// The sale that draws.
    pub sale: SaleId,
}

/// The manifest's members, as a reader needs them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestText {
    /// The shuffle.
    pub algorithm: String,
    /// The round that is drawn with, where the draw rests on a beacon.
    #[serde(default)]
    beacon: Option<BeaconText>,
    /// Arrivals before this time are drawn, in Unix milliseconds.
    pub closes_at: u64,
    /// SHA-256 of the secret that is, or may be, drawn with.
    #[serde(default)]
    commitment: Option<String>,
    /// The sale's lanes, each drawn alone; empty: it has none.
    #[serde(default)]
    pub lanes: Vec<LaneText>,
    /// Rounds of the shuffle.
    pub rounds: u8,
    /// The sale that draws.
    pub sale: SaleId,
    /// Who has to be trusted.
    trust: Trust,
}

/// A lane in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneText {
    /// Whether it takes an invitation to join it.
    pub invitation: bool,
    /// Its name.
    pub name: String,
    /// Its share of the calls while somebody waits in it, in percent.
    pub share: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BeaconText {
    chain: String,
    round: u64,
}

/// What a manifest promises to draw with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Randomness {
    /// A secret of the operator, by its SHA-256.
    Secret {
        /// In hexadecimal.
        commitment: String,
    },
    /// A beacon's round.
    Beacon {
        /// Whose.
        beacon: Beacon,
        /// Which.
        round: u64,
        /// SHA-256 of the secret that may take its place, in hexadecimal.
        fallback: Option<String>,
    },
}

impl ManifestText {
    /// What it promises to draw with.
    ///
    /// # Errors
    /// When it promises nothing, or something that does not belong together.
    pub fn randomness(&self) -> Result<Randomness, String> {
        match (self.trust, &self.beacon, &self.commitment) {
            (Trust::Operator, None, Some(commitment)) => {
                Ok(Randomness::Secret { commitment: commitment.clone() })
            }
            (Trust::Beacon, Some(BeaconText { chain, round }), fallback) => {
                let beacon = Beacon::of_chain(chain)
                    .ok_or_else(|| format!("rests on a beacon that is not known here: {chain}"))?;
                Ok(Randomness::Beacon { beacon, round: *round, fallback: fallback.clone() })
            }
            (trust, beacon, commitment) => {
                let has = |there| if there { "a" } else { "no" };
                let (round, secret) = (has(beacon.is_some()), has(commitment.is_some()));
                let trust = trust.as_str();
                Err(format!("says {trust}-trusted, and names {round} beacon and {secret} commitment"))
            }
        }
    }
}
