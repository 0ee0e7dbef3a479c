//! The public document of a draw: what was promised, how many were drawn, and the secret that anybody can check
//! every place with. The gateway writes it; `ropeline draw verify` and any other program reads it.

use ropeline_queue::draw::{self, Shuffle};
use ropeline_queue::{DrawView, SaleId, hex};
use ropeline_token::{IssueError, KeySet, SigningKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

#[cfg(test)]
mod tests;

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
    /// What the manifest committed to; there once places are drawn.
    pub secret: Option<String>,
    /// What places are computed from, once drawn.
    pub seed: Option<String>,
}

/// What is signed when the draw closes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frozen {
    /// SHA-256 of the manifest's bytes.
    pub manifest_sha256: String,
    /// The sale that draws.
    pub sale: SaleId,
    /// Arrivals that are drawn.
    pub size: u32,
}

/// The manifest's members, as a reader needs them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestText {
    /// The shuffle.
    pub algorithm: String,
    /// Arrivals before this time are drawn, in Unix milliseconds.
    pub closes_at: u64,
    /// SHA-256 of the secret.
    pub commitment: String,
    /// Rounds of the shuffle.
    pub rounds: u8,
    /// The sale that draws.
    pub sale: SaleId,
    /// Who has to be trusted.
    pub trust: String,
}

/// One step of checking a draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it came out.
    pub outcome: Outcome,
}

/// How a check came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As promised, in these words.
    Good(String),
    /// Not as promised, and why.
    Bad(String),
    /// Cannot be checked yet: the draw has not come so far.
    Pending(&'static str),
}

/// What a check of the whole document found.
#[derive(Debug, Clone)]
pub struct Verification {
    /// Each step, in order; those after a bad one that they depend on are left out.
    pub checks: Vec<Check>,
    /// The shuffle that gives every place, when every check was good.
    pub shuffle: Option<Shuffle>,
}

impl Verification {
    /// True when no check was bad.
    pub fn is_good(&self) -> bool {
        !self.checks.iter().any(|check| matches!(check.outcome, Outcome::Bad(_)))
    }
}

// === impl DrawDocument ===

impl DrawDocument {
    /// The document of a sale's draw as it stands. The same state and key give the same bytes.
    ///
    /// # Errors
    /// When a part is too long to sign, which no sale's is.
    pub fn new(signer: &SigningKey, draw: &DrawView) -> Result<Self, IssueError> {
        let text = draw.manifest.canonical();
        let size = draw.state.size();
        let sign_size = |size| {
            let sale = draw.manifest.sale.clone();
            let frozen = Frozen { manifest_sha256: digest(text.as_bytes()), sale, size };
            // A plain structure of text and a number always has a JSON form.
            signer.sign_document(&serde_json::to_vec(&frozen).unwrap_or_default())
        };
        Ok(Self {
            sale: draw.manifest.sale.clone(),
            manifest: signer.sign_document(text.as_bytes())?,
            frozen: size.map(sign_size).transpose()?,
            size,
            secret: draw.secret.map(|secret| hex(&secret)),
            seed: draw.state.seed().map(|seed| hex(&seed)),
        })
    }

    /// Checks everything anew from the signed bytes: signatures, promise, commitment, number, seed.
    pub fn verify(&self, keys: &KeySet) -> Verification {
        let mut checks = Vec::new();
        let shuffle = self.run(keys, &mut checks);
        Verification { checks, shuffle }
    }

    fn run(&self, keys: &KeySet, checks: &mut Vec<Check>) -> Option<Shuffle> {
        let mut step = |name, outcome: Result<String, String>| {
            let good = outcome.is_ok();
            checks.push(Check { name, outcome: outcome.map_or_else(Outcome::Bad, Outcome::Good) });
            good.then_some(())
        };
        let payload = keys.document(&self.manifest);
        step(
            "manifest signature",
            match &payload {
                Ok(bytes) => Ok(format!("signed; SHA-256 {}", digest(bytes))),
                Err(refusal) => Err(refusal.to_string()),
            },
        )?;
        let text = payload.ok()?;
        let manifest: Result<ManifestText, _> = serde_json::from_slice(&text);
        step(
            "manifest",
            match &manifest {
                Err(error) => Err(format!("cannot be read: {error}")),
                Ok(manifest) => self.promise(manifest),
            },
        )?;
        let manifest = manifest.ok()?;

        let Some(frozen) = &self.frozen else {
            checks.push(Check {
                name: "number of arrivals",
                outcome: Outcome::Pending("the draw has not closed"),
            });
            return None;
        };
        let size = self.frozen_size(keys, frozen, &text);
        step(
            "number of arrivals",
            size.as_ref().map(|size| format!("signed: {size} are drawn")).map_err(Clone::clone),
        )?;
        let size = size.ok()?;

        let (Some(secret), Some(seed)) = (&self.secret, &self.seed) else {
            checks.push(Check { name: "secret", outcome: Outcome::Pending("the draw has not been made") });
            return None;
        };
        let secret = unhex(secret);
        step(
            "secret",
            match &secret {
                None => Err("is not 32 bytes in hexadecimal".to_owned()),
                Some(secret) if hex(&draw::commitment(secret)) == manifest.commitment => {
                    Ok("its SHA-256 is the commitment of the manifest".to_owned())
                }
                Some(secret) => Err(format!(
                    "its SHA-256 is {}, the manifest committed to {}",
                    hex(&draw::commitment(secret)),
                    manifest.commitment
                )),
            },
        )?;
        let computed = draw::seed(&text, size, &secret?);
        step(
            "seed",
            if hex(&computed) == *seed {
                Ok("follows from manifest, number and secret".to_owned())
            } else {
                Err(format!("should be {}, the document says {seed}", hex(&computed)))
            },
        )?;
        Some(Shuffle::new(computed, size))
    }

    fn promise(&self, manifest: &ManifestText) -> Result<String, String> {
        if manifest.sale != self.sale {
            return Err(format!("is of the sale {}, the document of {}", manifest.sale, self.sale));
        }
        if manifest.algorithm != draw::ALGORITHM || manifest.rounds != draw::ROUNDS {
            return Err(format!(
                "promises {} with {} rounds; this program knows {} with {}",
                manifest.algorithm,
                manifest.rounds,
                draw::ALGORITHM,
                draw::ROUNDS
            ));
        }
        Ok(format!("{}, {} rounds, {}-trusted", manifest.algorithm, manifest.rounds, manifest.trust))
    }

    fn frozen_size(&self, keys: &KeySet, frozen: &str, manifest: &[u8]) -> Result<u32, String> {
        let payload = keys.document(frozen).map_err(|refusal| format!("signature: {refusal}"))?;
        let frozen: Frozen =
            serde_json::from_slice(&payload).map_err(|error| format!("cannot be read: {error}"))?;
        if frozen.sale != self.sale {
            return Err(format!("is of the sale {}", frozen.sale));
        }
        if frozen.manifest_sha256 != digest(manifest) {
            return Err(format!("belongs to another manifest, {}", frozen.manifest_sha256));
        }
        if self.size != Some(frozen.size) {
            return Err(format!("{} is signed, the document says {:?}", frozen.size, self.size));
        }
        Ok(frozen.size)
    }
}

fn digest(bytes: &[u8]) -> String {
    hex(&<[u8; 32]>::from(Sha256::digest(bytes)))
}

pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
