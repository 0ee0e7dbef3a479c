//! The public document of a draw: what was promised, how many were drawn, and what anybody can check every place with.
//! The gateway writes it; `ropeline draw verify` and any other program reads it.

mod statements;
#[cfg(test)]
mod tests;
pub mod tickets;
mod verify;

use ropeline_queue::beacon::{BeaconOutput, BeaconSignature};
use ropeline_queue::{DrawState, DrawView, SaleId, Source, hex};
use ropeline_token::{IssueError, SigningKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use statements::{FallbackStatement, Frozen, LaneText, ManifestText, Randomness};
pub use verify::{Check, Drawn, Outcome, Verification};

/// The document as published. Bytes are in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawDocument {
    /// The sale that draws.
    pub sale: SaleId,
    /// The signed promise: a compact JWS whose payload is the manifest's exact bytes.
    pub manifest: String,
    /// The signed number of arrivals: a compact JWS with [`Frozen`] as payload. There from the draw's closing on.
    pub frozen: Option<String>,
    /// The number of arrivals, as in `frozen`.
    pub size: Option<u32>,
    /// What the manifest committed to; there once places are drawn with it.
    pub secret: Option<String>,
    /// What places are computed from, once drawn.
    pub seed: Option<String>,
    /// The lanes but the first, in the manifest's order: each is drawn alone. `size` and `seed` are the first lane's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<DrawnLane>,
    /// The beacon's round, once places are drawn with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<BeaconRound>,
    /// The operator's signed decision to draw by the secret because the round was overdue: a compact JWS with
    /// [`FallbackStatement`] as payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// A lane's part of a [`DrawDocument`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawnLane {
    /// The number of arrivals, as in `frozen`.
    pub size: Option<u32>,
    /// What places are computed from, once drawn.
    pub seed: Option<String>,
}

/// What a beacon published for a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeaconRound {
    /// The beacon's chain hash.
    pub chain: String,
    /// The round's number.
    pub round: u64,
    /// The beacon's signature of it.
    pub signature: BeaconSignature,
    /// SHA-256 of the signature.
    pub randomness: String,
}

impl From<BeaconOutput> for BeaconRound {
    fn from(output: BeaconOutput) -> Self {
        let BeaconOutput { beacon, round, signature } = output;
        let chain = beacon.chain_hash().to_owned();
        Self { chain, round, signature, randomness: hex(&signature.randomness()) }
    }
}

// === impl DrawDocument ===

impl DrawDocument {
    /// The document of a sale's draw as it stands. The same state and key give the same bytes.
    ///
    /// # Errors
    /// When a part is too long to sign, which no sale's is.
    pub fn new(signer: &SigningKey, draw: &DrawView) -> Result<Self, IssueError> {
        // A plain structure of text and numbers always has a JSON form.
        let sign = |bytes: serde_json::Result<Vec<u8>>| signer.sign_document(&bytes.unwrap_or_default());
        let text = draw.manifest.canonical();
        let manifest_sha256 = digest(text.as_bytes());
        let sale = draw.manifest.sale.clone();
        let size = draw.state.size();
        let frozen = size.map(|size| {
            let (manifest_sha256, sale) = (manifest_sha256.clone(), sale.clone());
            let frozen_at = draw.frozen_at.map(|at| at.0);
            let lanes = draw.lanes.iter().filter_map(DrawState::size).collect();
            sign(serde_json::to_vec(&Frozen { frozen_at, lanes, manifest_sha256, sale, size }))
        });
        let round = draw.round();
        let (secret, beacon, fallback) = match &draw.source {
            None => (None, None, None),
            Some(Source::Secret(secret)) => (Some(secret), None, None),
            Some(Source::Beacon(signature)) => {
                let output = round.map(|awaited| BeaconOutput {
                    beacon: awaited.beacon,
                    round: awaited.round,
                    signature: *signature,
                });
                (None, output.map(BeaconRound::from), None)
            }
            Some(Source::Fallback { secret, decision }) => {
                let statement = round.map(|awaited| FallbackStatement {
                    decided_at: decision.at.0,
                    manifest_sha256: manifest_sha256.clone(),
                    reason: decision.reason.clone(),
                    round: awaited.round,
                    sale: sale.clone(),
                });
                let signed = statement.map(|statement| sign(serde_json::to_vec(&statement)));
                (Some(secret), None, signed.transpose()?)
            }
        };
        Ok(Self {
            sale: draw.manifest.sale.clone(),
            manifest: signer.sign_document(text.as_bytes())?,
            frozen: frozen.transpose()?,
            size,
            secret: secret.map(|secret| hex(secret)),
            seed: draw.state.seed().map(|seed| hex(&seed)),
            lanes: (draw.lanes.iter())
                .map(|state| DrawnLane { size: state.size(), seed: state.seed().map(|seed| hex(&seed)) })
                .collect(),
            beacon,
            fallback,
        })
    }
}

fn digest(bytes: &[u8]) -> String {
    hex(&<[u8; 32]>::from(Sha256::digest(bytes)))
}
