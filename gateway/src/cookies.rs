//! The cookies the gateway sets.

use http::HeaderValue;

/// How cookies are set: with TLS they are `Secure` and bound to the host by the `__Host-` prefix
/// (draft-ietf-httpbis-rfc6265bis §4.1.3.2), so that no neighbouring site can plant one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieStyle {
    /// Whether shoppers reach the gateway over TLS.
    pub secure: bool,
}

impl CookieStyle {
    /// Sets a cookie for `max_age` seconds. `None` if the value cannot stand in a header.
    #[must_use]
    pub fn set(self, name: &str, value: &str, max_age: u64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        HeaderValue::try_from(format!(
            "{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}"
        ))
        .ok()
    }

    /// Takes a cookie away.
    #[must_use]
    pub fn clear(self, name: &str) -> Option<HeaderValue> {
        self.set(name, "", 0)
    }
}
