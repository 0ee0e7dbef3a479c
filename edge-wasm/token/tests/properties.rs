//! What must hold for every token.
#![allow(clippy::unwrap_used)] // helpers of tests

use base64ct::{Base64UrlUnpadded, Encoding};
use proptest::prelude::*;
use ropeline_token::{AdmissionClaims, Claims, Expect, KeySet, Leeway, Refusal, SigningKey, TicketClaims};

fn plain() -> impl Strategy<Value = String> {
    "[!-~äß€😀]([ -~äß€😀]{0,30}[!-~äß€😀])?"
}

prop_compose! {
    fn any_claims()(
        texts in [plain(), plain(), plain(), plain()],
        iat in any::<u64>(),
        nbf in 0..u64::MAX,
        life in 1..u64::MAX,
        epoch in any::<u32>(),
        arrival in any::<u64>(),
    ) -> Claims {
        let [iss, aud, sub, jti] = texts;
        Claims { iss, aud, sub, jti, iat, nbf, exp: nbf.saturating_add(life), epoch, arrival }
    }
}

fn set(key: &SigningKey) -> KeySet {
    KeySet::new([key.public_key()]).unwrap()
}

fn payload(token: &str) -> Vec<u8> {
    Base64UrlUnpadded::decode_vec(token.split('.').nth(1).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_signed_is_what_is_read(claims in any_claims(), place in any::<u64>(), seed in any::<[u8; 32]>()) {
        let key = SigningKey::from_seed(seed);
        let keys = set(&key);
        let admission = AdmissionClaims { claims: claims.clone(), place };
        let ticket = TicketClaims { claims };
        let signed_admission = key.sign_admission(&admission).unwrap();
        let signed_ticket = key.sign_ticket(&ticket).unwrap();
        let (read_admission, read_ticket) = (keys.admission(&signed_admission).unwrap(), keys.ticket(&signed_ticket).unwrap());
        prop_assert_eq!(read_admission.unaccepted(), &admission);
        prop_assert_eq!(read_ticket.unaccepted(), &ticket);

        // One is never taken for the other.
        prop_assert_eq!(keys.ticket(&signed_admission).unwrap_err(), Refusal::TypeRefused);
        prop_assert_eq!(keys.admission(&signed_ticket).unwrap_err(), Refusal::TypeRefused);
        prop_assert_eq!(keys.document(&signed_ticket).unwrap_err(), Refusal::TypeRefused);
    }

    #[test]
    fn serde_json_reads_the_same_claims(claims in any_claims(), place in any::<u64>()) {
        let key = SigningKey::from_seed([3; 32]);
        let token = key.sign_admission(&AdmissionClaims { claims: claims.clone(), place }).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&payload(&token)).unwrap();
        let expected = serde_json::json!({
            "iss": claims.iss, "aud": claims.aud, "sub": claims.sub, "jti": claims.jti, "iat": claims.iat,
            "nbf": claims.nbf, "exp": claims.exp, "epoch": claims.epoch, "arrival": claims.arrival, "place": place,
        });
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn another_key_under_the_same_name_verifies_nothing(claims in any_claims(), one in any::<[u8; 32]>(), two in any::<[u8; 32]>()) {
        prop_assume!(one != two);
        let (one, two) = (SigningKey::from_seed(one), SigningKey::from_seed(two));
        let token = one.sign_ticket(&TicketClaims { claims }).unwrap();
        prop_assert_eq!(set(&two).ticket(&token).unwrap_err(), Refusal::KeyUnknown);
        let renamed = two.public_key().to_jwk().replace(two.kid(), one.kid());
        let impostor = KeySet::from_jwks(format!("{{\"keys\":[{renamed}]}}").as_bytes()).unwrap();
        prop_assert_eq!(impostor.ticket(&token).unwrap_err(), Refusal::SignatureInvalid);
    }

    #[test]
    fn a_token_holds_from_nbf_to_exp_and_no_longer_than_the_leeway(
        nbf in 100_u64..1_000_000, life in 1_u64..1_000_000, leeway in 0_u64..=60, now in 0_u64..2_100_000,
    ) {
        let key = SigningKey::from_seed([3; 32]);
        let claims = Claims {
            iss: "i".into(), aud: "a".into(), sub: "s".into(), jti: "j".into(), iat: nbf, nbf, exp: nbf + life, epoch: 0, arrival: 0,
        };
        let token = key.sign_ticket(&TicketClaims { claims }).unwrap();
        let expect = Expect { issuer: "i", audience: "a", min_epoch: 0, leeway: Leeway::from_seconds(leeway).unwrap() };
        let ticket = set(&key).ticket(&token).unwrap();
        for now in [now, nbf.saturating_sub(leeway), nbf.saturating_sub(leeway + 1), nbf + life + leeway, nbf + life + leeway - 1] {
            let holds = now + leeway >= nbf && now < nbf + life + leeway;
            prop_assert_eq!(ticket.accept(&expect, now).is_ok(), holds);
        }
    }

    #[test]
    fn any_text_is_answered_without_a_panic(text in any::<String>(), dotted in "[A-Za-z0-9_.=-]{0,200}") {
        let keys = set(&SigningKey::from_seed([3; 32]));
        for text in [text, dotted] {
            prop_assert!(keys.ticket(&text).is_err());
            prop_assert!(keys.admission(&text).is_err());
            prop_assert!(keys.document(&text).is_err());
            prop_assert!(KeySet::from_jwks(text.as_bytes()).is_err());
        }
    }
}

/// Every bit of a token, and every character replaced by each other one of its alphabet: nothing else verifies.
#[test]
fn no_change_of_a_token_verifies() {
    let key = SigningKey::from_seed([3; 32]);
    let keys = set(&key);
    let claims = Claims {
        iss: "i".into(),
        aud: "a".into(),
        sub: "s".into(),
        jti: "j".into(),
        iat: 1,
        nbf: 1,
        exp: 2,
        epoch: 0,
        arrival: 0,
    };
    let token = key.sign_ticket(&TicketClaims { claims }).unwrap();
    assert!(keys.ticket(&token).is_ok());
    for at in 0..token.len() {
        for bit in 0..7 {
            let mut changed = token.clone().into_bytes();
            changed[at] ^= 1 << bit;
            let changed = String::from_utf8(changed).unwrap();
            assert!(keys.ticket(&changed).is_err(), "bit {bit} of byte {at}");
        }
        let mut shorter = token.clone();
        shorter.remove(at);
        assert!(keys.ticket(&shorter).is_err(), "byte {at} removed");
        let mut longer = token.clone();
        longer.insert(at, 'A');
        assert!(keys.ticket(&longer).is_err(), "A before byte {at}");
    }
    for tail in ["=", ".", ".x", " ", "\n", "\0", "A"] {
        assert!(keys.ticket(&format!("{token}{tail}")).is_err(), "{tail:?} appended");
        assert!(keys.ticket(&format!("{tail}{token}")).is_err(), "{tail:?} put before");
    }
    // The last character of a signature of 64 bytes carries four bits that mean nothing: they must be zero.
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/";
    for last in alphabet.chars().filter(|last| !token.ends_with(*last)) {
        let changed = format!("{}{last}", &token[..token.len() - 1]);
        assert!(keys.ticket(&changed).is_err(), "last character {last}");
    }
}
