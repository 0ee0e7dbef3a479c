//! Any text as a proof of work: none counts but one that was asked for, and that one counts for what it was asked for alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_fuzz::proof::{Bound, Proof, ProofRefusal, challenge};

const SECRET: [u8; 32] = [7; 32];
const BOUND: Bound<'_> = Bound { sale: "drop", visitor: "ada" };

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(proof) = Proof::parse(text) {
        let invalid = Err(ProofRefusal::Invalid);
        assert_eq!(proof.check([&[9_u8; 32][..]], BOUND, 0, 0), invalid, "of a secret that nobody has");
        if proof.check([&SECRET[..]], BOUND, 0, 0) != invalid {
            // The seeds are authentic: what is left of one that was changed is one, to the byte.
            let again = Proof::parse(text).unwrap();
            assert_eq!(again, proof);
            let other = Bound { visitor: "bob", ..BOUND };
            assert_eq!(proof.check([&SECRET[..]], other, 0, 0), invalid);
        }
    }
    // The same text behind an authentic challenge: its form alone decides.
    let Some(challenge) = challenge(&SECRET, BOUND, 0, u64::MAX) else { return };
    let whole = format!("{challenge}.{text}");
    let digits = (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let checked = Proof::parse(&whole).and_then(|proof| proof.check([&SECRET[..]], BOUND, 0, 0));
    assert_eq!(checked, if digits { Ok(()) } else { Err(ProofRefusal::Invalid) });
});
