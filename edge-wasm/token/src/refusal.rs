use thiserror::Error;

/// Why a token is not taken. The same natively and in Wasm; [`Refusal::code`] never changes its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Refusal {
    /// The request carries no token.
    #[error("no token was presented")]
    Missing,
    /// The request carries more than one token for the same purpose.
    #[error("more than one token was presented")]
    Ambiguous,
    /// The token is longer than [`crate::MAX_TOKEN_BYTES`].
    #[error("the token is too long")]
    TooLong,
    /// Not three segments of canonical, unpadded base64url, or a signature of the wrong length.
    #[error("the token is not a compact JWS")]
    Malformed,
    /// The header is not JSON with exactly the members `alg`, `kid` and `typ`.
    #[error("the token's header is outside the profile")]
    HeaderInvalid,
    /// `alg` is neither `EdDSA` nor `Ed25519`.
    #[error("the token's algorithm is not accepted")]
    AlgorithmRefused,
    /// `typ` names another kind of token.
    #[error("the token is of another kind")]
    TypeRefused,
    /// The keys at hand should have been renewed by now: none of them is relied on.
    #[error("the keys to check the token with are out of date")]
    KeysOutdated,
    /// No key of the set has this `kid`.
    #[error("the token's key is not known")]
    KeyUnknown,
    /// The signature is not this key's over these bytes, or not in canonical form.
    #[error("the token's signature does not verify")]
    SignatureInvalid,
    /// A claim is missing, repeated, of the wrong type or makes no sense.
    #[error("the token's claims are invalid")]
    ClaimsInvalid,
    /// `iss` is somebody else.
    #[error("the token is from another issuer")]
    IssuerRefused,
    /// `aud` is another sale.
    #[error("the token is for another sale")]
    AudienceRefused,
    /// `epoch` is older than the policy's: the token was revoked with all others of its epoch.
    #[error("the token was revoked")]
    EpochOutdated,
    /// `nbf` or `iat` lies further ahead than the leeway.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `exp` has passed by the leeway or more.
    #[error("the token has expired")]
    Expired,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 16] = [
        Self::Missing,
        Self::Ambiguous,
        Self::TooLong,
        Self::Malformed,
        Self::HeaderInvalid,
        Self::AlgorithmRefused,
        Self::TypeRefused,
        Self::KeysOutdated,
        Self::KeyUnknown,
        Self::SignatureInvalid,
        Self::ClaimsInvalid,
        Self::IssuerRefused,
        Self::AudienceRefused,
        Self::EpochOutdated,
        Self::NotYetValid,
        Self::Expired,
    ];

    /// The refusal of this name.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    /// The stable name of this refusal, for problem documents, logs and metrics.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "token_missing",
            Self::Ambiguous => "token_ambiguous",
            Self::TooLong => "token_too_long",
            Self::Malformed => "token_malformed",
            Self::HeaderInvalid => "header_invalid",
            Self::AlgorithmRefused => "algorithm_refused",
            Self::TypeRefused => "type_refused",
            Self::KeysOutdated => "keys_outdated",
            Self::KeyUnknown => "key_unknown",
            Self::SignatureInvalid => "signature_invalid",
            Self::ClaimsInvalid => "claims_invalid",
            Self::IssuerRefused => "issuer_refused",
            Self::AudienceRefused => "audience_refused",
            Self::EpochOutdated => "epoch_outdated",
            Self::NotYetValid => "token_not_yet_valid",
            Self::Expired => "token_expired",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_name_of_its_own() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::from_code(refusal.code()), Some(refusal));
        }
        assert_eq!(Refusal::from_code("token_stolen"), None);
    }
}
