#![no_std]
//! Ropeline's signed tokens: JWS profile, claims, key sets and their verification, without std.
//!
//! A token is a compact JWS (RFC 7515) signed with Ed25519 (RFC 8037), so that any JOSE library can check one. The
//! profile is narrower than JOSE: the header is exactly `alg`, `kid` and `typ`, base64url is canonical, members are
//! never repeated, and what the signature covers are the very bytes that are parsed.
//!
//! Verification goes in two steps. [`KeySet::admission`] and [`KeySet::ticket`] check form, key and signature and give
//! an [`Authentic`] token, which may be kept and looked at again; [`Authentic::accept`] checks issuer, audience, epoch
//! and times, which depend on the moment and on the policy.
//!
//! ```
//! # #[cfg(feature = "issue")] {
//! use ropeline_token::{AdmissionClaims, Claims, Expect, KeySet, Leeway, SigningKey};
//!
//! let key = SigningKey::from_seed([7; 32]);
//! let token = key.sign_admission(&AdmissionClaims {
//!     claims: Claims {
//!         iss: "https://shop.example".into(),
//!         aud: "sneaker".into(),
//!         sub: "visitor-1".into(),
//!         jti: "sneaker-0-12".into(),
//!         iat: 1_700_000_000,
//!         nbf: 1_700_000_000,
//!         exp: 1_700_000_600,
//!         epoch: 0,
//!         arrival: 12,
//!     },
//!     place: 3,
//! })?;
//!
//! let keys = KeySet::new([key.public_key()])?;
//! let expect = Expect { issuer: "https://shop.example", audience: "sneaker", min_epoch: 0, leeway: Leeway::default() };
//! let admission = keys.admission(&token)?;
//! assert_eq!(admission.accept(&expect, 1_700_000_010)?.place, 3);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

extern crate alloc;
#[cfg(test)]
extern crate std;

mod base64url;
mod claims;
mod invitation;
#[cfg(feature = "issue")]
mod issue;
pub mod json;
mod jws;
mod keys;
mod refusal;

pub use claims::{AdmissionClaims, Authentic, Claims, Expect, Leeway, LeewayTooLong, TicketClaims};
pub use invitation::InvitationClaims;
#[cfg(feature = "issue")]
pub use issue::{IssueError, SigningKey, SigningKeyError};
pub use jws::{MAX_DOCUMENT_BYTES, MAX_TOKEN_BYTES};
pub use keys::{KeyError, KeySet, KeySetError, MAX_KEYS, PublicKey};
pub use refusal::Refusal;
