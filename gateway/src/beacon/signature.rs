//! The beacon's own signature: BLS on BLS12-381, scheme `bls-unchained-g1-rfc9380` (signatures in G1, keys in G2).
//!
//! `blst` does the arithmetic: maintained, audited, partly verified formally, and what Ethereum's consensus clients run on.
//! `drand-verify`, made for this very purpose, has had no release since 2023 and hangs on SHA-2 crates older still.

use blst::BLST_ERROR;
use blst::min_sig::{PublicKey, Signature};
use ropeline_queue::beacon::{BeaconOutput, BeaconSignature, unhex};
use sha2::{Digest as _, Sha256};

/// The scheme's tag for hashing to the curve (RFC 9380 section 3.1).
const DOMAIN: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";

/// The signature is not the beacon's for this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature is not the beacon's for this round")]
pub struct WrongSignature;

/// Checks that a round's signature is the beacon's. Some two milliseconds.
///
/// # Errors
/// When it is that of another round, another key, or no signature at all.
pub fn verify(output: &BeaconOutput) -> Result<(), WrongSignature> {
    let key = unhex::<96>(output.beacon.public_key()).ok_or(WrongSignature)?;
    check(&key, output.round, &output.signature)
}

fn check(key: &[u8; 96], round: u64, signature: &BeaconSignature) -> Result<(), WrongSignature> {
    let key = PublicKey::from_bytes(key).map_err(|_| WrongSignature)?;
    let signature = Signature::from_bytes(signature.as_bytes()).map_err(|_| WrongSignature)?;
    // An unchained beacon signs the hash of the round's number, big-endian, and nothing else.
    let message = Sha256::digest(round.to_be_bytes());
    match signature.verify(true, &message, DOMAIN, &[], &key, true) {
        BLST_ERROR::BLST_SUCCESS => Ok(()),
        _ => Err(WrongSignature),
    }
}

#[cfg(test)]
mod tests {
    use ropeline_queue::beacon::Beacon;

    use super::*;

    /// Rounds as quicknet published them.
    const KNOWN: [(u64, &str); 2] = [
        (
            123,
            "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92",
        ),
        (
            1_000,
            "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39",
        ),
    ];

    fn output(round: u64, signature: &str) -> BeaconOutput {
        BeaconOutput { beacon: Beacon::DrandQuicknet, round, signature: signature.parse().unwrap() }
    }

    #[test]
    fn published_rounds_are_the_beacons() {
        for (round, signature) in KNOWN {
            assert_eq!(verify(&output(round, signature)), Ok(()), "round {round}");
        }
    }

    #[test]
    fn another_rounds_signature_is_refused() {
        for (round, other) in [(KNOWN[0].0, KNOWN[1].1), (1_001, KNOWN[1].1), (0, KNOWN[1].1)] {
            assert_eq!(verify(&output(round, other)), Err(WrongSignature), "round {round}");
        }
    }

    #[test]
    fn a_signature_with_any_digit_changed_is_refused() {
        let (round, signature) = KNOWN[1];
        for at in 0..signature.len() {
            let mut changed = signature.to_owned().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(verify(&output(round, &changed)), Err(WrongSignature), "digit {at}");
        }
        // The point at infinity would fit any key at infinity; quicknet's is none.
        let infinity = format!("c0{}", "0".repeat(94));
        assert_eq!(verify(&output(round, &infinity)), Err(WrongSignature));
    }

    #[test]
    fn another_key_is_refused() {
        let (round, signature) = KNOWN[1];
        let signature = signature.parse().unwrap();
        let key = unhex::<96>(Beacon::DrandQuicknet.public_key()).unwrap();
        assert_eq!(check(&key, round, &signature), Ok(()));
        // The negative of the key: a good point of the right group, and not the beacon's.
        let mut negative = key;
        negative[0] ^= 0x20;
        assert_eq!(check(&negative, round, &signature), Err(WrongSignature));
        let mut infinity = [0; 96];
        infinity[0] = 0xc0;
        assert_eq!(check(&infinity, round, &signature), Err(WrongSignature));
        assert_eq!(check(&[0; 96], round, &signature), Err(WrongSignature));
    }
}
