//! Any bytes as the header of a token whose signature is not ours.
#![no_main]

use base64ct::{Base64UrlUnpadded, Encoding};
use libfuzzer_sys::fuzz_target;
use ropeline_fuzz::KEYS;

fuzz_target!(|header: &[u8]| {
    let header = Base64UrlUnpadded::encode_string(header);
    let token = format!("{header}.e30.{}", "A".repeat(86));
    assert!(KEYS.ticket(&token).is_err());
    assert!(KEYS.admission(&token).is_err());
});
