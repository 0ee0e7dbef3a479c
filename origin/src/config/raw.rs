//! The configuration as written.

use std::path::PathBuf;

use ropeline_token::Leeway;
use serde::Deserialize;

use super::{ConfigError, RawNotify, RawOutbox, RawPayments, RawProduct, unreadable};

/// A configuration as written. Unknown members are refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: String,
    /// File of the books, or the address of a PostgreSQL database with them. Beside a file, the test provider keeps its
    /// own, with `-payments` added to the name.
    pub database: PathBuf,
    /// Where shoppers see the shop: scheme, host and port.
    pub public_url: String,
    /// How long a hold lasts.
    #[serde(default = "default_hold_seconds")]
    pub hold_seconds: u64,
    /// By how much a shopper may extend a hold, once; 0: not at all.
    #[serde(default)]
    pub hold_extension_seconds: u64,
    /// What one visitor may have, and how much is too much for the service.
    #[serde(default)]
    pub limits: RawLimits,
    /// Whose tokens are good.
    pub admission: RawAdmission,
    /// The payment service.
    pub payments: RawPayments,
    /// Who is told of what happens.
    #[serde(default)]
    pub outbox: RawOutbox,
    /// The worker that mails order confirmations.
    pub notify: Option<RawNotify>,
    /// What is sold.
    #[serde(default)]
    pub products: Vec<RawProduct>,
}

/// Limits, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLimits {
    /// Units that one visitor may hold and own, of all products together.
    pub units_per_visitor: Option<i64>,
    /// Shoppers' requests that the service wants to work on at once. More are answered too; the gateway is told to let in
    /// fewer.
    pub requests_at_once: u32,
}

impl Default for RawLimits {
    fn default() -> Self {
        Self { units_per_visitor: None, requests_at_once: 256 }
    }
}

/// Whose tokens are good, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAdmission {
    /// File with the JWK Set; or `jwks_url`.
    pub jwks_file: Option<PathBuf>,
    /// `http` or `https` address of the JWK Set; or `jwks_file`.
    pub jwks_url: Option<String>,
    /// How often it is read again.
    #[serde(default = "default_refresh_seconds")]
    pub refresh_seconds: u64,
    /// `iss` of the tokens.
    pub issuer: String,
    /// `aud` of the tokens: the sale.
    pub audience: String,
    /// The oldest epoch that still counts.
    #[serde(default)]
    pub min_epoch: u32,
    /// For clocks that differ.
    #[serde(default = "default_leeway_seconds")]
    pub leeway_seconds: u64,
}

fn default_hold_seconds() -> u64 {
    300
}
fn default_refresh_seconds() -> u64 {
    60
}
fn default_leeway_seconds() -> u64 {
    Leeway::default().seconds()
}

// === impl RawConfig ===

impl RawConfig {
    /// Reads TOML.
    ///
    /// # Errors
    /// When it is no TOML or has members missing, unknown or of the wrong type; line and column are named.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| unreadable(text, &error))
    }
}
