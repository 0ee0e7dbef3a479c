//! Tokens of another JOSE implementation, and ours for it. `data/jose` holds the scripts that make the one and check the
//! other.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use std::collections::BTreeSet;

use ropeline_token::{AdmissionClaims, Claims, Expect, KeySet, Leeway, Refusal, SigningKey, TicketClaims};
use serde_json::{Value, json};

const THEIRS: &str = include_str!("data/jose/tokens.json");
const OURS: &str = include_str!("data/jose/ours.json");

fn claims() -> Claims {
    Claims {
        iss: "https://shop.example".into(),
        aud: "sneaker".into(),
        sub: "visitor-J\u{fc}rgen".into(),
        jti: "sneaker-0-12".into(),
        iat: 1_700_000_000,
        nbf: 1_700_000_000,
        exp: 1_700_000_600,
        epoch: 3,
        arrival: 12,
    }
}

#[test]
fn tokens_of_another_implementation_are_judged_as_they_should_be() {
    let theirs: Value = serde_json::from_str(THEIRS).unwrap();
    let keys = KeySet::from_jwks(theirs["jwks"].to_string().as_bytes()).unwrap();
    assert_eq!(keys.keys()[0].kid(), theirs["kid"].as_str().unwrap());
    assert_eq!(keys.keys()[0].thumbprint(), theirs["kid"].as_str().unwrap());
    let expect = Expect {
        issuer: "https://shop.example",
        audience: "sneaker",
        min_epoch: 3,
        leeway: Leeway::default(),
    };
    let mut results = BTreeSet::new();
    for row in theirs["tokens"].as_array().unwrap() {
        let token = row["token"].as_str().unwrap();
        let result = match row["kind"].as_str().unwrap() {
            "admission" => keys.admission(token).map(|admission| {
                let accepted = admission.accept(&expect, 1_700_000_300).unwrap();
                assert_eq!(accepted, &AdmissionClaims { claims: claims(), place: 4 });
            }),
            "ticket" => keys.ticket(token).map(|ticket| {
                let accepted = ticket.accept(&expect, 1_700_000_300).unwrap();
                assert_eq!(accepted, &TicketClaims { claims: claims() });
            }),
            "document" => keys.document(token).map(|payload| assert_eq!(payload, b"{\"n\":2000000}")),
            other => panic!("kind {other}"),
        };
        let result = result.map_or_else(Refusal::code, |()| "valid");
        assert_eq!(result, row["result"], "{}", row["name"]);
        results.insert(result);
    }
    let expected =
        ["algorithm_refused", "claims_invalid", "header_invalid", "key_unknown", "type_refused", "valid"];
    assert!(results.iter().eq(&expected), "{results:?}");
}

/// The file that `verify.mjs` checks is what we sign. Run with `ROPELINE_BLESS=1` to write it anew.
#[test]
fn the_tokens_that_the_other_implementation_checks_are_ours() {
    let key = SigningKey::from_seed([42; 32]);
    let keys = KeySet::new([key.public_key(), SigningKey::from_seed([43; 32]).public_key()]).unwrap();
    let (ticket, admission) =
        (TicketClaims { claims: claims() }, AdmissionClaims { claims: claims(), place: 4 });
    let shown = json!({
        "iss": "https://shop.example", "aud": "sneaker", "sub": "visitor-J\u{fc}rgen", "jti": "sneaker-0-12",
        "iat": 1_700_000_000, "nbf": 1_700_000_000, "exp": 1_700_000_600, "epoch": 3, "arrival": 12,
    });
    let mut shown_admission = shown.clone();
    shown_admission["place"] = 4.into();
    let document = "{\"n\":2000000}";
    let ours = json!({
        "jwks": serde_json::from_str::<Value>(&keys.to_jwks()).unwrap(),
        "tokens": [
            { "kind": "ticket", "token": key.sign_ticket(&ticket).unwrap(), "claims": shown },
            { "kind": "admission", "token": key.sign_admission(&admission).unwrap(), "claims": shown_admission },
        ],
        "document": { "token": key.sign_document(document.as_bytes()).unwrap(), "payload": document },
    });
    if std::env::var_os("ROPELINE_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/jose/ours.json");
        std::fs::write(path, format!("{ours:#}\n")).unwrap();
    } else {
        assert_eq!(serde_json::from_str::<Value>(OURS).unwrap(), ours);
    }
}

/// What the signature cases of Wycheproof's `json_web_signature_test.json` do to a token, done to ours. The set itself
/// signs with HMAC, ECDSA and RSA, which the header check refuses one and all.
#[test]
fn wycheproof_jws_cases() {
    let key = SigningKey::from_seed([42; 32]);
    let keys = KeySet::new([key.public_key()]).unwrap();
    let token = key.sign_ticket(&TicketClaims { claims: claims() }).unwrap();
    let [header, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else {
        panic!("three parts")
    };
    let other = |text: &str| format!("{}{}", if text.starts_with('X') { 'Y' } else { 'X' }, &text[1..]);
    for (case, changed) in [
        ("rejectsModifiedSignature", format!("{header}.{payload}.{}", other(signature))),
        ("rejectsMissingSignature", format!("{header}.{payload}.")),
        ("rejectsMissingSignatureAndSeparator", format!("{header}.{payload}")),
        ("rejectsModifiedPayload", format!("{header}.{}.{signature}", other(payload))),
        ("rejectsMissingPayload", format!("{header}..{signature}")),
        ("rejectsMissingPayloadAndSeparator", format!("{header}.{signature}")),
        ("rejectsModifiedHeader", format!("{}.{payload}.{signature}", other(header))),
        ("rejectsMissingHeader", format!(".{payload}.{signature}")),
        ("rejectsMissingHeaderAndSeparator", format!("{payload}.{signature}")),
        ("rejectsMissingHeaderAndSignature", format!(".{payload}.")),
        ("rejectsMissingHeaderSignatureAndSeparators", payload.to_string()),
        ("rejectsEmptyString", String::new()),
        ("rejectsExtraEmptyComponent", format!("{token}.")),
        ("rejectsExtraComponent", format!("{token}.foo")),
        (
            "rejectsValidJsonSerialization",
            json!({ "payload": payload, "signatures": [{ "protected": header, "signature": signature }] })
                .to_string(),
        ),
    ] {
        assert!(keys.ticket(&changed).is_err(), "{case}");
    }
    assert!(keys.ticket(&token).is_ok(), "acceptsValid");
}
