//! Signed webhooks, in Stripe's scheme: `t=UNIX_SECONDS,v1=HEX[,v1=HEX…]`, each `v1` the HMAC-SHA-256 of
//! `UNIX_SECONDS.RAW_BODY`. Several `v1` stand side by side while a secret is being changed; other schemes are ignored.
//! See <https://docs.stripe.com/webhooks#verify-manually>.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How far a signature's time may be from ours, in seconds.
pub(crate) const TOLERANCE: u64 = 300;
/// More signatures than this are not looked at.
const MOST: usize = 8;

/// Why a webhook is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    /// No header, or more than one.
    #[error("exactly one header with the signature is needed")]
    Missing,
    /// Not `t=…,v1=…`.
    #[error("the signature is not of the form t=SECONDS,v1=HEX")]
    Malformed,
    /// None of the `v1` fits body and secret.
    #[error("the signature does not fit the body")]
    Mismatch,
    /// Made too long ago, or in the future.
    #[error("the signature's time is more than {TOLERANCE} s away")]
    Stale,
}

/// The secret that payment service and shop share.
#[derive(Clone)]
pub(crate) struct WebhookSecret(Hmac<Sha256>);

// === impl WebhookSecret ===

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

impl WebhookSecret {
    /// A secret of at least 16 characters; `None` if it is shorter, or has others than ASCII's visible ones.
    #[must_use]
    pub(crate) fn new(secret: &str) -> Option<Self> {
        if secret.len() < 16 || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        Hmac::new_from_slice(secret.as_bytes()).ok().map(Self)
    }

    fn mac(&self, time: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(time.as_bytes());
        mac.update(b".");
        mac.update(body);
        mac
    }

    /// The header's value for `body`, signed at `now` (Unix seconds).
    #[must_use]
    pub(crate) fn sign(&self, body: &[u8], now: u64) -> String {
        let mac = self.mac(&now.to_string(), body).finalize().into_bytes();
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t={now},v1={hex}")
    }
}

/// Checks a header's value against the raw body at `now` (Unix seconds). Any of `secrets` may have signed: there are two
/// while one is being replaced by the other.
///
/// # Errors
/// When the value is malformed, no signature fits, or it is more than [`TOLERANCE`] away. The time is looked at
/// only after a signature has fitted.
pub(crate) fn verify(
    secrets: &[WebhookSecret],
    header: &str,
    body: &[u8],
    now: u64,
) -> Result<(), SignatureError> {
    let mut time = None;
    let mut signatures = Vec::new();
    for item in header.split(',') {
        match item.split_once('=').ok_or(SignatureError::Malformed)? {
            ("t", _) if time.is_some() => return Err(SignatureError::Malformed),
            ("t", text) => time = Some(text),
            ("v1", hex) if signatures.len() < MOST => signatures.push(hex),
            _ => {}
        }
    }
    let time = time.ok_or(SignatureError::Malformed)?;
    if time.is_empty() || !time.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SignatureError::Malformed);
    }
    let at: u64 = time.parse().map_err(|_| SignatureError::Malformed)?;
    if signatures.is_empty() {
        return Err(SignatureError::Malformed);
    }
    let fits = signatures.iter().filter_map(|hex| unhex(hex)).any(|signature| {
        // `verify_slice` compares in constant time.
        secrets.iter().any(|secret| secret.mac(time, body).verify_slice(&signature).is_ok())
    });
    if !fits {
        return Err(SignatureError::Mismatch);
    }
    if now.abs_diff(at) > TOLERANCE {
        return Err(SignatureError::Stale);
    }
    Ok(())
}

fn unhex(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    base16(hex.as_bytes(), &mut bytes).then_some(bytes)
}

