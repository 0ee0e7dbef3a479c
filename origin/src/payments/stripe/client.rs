//! Stripe over HTTP: requests, their repetition, and errors by kind.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Answers are read as this version of the API writes them, whatever the account's default is.
const VERSION: &str = "2024-06-20";
/// Requests sent for one question; the reconciler asks again later.
const TRIES: u32 = 3;
/// The first pause between two of them; each next one is twice as long, and up to half of it is random.
const PAUSE: Duration = Duration::from_millis(150);
/// No pause is longer, even where Stripe asks for one: a shopper waits.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Keys that are used for one thing; see [`Client::post`].
const MOST_KEYS: u32 = 9;

/// Why a question was not answered with what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Nobody knows whether Stripe did what was asked: no answer came, or none that could be read.
    #[error("no answer: {0}")]
    Lost(String),
    /// Stripe failed; what was asked may have been done.
    #[error("Stripe failed with status {0}")]
    Failed(u16),
    /// Stripe failed when it was first asked this by this key, and repeats that; what was asked may have been done.
    #[error("Stripe failed with status {0} before")]
    FailedBefore(u16),
    /// Too many requests, or another one is at the same object. Nothing was done.
    #[error("Stripe is busy: {0}")]
    Busy(String),
    /// The same key was used with other parameters: a fault of ours. Nothing was done.
    #[error("the idempotency key belongs to another request")]
    KeyReused,
    /// The key to the account is wrong, or not allowed to do this: a fault of the operator's. Nothing was done.
    #[error("Stripe does not accept the secret key (status {0})")]
    Unauthorised(u16),
    /// The card was refused, in words made for the shopper.
    #[error("the card was refused ({code})")]
    Card {
        /// As `card_declined`.
        code: String,
        /// For the shopper.
        message: String,
    },
    /// What was asked makes no sense as things stand.
    #[error("Stripe refused the request ({code})")]
    Invalid {
        /// As `payment_intent_unexpected_state`; empty where Stripe has none.
        code: String,
    },
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answered<T> {
    pub(super) body: T,
    /// It is what the first request of this key was answered, not what is so now.
    pub(super) replayed: bool,
}

/// A client of one Stripe account; cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    base: String,
    secret_key: String,
    timeout: Duration,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize, Default)]
struct ErrorObject {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

// === impl Client ===

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(http: reqwest::Client, base: &str, secret_key: &str, timeout: Duration) -> Self {
        Self { http, base: base.trim_end_matches('/').to_owned(), secret_key: secret_key.to_owned(), timeout }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        self.ask(Method::GET, path, None).await.map(|answered| answered.body)
    }

    /// Has something done once for `key`, however often it is asked for.
    ///
    /// Stripe keeps the first answer of a key for a day, also where that was a failure of its own, which would then be
    /// all that is ever heard. Such a key is left for a next one. That is safe because nothing here leans on keys alone: an
    /// intent is confirmed, captured and cancelled once whoever asks, a charge is refunded to its amount and no further,
    /// and an intent that was created twice is confirmed once, by the one name that the shop's books have for it.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        key: &str,
    ) -> Result<Answered<T>, Fault> {
        let mut answer = self.ask(Method::POST, path, Some((fields, key))).await;
        for next in 2..=MOST_KEYS {
            let Err(Fault::FailedBefore(_)) = answer else { break };
            answer = self.ask(Method::POST, path, Some((fields, &format!("{key}-{next}")))).await;
        }
        answer
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        post: Option<(&[(&str, &str)], &str)>,
    ) -> Result<Answered<T>, Fault> {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let (fault, wait) = match self.once(method.clone(), path, post).await {
                Ok(answered) => return Ok(answered),
                Err(refused) => refused,
            };
            let Some(asked_for) = wait.filter(|_| tries < TRIES) else { return Err(fault) };
            tracing::debug!(%method, path, %fault, "asking Stripe again");
            tokio::time::sleep(jittered(pause).max(asked_for).min(LONGEST_PAUSE)).await;
            pause = pause.saturating_mul(2);
            tries += 1;
        }
    }

    /// One request. With a fault: the least time to wait before the same may be asked again, `None` if it need not be.
    async fn once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        post: Option<(&[(&str, &str)], &str)>,
    ) -> Result<Answered<T>, (Fault, Option<Duration>)> {
        let lost =
            |error: reqwest::Error| (Fault::Lost(error.without_url().to_string()), Some(Duration::ZERO));
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .timeout(self.timeout)
            .bearer_auth(&self.secret_key)
            .header("stripe-version", VERSION);
        if let Some((fields, key)) = post {
            let form = serde_urlencoded::to_string(fields)
                .map_err(|error| (Fault::Lost(error.to_string()), None))?;
            request = request
                .header("idempotency-key", key)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form);
        }
        let response = request.send().await.map_err(lost)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(lost)?;
        let replayed = headers.get("idempotent-replayed").is_some_and(|line| line == "true");
        if status.is_success() {
            return match serde_json::from_slice(&body) {
                Ok(body) => Ok(Answered { body, replayed }),
                // Without the text of the error, which may quote the answer.
                Err(_) => Err((Fault::Lost("the answer cannot be read".to_owned()), None)),
            };
        }
        let error = serde_json::from_slice(&body)
            .map_or_else(|_| ErrorObject::default(), |body: ErrorBody| body.error);
        let fault = match fault(status, error) {
            Fault::Failed(status) if replayed => Fault::FailedBefore(status),
            fault => fault,
        };
        let again = match headers.get("stripe-should-retry").and_then(|line| line.to_str().ok()) {
            // Nothing else will ever be said to this key.
            _ if replayed => false,
            Some("true") => true,
            Some("false") => false,
            _ => matches!(fault, Fault::Busy(_) | Fault::Failed(_)),
        };
        Err((fault, again.then(|| retry_after(&headers))))
    }
}

