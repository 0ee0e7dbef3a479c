//! Any bytes as a policy: what is read comes back from its own text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_decision::Policy;

fuzz_target!(|text: &[u8]| {
    if let Ok(policy) = Policy::from_json(text) {
        assert_eq!(Policy::from_json(policy.to_json().as_bytes()).as_ref(), Ok(&policy));
    }
});
