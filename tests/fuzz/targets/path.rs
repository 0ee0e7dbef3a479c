//! Any text as the target of a request that has no token: no path that a shop may take for `/sale` is forwarded.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ropeline_decision::path::normalise;
use ropeline_decision::{Policy, Request, Verdict, decide};
use ropeline_fuzz::KEYS;

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let text = r#"{"issuer":"i","api_prefix":"/q","secure_cookies":true,
        "sales":[{"sale":"s","epoch":0,"gate":"queue","routes":[{"path":"/sale"}],"bypass":["*.css"]}]}"#;
    Policy::from_json(text.as_bytes()).expect("a policy")
});

fuzz_target!(|target: &str| {
    let (path, _) = ropeline_decision::path::split_query(target);
    if let Ok(once) = normalise(path) {
        let again = normalise(&once.canonical).expect("a normal path is a path");
        assert_eq!((&again.canonical, &again.plain), (&once.canonical, &once.plain));
        assert!(
            !once.canonical.contains("//")
                && !once.canonical.contains("/../")
                && !once.canonical.ends_with("/..")
        );
    }
    let request = Request { method: "POST", host: "shop.example:443", target, headers: &[] };
    if let Verdict::Forward(forward) = decide(&request, &POLICY, &*KEYS, 0) {
        // What was asked for may pass by `/sale` on its way elsewhere (`/sale/%2e%2e/x`); what is forwarded never does.
        let (path, _) = ropeline_decision::path::split_query(&forward.target);
        let mut bytes = path.as_bytes().to_vec();
        for _ in 0..3 {
            assert_ne!(first_segment(&bytes).as_deref(), Some("sale"), "{target}");
            bytes = decoded(&bytes);
        }
    }
});

/// What a shop sees that cuts parameters, merges slashes, resolves dots and ignores case.
fn first_segment(path: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(path).replace('\\', "/").to_lowercase();
    let mut segments = Vec::new();
    for segment in text.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments.first().map(|segment| (*segment).to_owned())
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let pair = text.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if text[at] == b'%' => {
                bytes.push(byte);
                at += 3;
            }
            _ => {
                bytes.push(text[at]);
                at += 1;
            }
        }
    }
    bytes
}
