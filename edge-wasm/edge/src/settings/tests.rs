use std::string::ToString;

use proptest::prelude::*;
use ropeline_token::{AdmissionClaims, Claims, SigningKey};
use std::format;

use super::*;

const POLICY: &str = r#"{"issuer":"https://shop.example","api_prefix":"/api/v1/queue","secure_cookies":true,"sales":[
    {"sale":"drop","epoch":3,"gate":"queue","routes":[{"path":"/sale"}]}]}"#;

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn keys() -> KeySet {
    KeySet::new([key().public_key()]).unwrap()
}

fn token(key: &SigningKey) -> String {
    let claims = Claims {
        iss: "https://shop.example".into(),
        aud: "drop".into(),
        sub: "nobody".into(),
        jti: "known-answer".into(),
        iat: 0,
        nbf: 0,
        exp: 1,
        epoch: 0,
        arrival: 0,
    };
    key.sign_admission(&AdmissionClaims { claims, place: 0 }).unwrap()
}

fn document(more: &str) -> String {
    format!(r#"{{"version":1,"policy":{POLICY},"keys":{}{more}}}"#, keys().to_jwks())
}

fn refused(document: &str) -> SettingsError {
    Settings::from_json(document.as_bytes()).unwrap_err()
}

#[test]
fn what_is_left_out_has_the_safe_value() {
    let settings = Settings::from_json(document("").as_bytes()).unwrap();
    assert_eq!((settings.upstream, settings.expiry), (Upstream::Gateway, None));
    let settings = Settings::from_json(document(r#","expires_at":9"#).as_bytes()).unwrap();
    assert_eq!(settings.expiry, Some(Expiry { at: 9, then: PastExpiry::Closed }));
}

#[test]
fn nothing_is_passed_over_in_silence() {
    assert_eq!(
        refused(&document(r#","expire_at":9"#)),
        SettingsError::UnknownMember { member: "expire_at".into() }
    );
    for (more, wrong) in [
        (r#","expires_at":"9""#, "expires_at"),
        (r#","past_expiry":"closd""#, "past_expiry"),
        (r#","send_to":"origin""#, "send_to"),
        (r#","known_answer":1"#, "known_answer"),
    ] {
        let error = refused(&document(more));
        assert!(matches!(error, SettingsError::Member { member, .. } if member == wrong), "{more}: {error}");
    }
    assert_eq!(refused(&document("").replacen("1", "2", 1)), SettingsError::Version);
    assert!(matches!(refused("{"), SettingsError::Json(_)));
    assert!(matches!(
        refused(&document("").replace("\"sale\":\"drop\"", "\"sale\":\"DROP\"")),
        SettingsError::Policy(_)
    ));
    assert!(matches!(refused(&document("").replace("Ed25519", "X25519")), SettingsError::Keys(_)));
}

#[test]
fn a_known_answer_that_does_not_verify_is_found_at_once() {
    let known =
        |token: &str| Settings::from_json(document(&format!(r#","known_answer":"{token}""#)).as_bytes());
    known(&token(&key())).unwrap();
    let other = known(&token(&SigningKey::from_seed([8; 32])));
    assert_eq!(other.unwrap_err(), SettingsError::KnownAnswer(Refusal::KeyUnknown));
    let token = token(&key());
    let (body, _) = token.rsplit_once('.').unwrap();
    let broken = known(&format!("{body}.{}", "A".repeat(86)));
    assert_eq!(broken.unwrap_err(), SettingsError::KnownAnswer(Refusal::SignatureInvalid));
    // A host whose instances live for one request has no time to find it.
    let text = document(&format!(r#","known_answer":"{token}x""#));
    assert!(Settings::from_json_unproven(text.as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        at: Option<u64>,
        open: bool,
        shop: bool,
        knows: bool,
    ) {
        let policy = Policy::from_json(POLICY.as_bytes()).unwrap();
        let mut settings = Settings::new(policy, keys());
        if shop {
            settings = settings.sending_to(Upstream::Shop);
        }
        if let Some(at) = at {
            settings = settings.until(at, if open { PastExpiry::Open } else { PastExpiry::Closed });
        }
        if knows {
            settings = settings.knowing(token(&key())).unwrap();
        }
        prop_assert_eq!(Settings::from_json(settings.to_json().as_bytes()), Ok(settings));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: std::vec::Vec<u8>, cut in 0..900_usize) {
        let _ = Settings::from_json(&bytes);
        let whole = document("");
        let _ = Settings::from_json(whole.as_bytes().get(..cut).unwrap_or_default()).map_err(|error| error.to_string());
    }
}
