use ropeline_queue::{Arrival, DrawState, Manifest, Promise, UnixMillis, draw};
use ropeline_token::KeySet;

use super::tickets::{Found, Placed};
use super::*;

mod beacon;
mod lanes;

const SECRET: [u8; 32] = [9; 32];

fn key() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

fn keys() -> KeySet {
    KeySet::new([key().public_key()]).unwrap()
}

fn manifest() -> Manifest {
    Manifest {
        sale: "drop".parse().unwrap(),
        closes_at: UnixMillis(1_700_000_000_000),
        randomness: Promise::Secret { commitment: draw::commitment(&SECRET) },
        lanes: Vec::new(),
    }
}

fn drawn() -> DrawView {
    let seed = draw::seed(manifest().canonical().as_bytes(), 1_000, &SECRET);
    let state = DrawState::Drawn { size: 1_000, seed };
    DrawView {
        manifest: manifest(),
        state,
        lanes: Vec::new(),
        frozen_at: None,
        source: Some(Source::Secret(SECRET)),
    }
}

/// The name of the only bad check, with its words.
fn bad(document: &DrawDocument) -> (&'static str, String) {
    let verification = document.verify(&keys(), &[]);
    assert!(verification.drawn.is_none());
    let bad = verification.checks.into_iter().find_map(|check| match check.outcome {
        Outcome::Bad(why) => Some((check.name, why)),
        Outcome::Good(_) | Outcome::Trusted(_) | Outcome::Pending(_) => None,
    });
    bad.expect("nothing was found")
}

#[test]
fn an_honest_draw_passes_every_check_and_gives_every_place() {
    let document = DrawDocument::new(&key(), &drawn()).unwrap();
    let sent: DrawDocument = serde_json::from_str(&serde_json::to_string(&document).unwrap()).unwrap();
    let verification = sent.verify(&keys(), &[]);
    assert!(verification.is_good(), "{verification:?}");
    assert_eq!(verification.checks.len(), 5);
    let shuffle = verification.drawn.unwrap().shuffle;
    let mut places: Vec<u64> = (0..1_000).map(|arrival| shuffle.place(Arrival(arrival)).0).collect();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..1_000));
}

#[test]
fn a_draw_under_way_is_neither_good_to_the_end_nor_bad() {
    for (state, checks) in [(DrawState::Collecting, 3), (DrawState::Frozen { size: 5, at: UnixMillis(0) }, 4)]
    {
        let view = DrawView { manifest: manifest(), state, lanes: Vec::new(), frozen_at: None, source: None };
        let verification = DrawDocument::new(&key(), &view).unwrap().verify(&keys(), &[]);
        assert!(verification.is_good() && verification.drawn.is_none());
        assert_eq!(verification.checks.len(), checks);
        assert!(matches!(verification.checks[checks - 1].outcome, Outcome::Pending(_)));
    }
}

#[test]
fn each_kind_of_cheating_is_named() {
    let good = DrawDocument::new(&key(), &drawn()).unwrap();
    let other = SigningKey::from_seed([2; 32]);

    let forged = DrawDocument::new(&other, &drawn()).unwrap();
    assert_eq!(bad(&forged).0, "manifest signature");
    assert_eq!(bad(&DrawDocument { sale: "other".parse().unwrap(), ..good.clone() }).0, "manifest");
    let weaker = manifest().canonical().replace("\"rounds\":255", "\"rounds\":1");
    let weaker = key().sign_document(weaker.as_bytes()).unwrap();
    assert_eq!(bad(&DrawDocument { manifest: weaker, ..good.clone() }).0, "manifest");

    assert_eq!(bad(&DrawDocument { size: Some(999), ..good.clone() }).0, "number of arrivals");
    let later = Manifest { closes_at: UnixMillis(1_800_000_000_000), ..manifest() };
    let later = key().sign_document(later.canonical().as_bytes()).unwrap();
    assert_eq!(bad(&DrawDocument { manifest: later, ..good.clone() }).0, "number of arrivals");
    let frozen = good.frozen.as_ref().map(|frozen| frozen.replacen('.', ".A", 1));
    assert_eq!(bad(&DrawDocument { frozen, ..good.clone() }).0, "number of arrivals");

    assert_eq!(bad(&DrawDocument { secret: Some(hex(&[8; 32])), ..good.clone() }).0, "secret");
    assert_eq!(bad(&DrawDocument { secret: Some("ä".repeat(32)), ..good.clone() }).0, "secret");
    assert_eq!(bad(&DrawDocument { seed: Some(hex(&[8; 32])), ..good }).0, "seed");
}
