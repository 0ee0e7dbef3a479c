//! What the targets share: one key, known to its set; and what is fuzzed of the gateway, without the rest of it.

use std::sync::LazyLock;

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_dalek::Signer;
use ropeline_token::{KeySet, SigningKey};

#[path = "../../gateway/src/framing/mod.rs"]
pub mod framing;
#[path = "../../gateway/src/join_guard/proof.rs"]
pub mod proof;

const SEED: [u8; 32] = [7; 32];

pub static KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_seed(SEED));
pub static KEYS: LazyLock<KeySet> = LazyLock::new(|| KeySet::new([KEY.public_key()]).unwrap());

/// An authentic JWS of any payload: the way to what lies behind the signature.
pub fn sign(typ: &str, payload: &[u8]) -> String {
    let header = format!(r#"{{"alg":"EdDSA","kid":"{}","typ":"{typ}"}}"#, KEY.kid());
    let header = Base64UrlUnpadded::encode_string(header.as_bytes());
    let signed = format!("{header}.{}", Base64UrlUnpadded::encode_string(payload));
    let signature = ed25519_dalek::SigningKey::from_bytes(&SEED).sign(signed.as_bytes());
    format!("{signed}.{}", Base64UrlUnpadded::encode_string(&signature.to_bytes()))
}
