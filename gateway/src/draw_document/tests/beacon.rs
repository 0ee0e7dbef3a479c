//! Draws that rest on a beacon, and every way to cheat with one that the public documents can show.

use ropeline_queue::beacon::{Beacon, FALLBACK_AFTER_MS, MARGIN_MS};
use ropeline_queue::draw::Shuffle;
use ropeline_queue::types::MAX_ARRIVALS;
use ropeline_queue::{Fallback, Place, SaleId};
use ropeline_token::{AdmissionClaims, Claims, TicketClaims};

use super::*;

const QUICKNET: Beacon = Beacon::DrandQuicknet;
const ROUND: u64 = 1_000;
const DUE_AT: UnixMillis = QUICKNET.round_at(ROUND);
const CLOSES_AT: UnixMillis = UnixMillis(DUE_AT.0 - MARGIN_MS);
/// Rounds 1000 and 123 as quicknet published them.
const SIGNATURE: &str =
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39";
const OTHER_SIGNATURE: &str =
    "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
const SIZE: u32 = 1_000;

fn sale() -> SaleId {
    "drop".parse().unwrap()
}

fn promise(round: u64, fallback: bool) -> Manifest {
    let fallback = fallback.then(|| draw::commitment(&SECRET));
    let randomness = Promise::Beacon { beacon: QUICKNET, round, fallback };
    Manifest { sale: sale(), closes_at: CLOSES_AT, randomness, lanes: Vec::new() }
}

fn collecting(manifest: Manifest) -> DrawView {
    DrawView { manifest, state: DrawState::Collecting, lanes: Vec::new(), frozen_at: None, source: None }
}

fn frozen(manifest: Manifest, size: u32) -> DrawView {
    let state = DrawState::Frozen { size, at: CLOSES_AT };
    DrawView { state, frozen_at: Some(CLOSES_AT), ..collecting(manifest) }
}

fn drawn(manifest: Manifest, size: u32, signature: &str) -> DrawView {
    let signature: BeaconSignature = signature.parse().unwrap();
    let seed = draw::seed(manifest.canonical().as_bytes(), size, &signature.randomness());
    let source = Some(Source::Beacon(signature));
    DrawView { state: DrawState::Drawn { size, seed }, source, ..frozen(manifest, size) }
}

fn fallen_back(manifest: Manifest, at: UnixMillis) -> DrawView {
    let seed = draw::seed(manifest.canonical().as_bytes(), SIZE, &SECRET);
    let decision = Fallback { at, reason: "no relay had the round".to_owned() };
    let source = Some(Source::Fallback { secret: SECRET, decision });
    DrawView { state: DrawState::Drawn { size: SIZE, seed }, source, ..frozen(manifest, SIZE) }
}

fn honest() -> DrawView {
    drawn(promise(ROUND, false), SIZE, SIGNATURE)
}

fn published(view: &DrawView) -> DrawDocument {
    DrawDocument::new(&key(), view).unwrap()
}

/// What a verifier finds who kept these copies from before.
fn caught(document: &DrawDocument, earlier: &[DrawDocument]) -> (&'static str, String) {
    let verification = document.verify(&keys(), earlier);
    assert!(verification.drawn.is_none() && !verification.is_good());
    let bad = verification.checks.into_iter().find_map(|check| match check.outcome {
        Outcome::Bad(why) => Some((check.name, why)),
        Outcome::Good(_) | Outcome::Trusted(_) | Outcome::Pending(_) => None,
    });
    bad.expect("nothing was found")
}

