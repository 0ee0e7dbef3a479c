//! The first verification of an admission token against `ed25519-dalek`'s `verify_strict` alone: `cargo bench -p
//! ropeline-token`. Both see the same tokens, by turns, in the same run; medians of rounds are compared.
#![allow(clippy::disallowed_methods)] // a bench measures time
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss)] // and prints it

use std::hint::black_box;
use std::time::{Duration, Instant};

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_dalek::{Signature, VerifyingKey};
use ropeline_token::{AdmissionClaims, Claims, Expect, KeySet, Leeway, SigningKey};

const TOKENS: u32 = 1_000;
const ROUNDS: usize = 15;

fn main() {
    let key = SigningKey::from_seed([1; 32]);
    let others = [2, 3].map(|seed| SigningKey::from_seed([seed; 32]).public_key());
    let keys = KeySet::new(others.into_iter().chain([key.public_key()])).unwrap();
    let expect = Expect {
        issuer: "https://shop.example",
        audience: "sneaker",
        min_epoch: 0,
        leeway: Leeway::default(),
    };
    let tokens: Vec<String> = (0..TOKENS)
        .map(|arrival| {
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
        })
        .collect();

    let dalek =
        VerifyingKey::from_bytes(&ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes());
    let dalek = dalek.unwrap();
    let parts: Vec<(&[u8], Signature)> = tokens
        .iter()
        .map(|token| {
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let signature = Base64UrlUnpadded::decode_vec(signature).unwrap();
            (signed.as_bytes(), Signature::from_slice(&signature).unwrap())
        })
        .collect();

    let ours = || {
        for token in &tokens {
            let admission = keys.admission(black_box(token)).unwrap();
            black_box(admission.accept(&expect, 1_700_000_300).unwrap());
        }
    };
    let alone = || {
        for (signed, signature) in &parts {
            dalek.verify_strict(black_box(signed), black_box(signature)).unwrap();
        }
    };
    let (mut with_us, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        with_us.push(timed(ours));
        without.push(timed(alone));
    }
    let (with_us, without) = (median(with_us), median(without));
    let ratio = with_us.as_secs_f64() / without.as_secs_f64();
    println!(
        "token of {} bytes, medians of {ROUNDS} rounds of {TOKENS}",
        tokens.first().map_or(0, String::len)
    );
    println!("verify a token:      {:?}", with_us / TOKENS);
    println!("verify_strict alone: {:?}", without / TOKENS);
    println!("ratio:               {ratio:.3}");
}

fn timed(work: impl Fn()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
