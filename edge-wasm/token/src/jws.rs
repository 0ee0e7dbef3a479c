//! The compact JWS (RFC 7515, section 7.1) within this profile: taking one apart and building one.

use alloc::vec::Vec;

use crate::base64url;
use crate::json;
use crate::keys::KeySet;
use crate::refusal::Refusal;

/// A longer ticket, admission token or invitation is refused unread.
pub const MAX_TOKEN_BYTES: usize = 2_048;

/// A longer signed document is refused unread.
pub const MAX_DOCUMENT_BYTES: usize = 65_536;

pub(crate) const SIGNATURE_BYTES: usize = 64;

/// What a JWS says: its `typ` keeps one kind from being taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ticket,
    Admission,
    Document,
    Invitation,
}

impl Kind {
    pub(crate) const fn typ(self) -> &'static str {
        match self {
            Self::Ticket => "ropeline-ticket+jwt",
            Self::Admission => "ropeline-admission+jwt",
            Self::Document => "ropeline-draw+jws",
            Self::Invitation => "ropeline-invitation+jwt",
        }
    }

    pub(crate) const fn max_bytes(self) -> usize {
        match self {
            Self::Ticket | Self::Admission | Self::Invitation => MAX_TOKEN_BYTES,
            Self::Document => MAX_DOCUMENT_BYTES,
        }
    }
}

/// Checks form, header, key and signature of `jws`; answers the payload's bytes.
///
/// Cheap checks come first: an unknown key costs no curve arithmetic, and the payload is decoded only once the
/// signature over its text has verified.
pub(crate) fn open(jws: &str, kind: Kind, keys: &KeySet) -> Result<Vec<u8>, Refusal> {
    if jws.len() > kind.max_bytes() {
        return Err(Refusal::TooLong);
    }
    // Searching text for characters is a twentieth of an edge's module; these are bytes.
    let jws = jws.as_bytes();
    let mut dots = jws.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
    let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else {
        return Err(Refusal::Malformed);
    };
    let part = |range| jws.get::<core::ops::Range<usize>>(range).unwrap_or_default();
    let (signed, signature) = (part(0..second), part(second + 1..jws.len()));
    let (header, payload) = (part(0..first), part(first + 1..second));

    let header = base64url::decode(header).ok_or(Refusal::Malformed)?;
    let key = check_header(&header, kind, keys)?;

    let signature = base64url::decode(signature).ok_or(Refusal::Malformed)?;
    let signature = signature.try_into().map_err(|_| Refusal::Malformed)?;
    if !key.verifies(signed, &signature) {
        return Err(Refusal::SignatureInvalid);
    }
    base64url::decode(payload).ok_or(Refusal::Malformed)
}

/// Exactly `alg`, `kid` and `typ`: whatever else JOSE allows (`crit`, `b64`, `jwk`, `jku`, …) changes what a signature
/// means and is refused with the rest.
fn check_header<'k>(header: &[u8], kind: Kind, keys: &'k KeySet) -> Result<&'k crate::PublicKey, Refusal> {
    let header = json::parse(header).map_err(|_| Refusal::HeaderInvalid)?;
    let header = header.as_object().filter(|header| header.len() == 3).ok_or(Refusal::HeaderInvalid)?;
    let member = |name| header.get(name).and_then(json::Value::as_str).ok_or(Refusal::HeaderInvalid);
    let (algorithm, kid, typ) = (member("alg")?, member("kid")?, member("typ")?);
    if !matches!(algorithm, "EdDSA" | "Ed25519") {
        return Err(Refusal::AlgorithmRefused);
    }
    if typ != kind.typ() {
        return Err(Refusal::TypeRefused);
    }
    keys.get(kid).ok_or(Refusal::KeyUnknown)
}
