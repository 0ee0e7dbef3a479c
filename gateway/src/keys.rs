//! The signing keys: private JWK files, and which of them signs.
//!
//! A key lives through three states. It is *published* before it signs, so that every edge knows it when the
//! first token comes; then it *signs*; then it only *verifies*, until the last token it signed has expired. A
//! verifier treats all three alike.

use std::fmt;
use std::path::Path;

use ropeline_token::{KeySet, KeySetError, PublicKey, SigningKey, json};

use crate::config::{Fault, files};

#[cfg(test)]
mod tests;

/// Longest key file, in bytes; a JWK has some 200.
const MAX_FILE: u64 = 16 << 10;

/// What a key is for at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// Published, and next to sign.
    Publish,
    /// Signs; exactly one key of a ring does.
    Sign,
    /// Signs no longer; what it signed is still accepted.
    Verify,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Publish, Self::Sign, Self::Verify];

    /// The state's name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Sign => "sign",
            Self::Verify => "verify",
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a key is for. `ropeline keygen` writes it into the key's file, as a member of the JWK that other readers pass over
/// (RFC 7517, section 4): what one key signs is never taken where another's signature is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Tickets and the documents of a draw.
    Ticket,
    /// Admission tokens.
    Admission,
    /// Invitations to the lanes of sales.
    Invitation,
}

impl Purpose {
    /// The member of the JWK.
    const MEMBER: &str = "ropeline";

    /// Its name in the key's file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ticket => "ticket",
            Self::Admission => "admission",
            Self::Invitation => "invitation",
        }
    }

    /// The JWK, and in it what it is for.
    ///
    /// # Errors
    /// When it is no JSON object.
    pub fn write_into(self, jwk: &str) -> serde_json::Result<String> {
        let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(jwk)?;
        members.insert(Self::MEMBER.to_owned(), self.name().into());
        serde_json::to_string(&members)
    }

    /// What a JWK says that it is for; one that was made elsewhere need not say.
    #[must_use]
    pub fn said<'a>(jwk: &'a json::Value<'_>) -> Option<&'a str> {
        jwk.as_object()?.get(Self::MEMBER)?.as_str()
    }
}

/// One key as its file holds it: a private JWK, or a public one, which is enough for a key that only verifies.
#[derive(Debug)]
pub struct LoadedKey {
    public: PublicKey,
    private: Option<SigningKey>,
}

impl LoadedKey {
    /// Reads a JWK file. Where the private part is there it must fit the public one.
    ///
    /// # Errors
    /// When the file cannot be read, holds no Ed25519 JWK, or one that says that it is for something else.
    pub fn read(path: &Path, purpose: Purpose) -> Result<Self, Fault> {
        let bytes = files::read(path, MAX_FILE)?;
        let wrong = |what: &dyn fmt::Display| {
            Fault::new(format!("{}: {what}", path.display()), "make a key with `ropeline keygen`")
        };
        let document = json::parse(&bytes).map_err(|error| wrong(&error))?;
        if let Some(other) = Purpose::said(&document).filter(|said| *said != purpose.name()) {
            let what = format!("{} says that it is for \"{other}\"", path.display());
            let mend = format!("name one that `ropeline keygen {}` has made", purpose.name());
            return Err(Fault::new(what, mend));
        }
        if document.as_object().is_some_and(|members| members.get("d").is_some()) {
            let private = SigningKey::from_jwk(&bytes).map_err(|error| wrong(&error))?;
            Ok(Self { public: private.public_key(), private: Some(private) })
        } else {
            let public = PublicKey::from_jwk(&bytes).map_err(|error| wrong(&error))?;
            Ok(Self { public, private: None })
        }
    }

    /// The part to publish.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// True when the file holds a secret.
    pub fn is_private(&self) -> bool {
        self.private.is_some()
    }
}

/// The keys of one kind of token: one that signs, and all that verify.
#[derive(Debug)]
pub struct KeyRing {
    signer: SigningKey,
    set: KeySet,
}

/// Why keys do not make a ring.
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError {
    /// Not exactly one key is in the state `sign`.
    #[error("{0} keys are in the state \"sign\"; exactly one must be")]
    Signers(usize),
    /// The key that signs has no private part.
    #[error("the key {0} cannot sign: its file has no private part")]
    NotPrivate(String),
    /// Two keys have one name, or there are too many.
    #[error(transparent)]
    Set(#[from] KeySetError),
}

impl KeyRing {
    /// Puts loaded keys together.
    ///
    /// # Errors
    /// When not exactly one key signs, it has no private part, or two keys have the same `kid`.
    pub fn new(keys: Vec<(LoadedKey, KeyState)>) -> Result<Self, KeyRingError> {
        let public: Vec<PublicKey> = keys.iter().map(|(key, _)| key.public.clone()).collect();
        let mut signing: Vec<LoadedKey> =
            keys.into_iter().filter(|(_, state)| *state == KeyState::Sign).map(|(key, _)| key).collect();
        let count = signing.len();
        match (signing.pop(), count) {
            (Some(LoadedKey { private: Some(signer), .. }), 1) => {
                Ok(Self { signer, set: KeySet::new(public)? })
            }
            (Some(LoadedKey { public, .. }), 1) => Err(KeyRingError::NotPrivate(public.kid().to_owned())),
            _ => Err(KeyRingError::Signers(count)),
        }
    }

    /// The key that signs.
    pub fn signer(&self) -> &SigningKey {
        &self.signer
    }

    /// All keys, for verifying.
    pub fn set(&self) -> &KeySet {
        &self.set
    }
}

/// Both rings, and whose invitations are taken. No key is in two of them: an edge that gets the admission keys must not be able to take a ticket's
/// signature for anything.
#[derive(Debug)]
pub struct Keys {
    /// Signs tickets and the documents of a draw.
    pub ticket: KeyRing,
    /// Signs admission tokens.
    pub admission: KeyRing,
    /// Public keys of those who sign invitations to the lanes of sales; none: no invitation is good.
    pub invitation: Option<KeySet>,
}

impl Keys {
    /// The public keys of both rings, as the JWK Set to publish.
    ///
    /// # Errors
    /// When two keys of the two rings have one `kid`; a configuration that loads never has.
    pub fn published(&self) -> Result<KeySet, KeySetError> {
        KeySet::new(self.ticket.set().keys().iter().chain(self.admission.set().keys()).cloned())
    }
}