fn fault(status: StatusCode, error: ErrorObject) -> Fault {
    let code = error.code.unwrap_or_default();
    match (status.as_u16(), error.r#type.as_str()) {
        (401 | 403, _) => Fault::Unauthorised(status.as_u16()),
        (429, _) => Fault::Busy(if code.is_empty() { "rate_limit".to_owned() } else { code }),
        (409, _) => Fault::Busy(if code.is_empty() { "conflict".to_owned() } else { code }),
        (500.., _) => Fault::Failed(status.as_u16()),
        (_, "idempotency_error") => Fault::KeyReused,
        (402, _) | (_, "card_error") => Fault::Card {
            code,
            message: error.message.unwrap_or_else(|| "The card was declined.".to_owned()),
        },
        _ => Fault::Invalid { code },
    }
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let line = headers.get(RETRY_AFTER).and_then(|line| line.to_str().ok());
    Duration::from_secs(line.and_then(|line| line.trim().parse().ok()).unwrap_or(0))
}

/// So that many who were refused at once do not come back at once.
fn jittered(pause: Duration) -> Duration {
    pause / 2 + pause.mul_f64(fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: &str, code: &str) -> ErrorObject {
        ErrorObject {
            r#type: kind.to_owned(),
            code: (!code.is_empty()).then(|| code.to_owned()),
            message: Some("No.".to_owned()),
        }
    }

    /// Kinds and statuses as <https://docs.stripe.com/api/errors> and <https://docs.stripe.com/error-low-level> list them.
    #[test]
    fn errors_are_told_apart_by_status_and_type() {
        for (status, kind, code, expected) in [
            (
                402,
                "card_error",
                "card_declined",
                Fault::Card { code: "card_declined".into(), message: "No.".into() },
            ),
            (
                400,
                "invalid_request_error",
                "payment_intent_unexpected_state",
                Fault::Invalid { code: "payment_intent_unexpected_state".into() },
            ),
            (
                404,
                "invalid_request_error",
                "resource_missing",
                Fault::Invalid { code: "resource_missing".into() },
            ),
            (400, "idempotency_error", "", Fault::KeyReused),
            (
                409,
                "idempotency_error",
                "idempotency_key_in_use",
                Fault::Busy("idempotency_key_in_use".into()),
            ),
            (429, "invalid_request_error", "rate_limit", Fault::Busy("rate_limit".into())),
            (429, "invalid_request_error", "lock_timeout", Fault::Busy("lock_timeout".into())),
            (401, "invalid_request_error", "", Fault::Unauthorised(401)),
            (500, "api_error", "", Fault::Failed(500)),
            (503, "", "", Fault::Failed(503)),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(fault(status, error(kind, code)), expected, "{status} {kind} {code}");
        }
    }

    #[test]
    fn the_account_s_key_is_in_no_log() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::new(
            reqwest::Client::new(),
            "https://api.stripe.com/",
            "sk_test_secret",
            Duration::from_secs(1),
        );
        let shown = format!("{client:?}");
        assert!(!shown.contains("secret") && shown.contains("https://api.stripe.com\""), "{shown}");
    }
}
