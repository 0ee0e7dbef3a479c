use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
#[cfg(feature = "issue")]
use ed25519_dalek::VerifyingKey;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::base64url;
use crate::claims::{AdmissionClaims, Authentic, TicketClaims, is_plain};
use crate::invitation::InvitationClaims;
use crate::json::{self, JsonError, Object, Value, Writer};
use crate::jws::{self, Kind, SIGNATURE_BYTES};
use crate::refusal::Refusal;

use prepared::Prepared;

mod prepared;
#[cfg(test)]
mod tests;

/// How many keys a set may hold: rotation needs two or three.
pub const MAX_KEYS: usize = 32;

/// Why a JWK is not taken as one of our keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text is not strict JSON.
    #[error("the key is not JSON: {0}")]
    Json(#[from] JsonError),
    /// Not a JSON object.
    #[error("a key is not a JSON object")]
    NotAnObject,
    /// `kty` is not `OKP` or `crv` is not `Ed25519`.
    #[error("a key is not an Ed25519 key (kty OKP, crv Ed25519)")]
    OtherKind,
    /// `use` or `alg` says that the key is for something else.
    #[error("a key's use or alg is not Ed25519 signing")]
    OtherUse,
    /// `kid` is not a string of 1 to 255 bytes without control characters, or missing in a set.
    #[error("a key's kid is missing or not a plain string")]
    KidInvalid,
    /// `x` is not 32 bytes of canonical base64url, not a canonical point, or a point of small or mixed order.
    #[error("a key's x is not a sound Ed25519 public key")]
    PointInvalid,
    /// A public key set holds a private key: whoever published it must replace the key.
    #[error("a private key (member d) stands where only public keys belong")]
    PrivateMember,
}

/// Why a text is not taken as a key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeySetError {
    /// The text is not strict JSON.
    #[error("the key set is not JSON: {0}")]
    Json(#[from] JsonError),
    /// Not an object with an array `keys`.
    #[error("the key set is not an object with an array `keys`")]
    NotAKeySet,
    /// One of the keys is refused; the others are not used either.
    #[error("key {index} of the set: {reason}")]
    Key {
        /// Which, from 0.
        index: usize,
        /// Why.
        reason: KeyError,
    },
    /// Two keys have the same `kid`.
    #[error("two keys of the set have the same kid")]
    KidRepeated,
    /// No key at all: nothing could ever verify.
    #[error("the key set is empty")]
    Empty,
    /// More than [`MAX_KEYS`].
    #[error("the key set holds more than {MAX_KEYS} keys")]
    TooMany,
}

/// A public Ed25519 key with its name, prepared at its first signature for all of them, in 43 kB.
#[derive(Clone)]
pub struct PublicKey {
    kid: String,
    key: Prepared,
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.kid == other.kid && self.key.as_bytes() == other.key.as_bytes()
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("kid", &self.kid).field("x", &encoded(self.key.as_bytes())).finish()
    }
}

impl PublicKey {
    /// Reads one public JWK (RFC 7517, RFC 8037). Without `kid`, the key is named by its thumbprint (RFC 7638).
    ///
    /// # Errors
    /// Anything but a sound public Ed25519 key for signatures.
    pub fn from_jwk(jwk: &[u8]) -> Result<Self, KeyError> {
        let jwk = json::parse(jwk)?;
        Self::from_value(&jwk, named_by_thumbprint)
    }

    fn from_value(jwk: &Value<'_>, unnamed: Unnamed) -> Result<Self, KeyError> {
        let jwk = jwk.as_object().ok_or(KeyError::NotAnObject)?;
        if jwk.get("d").is_some() {
            return Err(KeyError::PrivateMember);
        }
        Self::from_members(jwk, unnamed)
    }

    pub(crate) fn from_members(jwk: &Object<'_>, unnamed: Unnamed) -> Result<Self, KeyError> {
        let member = |name| jwk.get(name).and_then(Value::as_str);
        if member("kty") != Some("OKP") || member("crv") != Some("Ed25519") {
            return Err(KeyError::OtherKind);
        }
        if jwk.get("use").is_some_and(|usage| usage.as_str() != Some("sig"))
            || jwk.get("alg").is_some_and(|alg| !matches!(alg.as_str(), Some("EdDSA" | "Ed25519")))
        {
            return Err(KeyError::OtherUse);
        }
        let key = member("x")
            .and_then(|x| base64url::decode(x.as_bytes()))
            .and_then(|x| Prepared::from_bytes(&x.try_into().ok()?))
            .ok_or(KeyError::PointInvalid)?;
        let kid = match jwk.get("kid") {
            None => unnamed(key.as_bytes()),
            Some(kid) => kid.as_str().filter(|kid| is_plain(kid)).map(String::from),
        };
        Ok(Self { kid: kid.ok_or(KeyError::KidInvalid)?, key })
    }

    #[cfg(feature = "issue")]
    pub(crate) fn new(kid: String, key: &VerifyingKey) -> Self {
        Self { kid, key: Prepared::new(key.to_bytes(), key.to_edwards()) }
    }

    #[cfg(feature = "issue")]
    pub(crate) fn is(&self, key: &VerifyingKey) -> bool {
        self.key.as_bytes() == key.as_bytes()
    }

