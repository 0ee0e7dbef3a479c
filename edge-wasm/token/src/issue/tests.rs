use alloc::format;

use super::*;
use crate::{KeySet, Refusal};

fn claims() -> Claims {
    Claims {
        iss: "https://shop.example".into(),
        aud: "sneaker".into(),
        sub: "visitor-1".into(),
        jti: "sneaker-0-12".into(),
        iat: 100,
        nbf: 100,
        exp: 200,
        epoch: 3,
        arrival: 12,
    }
}

#[test]
fn signing_is_deterministic_and_verifies() {
    let key = SigningKey::from_seed([1; 32]);
    let keys = KeySet::new([key.public_key()]).unwrap();
    let ticket = TicketClaims { claims: claims() };
    let token = key.sign_ticket(&ticket).unwrap();
    assert_eq!(token, key.sign_ticket(&ticket).unwrap());
    assert_eq!(keys.ticket(&token).unwrap().unaccepted(), &ticket);
    assert_eq!(keys.admission(&token), Err(Refusal::TypeRefused));
    assert_eq!(keys.document(&token), Err(Refusal::TypeRefused));
}

#[test]
fn a_document_comes_back_byte_for_byte() {
    let key = SigningKey::from_seed([1; 32]);
    let keys = KeySet::new([key.public_key()]).unwrap();
    for payload in [&b""[..], b"{}", b"\0\xff", &[b'x'; 40_000]] {
        let jws = key.sign_document(payload).unwrap();
        assert_eq!(keys.document(&jws).unwrap(), payload);
        assert!(keys.ticket(&jws).is_err());
    }
    assert_eq!(key.sign_document(&[0; 65_536]), Err(IssueError::TooLong));
    assert_eq!(key.sign_document(&[0; 49_100]), Err(IssueError::TooLong));
}

#[test]
fn a_private_jwk_comes_back_as_the_same_key() {
    let key = SigningKey::from_seed([9; 32]);
    let again = SigningKey::from_jwk(key.to_private_jwk().as_bytes()).unwrap();
    assert_eq!(again.kid(), key.kid());
    assert_eq!(again.to_private_jwk(), key.to_private_jwk());
    assert_eq!(again.public_key(), key.public_key());
}

#[test]
fn a_private_jwk_with_another_keys_x_is_refused() {
    let key = SigningKey::from_seed([9; 32]).to_private_jwk();
    let other = SigningKey::from_seed([8; 32]).to_private_jwk();
    let (head, _) = key.split_once("\"d\"").unwrap();
    let (_, tail) = other.split_once("\"d\"").unwrap();
    let mixed = format!("{head}\"d\"{tail}");
    assert_eq!(SigningKey::from_jwk(mixed.as_bytes()).unwrap_err(), SigningKeyError::Mismatch);
}

#[test]
fn debug_does_not_show_the_private_part() {
    let key = SigningKey::from_seed([9; 32]);
    let secret = encoded(&[9; 32]);
    assert!(key.to_private_jwk().contains(&secret));
    let shown = format!("{key:?}");
    assert!(shown.contains(key.kid()) && !shown.contains(&secret) && !shown.contains("9, 9"));
}

#[test]
fn claims_that_no_verifier_takes_are_not_signed() {
    let key = SigningKey::from_seed([1; 32]);
    let sign = |change: fn(&mut Claims)| {
        let mut claims = claims();
        change(&mut claims);
        key.sign_ticket(&TicketClaims { claims })
    };
    assert_eq!(sign(|c| c.sub.clear()), Err(IssueError::TextRefused("sub")));
    assert_eq!(sign(|c| c.sub = "a\r\nSet-Cookie: x".into()), Err(IssueError::TextRefused("sub")));
    assert_eq!(sign(|c| c.aud = " sale".into()), Err(IssueError::TextRefused("aud")));
    assert_eq!(sign(|c| c.jti = "j".repeat(256)), Err(IssueError::TextRefused("jti")));
    assert_eq!(sign(|c| c.exp = c.nbf), Err(IssueError::NeverValid));
    // Each quote takes two bytes in JSON.
    let long = sign(|c| {
        for text in [&mut c.iss, &mut c.aud, &mut c.sub, &mut c.jti] {
            *text = "\"".repeat(255);
        }
    });
    assert_eq!(long, Err(IssueError::TooLong));
}