#[test]
fn an_honest_draw_is_checked_to_the_end_without_the_operators_word() {
    let before = [collecting(promise(ROUND, false)), frozen(promise(ROUND, false), SIZE)];
    let [first, second] = before.map(|view| published(&view));
    let document = published(&honest());
    let sent: DrawDocument = serde_json::from_str(&serde_json::to_string(&document).unwrap()).unwrap();
    let verification = sent.verify(&keys(), &[first, second, document]);
    assert!(verification.is_good() && !verification.is_trusting(), "{verification:?}");
    let names: Vec<_> = verification.checks.iter().map(|check| check.name).collect();
    let copies = ["earlier copy"; 3];
    let (head, tail) = names.split_at(1);
    assert_eq!(head, ["manifest signature"]);
    assert_eq!(tail[..3], copies);
    assert_eq!(tail[3..], ["manifest", "round", "number of arrivals", "randomness", "seed"]);

    // Each step on the way is neither good to the end nor bad.
    for view in [collecting(promise(ROUND, false)), frozen(promise(ROUND, true), SIZE)] {
        let verification = published(&view).verify(&keys(), &[]);
        assert!(verification.is_good() && verification.drawn.is_none(), "{verification:?}");
        assert!(matches!(verification.checks.last().unwrap().outcome, Outcome::Pending(_)));
    }
}

#[test]
fn a_number_of_arrivals_that_was_changed_is_found() {
    let good = published(&honest());
    assert_eq!(caught(&DrawDocument { size: Some(SIZE - 1), ..good.clone() }, &[]).0, "number of arrivals");
    // Signed anew and drawn anew: the places follow, and only who kept a copy can prove it …
    let fewer = published(&drawn(promise(ROUND, false), SIZE - 1, SIGNATURE));
    assert!(fewer.verify(&keys(), &[]).is_good());
    let seen = published(&frozen(promise(ROUND, false), SIZE));
    let (step, words) = caught(&fewer, &[seen]);
    assert_eq!(step, "earlier copy");
    assert!(words.contains("number of arrivals was replaced") && words.contains("\"size\":1000"), "{words}");
    // … or who has a ticket on the wrong side: see the tickets below.

    // One that says itself that it came after the round is not passed over in silence.
    let late = DrawView { frozen_at: Some(DUE_AT), ..honest() };
    let verification = published(&late).verify(&keys(), &[]);
    assert!(verification.is_good() && verification.is_trusting(), "{verification:?}");
    let silent = Frozen {
        lanes: Vec::new(),
        frozen_at: None,
        manifest_sha256: digest(promise(ROUND, false).canonical().as_bytes()),
        sale: sale(),
        size: SIZE,
    };
    let silent = key().sign_document(&serde_json::to_vec(&silent).unwrap()).unwrap();
    assert_eq!(caught(&DrawDocument { frozen: Some(silent), ..good }, &[]).0, "number of arrivals");
}

#[test]
fn a_round_that_was_changed_is_found() {
    let good = published(&honest());
    let round = good.beacon.clone().unwrap();
    // Another round's randomness under the promised round's name, under its own, and of another chain.
    let swapped = published(&drawn(promise(ROUND, false), SIZE, OTHER_SIGNATURE));
    assert_eq!(caught(&swapped, &[]).0, "randomness");
    let own = BeaconRound { round: 123, ..swapped.beacon.clone().unwrap() };
    assert_eq!(caught(&DrawDocument { beacon: Some(own), ..swapped }, &[]).0, "randomness");
    let chain = BeaconRound { chain: "00".repeat(32), ..round.clone() };
    assert_eq!(caught(&DrawDocument { beacon: Some(chain), ..good.clone() }, &[]).0, "randomness");
    let told = BeaconRound { randomness: "00".repeat(32), ..round };
    assert_eq!(caught(&DrawDocument { beacon: Some(told), ..good.clone() }, &[]).0, "randomness");

    // A manifest that names another round: too early to be unknown at closing, or not the one that was published.
    let early = published(&drawn(promise(123, false), SIZE, OTHER_SIGNATURE));
    assert_eq!(caught(&early, &[]).0, "round");
    let seen = published(&collecting(promise(ROUND + 1, false)));
    assert_eq!(caught(&good, &[seen]).0, "earlier copy");
    assert_eq!(caught(&DrawDocument { beacon: None, ..good }, &[]).0, "randomness");
}

