//! Secrets that never print themselves.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use subtle::ConstantTimeEq as _;

use super::report::Fault;

/// The operator's bearer token: 32 to 512 characters that a header carries as they are (RFC 6750 section 2.1).
#[derive(Clone)]
pub struct OperatorToken(String);

impl OperatorToken {
    /// Takes a token from a file or the environment; white space around it is dropped.
    ///
    /// # Errors
    /// When it is too short to resist guessing, too long, or has characters that a bearer token cannot have.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
        if !(32..=512).contains(&text.len()) || !text.bytes().all(allowed) {
            return Err(Fault::new(
                "the operator's token must have 32 to 512 characters of A-Z a-z 0-9 - . _ ~ + / =",
                "make one with `ropeline keygen operator-token`",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Compares in a time that depends on the length alone.
    pub fn matches(&self, offered: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(offered).into()
    }

    /// The token itself, for a client that has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorToken(…)")
    }
}

/// A secret that signs visitor cookies: 32 to 64 bytes, base64url in its file.
#[derive(Clone)]
pub struct CookieSecret(Vec<u8>);

impl CookieSecret {
    /// Takes a secret from its file's text.
    ///
    /// # Errors
    /// When it is not base64url without padding, or not 32 to 64 bytes.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let bytes =
            Base64UrlUnpadded::decode_vec(text.trim()).ok().filter(|bytes| (32..=64).contains(&bytes.len()));
        bytes.map(Self).ok_or_else(|| {
            Fault::new(
                "a cookie secret must be 32 to 64 bytes in base64url without padding",
                "make one with `ropeline keygen visitor-secret`",
            )
        })
    }

    /// The secret's bytes, for the MAC.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_or_unsendable_operator_token_is_refused() {
        assert!(OperatorToken::parse("short").is_err());
        assert!(OperatorToken::parse(&"a".repeat(513)).is_err());
        assert!(OperatorToken::parse(&"ä".repeat(32)).is_err());
        let token = OperatorToken::parse(&format!(" {}\n", "a".repeat(32))).unwrap();
        assert!(token.matches("a".repeat(32).as_bytes()));
        assert!(!token.matches("a".repeat(31).as_bytes()));
        assert!(!token.matches("b".repeat(32).as_bytes()));
        assert!(!format!("{token:?}").contains("aaa"));
    }

    #[test]
    fn a_cookie_secret_is_long_enough_or_refused() {
        assert!(CookieSecret::parse(&"A".repeat(43)).is_ok());
        assert!(CookieSecret::parse(&"A".repeat(42)).is_err());
        assert!(CookieSecret::parse("not base64!").is_err());
    }
}
