use alloc::string::String;

use thiserror::Error;

use crate::json::{self, Object, Value};
use crate::refusal::Refusal;

#[cfg(test)]
mod tests;

/// What ticket and admission token both say (RFC 7519, section 4.1). Times are Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Who signed: the gateway's configured name.
    pub iss: String,
    /// The sale.
    pub aud: String,
    /// The visitor.
    pub sub: String,
    /// The token's own name; the same token is always given the same one.
    pub jti: String,
    /// Issued at.
    pub iat: u64,
    /// Not valid before.
    pub nbf: u64,
    /// Not valid from this second on.
    pub exp: u64,
    /// The sale's epoch when the token was issued. Raising the sale's epoch revokes all older tokens.
    pub epoch: u32,
    /// The visitor's arrival number in the sale.
    pub arrival: u64,
}

/// What a queue ticket says: proof of an arrival number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketClaims {
    /// All of it.
    pub claims: Claims,
}

/// What an admission token says: a pass whose life is the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionClaims {
    /// The part shared with tickets.
    pub claims: Claims,
    /// The visitor's place after the draw.
    pub place: u64,
}

impl AsRef<Claims> for TicketClaims {
    fn as_ref(&self) -> &Claims {
        &self.claims
    }
}

impl AsRef<Claims> for AdmissionClaims {
    fn as_ref(&self) -> &Claims {
        &self.claims
    }
}

impl TicketClaims {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        parse(payload, |claims, _| Some(Self { claims }))
    }
}

impl AdmissionClaims {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        parse(payload, |claims, object| Some(Self { claims, place: integer(object, "place")? }))
    }
}

fn parse<C>(payload: &[u8], finish: impl FnOnce(Claims, &Object<'_>) -> Option<C>) -> Result<C, Refusal> {
    let payload = json::parse(payload).map_err(|_| Refusal::ClaimsInvalid)?;
    payload
        .as_object()
        .and_then(|object| finish(Claims::from_members(object)?, object))
        .ok_or(Refusal::ClaimsInvalid)
}

impl Claims {
    fn from_members(object: &Object<'_>) -> Option<Self> {
        let claims = Self {
            iss: plain(object, "iss")?,
            aud: plain(object, "aud")?,
            sub: plain(object, "sub")?,
            jti: plain(object, "jti")?,
            iat: integer(object, "iat")?,
            nbf: integer(object, "nbf")?,
            exp: integer(object, "exp")?,
            epoch: integer(object, "epoch").and_then(|epoch| u32::try_from(epoch).ok())?,
            arrival: integer(object, "arrival")?,
        };
        (claims.nbf < claims.exp).then_some(claims)
    }
}

pub(crate) fn plain(object: &Object<'_>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).filter(|text| is_plain(text)).map(String::from)
}

pub(crate) fn integer(object: &Object<'_>, name: &str) -> Option<u64> {
    object.get(name).and_then(Value::as_u64)
}

/// Whether a text can go into a header field and come out the same: 1 to 255 bytes, no control characters, no space at
/// either end.
pub(crate) fn is_plain(text: &str) -> bool {
    let at_an_end = |text: Option<char>| text.is_some_and(char::is_whitespace);
    (1..=255).contains(&text.len())
        && !text.chars().any(char::is_control)
        && !at_an_end(text.chars().next())
        && !at_an_end(text.chars().next_back())
}

/// How far clocks may differ, in whole seconds: 5 unless said otherwise, 60 at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leeway(u64);

/// A leeway of more than [`Leeway::MAX_SECONDS`] was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the leeway is more than {} s", Leeway::MAX_SECONDS)]
pub struct LeewayTooLong;

impl Leeway {
    /// The longest leeway.
    pub const MAX_SECONDS: u64 = 60;

    /// A leeway of so many seconds.
    ///
    /// # Errors
    /// More than [`Self::MAX_SECONDS`].
    pub const fn from_seconds(seconds: u64) -> Result<Self, LeewayTooLong> {
        if seconds <= Self::MAX_SECONDS { Ok(Self(seconds)) } else { Err(LeewayTooLong) }
    }

    /// In seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0
    }
}

impl Default for Leeway {
    fn default() -> Self {
        Self(5)
    }
}

/// What a token must say to be accepted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expect<'a> {
    /// `iss`, exactly.
    pub issuer: &'a str,
    /// `aud`, exactly: the sale.
    pub audience: &'a str,
    /// The oldest epoch whose tokens still hold.
    pub min_epoch: u32,
    /// How far clocks may differ.
    pub leeway: Leeway,
}

/// Claims whose signature has been verified, but which may be another issuer's, another sale's, revoked or out of date.
/// That part depends on the moment: keep this, and ask [`Self::accept`] at every use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentic<C> {
    claims: C,
}

impl<C: AsRef<Claims>> Authentic<C> {
    pub(crate) const fn new(claims: C) -> Self {
        Self { claims }
    }

    /// The claims, if they hold at `now` (Unix seconds) for what is expected.
    ///
    /// Valid while `nbf − leeway ≤ now < exp + leeway`; `iat` must not lie ahead either.
    ///
    /// # Errors
    /// The first of issuer, audience, epoch and times that does not hold.
    pub fn accept(&self, expect: &Expect<'_>, now: u64) -> Result<&C, Refusal> {
        let claims = self.claims.as_ref();
        let leeway = expect.leeway.seconds();
        if claims.iss != expect.issuer {
            return Err(Refusal::IssuerRefused);
        }
        if claims.aud != expect.audience {
            return Err(Refusal::AudienceRefused);
        }
        if claims.epoch < expect.min_epoch {
            return Err(Refusal::EpochOutdated);
        }
        if claims.nbf.max(claims.iat) > now.saturating_add(leeway) {
            return Err(Refusal::NotYetValid);
        }
        if now >= claims.exp.saturating_add(leeway) {
            return Err(Refusal::Expired);
        }
        Ok(&self.claims)
    }

    /// The claims as signed, whether or not they hold: to show them, or to know when a kept token is of no more use.
    #[must_use]
    pub const fn unaccepted(&self) -> &C {
        &self.claims
    }
}
