//! Events on their way: signed, repeated until they are taken, in no order.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::plan::{Plan, happens};

/// Pauses between two tries, and how long there are any.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(3 * 24 * 3_600);

/// The header's value for `body`, signed at `time` (Unix seconds) with each of `secrets`.
#[must_use]
pub fn sign(secrets: &[&str], body: &str, time: u64) -> String {
    let mut header = format!("t={time}");
    for secret in secrets {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { continue };
        mac.update(format!("{time}.{body}").as_bytes());
        header.push_str(",v1=");
        header.extend(mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")));
    }
    header
}

/// Sends an event by `plan`, until it is taken or three days of the plan's time are over.
pub(crate) async fn deliver(
    client: reqwest::Client,
    url: String,
    secret: String,
    event: Value,
    plan: Plan,
    mut chance: fastrand::Rng,
) {
    if happens(&mut chance, plan.events_lost) {
        return;
    }
    let body = event.to_string();
    tokio::time::sleep(plan.lag(&mut chance)).await;
    let mut to_go = if happens(&mut chance, plan.events_twice) { 2 } else { 1 };
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    while to_go > 0 && waited < PATIENCE {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let sent = client
            .post(&url)
            .header("stripe-signature", sign(&[&secret], &body, now))
            .header("content-type", "application/json")
            .body(body.clone())
            .send()
            .await;
        if sent.is_ok_and(|answer| answer.status().is_success()) {
            to_go -= 1;
            continue;
        }
        tokio::time::sleep(pause / plan.speed.max(1)).await;
        waited += pause;
        pause = pause.saturating_mul(2).min(Duration::from_secs(4 * 3_600));
    }
}