#[test]
fn a_manifest_that_was_replaced_is_found_by_whoever_kept_the_first() {
    let seen = published(&collecting(promise(ROUND, false)));
    let mut other = promise(ROUND, false);
    other.closes_at = UnixMillis(CLOSES_AT.0 - 60_000);
    let (step, words) =
        caught(&published(&drawn(other.clone(), SIZE, SIGNATURE)), std::slice::from_ref(&seen));
    assert_eq!(step, "earlier copy");
    assert!(words.contains(&CLOSES_AT.to_string()), "{words}");
    // Replaced after the number was signed, even nobody's copy is needed: the number names its manifest.
    let mixed = DrawDocument { manifest: published(&collecting(other)).manifest, ..published(&honest()) };
    assert_eq!(caught(&mixed, &[]).0, "number of arrivals");
    // From a beacon to a secret.
    let secret = Manifest {
        randomness: Promise::Secret { commitment: draw::commitment(&SECRET) },
        ..promise(ROUND, false)
    };
    let seed = draw::seed(secret.canonical().as_bytes(), SIZE, &SECRET);
    let weaker = DrawView {
        manifest: secret,
        state: DrawState::Drawn { size: SIZE, seed },
        lanes: Vec::new(),
        frozen_at: None,
        source: Some(Source::Secret(SECRET)),
    };
    assert!(published(&weaker).verify(&keys(), &[]).is_good());
    assert_eq!(caught(&published(&weaker), &[seen]).0, "earlier copy");
    // A copy that the operator did not sign proves nothing, and is not taken for one.
    let forged = DrawDocument::new(&SigningKey::from_seed([2; 32]), &collecting(promise(1, false))).unwrap();
    assert!(caught(&published(&honest()), &[forged]).1.contains("proves nothing"));
}

