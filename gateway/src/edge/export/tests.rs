use proptest::prelude::*;
use ropeline_token::{Expect, Leeway, SigningKey};

use super::*;
use crate::keys::{KeyRing, KeyState, LoadedKey, Purpose};

fn ring(folder: &std::path::Path, seed: u8) -> KeyRing {
    let path = folder.join(format!("{seed}.jwk"));
    std::fs::write(&path, SigningKey::from_seed([seed; 32]).to_private_jwk()).unwrap();
    KeyRing::new(vec![(LoadedKey::read(&path, Purpose::Ticket).unwrap(), KeyState::Sign)]).unwrap()
}

fn exporter() -> Exporter {
    let folder = tempfile::tempdir().unwrap();
    Exporter::new(&Keys {
        ticket: ring(folder.path(), 1),
        admission: ring(folder.path(), 2),
        invitation: None,
    })
    .unwrap()
}

fn settings() -> Settings {
    let policy = Policy::from_json(
        br#"{"issuer":"https://shop.example","api_prefix":"/api/v1/queue","secure_cookies":true,"sales":[]}"#,
    );
    exporter().settings(policy.unwrap()).unwrap()
}

fn query(send_to: &str, expires_in: &str, past_expiry: &str) -> Query {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Query { send_to: given(send_to), expires_in: given(expires_in), past_expiry: given(past_expiry) }
}

#[test]
fn the_known_answer_verifies_and_lets_nobody_in() {
    let Exporter { keys, known_answer } = exporter();
    let authentic = keys.admission(&known_answer).unwrap();
    // The most lenient expectation there is, at any time.
    let expect = Expect {
        issuer: NO_SALE,
        audience: NO_SALE,
        min_epoch: 0,
        leeway: Leeway::from_seconds(Leeway::MAX_SECONDS).unwrap(),
    };
    assert!(authentic.accept(&expect, 1_800_000_000).is_err());
    assert!(ropeline_decision::SaleName::parse(NO_SALE).is_err(), "a sale may bear this name");
}

#[test]
fn only_public_admission_keys_are_exported() {
    let document: serde_json::Value = serde_json::from_str(&settings().to_json()).unwrap();
    let keys = document["keys"]["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0]["kid"], SigningKey::from_seed([2; 32]).kid());
    assert!(keys[0].get("d").is_none());
}

#[test]
fn what_is_written_is_what_an_edge_reads() {
    let wishes = Wishes::try_from(&query("shop", "1h", "open")).unwrap();
    let settings = fulfil(settings(), &wishes, 1_800_000_001);
    assert_eq!(Settings::from_json(settings.to_json().as_bytes()).unwrap(), settings);
    assert_eq!(settings.expires_at(), Some(1_800_000_900 + 3_600));
}

#[test]
fn wishes_that_make_no_sense_are_told() {
    assert_eq!(Wishes::try_from(&Query::default()).unwrap(), Wishes::default());
    for (wrong, told) in [
        (query("nobody", "", ""), "gateway or shop"),
        (query("", "1h", "ajar"), "closed or open"),
        (query("", "1", ""), "for example"),
        (query("", "59s", ""), "60s at least"),
        (query("", "", "open"), "expires_in"),
    ] {
        let fault = Wishes::try_from(&wrong).unwrap_err();
        assert!(fault.mend.contains(told), "{wrong:?}: {fault:?}");
    }
}

proptest! {
    #[test]
    fn settings_live_as_long_as_wanted_and_at_most_a_quarter_longer(
        now in 0_u64..4_000_000_000,
        life in 60_u64..4_000_000,
    ) {
        let wishes = Wishes { life: Some(Duration::from_secs(life)), ..Wishes::default() };
        let at = fulfil(settings(), &wishes, now).expires_at().unwrap();
        prop_assert!(at >= now + life && at <= now + life + life / 4, "{} for {}", at - now, life);
    }
}
