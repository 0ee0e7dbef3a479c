use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;

const BOUND: Bound<'_> = Bound { sale: "drop", visitor: "ada" };
const START: UnixMillis = UnixMillis(1_700_000_000_000);

fn secret(byte: u8) -> CookieSecret {
    CookieSecret::parse(&Base64UrlUnpadded::encode_string(&[byte; 32])).unwrap()
}

fn limits() -> JoinLimits {
    let count = |n| NonZeroU32::new(n).unwrap();
    JoinLimits {
        enabled: true,
        window: Duration::from_secs(600),
        ipv4: count(10),
        ipv4_24: count(30),
        ipv6_64: count(5),
        ipv6_56: count(8),
        hardest_bits: 20,
        exempt: Vec::new(),
    }
}

fn guard() -> JoinGuard {
    JoinGuard::new(limits(), vec![secret(1)])
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

impl JoinGuard {
    fn from(&self, client: &str, now: UnixMillis) -> Fare {
        self.charge(address(client), None, BOUND, now)
    }

    fn owing(&self, client: &str, now: UnixMillis) -> Owing {
        match self.from(client, now) {
            Fare::Owing(owing) => owing,
            other => panic!("{other:?}"),
        }
    }

    /// Takes free numbers until there is none; how many.
    fn exhaust(&self, client: &str, now: UnixMillis) -> usize {
        (0..100_000).take_while(|_| matches!(self.from(client, now), Fare::Free(_))).count()
    }

    /// Pays with a proof that is worth so many bits, as if it had been solved.
    fn pay(&self, client: &str, now: UnixMillis) {
        for (allowance, meter) in self.counted(client.parse().unwrap()) {
            meter.add_dear(allowance, self.most(), micros(now));
        }
    }
}

/// The first nonce that solves it.
fn solve(challenge: &Challenge) -> String {
    let proof = |nonce: u64| format!("{}.{nonce}", challenge.text);
    let solved = |text: &String| {
        let hash = Sha256::digest(text.as_bytes());
        proof::zero_bits(&hash) >= u32::from(challenge.bits)
    };
    (0..).map(proof).find(solved).unwrap()
}

#[test]
fn each_network_has_its_own_numbers_free_and_shares_its_wider_ones() {
    let guard = guard();
    assert_eq!(guard.exhaust("192.0.2.1", START), 10);
    assert_eq!(guard.exhaust("::ffff:192.0.2.1", START), 0, "a mapped address is another network");
    assert_eq!(guard.exhaust("192.0.2.2", START), 10);
    assert_eq!(guard.exhaust("192.0.2.3", START), 10);
    assert_eq!(guard.exhaust("192.0.2.4", START), 0, "a /24 has no more than its own");
    assert_eq!(guard.exhaust("192.0.3.1", START), 10);
    assert_eq!(guard.exhaust("2001:db8::1", START), 5);
    assert_eq!(guard.exhaust("2001:db8::ffff:2", START), 0, "a /64 is one network");
    assert_eq!(guard.exhaust("2001:db8:0:ff::1", START), 3, "a /56 has no more than its own");
    assert_eq!(guard.exhaust("2001:db8:0:100::1", START), 5);
    // What was refused for the wider network was not taken from the narrower one.
    let later = START.plus(21_000);
    assert_eq!(guard.exhaust("192.0.2.4", later), 1);
}

#[test]
fn a_number_is_free_again_when_it_was_said_to_be_and_no_earlier() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    assert_eq!(guard.owing("192.0.2.1", START).free_in_s, 60);
    // Whatever is proved meanwhile.
    for _ in 0..50 {
        guard.pay("192.0.2.1", START.plus(30_000));
    }
    assert_eq!(guard.owing("192.0.2.1", START.plus(30_000)).free_in_s, 30);
    assert_eq!(guard.exhaust("192.0.2.1", START.plus(59_999)), 0);
    assert_eq!(guard.exhaust("192.0.2.1", START.plus(60_000)), 1);
    assert_eq!(guard.exhaust("192.0.2.1", START.plus(660_000)), 10);
}

#[test]
fn what_came_to_nothing_costs_nothing() {
    let guard = guard();
    for _ in 0..1_000 {
        let fare = guard.from("192.0.2.1", START);
        assert!(matches!(fare, Fare::Free(_)), "tries that failed were counted");
        guard.settle(fare, BOUND, Outcome::Refused);
    }
    assert_eq!(guard.exhaust("192.0.2.1", START), 10);
    let owing = guard.owing("192.0.2.1", START);
    for _ in 0..100 {
        guard.settle(Fare::Owing(owing), BOUND, Outcome::Refused);
        guard.settle(Fare::Unlimited, BOUND, Outcome::Refused);
        assert_eq!(guard.owing("192.0.2.1", START), owing, "tries made it dearer, or cheaper");
    }
}