#[test]
fn a_manifest_whose_parts_do_not_belong_together_is_refused() {
    let text = promise(ROUND, false).canonical();
    for (from, to) in [
        (r#""trust":"beacon""#, r#""trust":"operator""#),
        (r#""trust":"beacon""#, r#""trust":"nobody""#),
        (r#""rounds":255"#, r#""rounds":1"#),
        ("52db9ba7", "00000000"),
        (r#""closes_at""#, r#""closed_at""#),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let manifest = key().sign_document(changed.as_bytes()).unwrap();
        assert_eq!(caught(&DrawDocument { manifest, ..published(&honest()) }, &[]).0, "manifest", "{to}");
    }
    let endless = text.replace(&CLOSES_AT.to_string(), &u64::MAX.to_string());
    let manifest = key().sign_document(endless.as_bytes()).unwrap();
    assert_eq!(caught(&DrawDocument { manifest, ..published(&honest()) }, &[]).0, "round");
}

#[test]
fn a_seed_that_does_not_follow_from_the_round_is_found() {
    let good = published(&honest());
    assert_eq!(caught(&DrawDocument { seed: Some("00".repeat(32)), ..good.clone() }, &[]).0, "seed");
    assert_eq!(caught(&DrawDocument { seed: None, ..good.clone() }, &[]).0, "seed");
    // Drawn by a secret although the promise was the round, the promised way out or not.
    for fallback in [false, true] {
        let view = fallen_back(promise(ROUND, fallback), DUE_AT.plus(FALLBACK_AFTER_MS));
        let hidden = DrawDocument { fallback: None, ..published(&view) };
        assert_eq!(caught(&hidden, &[]).0, "randomness");
        let covered = DrawDocument { beacon: good.beacon.clone(), ..hidden };
        assert_eq!(caught(&covered, &[]).0, "seed");
    }
}

#[test]
fn giving_up_the_round_is_named_with_its_reason_and_holds_only_as_it_was_promised() {
    let overdue = DUE_AT.plus(FALLBACK_AFTER_MS);
    let document = published(&fallen_back(promise(ROUND, true), overdue));
    let verification = document.verify(&keys(), &[published(&frozen(promise(ROUND, true), SIZE))]);
    assert!(verification.is_good() && verification.is_trusting() && verification.drawn.is_some());
    let words = verification.checks.iter().find(|check| check.name == "fallback").unwrap();
    assert!(matches!(&words.outcome, Outcome::Trusted(words) if words.contains("no relay had the round")));

    let swapped = DrawDocument { secret: Some("11".repeat(32)), ..document.clone() };
    assert_eq!(caught(&swapped, &[]).0, "secret");
    assert_eq!(caught(&DrawDocument { secret: None, ..document.clone() }, &[]).0, "secret");
    let unpromised = published(&fallen_back(promise(ROUND, false), overdue));
    assert_eq!(caught(&unpromised, &[]).0, "secret");
    let hasty = published(&fallen_back(promise(ROUND, true), UnixMillis(overdue.0 - 1)));
    assert_eq!(caught(&hasty, &[]).0, "fallback");
    let of_another = FallbackStatement {
        decided_at: overdue.0,
        manifest_sha256: "00".repeat(32),
        reason: String::new(),
        round: ROUND,
        sale: sale(),
    };
    let of_another = key().sign_document(&serde_json::to_vec(&of_another).unwrap()).unwrap();
    assert_eq!(caught(&DrawDocument { fallback: Some(of_another), ..document.clone() }, &[]).0, "fallback");
    let unsigned = document.fallback.as_ref().map(|jws| jws.replacen('.', ".A", 1));
    assert_eq!(caught(&DrawDocument { fallback: unsigned, ..document }, &[]).0, "fallback");
}

// === tickets ===

/// Both draws are as the manifest allows, each by itself.
#[test]
fn a_draw_that_was_made_by_the_round_is_not_given_up_for_the_secret() {
    let liked = published(&fallen_back(promise(ROUND, true), DUE_AT.plus(FALLBACK_AFTER_MS)));
    assert!(liked.verify(&keys(), &[]).is_good());
    let first = published(&drawn(promise(ROUND, true), SIZE, SIGNATURE));
    let (step, why) = caught(&liked, std::slice::from_ref(&first));
    assert_eq!(step, "earlier copy");
    assert!(why.contains(first.seed.as_deref().unwrap()), "{why}");
}

fn claims(visitor: &str, arrival: u64, joined_at: u64) -> Claims {
    Claims {
        iss: "shop".to_owned(),
        aud: "drop".to_owned(),
        sub: visitor.to_owned(),
        jti: format!("drop-{arrival}"),
        iat: joined_at,
        nbf: joined_at,
        exp: joined_at + 60,
        epoch: 0,
        arrival,
    }
}

fn ticket(visitor: &str, arrival: u64, joined_at: u64) -> String {
    key().sign_ticket(&TicketClaims { claims: claims(visitor, arrival, joined_at) }).unwrap()
}

fn held_against(tokens: &[String]) -> Vec<Result<Found, String>> {
    let drawn = published(&honest()).verify(&keys(), &[]).drawn.unwrap();
    tickets::check(&drawn, &sale(), &keys(), tokens)
}

/// What is wrong with the ticket at `at`, all others being good.
fn wrong(tokens: &[String], at: usize) -> String {
    let mut found = held_against(tokens);
    let wrong = found.remove(at).unwrap_err();
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    wrong
}

/// The last whole second before the closing.
const BEFORE: u64 = CLOSES_AT.0 / 1_000 - 1;

#[test]
fn honest_tickets_get_the_places_that_follow_from_the_draw() {
    let shuffle = Shuffle::new(honest().state.seed().unwrap(), SIZE);
    let place = shuffle.place(Arrival(7));
    let let_in = AdmissionClaims { claims: claims("anna", 7, BEFORE + 500), place: place.0 };
    let tokens = [
        ticket("anna", 7, BEFORE),
        ticket("ben", 8, BEFORE),
        ticket("late", 1_000, BEFORE + 1),
        key().sign_admission(&let_in).unwrap(),
    ];
    let found: Vec<_> = held_against(&tokens).into_iter().map(Result::unwrap).collect();
    assert_eq!(found[0], Found::Placed(Placed { arrival: Arrival(7), place }));
    assert_eq!(found[1], Found::Placed(Placed { arrival: Arrival(8), place: shuffle.place(Arrival(8)) }));
    assert_eq!(found[2], Found::Placed(Placed { arrival: Arrival(1_000), place: Place(1_000) }));
    assert_eq!(found[3], found[0]);
}

#[test]
fn those_who_were_let_in_without_a_number_do_not_share_one() {
    let without = |visitor: &str, place| {
        let claims = claims(visitor, MAX_ARRIVALS, BEFORE + 500);
        key().sign_admission(&AdmissionClaims { claims, place }).unwrap()
    };
    let tokens = [without("anna", MAX_ARRIVALS), ticket("anna", 7, BEFORE), without("ben", MAX_ARRIVALS)];
    let found: Vec<_> = held_against(&tokens).into_iter().map(Result::unwrap).collect();
    assert_eq!((found[0], found[2]), (Found::Unqueued, Found::Unqueued));
    // A place is nothing that somebody without a number could have.
    assert!(held_against(&[without("anna", 3)])[0].is_err());
}

#[test]
fn a_ticket_that_was_added_after_closing_is_found() {
    let added = [ticket("anna", 1, BEFORE), ticket("friend", 999, BEFORE + 1)];
    assert!(wrong(&added, 1).contains("after the draw closed"));
    // And one that was shut out by a number made smaller.
    let shut_out = [ticket("anna", 1_000, BEFORE), ticket("ben", 1_001, BEFORE + 1)];
    assert!(wrong(&shut_out, 0).contains("is not among those drawn"));
}

#[test]
fn an_arrival_that_was_renumbered_is_found() {
    // To a number of somebody else.
    assert!(wrong(&[ticket("anna", 7, 900), ticket("ben", 7, 950)], 1).contains("of another visitor"));
    // Out of order: who came later has the lower number.
    assert!(wrong(&[ticket("friend", 3, 990), ticket("ben", 7, 950)], 1).contains("numbers were moved"));
    // The same visitor and moment under two numbers: the ticket as it was, and as it was issued again.
    assert!(wrong(&[ticket("anna", 7, 900), ticket("anna", 8, 900)], 1).contains("exchanged"));
    // Leaving and joining again is no cheating.
    assert!(held_against(&[ticket("anna", 7, 900), ticket("anna", 9, 905)]).iter().all(Result::is_ok));
}

#[test]
fn somebody_who_was_let_in_at_another_place_is_found() {
    let place = Shuffle::new(honest().state.seed().unwrap(), SIZE).place(Arrival(7)).0;
    let let_in = AdmissionClaims { claims: claims("anna", 7, BEFORE), place: place + 1 };
    let found = wrong(&[key().sign_admission(&let_in).unwrap()], 0);
    assert!(found.contains(&format!("by the draw it has place {place}")), "{found}");
}

#[test]
fn a_ticket_of_another_sale_or_key_is_refused() {
    let other_sale = Claims { aud: "other".to_owned(), ..claims("anna", 7, BEFORE) };
    let other_sale = key().sign_ticket(&TicketClaims { claims: other_sale }).unwrap();
    let claims = TicketClaims { claims: claims("anna", 7, BEFORE) };
    let other_key = SigningKey::from_seed([2; 32]).sign_ticket(&claims).unwrap();
    for token in [other_sale, other_key, String::new()] {
        assert!(wrong(&[token], 0).starts_with("refused ("));
    }
}
