//! Proof of work for a first number: a challenge that nobody but these gateways makes, and its solution.
//!
//! Nothing is remembered of a challenge: it is `expires ‖ bits ‖ mac` in base64url, 27 bytes as 36 characters, where
//! `expires` is in Unix seconds (8 bytes, big-endian), `bits` one byte, and `mac` the first 18 bytes of HMAC-SHA-256 with a
//! cookie secret over a label, the sale, the visitor, `expires` and `bits`. So every gateway knows every gateway's, and one is
//! good for one visitor and one sale. Which have brought a number is kept in mind beside this, by their [`ProofName`].
//!
//! A proof is `challenge "." nonce`, the nonce being 1 to 18 decimal digits, such that its SHA-256 begins with `bits` zero
//! bits. What is hashed is the text as it is sent, which for a hash function is one block.

use base64ct::{Base64UrlUnpadded, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const LABEL: &[u8] = b"ropeline-proof-v1\0";
const MAC_BYTES: usize = 18;
const CHALLENGE_BYTES: usize = 8 + 1 + MAC_BYTES;
const CHALLENGE_TEXT: usize = 36;
const NONCE_DIGITS: usize = 18;

/// Why a proof does not count. What is not told apart cannot be: a challenge of another visitor is one with a wrong `mac`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofRefusal {
    /// It is not of this form, was altered, or is another visitor's or another sale's.
    Invalid,
    /// Its challenge was good until some time ago.
    Expired,
    /// Its challenge asks for less than is asked for now.
    TooEasy,
    /// Its hash does not begin with as many zero bits as its challenge asks for.
    Unsolved,
    /// It has brought a number, which its visitor has given up.
    Spent,
    /// Another join for it is under way.
    Running,
}

/// Tells a proof's challenge from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProofName([u8; MAC_BYTES]);

/// Names a visitor in a sale.
pub(super) type BoundKey = [u8; 32];

/// What a challenge is bound to.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a> {
    /// The sale's id.
    pub sale: &'a str,
    /// The visitor, as tickets name it.
    pub visitor: &'a str,
}

impl Bound<'_> {
    /// Tells the visitor in the sale from all others.
    pub(super) fn key(&self) -> BoundKey {
        let mut hash = Sha256::new();
        // The length keeps the end of the sale from being taken for the beginning of the visitor.
        hash.update(self.sale.len().to_be_bytes());
        hash.update(self.sale.as_bytes());
        hash.update(self.visitor.as_bytes());
        hash.finalize().into()
    }
}

/// A proof as it was sent, of the right form and not checked further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof<'a> {
    text: &'a str,
    expires_at: u64,
    bits: u8,
    mac: [u8; MAC_BYTES],
}

/// The challenge for this visitor in this sale, good until `expires_at` in Unix seconds. `None` for a key that HMAC does not
/// take, of which there is none.
#[must_use]
pub fn challenge(secret: &[u8], bound: Bound<'_>, bits: u8, expires_at: u64) -> Option<String> {
    let mut bytes = [0; CHALLENGE_BYTES];
    bytes[..8].copy_from_slice(&expires_at.to_be_bytes());
    bytes[8] = bits;
    bytes[9..].copy_from_slice(&mac(secret, bound, bits, expires_at)?);
    Some(Base64UrlUnpadded::encode_string(&bytes))
}

fn mac(secret: &[u8], bound: Bound<'_>, bits: u8, expires_at: u64) -> Option<[u8; MAC_BYTES]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(LABEL);
    mac.update(&expires_at.to_be_bytes());
    mac.update(&[bits]);
    // The length keeps the end of the sale from being taken for the beginning of the visitor.
    mac.update(&u64::try_from(bound.sale.len()).ok()?.to_be_bytes());
    mac.update(bound.sale.as_bytes());
    mac.update(bound.visitor.as_bytes());
    mac.finalize().into_bytes().get(..MAC_BYTES)?.try_into().ok()
}

impl<'a> Proof<'a> {
    /// Reads a proof's parts.
    ///
    /// # Errors
    /// [`ProofRefusal::Invalid`].
    pub fn parse(text: &'a str) -> Result<Self, ProofRefusal> {
        let invalid = ProofRefusal::Invalid;
        let (challenge, nonce) = text.split_once('.').ok_or(invalid)?;
        let digits = (1..=NONCE_DIGITS).contains(&nonce.len()) && nonce.bytes().all(|b| b.is_ascii_digit());
        if challenge.len() != CHALLENGE_TEXT || !digits {
            return Err(invalid);
        }
        let mut bytes = [0; CHALLENGE_BYTES];
        Base64UrlUnpadded::decode(challenge, &mut bytes).map_err(|_| invalid)?;
        let (expires_at, rest) = bytes.split_first_chunk().ok_or(invalid)?;
        let (bits, mac) = rest.split_first().ok_or(invalid)?;
        let mac = mac.try_into().map_err(|_| invalid)?;
        Ok(Self { text, expires_at: u64::from_be_bytes(*expires_at), bits: *bits, mac })
    }

    /// What its challenge is called.
    #[must_use]
    pub const fn name(&self) -> ProofName {
        ProofName(self.mac)
    }

    /// Checks that a gateway with one of the secrets asked this visitor in this sale for it, for at least `bits`, that its
    /// time is not over at `now_s` in Unix seconds, and that it is solved.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn check<'s>(
        &self,
        secrets: impl IntoIterator<Item = &'s [u8]>,
        bound: Bound<'_>,
        bits: u8,
        now_s: u64,
    ) -> Result<(), ProofRefusal> {
        let mut expected =
            secrets.into_iter().filter_map(|secret| mac(secret, bound, self.bits, self.expires_at));
        if !expected.any(|expected| bool::from(expected.ct_eq(&self.mac))) {
            Err(ProofRefusal::Invalid)
        } else if now_s > self.expires_at {
            Err(ProofRefusal::Expired)
        } else if self.bits < bits {
            Err(ProofRefusal::TooEasy)
        } else if zero_bits(&Sha256::digest(self.text.as_bytes())) < u32::from(self.bits) {
            Err(ProofRefusal::Unsolved)
        } else {
            Ok(())
        }
    }
}

/// How many zero bits some bytes begin with.
#[must_use]
pub fn zero_bits(bytes: &[u8]) -> u32 {
    let zero = bytes.iter().take_while(|byte| **byte == 0).count();
    let next = bytes.get(zero).map_or(0, |byte| byte.leading_zeros());
    u32::try_from(zero).unwrap_or(u32::MAX).saturating_mul(8).saturating_add(next)
}
