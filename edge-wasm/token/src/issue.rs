//! Signing: feature `issue`. Only the gateway signs; an edge is never built with it.

use alloc::string::String;
use core::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_dalek::Signer;
use thiserror::Error;

use crate::claims::{AdmissionClaims, Claims, TicketClaims, is_plain};
use crate::invitation::InvitationClaims;
use crate::json::{self, JsonError, Value, Writer};
use crate::jws::Kind;
use crate::keys::{KeyError, PublicKey, encoded, named_by_thumbprint};

#[cfg(test)]
mod tests;

/// Why claims are not signed: the token would be refused by every verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IssueError {
    /// The named claim is not 1 to 255 bytes free of control characters and of space at either end.
    #[error("claim {0} is not a plain text of 1 to 255 bytes")]
    TextRefused(&'static str),
    /// `exp` is not later than `nbf`.
    #[error("the token would expire before it is valid")]
    NeverValid,
    /// The result would pass [`crate::MAX_TOKEN_BYTES`] or [`crate::MAX_DOCUMENT_BYTES`].
    #[error("the token would be too long")]
    TooLong,
}

/// Why a JWK is not taken as a signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SigningKeyError {
    /// The text is not strict JSON.
    #[error("the key is not JSON: {0}")]
    Json(#[from] JsonError),
    /// The public part is refused.
    #[error(transparent)]
    Public(#[from] KeyError),
    /// `d` is missing or not 32 bytes of canonical base64url.
    #[error("the private part d is not 32 bytes of base64url")]
    PrivateInvalid,
    /// `x` is not the public key of `d`.
    #[error("the public part x does not belong to the private part d")]
    Mismatch,
}

/// A private Ed25519 key and its name. The key is wiped from memory when dropped and never shown by `Debug`.
pub struct SigningKey {
    key: ed25519_dalek::SigningKey,
    public: PublicKey,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("kid", &self.public.kid()).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// The key of a seed (RFC 8032, section 5.1.5), named by its thumbprint. The seed must come from a secure source.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        let kid = crate::keys::thumbprint(key.verifying_key().as_bytes());
        let public = PublicKey::new(kid, &key.verifying_key());
        Self { key, public }
    }

    /// Reads a private JWK (RFC 8037, section 2). Without `kid`, the key is named by its thumbprint.
    ///
    /// # Errors
    /// The text is not a private Ed25519 JWK, or its two parts do not belong together.
    pub fn from_jwk(jwk: &[u8]) -> Result<Self, SigningKeyError> {
        let jwk = json::parse(jwk)?;
        let jwk = jwk.as_object().ok_or(KeyError::NotAnObject)?;
        let public = PublicKey::from_members(jwk, named_by_thumbprint)?;
        let seed =
            jwk.get("d").and_then(Value::as_str).and_then(secret).ok_or(SigningKeyError::PrivateInvalid)?;
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        if !public.is(&key.verifying_key()) {
            return Err(SigningKeyError::Mismatch);
        }
        Ok(Self { key, public })
    }

    /// The whole key as JWK, `d` included: a secret.
    #[must_use]
    pub fn to_private_jwk(&self) -> String {
        let mut writer = Writer::new();
        writer.begin_object();
        self.public.write_members(&mut writer);
        writer.name("d");
        writer.text(&encoded(self.key.as_bytes()));
        writer.end_object();
        writer.finish()
    }

    /// The part to publish.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.public.clone()
    }

    /// The key's name in token headers.
    #[must_use]
    pub fn kid(&self) -> &str {
        self.public.kid()
    }

    /// Signs a ticket. The same claims always give the same bytes.
    ///
    /// # Errors
    /// No verifier would take the token.
    pub fn sign_ticket(&self, ticket: &TicketClaims) -> Result<String, IssueError> {
        self.sign_claims(Kind::Ticket, &ticket.claims, None)
    }

    /// Signs an admission token. The same claims always give the same bytes.
    ///
    /// # Errors
    /// No verifier would take the token.
    pub fn sign_admission(&self, admission: &AdmissionClaims) -> Result<String, IssueError> {
        self.sign_claims(Kind::Admission, &admission.claims, Some(admission.place))
    }

    /// Signs an invitation.
    ///
    /// # Errors
    /// No gateway would take it.
    pub fn sign_invitation(&self, invitation: &InvitationClaims) -> Result<String, IssueError> {
        let InvitationClaims { aud, lane, jti, sub, nbf, exp } = invitation;
        if nbf.is_some_and(|nbf| *exp <= nbf) {
            return Err(IssueError::NeverValid);
        }
        let mut writer = Writer::new();
        writer.begin_object();
        let sub = sub.as_ref().map(|sub| ("sub", sub));
        for (name, text) in [("aud", aud), ("lane", lane), ("jti", jti)].into_iter().chain(sub) {
            if !is_plain(text) {
                return Err(IssueError::TextRefused(name));
            }
            writer.name(name);
            writer.text(text);
        }
        for (name, value) in nbf.map(|nbf| ("nbf", nbf)).into_iter().chain([("exp", *exp)]) {
            writer.name(name);
            writer.integer(value);
        }
        writer.end_object();
        self.sign(Kind::Invitation, writer.finish().as_bytes())
    }

    /// Signs a document, such as a draw's manifest, into a compact JWS of `typ` `ropeline-draw+jws`.
    ///
    /// # Errors
    /// The result would be too long.
    pub fn sign_document(&self, payload: &[u8]) -> Result<String, IssueError> {
        self.sign(Kind::Document, payload)
    }

    fn sign_claims(&self, kind: Kind, claims: &Claims, place: Option<u64>) -> Result<String, IssueError> {
        let texts = [("iss", &claims.iss), ("aud", &claims.aud), ("sub", &claims.sub), ("jti", &claims.jti)];
        let times = [("iat", claims.iat), ("nbf", claims.nbf), ("exp", claims.exp)];
        let position = [("epoch", claims.epoch.into()), ("arrival", claims.arrival)];
        if claims.exp <= claims.nbf {
            return Err(IssueError::NeverValid);
        }
        let mut writer = Writer::new();
        writer.begin_object();
        for (name, text) in texts {
            if !is_plain(text) {
                return Err(IssueError::TextRefused(name));
            }
            writer.name(name);
            writer.text(text);
        }
        for (name, value) in times.into_iter().chain(position).chain(place.map(|place| ("place", place))) {
            writer.name(name);
            writer.integer(value);
        }
        writer.end_object();
        self.sign(kind, writer.finish().as_bytes())
    }

    fn sign(&self, kind: Kind, payload: &[u8]) -> Result<String, IssueError> {
        if payload.len() > kind.max_bytes() {
            return Err(IssueError::TooLong);
        }
        let mut header = Writer::new();
        header.begin_object();
        for (name, value) in [("alg", "EdDSA"), ("kid", self.kid()), ("typ", kind.typ())] {
            header.name(name);
            header.text(value);
        }
        header.end_object();
        let mut jws = Base64UrlUnpadded::encode_string(header.finish().as_bytes());
        jws.push('.');
        jws.push_str(&Base64UrlUnpadded::encode_string(payload));
        let signature = self.key.sign(jws.as_bytes());
        jws.push('.');
        jws.push_str(&Base64UrlUnpadded::encode_string(&signature.to_bytes()));
        if jws.len() > kind.max_bytes() {
            return Err(IssueError::TooLong);
        }
        Ok(jws)
    }
}

/// Decoded in constant time: it is a secret.
fn secret(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let decoded = Base64UrlUnpadded::decode(text, &mut bytes).ok()?;
    (decoded.len() == 32).then_some(bytes)
}