fn base16(hex: &[u8], out: &mut [u8; 32]) -> bool {
    fn digit(byte: u8) -> Option<u8> {
        match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        }
    }
    hex.len() == 64
        && out.iter_mut().zip(hex.chunks_exact(2)).all(|(out, pair)| match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => {
                *out = high << 4 | low;
                true
            }
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"id":"evt_1"}"#;
    /// `printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_0123456789abcdef`
    const OPENSSL: &str = "dea1657bd5053cb0f8a75ebf0bd3d22e0cdeb79563b44db6b88864e522fb8bc4";

    fn secret() -> WebhookSecret {
        WebhookSecret::new("whsec_0123456789abcdef").unwrap()
    }

    #[test]
    fn agrees_with_openssl() {
        assert_eq!(secret().sign(BODY, 1_700_000_000), format!("t=1700000000,v1={OPENSSL}"));
    }

    #[test]
    fn a_changed_body_time_or_secret_is_refused() {
        let header = secret().sign(BODY, 1_700_000_000);
        assert_eq!(verify(&[secret()], &header, BODY, 1_700_000_000), Ok(()));
        assert_eq!(verify(&[secret()], &header, b"{}", 1_700_000_000), Err(SignatureError::Mismatch));
        let other = WebhookSecret::new("whsec_0123456789abcdeg").unwrap();
        assert_eq!(verify(&[other], &header, BODY, 1_700_000_000), Err(SignatureError::Mismatch));
        let moved = header.replace("t=1700000000", "t=1700000001");
        assert_eq!(verify(&[secret()], &moved, BODY, 1_700_000_000), Err(SignatureError::Mismatch));
    }

    #[test]
    fn the_time_counts_to_the_second_on_both_sides() {
        let header = secret().sign(BODY, 1_700_000_000);
        for (now, expected) in [
            (1_700_000_300, Ok(())),
            (1_700_000_301, Err(SignatureError::Stale)),
            (1_699_999_700, Ok(())),
            (1_699_999_699, Err(SignatureError::Stale)),
        ] {
            assert_eq!(verify(&[secret()], &header, BODY, now), expected, "at {now}");
        }
    }

    #[test]
    fn any_of_several_signatures_will_do_and_other_schemes_are_passed_over() {
        let wrong = "0".repeat(64);
        let header = format!("t=1700000000,v0={wrong},v1={wrong},v1={OPENSSL}");
        assert_eq!(verify(&[secret()], &header, BODY, 1_700_000_000), Ok(()));
        let only_v0 = format!("t=1700000000,v0={OPENSSL}");
        assert_eq!(verify(&[secret()], &only_v0, BODY, 1_700_000_000), Err(SignatureError::Malformed));
    }

    #[test]
    fn while_a_secret_is_replaced_either_will_do_and_afterwards_the_new_one_alone() {
        let (old, new) = (secret(), WebhookSecret::new("whsec_fedcba9876543210").unwrap());
        for signer in [&old, &new] {
            let header = signer.sign(BODY, 1_700_000_000);
            assert_eq!(verify(&[new.clone(), old.clone()], &header, BODY, 1_700_000_000), Ok(()));
        }
        let header = old.sign(BODY, 1_700_000_000);
        assert_eq!(verify(&[new], &header, BODY, 1_700_000_000), Err(SignatureError::Mismatch));
        assert_eq!(verify(&[], &header, BODY, 1_700_000_000), Err(SignatureError::Mismatch));
    }

    #[test]
    fn malformed_headers_are_told_from_wrong_ones() {
        for header in [
            "",
            "t=1",
            "v1=00",
            "t=,v1=00",
            "t=-1,v1=00",
            "t=1,t=1,v1=00",
            "t=99999999999999999999,v1=00",
            "t",
            "é=1",
        ] {
            assert_eq!(verify(&[secret()], header, BODY, 1), Err(SignatureError::Malformed), "{header}");
        }
        for header in ["t=1,v1=", "t=1,v1=zz", "t=1,v1=é"] {
            assert_eq!(verify(&[secret()], header, BODY, 1), Err(SignatureError::Mismatch), "{header}");
        }
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_not_taken() {
        for secret in ["short", "                ", "0123456789 abcdef", "0123456789abcdef\n"] {
            assert!(WebhookSecret::new(secret).is_none(), "{secret:?}");
        }
    }
}
