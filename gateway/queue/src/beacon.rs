//! The public randomness that a draw may rest on: rounds of a drand beacon, which nobody can know beforehand and
//! everybody can check afterwards.
//!
//! What is here needs no curve arithmetic: which round comes when, and what its randomness is. That a signature is the
//! beacon's is checked by who hands it to the queue.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::manifest::hex;
use crate::types::UnixMillis;

/// A draw's round comes at least this long after its closing, in milliseconds: the number of arrivals is then public
/// while nobody can know the round.
pub const MARGIN_MS: u64 = 30_000;

/// A round this long overdue is said to be late, in milliseconds. Relays have one some two seconds after its time.
pub const LATE_AFTER_MS: u64 = 15_000;

/// A round that is this long overdue may be given up for the operator's secret, in milliseconds.
pub const FALLBACK_AFTER_MS: u64 = 60_000;

/// A beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beacon {
    /// drand's quicknet, run by the League of Entropy: scheme `bls-unchained-g1-rfc9380`. Its constants are those that
    /// every relay of the network gives: `https://api.drand.sh/CHAIN_HASH/info`.
    #[serde(rename = "drand-quicknet")]
    DrandQuicknet,
}

// === impl Beacon ===

impl Beacon {
    /// The name in definitions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DrandQuicknet => "drand-quicknet",
        }
    }

    /// Names the chain everywhere, in hexadecimal: a hash of its public key, its first round's time and its period.
    pub const fn chain_hash(self) -> &'static str {
        match self {
            Self::DrandQuicknet => "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971",
        }
    }

    /// What its signatures are checked with, in hexadecimal: a compressed point of BLS12-381's G2.
    pub const fn public_key(self) -> &'static str {
        match self {
            Self::DrandQuicknet => concat!(
                "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c",
                "8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb",
                "5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a",
            ),
        }
    }

    /// When the first round came.
    const fn genesis(self) -> UnixMillis {
        match self {
            Self::DrandQuicknet => UnixMillis(1_692_803_367_000),
        }
    }

    /// Time from one round to the next, in milliseconds.
    pub const fn period_ms(self) -> u64 {
        match self {
            Self::DrandQuicknet => 3_000,
        }
    }

    /// The beacon with this chain hash, if it is known here.
    pub fn of_chain(chain_hash: &str) -> Option<Self> {
        [Self::DrandQuicknet].into_iter().find(|beacon| beacon.chain_hash() == chain_hash)
    }

    /// When a round comes. Rounds count from 1; there is no round 0, which is said to come with the first.
    pub const fn round_at(self, round: u64) -> UnixMillis {
        self.genesis().plus(round.saturating_sub(1).saturating_mul(self.period_ms()))
    }

    /// The first round that comes at a time or after it.
    pub const fn first_round_from(self, at: UnixMillis) -> u64 {
        at.since(self.genesis()).div_ceil(self.period_ms()) + 1
    }
}

impl fmt::Display for Beacon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not the name of a beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the only beacon is \"drand-quicknet\"")]
pub struct UnknownBeacon;

impl FromStr for Beacon {
    type Err = UnknownBeacon;

    fn from_str(text: &str) -> Result<Self, UnknownBeacon> {
        [Self::DrandQuicknet].into_iter().find(|beacon| beacon.as_str() == text).ok_or(UnknownBeacon)
    }
}

/// What a beacon publishes for a round: a signature of the round's number, a compressed point of BLS12-381's G1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BeaconSignature([u8; 48]);

// === impl BeaconSignature ===

impl BeaconSignature {
    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 48] {
        &self.0
    }

    /// The round's randomness: SHA-256 of its signature.
    pub fn randomness(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl fmt::Display for BeaconSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Not 48 bytes in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a beacon's signature is 48 bytes in hexadecimal")]
pub struct BeaconSignatureError;

impl FromStr for BeaconSignature {
    type Err = BeaconSignatureError;

    fn from_str(text: &str) -> Result<Self, BeaconSignatureError> {
        unhex(text).map(Self).ok_or(BeaconSignatureError)
    }
}

impl TryFrom<String> for BeaconSignature {
    type Error = BeaconSignatureError;

    fn try_from(text: String) -> Result<Self, BeaconSignatureError> {
        text.parse()
    }
}

impl From<BeaconSignature> for String {
    fn from(signature: BeaconSignature) -> Self {
        signature.to_string()
    }
}

/// Bytes of a length known beforehand from hexadecimal digits, of either case.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(bytes)
}

/// One round of a beacon, its signature checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeaconOutput {
    /// Whose.
    pub beacon: Beacon,
    /// The round's number.
    pub round: u64,
    /// What was published for it.
    pub signature: BeaconSignature,
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICKNET: Beacon = Beacon::DrandQuicknet;

    #[test]
    fn randomness_is_that_which_the_network_published() {
        // GET /52db9ba7…/public/1000
        let signature: BeaconSignature = concat!(
            "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125",
            "e342b73a8dd2bacbe47e4b6b63ed5e39"
        )
        .parse()
        .unwrap();
        assert_eq!(
            hex(&signature.randomness()),
            "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd"
        );
    }

    #[test]
    fn rounds_come_at_their_times_and_the_first_from_a_time_is_never_before_it() {
        assert_eq!(QUICKNET.round_at(1), UnixMillis(1_692_803_367_000));
        assert_eq!(QUICKNET.round_at(1_000), UnixMillis(1_692_806_364_000));
        for (offset, round) in [(0, 1_000), (1, 1_001), (2_999, 1_001), (3_000, 1_001), (3_001, 1_002)] {
            assert_eq!(QUICKNET.first_round_from(QUICKNET.round_at(1_000).plus(offset)), round, "{offset}");
        }
        assert_eq!(QUICKNET.first_round_from(UnixMillis(0)), 1);
        assert_eq!(QUICKNET.round_at(u64::MAX), UnixMillis(u64::MAX));
    }

    #[test]
    fn names_and_signatures_are_taken_whole_or_not_at_all() {
        assert_eq!("drand-quicknet".parse(), Ok(QUICKNET));
        assert_eq!(serde_json::to_string(&QUICKNET).unwrap(), r#""drand-quicknet""#);
        assert_eq!("quicknet".parse::<Beacon>(), Err(UnknownBeacon));
        assert_eq!(Beacon::of_chain(QUICKNET.chain_hash()), Some(QUICKNET));
        assert_eq!(Beacon::of_chain(""), None);
        for bad in ["", "b4", &"g".repeat(96), &"b".repeat(97), &"é".repeat(48), &"+f".repeat(48)] {
            assert_eq!(bad.parse::<BeaconSignature>(), Err(BeaconSignatureError), "{bad}");
        }
    }
}
