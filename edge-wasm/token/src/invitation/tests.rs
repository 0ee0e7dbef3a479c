use std::format;
use std::string::ToString;

use super::*;
use crate::{IssueError, KeySet, SigningKey, TicketClaims};

fn claims() -> InvitationClaims {
    InvitationClaims {
        aud: "sneaker".into(),
        lane: "members".into(),
        jti: "code-1".into(),
        sub: None,
        nbf: Some(1_700_000_000),
        exp: 1_700_000_600,
    }
}

fn key() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

fn keys() -> KeySet {
    KeySet::new([key().public_key()]).unwrap()
}

#[test]
fn what_is_signed_is_read_back() {
    for sub in [None, Some("account-7".to_string())] {
        let signed = InvitationClaims { sub, ..claims() };
        let jws = key().sign_invitation(&signed).unwrap();
        assert_eq!(keys().invitation(&jws), Ok(signed));
    }
}

#[test]
fn an_invitation_holds_for_its_sale_and_time() {
    let leeway = Leeway::default();
    let at = |now| claims().accept("sneaker", leeway, now);
    assert_eq!(claims().accept("other", leeway, 1_700_000_001), Err(Refusal::AudienceRefused));
    assert_eq!(at(1_699_999_994), Err(Refusal::NotYetValid));
    assert_eq!(at(1_699_999_995), Ok(()));
    assert_eq!(at(1_700_000_604), Ok(()));
    assert_eq!(at(1_700_000_605), Err(Refusal::Expired));
}

#[test]
fn one_kind_of_token_is_never_taken_for_another() {
    let invitation = key().sign_invitation(&claims()).unwrap();
    assert_eq!(keys().ticket(&invitation).err(), Some(Refusal::TypeRefused));
    assert_eq!(keys().admission(&invitation).err(), Some(Refusal::TypeRefused));
    assert_eq!(keys().document(&invitation).err(), Some(Refusal::TypeRefused));
    let ticket = TicketClaims {
        claims: crate::Claims {
            iss: "shop".into(),
            aud: "sneaker".into(),
            sub: "visitor".into(),
            jti: "t".into(),
            iat: 1,
            nbf: 1,
            exp: 2,
            epoch: 0,
            arrival: 0,
        },
    };
    let ticket = key().sign_ticket(&ticket).unwrap();
    assert_eq!(keys().invitation(&ticket).err(), Some(Refusal::TypeRefused));
}

#[test]
fn claims_that_make_no_sense_are_refused() {
    for payload in [
        r#"{}"#,
        r#"{"aud":"sneaker","lane":"members","jti":"1"}"#,
        r#"{"aud":"sneaker","lane":"members","jti":"1","exp":"2"}"#,
        r#"{"aud":"sneaker","lane":"members","jti":"","exp":2}"#,
        r#"{"aud":["sneaker"],"lane":"members","jti":"1","exp":2}"#,
        r#"{"aud":"sneaker","lane":"members","jti":"1","sub":null,"exp":2}"#,
        r#"{"aud":"sneaker","lane":"members","jti":"1","sub":7,"exp":2}"#,
        r#"{"aud":"sneaker","lane":"members","jti":"1","nbf":2,"exp":2}"#,
        r#"{"aud":"sneaker","lane":"members","jti":"1","nbf":1.5,"exp":2}"#,
        r#"{"aud":"sneaker","lane":"a","lane":"members","jti":"1","exp":2}"#,
    ] {
        assert_eq!(InvitationClaims::parse(payload.as_bytes()), Err(Refusal::ClaimsInvalid), "{payload}");
    }
    let foreign = r#"{"iss":"crm","iat":1,"aud":"sneaker","lane":"members","jti":"1","exp":2,"tier":"gold"}"#;
    assert!(InvitationClaims::parse(foreign.as_bytes()).is_ok());
}

#[test]
fn what_no_gateway_would_take_is_not_signed() {
    let sign = |claims: InvitationClaims| key().sign_invitation(&claims);
    let spaced = |text: &str| format!(" {text}");
    assert_eq!(
        sign(InvitationClaims { lane: spaced("members"), ..claims() }),
        Err(IssueError::TextRefused("lane"))
    );
    assert_eq!(
        sign(InvitationClaims { sub: Some("".into()), ..claims() }),
        Err(IssueError::TextRefused("sub"))
    );
    assert_eq!(sign(InvitationClaims { exp: 1_700_000_000, ..claims() }), Err(IssueError::NeverValid));
}
