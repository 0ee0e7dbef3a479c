//! Signatures of the Standard Webhooks scheme: HMAC-SHA-256 over `ID.TIMESTAMP.BODY`, in base64 behind `v1,`; one for each
//! secret while one is being replaced by the other.
//! See <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>.

use std::fmt;

use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a webhook's sender and receiver share.
#[derive(Clone)]
pub(crate) struct Secret(Hmac<Sha256>);

// === impl Secret ===

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Reads `whsec_` and 24 to 64 bytes in base64; `None` if it is anything else.
    #[must_use]
    pub(crate) fn parse(secret: &str) -> Option<Self> {
        let bytes = Base64::decode_vec(secret.strip_prefix("whsec_")?).ok()?;
        if !(24..=64).contains(&bytes.len()) {
            return None;
        }
        Hmac::new_from_slice(&bytes).ok().map(Self)
    }

    fn sign(&self, id: &str, time: u64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{time}.").as_bytes());
        mac.update(body);
        format!("v1,{}", Base64::encode_string(&mac.finalize().into_bytes()))
    }
}

/// The value of `webhook-signature` for a body that is sent at `time` (Unix seconds).
#[must_use]
pub(crate) fn sign(secrets: &[Secret], id: &str, time: u64, body: &[u8]) -> String {
    let signatures: Vec<String> = secrets.iter().map(|secret| secret.sign(id, time, body)).collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    /// The vector of the scheme's own libraries, as `libraries/python/tests/test_webhooks.py`.
    #[test]
    fn agrees_with_the_scheme_s_own_libraries() {
        let signature = sign(
            &[Secret::parse(SECRET).unwrap()],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_signs_while_one_is_being_replaced() {
        let [old, new] = [SECRET, OTHER].map(|secret| Secret::parse(secret).unwrap());
        let of = |secrets: &[Secret]| sign(secrets, "evt_1", 1_700_000_000, b"{}");
        let both = of(&[new.clone(), old.clone()]);
        assert_eq!(both, format!("{} {}", of(&[new]), of(&[old])));
    }

    #[test]
    fn secrets_that_can_be_guessed_or_are_not_of_the_scheme_are_not_taken() {
        for bad in [
            "",
            "whsec_",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",
            "whsec_ä",
        ] {
            assert!(Secret::parse(bad).is_none(), "{bad}");
        }
        let long = Base64::encode_string(&[7; 65]);
        assert!(Secret::parse(&format!("whsec_{long}")).is_none());
        assert_eq!(format!("{:?}", Secret::parse(SECRET).unwrap()), "Secret(…)");
    }
}
