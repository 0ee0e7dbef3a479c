//! The signed first-party cookie: who a visitor is where the shop has no accounts.
//!
//! Value: `id "." mac`, both base64url without padding. `id` is 16 random bytes; `mac` is the first 16 bytes of
//! HMAC-SHA-256 over a label and the id as written, so that what is signed is exactly what is read.

use base64ct::{Base64UrlUnpadded, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::config::CookieSecret;

const LABEL: &[u8] = b"ropeline-visitor-v1\0";
const NAME_LABEL: &[u8] = b"ropeline-visitor-secret-name-v1\0";
const ID_TEXT: usize = 22;
const MAC_TEXT: usize = 22;
const MAC_BYTES: usize = 16;

fn mac(secret: &CookieSecret, id: &str) -> Option<String> {
    labelled(secret, LABEL, id)
}

fn labelled(secret: &CookieSecret, label: &[u8], text: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose()).ok()?;
    mac.update(label);
    mac.update(text.as_bytes());
    let tag = mac.finalize().into_bytes();
    tag.get(..MAC_BYTES).map(Base64UrlUnpadded::encode_string)
}

/// Issues visitor ids and recognises the ones it issued.
///
/// The first secret signs; all of them are recognised, so that a secret can be replaced without losing anybody.
#[derive(Clone, Debug)]
pub struct VisitorCookies(Vec<CookieSecret>);

/// No visitor can be given an id now.
#[derive(Debug, thiserror::Error)]
pub enum IssueVisitorError {
    /// The system gives no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// There is no secret to sign with.
    #[error("no cookie secret")]
    NoSecret,
}

impl VisitorCookies {
    /// Signs with the first secret.
    #[must_use]
    pub fn new(secrets: Vec<CookieSecret>) -> Self {
        Self(secrets)
    }

    /// Names by which the secrets are told apart, in their order. They say no more of a secret than any cookie does, and are no
    /// cookie's.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().filter_map(|secret| labelled(secret, NAME_LABEL, "")).collect()
    }

    /// A new visitor: its id and the cookie's value.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn issue(&self) -> Result<(String, String), IssueVisitorError> {
        let mut random = [0u8; 16];
        getrandom::fill(&mut random)?;
        let id = Base64UrlUnpadded::encode_string(&random);
        let mac = self.0.first().and_then(|secret| mac(secret, &id)).ok_or(IssueVisitorError::NoSecret)?;
        let value = format!("{id}.{mac}");
        Ok((id, value))
    }

    /// The visitor's id, if the cookie is one of ours.
    #[must_use]
    pub fn recognise<'a>(&self, value: &'a str) -> Option<&'a str> {
        let (id, offered) = value.split_once('.')?;
        if id.len() != ID_TEXT || offered.len() != MAC_TEXT {
            return None;
        }
        self.0
            .iter()
            .filter_map(|secret| mac(secret, id))
            .any(|expected| bool::from(expected.as_bytes().ct_eq(offered.as_bytes())))
            .then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> CookieSecret {
        CookieSecret::parse(&Base64UrlUnpadded::encode_string(&[byte; 32])).unwrap()
    }

    #[test]
    fn what_was_issued_is_recognised_and_nothing_else() {
        let cookies = VisitorCookies::new(vec![secret(1)]);
        let (id, value) = cookies.issue().unwrap();
        assert_eq!(cookies.recognise(&value), Some(id.as_str()));
        for at in 0..value.len() {
            let mut forged = value.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            if forged != value {
                assert_eq!(cookies.recognise(&forged), None, "byte {at}");
            }
        }
        for bad in ["", ".", "a.b", &value[1..], &format!("{value}A"), &value.replace('.', "")] {
            assert_eq!(cookies.recognise(bad), None, "{bad}");
        }
    }

    #[test]
    fn moving_bytes_between_id_and_mac_is_refused() {
        let cookies = VisitorCookies::new(vec![secret(1)]);
        let (_, value) = cookies.issue().unwrap();
        let (id, mac) = value.split_once('.').unwrap();
        assert_eq!(cookies.recognise(&format!("{id}{}.{}", &mac[..1], &mac[1..])), None);
    }

    #[test]
    fn the_name_of_a_secret_is_no_cookie() {
        let names = VisitorCookies::new(vec![secret(1), secret(2)]).names();
        assert!(names.len() == 2 && names[0] != names[1]);
        let cookies = VisitorCookies::new(vec![secret(1)]);
        assert_eq!(cookies.names(), names[..1]);
        assert_eq!(cookies.recognise(&format!(".{}", names[0])), None);
    }

    #[test]
    fn a_replaced_secret_loses_nobody() {
        let before = VisitorCookies::new(vec![secret(1)]);
        let (id, value) = before.issue().unwrap();
        let after = VisitorCookies::new(vec![secret(2), secret(1)]);
        assert_eq!(after.recognise(&value), Some(id.as_str()));
        assert_eq!(VisitorCookies::new(vec![secret(2)]).recognise(&value), None);
    }
}
