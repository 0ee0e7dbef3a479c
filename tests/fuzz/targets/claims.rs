//! Any bytes as claims, truly signed: what is read can be signed again and is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_fuzz::{KEY, KEYS, sign};

fuzz_target!(|payload: &[u8]| {
    if let Ok(ticket) = KEYS.ticket(&sign("ropeline-ticket+jwt", payload)) {
        let again = KEY.sign_ticket(ticket.unaccepted()).expect("claims that were read can be signed");
        assert_eq!(KEYS.ticket(&again).expect("and read"), ticket);
    }
    if let Ok(admission) = KEYS.admission(&sign("ropeline-admission+jwt", payload)) {
        let again = KEY.sign_admission(admission.unaccepted()).expect("claims that were read can be signed");
        assert_eq!(KEYS.admission(&again).expect("and read"), admission);
    }
});
