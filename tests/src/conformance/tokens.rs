//! Tokens made by hand, sound ones and every kind of broken one: nothing of the code under test signs here.

use base64ct::{Base64UrlUnpadded, Encoding};
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

/// The order of the base point, little-endian (RFC 8032, section 5.1).
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// The neutral point, which has order 1.
const NEUTRAL: [u8; 32] = {
    let mut point = [0; 32];
    point[0] = 1;
    point
};

/// A private key and the name that its tokens bear.
#[derive(Debug)]
pub(super) struct Key {
    kid: &'static str,
    signing: SigningKey,
}

/// What a token says.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub(super) iss: String,
    pub(super) aud: String,
    pub(super) sub: String,
    pub(super) iat: u64,
    pub(super) nbf: u64,
    pub(super) exp: u64,
    pub(super) epoch: u64,
}

// === impl Key ===

impl Key {
    pub(super) fn new(kid: &'static str, seed: u8) -> Self {
        Self { kid, signing: SigningKey::from_bytes(&[seed; 32]) }
    }

    /// As it is published (RFC 8037, section 2).
    pub(super) fn jwk(&self) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "x": self.x(), "kid": self.kid, "use": "sig" })
    }

    /// The public key, in base64url.
    pub(super) fn x(&self) -> String {
        encode(self.signing.verifying_key().as_bytes())
    }

    /// The header of an admission token, as text.
    pub(super) fn header(&self) -> String {
        format!(r#"{{"alg":"EdDSA","kid":"{}","typ":"ropeline-admission+jwt"}}"#, self.kid)
    }

    /// A sound token.
    pub(super) fn token(&self, claims: &Claims) -> String {
        self.sign(self.header(), claims.to_json())
    }

    /// A token of any header and payload, rightly signed.
    pub(super) fn sign(&self, header: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) -> String {
        self.sign_text(&format!("{}.{}", encode(header.as_ref()), encode(payload.as_ref())))
    }

    /// The two segments, however they are encoded, with their signature behind them.
    pub(super) fn sign_text(&self, text: &str) -> String {
        format!("{text}.{}", encode(&self.signature(text)))
    }

    /// The signature over two segments.
    pub(super) fn signature(&self, text: &str) -> [u8; 64] {
        self.signing.sign(text.as_bytes()).to_bytes()
    }

    /// A signature whose `R` is the neutral point: only who knows the key can make one, and whoever does not look at
    /// the order of `R` takes it.
    pub(super) fn sign_with_small_order(&self, text: &str) -> [u8; 64] {
        let mut hash = Sha512::new();
        hash.update(NEUTRAL);
        hash.update(self.signing.verifying_key().as_bytes());
        hash.update(text.as_bytes());
        let h = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        joined(&NEUTRAL, (h * self.signing.to_scalar()).as_bytes())
    }
}

// === impl Claims ===

impl Claims {
    /// As JSON, the members in the order that the gateway writes them in.
    pub(super) fn to_json(&self) -> String {
        let Self { iss, aud, sub, iat, nbf, exp, epoch } = self;
        let sub = Value::from(sub.as_str());
        format!(
            r#"{{"iss":"{iss}","aud":"{aud}","sub":{sub},"jti":"{aud}-{epoch}-12","iat":{iat},"nbf":{nbf},"exp":{exp},"epoch":{epoch},"arrival":12,"place":5}}"#
        )
    }
}

/// base64url without padding (RFC 4648, section 5).
pub(super) fn encode(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// The same signature with `S` raised by the order: the same point, and not the one way to write it.
pub(super) fn with_high_s(signature: &[u8; 64]) -> [u8; 64] {
    let mut raised = *signature;
    let mut carry = 0;
    for (byte, order) in raised[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        let [high, low] = sum.to_be_bytes();
        *byte = low;
        carry = u16::from(high);
    }
    raised
}

/// `R` and `S`.
pub(super) fn joined(r: &[u8; 32], s: &[u8; 32]) -> [u8; 64] {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(r);
    signature[32..].copy_from_slice(s);
    signature
}

/// The text up to the last dot and the signature behind it.
pub(super) fn split(token: &str) -> (&str, &str) {
    token.rsplit_once('.').expect("a signature")
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signature, Verifier};

    use super::*;

    #[test]
    fn a_signature_of_small_order_is_one_to_whoever_does_not_look() {
        let key = Key::new("spring", 1);
        let signature = Signature::from_bytes(&key.sign_with_small_order("header.payload"));
        let public = key.signing.verifying_key();
        assert!(public.verify(b"header.payload", &signature).is_ok());
        assert!(public.verify_strict(b"header.payload", &signature).is_err());
    }

    #[test]
    fn a_raised_signature_differs_by_the_order() {
        let signature = Key::new("spring", 1).signature("header.payload");
        let raised = with_high_s(&signature);
        let s = |signature: &[u8; 64]| {
            Scalar::from_bytes_mod_order(signature[32..].try_into().expect("32 bytes"))
        };
        assert!(raised != signature && s(&raised) == s(&signature));
    }
}
