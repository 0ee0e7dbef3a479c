//! Any bytes as `Accept` and as Fetch Metadata.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_decision::header::Field;
use ropeline_decision::{is_navigation, negotiate};

fuzz_target!(|input: &[u8]| {
    let names = ["Accept", "accept", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Purpose"];
    let headers: Vec<Field<'_>> = names.into_iter().zip(input.split(|byte| *byte == b'\n')).collect();
    let html = negotiate::preference(&headers, "text", "html");
    assert!(html.quality <= 1_000);
    assert!(!negotiate::prefers_html(&headers) || negotiate::accepts_html(&headers));
    assert!(!is_navigation(&headers) || negotiate::accepts_html(&headers));
});
