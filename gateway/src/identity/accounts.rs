//! The shop's own accounts: a place follows the `sub` of the shop's JWT to any device.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use quick_cache::sync::Cache;
use serde_json::Value;
use sha2::{Digest, Sha256};

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

/// Verified tokens remembered, so that a signed-in shopper's next request costs no signature.
const REMEMBERED: usize = 16_384;

/// A key set and what was verified with it: a replaced key stops verifying at once.
struct Keys {
    keys: Vec<(Option<String>, DecodingKey)>,
    verified: Cache<[u8; 32], Account>,
}

/// What a verified token says.
#[derive(Clone)]
struct Account {
    subject: String,
    /// Unix seconds.
    expires_at: u64,
}

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
        let keys = self.keys.load();
        let fingerprint = Sha256::digest(token.as_bytes()).into();
        let now = jsonwebtoken::get_current_timestamp();
        if let Some(account) = keys.verified.get(&fingerprint).filter(|account| now < account.expires_at) {
            return Ok(account.subject);
        }
        let account = self.verify(&keys, token)?;
        let subject = account.subject.clone();
        keys.verified.insert(fingerprint, account);
        Ok(subject)
    }

    fn verify(&self, keys: &Keys, token: &str) -> Result<Account, AccountRefusal> {
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

        let fitting = keys.keys.iter().filter(|(kid, key)| {
            key.family() == header.alg.family()
                && (kid.is_none() || header.kid.is_none() || *kid == header.kid)
        });
        let mut refusal = AccountRefusal::UnknownKey;
        for (_, key) in fitting {
            match jsonwebtoken::decode::<BTreeMap<String, Value>>(token, key, &validation) {
                Ok(data) => return account(&self.rules.claim, &data.claims),
                Err(error) => refusal = AccountRefusal::Invalid(error),
            }
        }
        Err(refusal)
    }
}

fn account(claim: &str, claims: &BTreeMap<String, Value>) -> Result<Account, AccountRefusal> {
    let fits = |subject: &&str| {
        (1..=MAX_SUBJECT).contains(&subject.len())
            && !subject.chars().any(char::is_control)
            && subject.trim() == *subject
    };
    let subject = claims.get(claim).and_then(Value::as_str).filter(fits);
    let expires_at = claims.get("exp").and_then(Value::as_u64).unwrap_or(0);
    subject
        .map(|subject| Account { subject: subject.to_owned(), expires_at })
        .ok_or(AccountRefusal::NoSubject)
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
    if keys.is_empty() {
        return Err(AccountKeysError::NoUsableKey);
    }
    Ok(Keys { keys, verified: Cache::new(REMEMBERED) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{EncodingKey, Header};
    use serde_json::json;

    // The key of RFC 8037 appendix A.1, as PKCS #8 (RFC 8410 section 7 wraps the 32 bytes of `d`).
    const PKCS8_PREFIX: [u8; 16] =
        [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    const D: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn signer() -> EncodingKey {
        use base64ct::Encoding as _;
        let seed = base64ct::Base64UrlUnpadded::decode_vec(D).unwrap();
        EncodingKey::from_ed_der(&[PKCS8_PREFIX.as_slice(), &seed].concat())
    }

    fn jwks(kid: &str) -> Vec<u8> {
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": X, "kid": kid}]}).to_string().into_bytes()
    }

    fn accounts() -> Accounts {
        let rules = AccountRules {
            issuer: "https://shop".into(),
            audience: "shop".into(),
            claim: "sub".into(),
            algorithms: vec![Algorithm::EdDSA],
            leeway_s: 5,
        };
        Accounts::new(rules, &jwks("k1")).unwrap()
    }

    fn token(kid: &str, claims: &Value) -> String {
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
        jsonwebtoken::encode(&header, claims, &signer()).unwrap()
    }

    fn claims() -> Value {
        json!({"iss": "https://shop", "aud": "shop", "sub": "alice", "exp": 4_000_000_000_u64})
    }

    #[test]
    fn a_valid_token_names_its_account() {
        assert_eq!(accounts().subject(&token("k1", &claims())).unwrap(), "alice");
    }

    #[test]
    fn anything_wrong_with_a_token_is_refused() {
        let accounts = accounts();
        let with = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            token("k1", &claims)
        };
        for (what, token) in [
            ("another issuer", with("iss", json!("https://other"))),
            ("another audience", with("aud", json!("other"))),
            ("expired", with("exp", json!(1_000_000_000))),
            ("no expiry", with("exp", Value::Null)),
            ("not yet valid", with("nbf", json!(3_999_999_999_u64))),
            ("no account", with("sub", Value::Null)),
            ("an empty account", with("sub", json!(""))),
            ("a number", with("sub", json!(7))),
            ("a control character", with("sub", json!("a\nb"))),
            ("too long", with("sub", json!("x".repeat(256)))),
            ("an unknown key", token("k2", &claims())),
            ("no token", "a.b".to_owned()),
            ("a long one", "x".repeat(9_000)),
        ] {
            assert!(accounts.subject(&token).is_err(), "{what}");
        }
        let good = token("k1", &claims());
        let (signed, _) = good.rsplit_once('.').unwrap();
        assert!(accounts.subject(&format!("{signed}.{}", "A".repeat(86))).is_err(), "forged");
        // Algorithm confusion: the public key used as an HMAC secret.
        let key = EncodingKey::from_secret(X.as_bytes()).unwrap();
        let header = Header { kid: Some("k1".into()), ..Header::new(Algorithm::HS256) };
        let confused = jsonwebtoken::encode(&header, &claims(), &key).unwrap();
        assert!(accounts.subject(&confused).is_err(), "algorithm confusion");
    }

    #[test]
    fn a_key_set_is_replaced_whole_or_not_at_all() {
        let accounts = accounts();
        assert!(accounts.replace_keys(b"{}").is_err());
        assert!(accounts.replace_keys(br#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#).is_err());
        assert!(accounts.subject(&token("k1", &claims())).is_ok());
        accounts.replace_keys(&jwks("k2")).unwrap();
        assert!(accounts.subject(&token("k1", &claims())).is_err());
        assert!(accounts.subject(&token("k2", &claims())).is_ok());
    }
}
