//! What an edge is told: the policy that the gateway itself decides by, and the keys that it signs admissions with.

use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use ropeline_decision::Policy;
use ropeline_edge::{PastExpiry, Settings, SettingsError, Upstream};
use ropeline_token::{AdmissionClaims, Claims, IssueError, KeySet};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::config::{Fault, units};
use crate::keys::Keys;

#[cfg(test)]
mod tests;

/// The audience of the known answer. It has a space in it, so that no sale can bear the name.
const NO_SALE: &str = "known answer";

/// Shortest life of exported settings: whoever renews them must have the time to.
const MIN_LIFE: Duration = Duration::from_secs(60);

/// The same settings are given out for this part of their life, so that whoever polls for them is told only of changes.
const STEPS_OF_A_LIFE: u64 = 4;

/// Makes settings for edges.
#[derive(Debug)]
pub struct Exporter {
    keys: KeySet,
    known_answer: String,
}

/// What is wanted of settings beside policy and keys; as the query of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// `gateway` or `shop`.
    pub send_to: Option<String>,
    /// For example `1h`.
    pub expires_in: Option<String>,
    /// `closed` or `open`.
    pub past_expiry: Option<String>,
}

/// The same, understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Who gets what the edge sends on.
    pub send_to: Upstream,
    /// How long the settings may be relied on; for ever when there is nothing here.
    pub life: Option<Duration>,
    /// What holds from then on.
    pub past_expiry: PastExpiry,
}

// === impl Query ===

impl Query {
    /// As it stands in an address.
    #[must_use]
    pub fn to_text(&self) -> String {
        let members = [
            ("send_to", &self.send_to),
            ("expires_in", &self.expires_in),
            ("past_expiry", &self.past_expiry),
        ];
        let mut text = form_urlencoded::Serializer::new(String::new());
        for (name, value) in members {
            if let Some(value) = value {
                text.append_pair(name, value);
            }
        }
        text.finish()
    }
}

// === impl Wishes ===

impl TryFrom<&Query> for Wishes {
    type Error = Fault;

    fn try_from(query: &Query) -> Result<Self, Fault> {
        let send_to =
            word(query.send_to.as_deref(), "send_to", [Upstream::Gateway, Upstream::Shop], |to| to.as_str())?;
        let past_expiry = word(
            query.past_expiry.as_deref(),
            "past_expiry",
            [PastExpiry::Closed, PastExpiry::Open],
            |then| then.as_str(),
        )?;
        let life = query.expires_in.as_deref().map(units::duration).transpose()?;
        if life.is_some_and(|life| life < MIN_LIFE) {
            return Err(Fault::new(
                "expires_in is too short to renew the settings in time",
                format!("give {}s at least", MIN_LIFE.as_secs()),
            ));
        }
        if life.is_none() && query.past_expiry.is_some() {
            return Err(Fault::new("past_expiry has no meaning without expires_in", "give expires_in, too"));
        }
        Ok(Self { send_to, life, past_expiry })
    }
}

fn word<T: Copy + Default>(
    text: Option<&str>,
    name: &str,
    values: [T; 2],
    spelling: impl Fn(&T) -> &'static str,
) -> Result<T, Fault> {
    let Some(text) = text else { return Ok(T::default()) };
    let found = values.iter().find(|value| spelling(value) == text);
    found.copied().ok_or_else(|| {
        let [one, other] = values.each_ref().map(spelling);
        Fault::new(format!("{name} is {text:?}"), format!("write {one} or {other}"))
    })
}

// === impl Exporter ===

impl Exporter {
    /// Exports the public admission keys of these, with a token that the one which signs has signed. No gateway and no
    /// edge would let anybody in with it: it expired in 1970, and is for no sale.
    ///
    /// # Errors
    /// When that token cannot be signed, which only a broken build brings about.
    pub fn new(keys: &Keys) -> Result<Self, IssueError> {
        let known_answer = keys.admission.signer().sign_admission(&AdmissionClaims {
            claims: Claims {
                iss: NO_SALE.to_owned(),
                aud: NO_SALE.to_owned(),
                sub: NO_SALE.to_owned(),
                jti: NO_SALE.to_owned(),
                iat: 0,
                nbf: 0,
                exp: 1,
                epoch: 0,
                arrival: 0,
            },
            place: 0,
        })?;
        Ok(Self { keys: keys.admission.set().clone(), known_answer })
    }

    /// The token that the signing key has signed.
    #[must_use]
    pub fn known_answer(&self) -> &str {
        &self.known_answer
    }

    /// Settings with this policy, without an end.
    ///
    /// # Errors
    /// When the known answer does not verify with the keys, which only a broken build brings about.
    pub fn settings(&self, policy: Policy) -> Result<Settings, SettingsError> {
        Settings::new(policy, self.keys.clone()).knowing(self.known_answer.clone())
    }
}

/// Settings as they are wanted at `now` (Unix seconds).
///
/// They are relied on for the life that is wanted, and up to a quarter of it longer: the end moves on in steps, and
/// between two of them the same document is given out.
#[must_use]
pub fn fulfil(settings: Settings, wishes: &Wishes, now: u64) -> Settings {
    let settings = settings.sending_to(wishes.send_to);
    let Some(life) = wishes.life.map(|life| life.as_secs()) else { return settings };
    let step = (life / STEPS_OF_A_LIFE).max(1);
    let at = now.div_ceil(step).saturating_mul(step).saturating_add(life);
    settings.until(at, wishes.past_expiry)
}

/// The entity tag (RFC 9110, section 8.8.3) of a document.
#[must_use]
pub fn entity_tag(document: &str) -> String {
    let digest = Sha256::digest(document.as_bytes());
    format!("\"{}\"", Base64UrlUnpadded::encode_string(&digest))
}
