use alloc::boxed::Box;
use alloc::vec::Vec;

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity;
use once_cell::race::OnceBox;
use sha2::{Digest, Sha512};

use crate::jws::SIGNATURE_BYTES;

/// The point that is no sum at all, compressed (RFC 8032, section 5.1.2).
const IDENTITY: [u8; 32] = {
    let mut identity = [0; 32];
    identity[0] = 1;
    identity
};

/// ℓ − 1, little-endian in words: the largest scalar in canonical form.
const LARGEST: [u64; 4] = [0x5812_631a_5cf5_d3ec, 0x14de_f9de_a2f7_9cd6, 0, 0x1000_0000_0000_0000];

/// All 16 sums of 2⁰, 2⁶⁴, 2¹²⁸ and 2¹⁹² times a point.
type Half = [EdwardsPoint; 16];

/// A sound public key A with what its signatures need of it: all 256 sums of 2⁰, 2⁶⁴, 2¹²⁸ and 2¹⁹² times −A and as
/// many times the base point B (Lim and Lee, "More flexible exponentiation with precomputation", CRYPTO '94).
///
/// s·B − k·A then takes 64 doublings instead of 256, and half the time of a verification without. A key has 2.5 kB, and
/// 40 kB more from its first signature on: where each request has a set of its own, most of its keys never see one.
#[derive(Clone)]
pub(super) struct Prepared {
    x: [u8; 32],
    of_key: Half,
    sums: OnceBox<Vec<EdwardsPoint>>,
}

impl Prepared {
    /// A key whose every signature is judged without ambiguity: canonically written and of the prime order ℓ.
    pub(super) fn from_bytes(x: &[u8; 32]) -> Option<Self> {
        let prepared = Self::new(*x, CompressedEdwardsY(*x).decompress()?);
        // (ℓ − 1)·(−A) is A if ℓ·A is nothing, and then is written as A has to be.
        let opposite = combined(&prepared.of_key, &LARGEST);
        (opposite == *x && *x != IDENTITY).then_some(prepared)
    }

    /// Of a sound key: its text and point.
    pub(super) fn new(x: [u8; 32], point: EdwardsPoint) -> Self {
        Self { x, of_key: half(-point), sums: OnceBox::new() }
    }

    fn sums(&self) -> &[EdwardsPoint] {
        self.sums.get_or_init(|| {
            let of_base = half(ED25519_BASEPOINT_POINT);
            Box::new((0..256).map(|at| of_base[at >> 4] + self.of_key[at & 15]).collect())
        })
    }

    pub(super) const fn as_bytes(&self) -> &[u8; 32] {
        &self.x
    }

    /// Takes what `verify_strict` of `ed25519-dalek` takes.
    ///
    /// That also wants R to be a point, and not one of small order. Here R is compared with the text of a point, so it
    /// is one, in canonical form; and a sum of multiples of A and B is of order ℓ, if it isn't the identity.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        let (halves, _) = signature.as_chunks();
        let [r, s] = halves else { return false };
        let s = words(s);
        if s.iter().rev().gt(LARGEST.iter().rev()) {
            return false;
        }
        let hash = Sha512::new().chain_update(r).chain_update(self.x).chain_update(message).finalize();
        let k = Scalar::from_bytes_mod_order_wide(&hash.into());
        let [k, s] = [words(k.as_bytes()), s];
        combined(self.sums(), [k, s].as_flattened()) == *r && *r != IDENTITY
    }
}

/// The sums of a point's four multiples, at the number whose bits name them.
fn half(mut point: EdwardsPoint) -> Half {
    let mut sums = [EdwardsPoint::identity(); 16];
    for bit in [1, 2, 4, 8] {
        for without in 0..bit {
            sums[bit + without] = sums[without] + point;
        }
        if bit < 8 {
            for _ in 0..64 {
                point += point;
            }
        }
    }
    sums
}

/// The sum of `sums` that the words' bits name, each in its place: s·B − k·A, compressed, or −k·A alone. Its time depends
/// on the words; they are public.
fn combined(sums: &[EdwardsPoint], words: &[u64]) -> [u8; 32] {
    let mut sum = EdwardsPoint::identity();
    for bit in (0..64).rev() {
        sum += sum;
        let at = words.iter().rev().fold(0, |at, word| at << 1 | usize::from(word >> bit & 1 == 1));
        sum += sums[at];
    }
    sum.compress().to_bytes()
}

/// Little-endian, as Ed25519 writes its numbers.
fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}