#[test]
fn a_bit_more_is_asked_for_each_time_the_numbers_for_proofs_have_doubled() {
    let given = [0, 1, 2, 3, 6, 7, 14, 15, 31, 62, 63, 64, 1_000_000];
    let bits = given.map(|given| bits_after(given, 20));
    assert_eq!(bits, [14, 15, 15, 16, 16, 17, 17, 18, 19, 19, 20, 20, 20]);

    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    for _ in 0..10_000 {
        guard.pay("192.0.2.1", START);
    }
    assert_eq!(guard.owing("192.0.2.1", START).bits, 20);
    // As many as make the hardest are kept in mind, so that it is over in an hour and not in a week.
    assert_eq!(guard.owing("192.0.2.1", START).bits, 20);
    let later = START.plus(64 * 60_000);
    guard.exhaust("192.0.2.1", later);
    assert_eq!(guard.owing("192.0.2.1", later).bits, 14);
}

#[test]
fn a_proof_gets_a_number_as_often_as_it_takes_and_each_makes_the_next_dearer() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    let mut given = Vec::new();
    for visitor in ["ada", "bob", "cem", "dan"] {
        let (owing, bound) = (guard.owing("192.0.2.1", START), Bound { visitor, ..BOUND });
        let proof = solve(&guard.challenge(bound, owing.bits, START).unwrap());
        let fare = guard.charge(address("192.0.2.1"), Some(&proof), bound, START);
        assert!(matches!(fare, Fare::Proven(..)), "{fare:?}");
        given.push((owing.bits, fare));
    }
    assert_eq!(given.iter().map(|(bits, _)| *bits).collect::<Vec<_>>(), [14, 15, 15, 16]);
    let before = guard.owing("192.0.2.1", START).bits;
    for (_, fare) in given.into_iter().take(2) {
        guard.settle(fare, BOUND, Outcome::Refused);
    }
    assert_eq!((before, guard.owing("192.0.2.1", START).bits), (16, 15));
}

#[test]
fn a_proof_gets_one_number_and_counts_still_when_none_came_of_it() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    let proof = solve(&guard.challenge(BOUND, 20, START).unwrap());
    let shown = || guard.charge(address("192.0.2.1"), Some(&proof), BOUND, START);
    for _ in 0..3 {
        let fare = shown();
        assert!(matches!(fare, Fare::Proven(..)), "{fare:?}");
        guard.settle(fare, BOUND, Outcome::Refused);
    }
    guard.settle(shown(), BOUND, Outcome::New);
    for _ in 0..3 {
        assert_eq!(refusal(&shown()), Some(ProofRefusal::Spent), "one proof has brought two numbers");
    }
}

/// Why the proof that was shown does not count, if it does not.
fn refusal(fare: &Fare) -> Option<ProofRefusal> {
    match fare {
        Fare::Owing(owing) => owing.refused,
        Fare::Proven(..) => None,
        Fare::Unlimited | Fare::Free(_) => panic!("{fare:?}"),
    }
}

#[test]
fn who_comes_twice_at_once_is_told_to_come_again_and_not_that_the_proof_is_spent() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    let proof = solve(&guard.challenge(BOUND, 20, START).unwrap());
    let shown = || guard.charge(address("192.0.2.1"), Some(&proof), BOUND, START);
    let first = shown();
    assert_eq!(refusal(&first), None);
    assert_eq!(refusal(&shown()), Some(ProofRefusal::Running));
    guard.settle(first, BOUND, Outcome::Refused);
    let second = shown();
    assert_eq!(refusal(&second), None);
    // Whoever asked has gone away meanwhile.
    drop(second);
    assert_eq!(refusal(&shown()), None);
}

