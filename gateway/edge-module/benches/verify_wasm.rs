//! An admitted request in the edge's module against the same in this build: `cargo bench -p ropeline-edge-module`. Both
//! see the same tokens, by turns, in the same run; medians of rounds are compared.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark prints, and stops at the first fault"
)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ropeline_decision::Policy;
use ropeline_edge::{Field, Request, Settings, Upstream};
use ropeline_edge_module::{Limits, Module};
use ropeline_token::{AdmissionClaims, Claims, Expect, KeySet, Leeway, SigningKey};

const TOKENS: u32 = 500;
const ROUNDS: usize = 15;
const NOW: u64 = 1_700_000_300;

const PROTECTED: &str = "/products/sneaker/7?size=42";
const ELSEWHERE: &str = "/products/sandals/7?size=42";

fn main() {
    let key = SigningKey::from_seed([1; 32]);
    let others = [2, 3].map(|seed| SigningKey::from_seed([seed; 32]).public_key());
    let keys = KeySet::new(others.into_iter().chain([key.public_key()])).unwrap();
    let policy = Policy::from_json(
        br#"{"issuer":"https://shop.example","api_prefix":"/api/v1/queue","secure_cookies":false,
            "sales":[{"sale":"sneaker","epoch":0,"gate":"queue","routes":[{"path":"/products/sneaker"}]}]}"#,
    );
    let settings = Settings::new(policy.unwrap(), keys.clone()).sending_to(Upstream::Shop);
    let bytes = std::fs::read(module()).unwrap();
    let began = Instant::now();
    let module = Module::from_bytes(&bytes, Limits::default()).unwrap();
    let compiled = began.elapsed();
    let document = settings.to_json();
    let began = Instant::now();
    module.configure(document.as_bytes()).unwrap();
    let configured = began.elapsed();

    let tokens: Vec<String> = (0..TOKENS).map(|arrival| token(&key, arrival)).collect();
    let expect = Expect {
        issuer: "https://shop.example",
        audience: "sneaker",
        min_epoch: 0,
        leeway: Leeway::default(),
    };
    let verified = || {
        for token in &tokens {
            black_box(keys.admission(black_box(token)).unwrap().accept(&expect, NOW).unwrap());
        }
    };
    let native = |target| {
        for token in &tokens {
            with(target, token, |request| {
                assert!(settings.plan(request, NOW).to_json().contains("\"shop\""));
            });
        }
    };
    let wasm = |target| {
        for token in &tokens {
            with(target, token, |request| assert!(module.plan(request, NOW).unwrap().contains("\"shop\"")));
        }
    };
    let works: [(&str, &dyn Fn()); 5] = [
        ("native, verification alone", &verified),
        ("native, plan of an admitted request", &|| native(PROTECTED)),
        ("native, plan of the same elsewhere", &|| native(ELSEWHERE)),
        ("in Wasm, plan of an admitted request", &|| wasm(PROTECTED)),
        ("in Wasm, plan of the same elsewhere", &|| wasm(ELSEWHERE)),
    ];
    let mut times = works.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, work), times) in works.iter().zip(&mut times) {
            let start = Instant::now();
            work();
            times.push(start.elapsed());
        }
    }
    let medians = times.map(median);
    println!("module of {} bytes: compiled in {compiled:?}, given settings in {configured:?}", bytes.len());
    println!("medians of {ROUNDS} rounds of {TOKENS}");
    for ((name, _), time) in works.iter().zip(medians) {
        println!("{name:40} {:?}", time / TOKENS);
    }
    let [_, native, native_elsewhere, wasm, wasm_elsewhere] = medians.map(|time| time.as_secs_f64());
    println!("{:40} {:.3}", "ratio, an admitted request", wasm / native);
    // Elsewhere the same fields are handed over and no token is verified.
    let ratio = (wasm - wasm_elsewhere) / (native - native_elsewhere);
    println!("{:40} {ratio:.3}", "ratio, its verification");
    println!("{:40} {} bytes", "memory of the module", module.memory_bytes());
}

fn token(key: &SigningKey, arrival: u32) -> String {
    let claims = Claims {
        iss: "https://shop.example".into(),
        aud: "sneaker".into(),
        sub: format!("0193f2a4-7c1e-7b3a-9d55-{arrival:012x}"),
        jti: format!("sneaker-0-{arrival}"),
        iat: 1_700_000_000,
        nbf: 1_700_000_000,
        exp: 1_700_000_600,
        epoch: 0,
        arrival: arrival.into(),
    };
    key.sign_admission(&AdmissionClaims { claims, place: arrival.into() }).unwrap()
}

fn with(target: &str, token: &str, work: impl FnOnce(&Request<'_>)) {
    let headers: [Field<'_>; 3] = [
        ("accept", b"text/html,application/xhtml+xml,*/*;q=0.8"),
        ("user-agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"),
        ("ropeline-admission", token.as_bytes()),
    ];
    work(black_box(&Request { method: "GET", host: "shop.example", target, headers: &headers }));
}

/// The module as it is shipped.
fn module() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest.sh");
    let built =
        Command::new(script).args(["ropeline-edge-abi", "wasm32-unknown-unknown", "abi"]).output().unwrap();
    assert!(built.status.success(), "the module cannot be built: {}", String::from_utf8_lossy(&built.stderr));
    String::from_utf8(built.stdout).unwrap().trim_end().into()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
