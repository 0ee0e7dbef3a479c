//! Any text as a token; and an authentic token with some bytes changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_fuzz::{KEYS, sign};

const CLAIMS: &[u8] =
    br#"{"iss":"i","aud":"a","sub":"s","jti":"j","iat":1,"nbf":1,"exp":2,"epoch":0,"arrival":0,"place":0}"#;

fuzz_target!(|input: &[u8]| {
    let authentic = sign("ropeline-admission+jwt", CLAIMS);
    if let Ok(text) = std::str::from_utf8(input) {
        assert!(KEYS.admission(text).is_err() || text == authentic);
        assert!(KEYS.ticket(text).is_err());
        assert!(KEYS.document(text).is_err());
    }
    let mut changed = authentic.clone().into_bytes();
    for change in input.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] ^= change[2];
    }
    if let Ok(changed) = String::from_utf8(changed) {
        assert_eq!(KEYS.admission(&changed).is_ok(), changed == authentic);
    }
});