    /// The key's name in token headers.
    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The JWK thumbprint (RFC 7638, RFC 8037 appendix A.3): SHA-256 in base64url.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        thumbprint(self.key.as_bytes())
    }

    /// The key as JWK: `kty`, `crv`, `x`, `kid`, `use`. No `alg`, on whose spelling verifiers disagree.
    #[must_use]
    pub fn to_jwk(&self) -> String {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }

    fn write(&self, writer: &mut Writer) {
        writer.begin_object();
        self.write_members(writer);
        writer.end_object();
    }

    pub(crate) fn write_members(&self, writer: &mut Writer) {
        let x = encoded(self.key.as_bytes());
        let members = [
            ("kty", "OKP"),
            ("crv", "Ed25519"),
            ("x", x.as_str()),
            ("kid", self.kid.as_str()),
            ("use", "sig"),
        ];
        for (name, value) in members {
            writer.name(name);
            writer.text(value);
        }
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.key.verifies(message, signature)
    }
}

/// The keys whose tokens are taken. Tickets and admission tokens are signed by different keys, so each has a set.
///
/// Several keys verify at once: a new key is published before it signs, and an old one stays until its last token
/// has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

impl KeySet {
    /// A set of the given keys.
    ///
    /// # Errors
    /// No key, too many, or two of one name.
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Result<Self, KeySetError> {
        let keys: Vec<PublicKey> = keys.into_iter().take(MAX_KEYS + 1).collect();
        if keys.is_empty() {
            return Err(KeySetError::Empty);
        }
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        for (index, key) in keys.iter().enumerate() {
            if keys.iter().skip(index + 1).any(|other| other.kid == key.kid) {
                return Err(KeySetError::KidRepeated);
            }
        }
        Ok(Self { keys })
    }

    /// Reads a JWK Set (RFC 7517, section 5). Members it does not know are ignored; a key it does not know is not. Each
    /// key must have a `kid`.
    ///
    /// # Errors
    /// The text is not a set of sound public Ed25519 keys with different names.
    pub fn from_jwks(jwks: &[u8]) -> Result<Self, KeySetError> {
        Self::from_value(&json::parse(jwks)?)
    }

    /// Reads a JWK Set that is part of another document.
    ///
    /// # Errors
    /// As [`Self::from_jwks`].
    pub fn from_value(set: &Value<'_>) -> Result<Self, KeySetError> {
        let keys = set
            .as_object()
            .and_then(|set| set.get("keys"))
            .and_then(Value::as_array)
            .ok_or(KeySetError::NotAKeySet)?;
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        let mut sound = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            match PublicKey::from_value(key, |_| None) {
                Ok(key) => sound.push(key),
                Err(reason) => return Err(KeySetError::Key { index, reason }),
            }
        }
        Self::new(sound)
    }

    /// The set as JWK Set, as served at `/.well-known/jwks.json`.
    #[must_use]
    pub fn to_jwks(&self) -> String {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }

    /// Writes the set as part of another document.
    pub fn write(&self, writer: &mut Writer) {
        writer.begin_object();
        writer.name("keys");
        writer.begin_array();
        for key in &self.keys {
            key.write(writer);
        }
        writer.end_array();
        writer.end_object();
    }

    /// The keys, in the order given.
    #[must_use]
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    pub(crate) fn get(&self, kid: &str) -> Option<&PublicKey> {
        self.keys.iter().find(|key| key.kid == kid)
    }

    /// Checks form, key and signature of an admission token.
    ///
    /// # Errors
    /// The token is not an authentic admission token of one of these keys.
    pub fn admission(&self, token: &str) -> Result<Authentic<AdmissionClaims>, Refusal> {
        let payload = jws::open(token, Kind::Admission, self)?;
        AdmissionClaims::parse(&payload).map(Authentic::new)
    }

    /// Checks form, key and signature of a ticket.
    ///
    /// # Errors
    /// The token is not an authentic ticket of one of these keys.
    pub fn ticket(&self, token: &str) -> Result<Authentic<TicketClaims>, Refusal> {
        let payload = jws::open(token, Kind::Ticket, self)?;
        TicketClaims::parse(&payload).map(Authentic::new)
    }

    /// Checks form, key and signature of an invitation.
    ///
    /// # Errors
    /// The text is not an authentic invitation of one of these keys.
    pub fn invitation(&self, jws: &str) -> Result<InvitationClaims, Refusal> {
        let payload = jws::open(jws, Kind::Invitation, self)?;
        InvitationClaims::parse(&payload)
    }

    /// Checks a signed document, such as a draw's manifest; answers its payload.
    ///
    /// # Errors
    /// The text is not an authentic document of one of these keys.
    pub fn document(&self, jws: &str) -> Result<Vec<u8>, Refusal> {
        jws::open(jws, Kind::Document, self)
    }
}

/// What to call a key without `kid`. A set has no name for it, which keeps SHA-256 out of edges.
type Unnamed = fn(&[u8; 32]) -> Option<String>;

pub(crate) fn named_by_thumbprint(key: &[u8; 32]) -> Option<String> {
    Some(thumbprint(key))
}

pub(crate) fn encoded(bytes: &[u8; 32]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

pub(crate) fn thumbprint(key: &[u8; 32]) -> String {
    let mut hash = Sha256::new();
    hash.update(r#"{"crv":"Ed25519","kty":"OKP","x":""#);
    hash.update(encoded(key));
    hash.update(r#""}"#);
    encoded(&hash.finalize().into())
}
