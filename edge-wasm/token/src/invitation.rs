use alloc::string::String;

use crate::claims::{Leeway, integer, is_plain, plain};
use crate::json::{self, Value};
use crate::refusal::Refusal;

#[cfg(test)]
mod tests;

/// What an invitation says: its bearer may join a lane of a sale. Whoever knows the shop's customers signs it; a gateway
/// has public keys alone. Times are Unix seconds. Other claims, `iss` and `iat` among them, are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationClaims {
    /// The sale.
    pub aud: String,
    /// The lane's name.
    pub lane: String,
    /// The invitation's own name.
    pub jti: String,
    /// The visitor it is for; none: whoever shows it first.
    pub sub: Option<String>,
    /// Not valid before; none: valid from the start.
    pub nbf: Option<u64>,
    /// Not valid from this second on.
    pub exp: u64,
}

impl InvitationClaims {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let payload = json::parse(payload).map_err(|_| Refusal::ClaimsInvalid)?;
        let read = || {
            let object = payload.as_object()?;
            // One that is there and is no such thing is not left out.
            let sub = match object.get("sub") {
                None => None,
                Some(sub) => Some(sub.as_str().filter(|sub| is_plain(sub)).map(String::from)?),
            };
            let nbf = match object.get("nbf") {
                None => None,
                Some(nbf) => Some(Value::as_u64(nbf)?),
            };
            let claims = Self {
                aud: plain(object, "aud")?,
                lane: plain(object, "lane")?,
                jti: plain(object, "jti")?,
                sub,
                nbf,
                exp: integer(object, "exp")?,
            };
            claims.nbf.is_none_or(|nbf| nbf < claims.exp).then_some(claims)
        };
        read().ok_or(Refusal::ClaimsInvalid)
    }

    /// Checks that the invitation is to this sale and holds at `now` (Unix seconds).
    ///
    /// # Errors
    /// The first of audience and times that does not hold.
    pub fn accept(&self, sale: &str, leeway: Leeway, now: u64) -> Result<(), Refusal> {
        if self.aud != sale {
            return Err(Refusal::AudienceRefused);
        }
        if self.nbf.is_some_and(|nbf| nbf > now.saturating_add(leeway.seconds())) {
            return Err(Refusal::NotYetValid);
        }
        if now >= self.exp.saturating_add(leeway.seconds()) {
            return Err(Refusal::Expired);
        }
        Ok(())
    }
}