#[test]
fn a_proof_of_which_nobody_knows_what_it_has_brought_counts_again_and_brings_one_number() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    // What became of it, and what its visitor is told after that.
    for (visitor, ends, spent) in [
        ("it had brought it", &[Outcome::Held][..], true),
        ("it had not", &[Outcome::New], true),
        ("nobody knows yet", &[Outcome::Refused, Outcome::Unknown], false),
        ("and it had after all", &[Outcome::Refused, Outcome::Unknown, Outcome::Held], true),
    ] {
        let bound = Bound { visitor, ..BOUND };
        let proof = solve(&guard.challenge(bound, 20, START).unwrap());
        let shown = || guard.charge(address("192.0.2.1"), Some(&proof), bound, START);
        guard.settle(shown(), bound, Outcome::Unknown);
        for end in ends {
            let again = shown();
            assert_eq!(refusal(&again), None, "{visitor}");
            guard.settle(again, bound, *end);
        }
        assert_eq!(refusal(&shown()), spent.then_some(ProofRefusal::Spent), "{visitor}");
    }
}

#[test]
fn whoever_was_found_to_have_a_number_gets_no_other_for_a_proof_that_may_have_brought_it() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    let asked = || guard.charge(address("192.0.2.1"), None, BOUND, START);
    let [one, two] =
        [1, 2].map(|later| solve(&guard.challenge(BOUND, 20, START.plus(later * 1_000)).unwrap()));
    let shown = |proof: &str| guard.charge(address("192.0.2.1"), Some(proof), BOUND, START);
    for proof in [&one, &two] {
        guard.settle(shown(proof), BOUND, Outcome::Unknown);
    }
    // They join without it, are told their number, and leave.
    guard.settle(asked(), BOUND, Outcome::Held);
    for proof in [&one, &two] {
        assert_eq!(refusal(&shown(proof)), Some(ProofRefusal::Spent));
    }
}

#[test]
fn a_proof_counts_for_its_visitor_sale_time_and_bits_alone() {
    let guard = JoinGuard::new(limits(), vec![secret(2), secret(1)]);
    guard.exhaust("192.0.2.1", START);
    let shown = |proof: &str, bound, now| match guard.charge(address("192.0.2.1"), Some(proof), bound, now) {
        Fare::Owing(owing) => owing.refused,
        Fare::Proven(..) => None,
        other => panic!("{other:?}"),
    };
    // Another gateway's, whose first secret was this one's before.
    let asked = JoinGuard::new(limits(), vec![secret(1)]);
    let challenge = asked.challenge(BOUND, 14, START).unwrap();
    let good = solve(&challenge);
    for bound in [
        Bound { visitor: "bob", ..BOUND },
        Bound { sale: "next", ..BOUND },
        Bound { sale: "dro", visitor: "pada" },
    ] {
        assert_eq!(shown(&good, bound, START), Some(ProofRefusal::Invalid), "{bound:?}");
    }
    let stranger = JoinGuard::new(limits(), vec![secret(3)]).challenge(BOUND, 14, START).unwrap();
    assert_eq!(shown(&solve(&stranger), BOUND, START), Some(ProofRefusal::Invalid));
    // A solution of other digits than the found one is none, with all but certainty.
    assert_eq!(shown(&format!("{good}0"), BOUND, START), Some(ProofRefusal::Unsolved));
    let easy = solve(&asked.challenge(BOUND, 13, START).unwrap());
    assert_eq!(shown(&easy, BOUND, START), Some(ProofRefusal::TooEasy));
    // To the second that was said, and no longer.
    let late = UnixMillis(challenge.expires_at * 1_000);
    guard.exhaust("192.0.2.1", late);
    assert_eq!(shown(&good, BOUND, late), None);
    assert_eq!(shown(&good, BOUND, late.plus(1_000)), Some(ProofRefusal::Expired));
}

#[test]
fn challenges_and_proofs_are_those_of_another_implementation() {
    // Python: e=(1700000600).to_bytes(8,"big"); k=bytes([1])*32
    // m=hmac.new(k,b"ropeline-proof-v1\0"+e+b"\x0e"+(4).to_bytes(8,"big")+b"drop"+b"ada","sha256").digest()[:18]
    // c=base64.urlsafe_b64encode(e+b"\x0e"+m); the first n with sha256(c+b"."+str(n).encode()) < 2**242
    let challenge = guard().challenge(BOUND, 14, START).unwrap();
    assert_eq!(challenge.expires_at, 1_700_000_600);
    assert_eq!(challenge.text, "AAAAAGVT81gO1vzfFWK3LaPtNihHN60yhn32");
    assert_eq!(solve(&challenge), format!("{}.7495", challenge.text));
}

