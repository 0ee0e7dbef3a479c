//! A shop that has accounts: it signs its visitors' JWTs, and publishes the key that checks them.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::Settings;

/// The cookie that holds the account's token.
pub const COOKIE: &str = "shop-account";

const ISSUER: &str = "https://accounts.shop.test";
const AUDIENCE: &str = "shop";

/// The private key of RFC 8410, section 10.3, as PKCS #8.
const PRIVATE: [u8; 48] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20, 0xd4,
    0xee, 0x72, 0xdb, 0xf9, 0x13, 0x58, 0x4a, 0xd5, 0xb6, 0xd8, 0xf1, 0xf7, 0x69, 0xf8, 0xad, 0x3a, 0xfe,
    0x7c, 0x28, 0xcb, 0xf1, 0xd4, 0xfb, 0xe0, 0x97, 0xa8, 0x8f, 0x44, 0x75, 0x58, 0x42,
];
/// Its public key, from section 10.1.
const PUBLIC: &str = "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE";

/// The shop's accounts.
#[derive(Debug)]
pub struct Accounts {
    folder: TempDir,
}

/// A key that is nobody's: the one of RFC 8410, to forge with.
pub fn published_key() -> EncodingKey {
    EncodingKey::from_ed_der(&PRIVATE)
}

impl Accounts {
    /// Publishes the key.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the accounts' key set");
        let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "shop-1", "x": PUBLIC }] });
        fs::write(folder.path().join("jwks.json"), set.to_string()).expect("a key set");
        Self { folder }
    }

    /// The same settings for a gateway in front of a shop with these accounts.
    #[must_use]
    pub fn settings(&self, settings: Settings) -> Settings {
        let jwks = self.folder.path().join("jwks.json");
        settings
            .set("visitor.account", "cookie", &format!("{COOKIE:?}"))
            .set("visitor.account", "jwks", &format!("{:?}", jwks.display().to_string()))
            .set("visitor.account", "issuer", &format!("{ISSUER:?}"))
            .set("visitor.account", "audience", &format!("{AUDIENCE:?}"))
    }

    /// What the shop gives to a device on which the account `name` signs in, good for `seconds`. Each sign-in gets a
    /// token of its own.
    pub fn sign_in(&self, name: &str, seconds: i64) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        let now = i64::try_from(since.as_secs()).expect("a date to come");
        let claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": name, "iat": now, "exp": now + seconds,
            "jti": since.as_nanos().to_string(),
        });
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some("shop-1".to_owned());
        sign(&header, &claims)
    }
}

impl Default for Accounts {
    fn default() -> Self {
        Self::new()
    }
}

fn sign(header: &Header, claims: &Value) -> String {
    encode(header, claims, &published_key()).expect("a token")
}
