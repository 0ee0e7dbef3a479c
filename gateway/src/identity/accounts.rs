//! The shop's own accounts: a place follows the `sub` of the shop's JWT to any device.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;

/// Longest account token looked at, in bytes.
const MAX_TOKEN: usize = 8 * 1024;
/// Longest subject taken, in bytes: it travels in every ticket and admission token.
const MAX_SUBJECT: usize = 255;

/// Why an account token was refused. Clients see only the code.
#[derive(Debug, thiserror::Error)]
pub enum AccountRefusal {
    /// The token is no JWT, or longer than 8 KiB.
    #[error("the account token cannot be read")]
    Malformed,
    /// No key of the set fits the token's `kid` and algorithm.
    #[error("no key for the account token")]
    UnknownKey,
    /// Signature, time, issuer or audience is wrong.
    #[error("the account token is not valid: {0}")]
    Invalid(#[from] jsonwebtoken::errors::Error),
    /// The claim that names the account is missing, empty, too long or no text.
    #[error("the account token names no account")]
    NoSubject,
}

/// Why a key set was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AccountKeysError {
    /// Not a JWK Set.
    #[error("not a JWK Set (RFC 7517): {0}")]
    Json(#[from] serde_json::Error),
    /// No key that can verify one of the accepted algorithms.
    #[error("the set has no public key for any of the accepted algorithms")]
    NoUsableKey,
}

/// What the shop's tokens must satisfy.
#[derive(Clone, Debug)]
pub struct AccountRules {
    /// Accepted `iss`.
    pub issuer: String,
    /// Accepted `aud`.
    pub audience: String,
    /// The claim that names the account; usually `sub`.
    pub claim: String,
    /// Accepted signature algorithms, none of them symmetric.
    pub algorithms: Vec<Algorithm>,
    /// Tolerated clock difference, in seconds.
    pub leeway_s: u64,
}

struct Keys(Vec<(Option<String>, DecodingKey)>);

/// Verifies account tokens against the shop's current key set.
pub struct Accounts {
    rules: AccountRules,
    keys: ArcSwap<Keys>,
}

impl Accounts {
    /// Starts with the given JWK Set.
    ///
    /// # Errors
    /// When the set cannot be read or holds no usable key.
    pub fn new(rules: AccountRules, jwks: &[u8]) -> Result<Self, AccountKeysError> {
        let keys = parse_keys(jwks, &rules)?;
        Ok(Self { rules, keys: ArcSwap::from_pointee(keys) })
    }

    /// Replaces the key set.
    ///
    /// # Errors
    /// When the new set is not usable; the old one then stays.
    pub fn replace_keys(&self, jwks: &[u8]) -> Result<(), AccountKeysError> {
        self.keys.store(Arc::new(parse_keys(jwks, &self.rules)?));
        Ok(())
    }

    /// The account a token names.
    ///
    /// # Errors
    /// When the token is not a valid one of the shop's.
    pub fn subject(&self, token: &str) -> Result<String, AccountRefusal> {
        if token.len() > MAX_TOKEN {
            return Err(AccountRefusal::Malformed);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| AccountRefusal::Malformed)?;
        if !self.rules.algorithms.contains(&header.alg) {
            return Err(AccountRefusal::UnknownKey);
        }
        let mut validation = Validation::new(header.alg);
        validation.leeway = self.rules.leeway_s;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.rules.issuer]);
        validation.set_audience(&[&self.rules.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);

        let keys = self.keys.load();
        let fitting = keys.0.iter().filter(|(kid, key)| {
            key.family() == header.alg.family()
                && (kid.is_none() || header.kid.is_none() || *kid == header.kid)
        });
        let mut refusal = AccountRefusal::UnknownKey;
        for (_, key) in fitting {
            match jsonwebtoken::decode::<BTreeMap<String, Value>>(token, key, &validation) {
                Ok(data) => {
                    return match data.claims.get(&self.rules.claim) {
                        Some(Value::String(subject))
                            if (1..=MAX_SUBJECT).contains(&subject.len())
                                && !subject.chars().any(char::is_control) =>
                        {
                            Ok(subject.clone())
                        }
                        _ => Err(AccountRefusal::NoSubject),
                    };
                }
                Err(error) => refusal = AccountRefusal::Invalid(error),
            }
        }
        Err(refusal)
    }
}

fn parse_keys(jwks: &[u8], rules: &AccountRules) -> Result<Keys, AccountKeysError> {
    let set: JwkSet = serde_json::from_slice(jwks)?;
    let keys: Vec<_> = set
        .keys
        .iter()
        // A symmetric key in a public set would let anybody who reads the set sign.
        .filter(|jwk| !matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_)))
        .filter_map(|jwk| DecodingKey::from_jwk(jwk).ok().map(|key| (jwk.common.key_id.clone(), key)))
        .filter(|(_, key)| rules.algorithms.iter().any(|algorithm| algorithm.family() == key.family()))
        .collect();
    if keys.is_empty() { Err(AccountKeysError::NoUsableKey) } else { Ok(Keys(keys)) }
}