#[test]
fn networks_that_are_exempt_are_not_counted_and_an_unknown_client_is_one_of_its_own() {
    let exempt = vec!["198.51.100.0/24".parse().unwrap(), "2001:db8:1::/48".parse().unwrap()];
    let guard = JoinGuard::new(JoinLimits { exempt, ..limits() }, vec![secret(1)]);
    for client in ["198.51.100.7", "::ffff:198.51.100.7", "2001:db8:1:2::3"] {
        assert!((0..1_000).all(|_| matches!(guard.from(client, START), Fare::Unlimited)), "{client}");
    }
    assert_eq!(guard.exhaust("198.51.101.7", START), 10);
    let nobody = (0..100).take_while(|_| matches!(guard.charge(None, None, BOUND, START), Fare::Free(_)));
    assert_eq!(nobody.count(), 5);
    let off = JoinGuard::new(JoinLimits { enabled: false, ..limits() }, vec![secret(1)]);
    assert!((0..1_000).all(|_| matches!(off.from("192.0.2.1", START), Fare::Unlimited)));
}

#[test]
fn a_flood_of_networks_is_forgotten_and_one_that_comes_all_the_time_is_not() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START);
    for network in 0..400_000_u32 {
        let [a, b, c, d] = (0x2001_0000_u32 + network).to_be_bytes();
        let client = IpAddr::from([a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let _ = guard.charge(Some(client), None, BOUND, START);
        if network % 1_000 == 0 {
            let _ = guard.owing("192.0.2.1", START);
        }
    }
    assert!(guard.networks.len() <= NETWORKS, "{} networks are kept", guard.networks.len());
}

#[test]
fn a_clock_that_is_set_back_locks_nobody_out() {
    let guard = guard();
    guard.exhaust("192.0.2.1", START.plus(86_400_000));
    assert!(guard.owing("192.0.2.1", START).free_in_s <= 60);
    assert_eq!(guard.exhaust("192.0.2.1", START.plus(660_000)), 10);
}

#[test]
fn as_many_as_are_free_are_given_to_those_who_come_at_the_same_instant() {
    let guard = guard();
    let free = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                free.fetch_add(guard.exhaust("192.0.2.1", START), std::sync::atomic::Ordering::Relaxed)
            });
        }
    });
    assert_eq!(free.into_inner(), 10);
}

proptest! {
    #[test]
    fn no_network_gets_more_for_nothing_than_it_has_free(
        steps in prop::collection::vec((0_u64..120_000, any::<bool>()), 1..200),
    ) {
        let guard = guard();
        let (mut now, mut given) = (START, Vec::new());
        for (pause, comes_to_something) in steps {
            now = now.plus(pause);
            let fare = guard.from("192.0.2.1", now);
            match fare {
                Fare::Free(_) if comes_to_something => given.push(now),
                Fare::Free(_) => guard.settle(fare, BOUND, Outcome::Refused),
                Fare::Owing(owing) => {
                    // What is said of the wait holds.
                    let then = now.plus(owing.free_in_s * 1_000);
                    let fare = guard.from("192.0.2.1", then);
                    prop_assert!(matches!(fare, Fare::Free(_)), "{owing:?}");
                    guard.settle(fare, BOUND, Outcome::Refused);
                }
                other => prop_assert!(false, "{other:?}"),
            }
            // Ten at once and one a minute, over any stretch of time.
            for (at, first) in given.iter().enumerate() {
                let lasted = now.0 - first.0;
                prop_assert!((given.len() - at) as u64 <= 10 + lasted / 60_000);
            }
        }
    }

    #[test]
    fn no_bytes_are_a_proof_but_one_that_was_asked_for(text in "[A-Za-z0-9_.-]{0,60}", bytes in ".{0,60}") {
        for text in [text.as_str(), bytes.as_str()] {
            let secret = secret(1);
            let checked = Proof::parse(text)
                .and_then(|proof| proof.check([secret.expose()], BOUND, 0, 0));
            prop_assert_eq!(checked, Err(ProofRefusal::Invalid));
        }
    }

    #[test]
    fn a_challenge_that_was_touched_is_none(at in 0_usize..36, to in "[A-Za-z0-9_-]") {
        let secret = secret(1);
        let challenge = proof::challenge(secret.expose(), BOUND, 0, u64::MAX).unwrap();
        let mut touched = challenge.clone();
        touched.replace_range(at..=at, &to);
        let text = format!("{touched}.0");
        let checked = Proof::parse(&text).and_then(|proof| proof.check([secret.expose()], BOUND, 0, 0));
        prop_assert_eq!(checked.is_ok(), touched == challenge);
    }
}
