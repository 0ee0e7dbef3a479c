//! Any bytes as up to three `Cookie` lines: a cookie is found if, and only if, exactly one pair bears its name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_decision::cookie;
use ropeline_decision::header::Field;
use ropeline_decision::presented;

fuzz_target!(|input: &[u8]| {
    let headers: Vec<Field<'_>> =
        input.splitn(3, |byte| *byte == b'\n').map(|line| ("Cookie", line)).collect();
    let named = cookie::pairs(&headers).filter(|(name, _)| *name == b"a").count();
    match cookie::find(&headers, "a") {
        Ok(None) => assert_eq!(named, 0),
        Ok(Some(value)) => {
            assert_eq!(named, 1);
            assert!(!value.contains(&b';'));
        }
        Err(_) => assert!(named > 1),
    }
    let _ = presented(&headers, "ropeline-admission", "a");
});
