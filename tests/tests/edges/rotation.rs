//! Keys that come and go while shoppers are served.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_dalek::{Signer, SigningKey};
use ropeline_tests::raw::{Outcome, exchange};
use serde_json::{Value, json};

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// A key and the name it is published under.
pub(crate) struct Key {
    kid: &'static str,
    signing: SigningKey,
}

/// The old key and the new one.
pub(crate) fn keys() -> [Key; 2] {
    [("old", 1), ("new", 2)].map(|(kid, seed)| Key { kid, signing: SigningKey::from_bytes(&[seed; 32]) })
}

impl Key {
    /// One that is not published, under the name of another.
    pub(crate) fn forger_of(other: &Self) -> Self {
        Self { kid: other.kid, signing: SigningKey::from_bytes(&[9; 32]) }
    }

    /// The public key.
    pub(crate) fn jwk(&self) -> Value {
        let x = Base64UrlUnpadded::encode_string(self.signing.verifying_key().as_bytes());
        json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": self.kid, "use": "sig" })
    }

    /// A token that holds for an hour.
    pub(crate) fn token(&self) -> String {
        self.token_of_epoch(0)
    }

    /// The same of a later epoch.
    pub(crate) fn token_of_epoch(&self, epoch: u32) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
        let encode = |document: Value| Base64UrlUnpadded::encode_string(document.to_string().as_bytes());
        let head = encode(json!({ "alg": "EdDSA", "kid": self.kid, "typ": "ropeline-admission+jwt" }));
        let claims = encode(json!({
            "iss": "https://shop.example", "aud": "drop", "sub": "visitor", "jti": "drop-0-1",
            "iat": now, "nbf": now, "exp": now + 3_600, "epoch": epoch, "arrival": 1, "place": 1,
        }));
        let text = format!("{head}.{claims}");
        let signature = self.signing.sign(text.as_bytes()).to_bytes();
        format!("{text}.{}", Base64UrlUnpadded::encode_string(&signature))
    }
}

/// Settings for an edge in front of the shop that knows these keys.
pub(crate) fn settings(keys: &[&Key]) -> String {
    let published: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
    json!({
        "version": 1,
        "policy": {
            "issuer": "https://shop.example", "api_prefix": "/api/v1/queue", "secure_cookies": true,
            "sales": [{ "sale": "drop", "epoch": 0, "gate": "queue", "routes": [{ "path": "/sale" }],
                        "page_status": 503, "other_status": 429 }],
        },
        "keys": { "keys": published },
        "send_to": "shop",
    })
    .to_string()
}

/// How a visit to the sale with this token comes out: `None` when nobody answered.
pub(crate) async fn visit(edge: SocketAddr, token: &str) -> Option<u16> {
    let request = format!(
        "GET /sale HTTP/1.1\r\nHost: shop.example\r\nRopeline-Admission: {token}\r\nConnection: close\r\n\r\n"
    );
    match exchange(edge, request.as_bytes(), LIMIT).await {
        Outcome::Answer(response) => Some(response.status),
        Outcome::Closed(_) | Outcome::Silence(_) => None,
    }
}

/// Visits with this token one after another until `change` has come about. Every one of them is admitted.
///
/// Answers what came of the change, and how many visits there were.
pub(crate) async fn admitted_throughout<T>(
    edge: SocketAddr,
    token: &str,
    change: impl Future<Output = T>,
) -> (T, usize) {
    tokio::pin!(change);
    let mut visits = 0;
    loop {
        tokio::select! {
            status = visit(edge, token) => {
                assert_eq!(status, Some(200), "an admitted visitor, after {visits} others");
                visits += 1;
            }
            outcome = &mut change => return (outcome, visits),
        }
    }
}
