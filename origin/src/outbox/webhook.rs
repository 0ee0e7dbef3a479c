//! Events as signed webhooks.

use std::error::Error as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use serde_json::{Value, json};

use super::{Outcome, signing};
use crate::config::WebhookConfig;
use crate::store::Leased;

/// An answer up to this is read, so that its connection serves again.
const WORTH_READING: u64 = 65_536;
/// No receiver keeps an event waiting for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// An address that events are sent to.
#[derive(Clone)]
pub(super) struct Webhook {
    client: reqwest::Client,
    config: WebhookConfig,
}

// === impl Webhook ===

impl Webhook {
    /// # Errors
    /// When TLS cannot be set up.
    pub(super) fn new(config: WebhookConfig) -> Result<Self, reqwest::Error> {
        Ok(Self { client: crate::client::new(&config.url)?, config })
    }

    /// How long a delivery takes at most.
    pub(super) fn patience(&self) -> Duration {
        self.config.timeout
    }

    /// Sends an event, and waits until it is taken.
    pub(super) async fn deliver(&self, event: &Leased) -> Outcome {
        let Ok(body) = body(event) else {
            return Outcome::Never { why: "what it says is no JSON".to_owned() };
        };
        let now = SystemTime::now();
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let sent = self
            .client
            .post(&self.config.url)
            .timeout(self.config.timeout)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &event.id)
            .header("webhook-timestamp", seconds)
            .header(
                "webhook-signature",
                signing::sign(&self.config.secrets, &event.id, seconds, body.as_bytes()),
            )
            .body(body)
            .send()
            .await;
        match sent {
            Ok(answer) => {
                let (status, wait) = (answer.status(), answer.headers().get(RETRY_AFTER).cloned());
                if answer.content_length().is_some_and(|length| length <= WORTH_READING) {
                    let _ = answer.bytes().await;
                }
                let wait = wait.and_then(|value| retry_after(value.to_str().ok()?, now));
                judge(status, wait)
            }
            Err(error) if error.is_connect() => Outcome::Unreachable { why: reason(&error) },
            Err(error) => Outcome::Failed { why: reason(&error), after: None, down: true },
        }
    }
}

/// What an answer means for the event.
fn judge(status: StatusCode, after: Option<Duration>) -> Outcome {
    let why = format!("status {}", status.as_u16());
    match status {
        _ if status.is_success() => Outcome::Taken,
        StatusCode::GONE => Outcome::Never { why },
        // The receiver's own trouble is every event's.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            Outcome::Failed { why, after, down: true }
        }
        _ => Outcome::Failed { why, after, down: status.is_server_error() },
    }
}

/// What went wrong, without the address: it may have a key in it.
fn reason(error: &reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(|cause| cause.source()) {
        cause = Some(deeper);
    }
    cause.map_or_else(|| what.to_owned(), |cause| format!("{what}: {cause}"))
}

/// The wait that a `Retry-After` asks for (RFC 9110, section 10.2.3): seconds, or a date.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let wait = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        value.parse().map_or(LONGEST_WAIT, Duration::from_secs)
    } else {
        httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST_WAIT))
}

/// As the scheme recommends: what happened (`type`), when, and `data`. The same bytes at each try.
fn body(event: &Leased) -> Result<String, serde_json::Error> {
    let Leased { id, aggregate, seq, kind, payload, created_at, .. } = event;
    let envelope = json!({
        "type": kind,
        "timestamp": rfc3339(*created_at),
        "id": id,
        "aggregate": aggregate,
        "seq": seq,
        "data": serde_json::from_str::<Value>(payload)?,
    });
    Ok(envelope.to_string())
}

/// Unix milliseconds as RFC 3339 in UTC, by H. Hinnant's `civil_from_days`.
fn rfc3339(unix_ms: i64) -> String {
    let (days, ms) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000));
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_date_writes_them() {
        // date -u -d @951782400.123 +%FT%T.%3NZ
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
        }
    }

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_by_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_717);
        let seconds = |value| retry_after(value, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(60));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:48:36 GMT"), Some(0), "it is over");
        assert_eq!(seconds("99999999999999999999"), Some(86_400));
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("-1"), None);
    }

    #[test]
    fn answers_are_told_apart() {
        let code = |status: u16| judge(StatusCode::from_u16(status).unwrap(), None);
        for taken in [200, 201, 202, 204] {
            assert_eq!(code(taken), Outcome::Taken);
        }
        assert!(matches!(code(410), Outcome::Never { .. }));
        // A redirect is not followed: what is sent there was not agreed on.
        for own in [301, 302, 307, 308, 400, 401, 404, 422] {
            assert!(matches!(code(own), Outcome::Failed { down: false, .. }), "{own}");
        }
        for down in [408, 429, 500, 502, 503, 504] {
            assert!(matches!(code(down), Outcome::Failed { down: true, .. }), "{down}");
        }
    }
}
