//! Any bytes as a key set, a key and a private key: what is read comes back from its own text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_token::{KeySet, PublicKey, SigningKey};

fuzz_target!(|text: &[u8]| {
    if let Ok(set) = KeySet::from_jwks(text) {
        assert_eq!(KeySet::from_jwks(set.to_jwks().as_bytes()).as_ref(), Ok(&set));
    }
    if let Ok(key) = PublicKey::from_jwk(text) {
        assert_eq!(PublicKey::from_jwk(key.to_jwk().as_bytes()).as_ref(), Ok(&key));
    }
    if let Ok(key) = SigningKey::from_jwk(text) {
        let again = SigningKey::from_jwk(key.to_private_jwk().as_bytes()).expect("its own text");
        assert_eq!(again.public_key(), key.public_key());
    }
});
