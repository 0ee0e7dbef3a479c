//! The payment service: as written, and as checked.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::{Database, Faults, RawProduct, address, is_confidential};
use crate::payments::signature::WebhookSecret;
use crate::payments::stripe::{self, SecretKey};

/// The payment service, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPayments {
    /// Which one.
    #[serde(default)]
    pub provider: RawProvider,
    /// Shared with the test provider, which signs its webhooks with it.
    pub webhook_secret: Option<String>,
    /// How often unsettled purchases are asked about.
    #[serde(default = "default_reconcile_seconds")]
    pub reconcile_seconds: u64,
    /// How long the test provider's slow cards take; 5000 by default.
    pub test_delay_ms: Option<u64>,
    /// File of the test provider's own books. Beside the shop's, if those are a file; needed if they are not.
    pub test_database: Option<PathBuf>,
    /// The Stripe account, if that is the provider.
    pub stripe: Option<RawStripe>,
}

/// Which payment service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RawProvider {
    /// The built-in one, which moves no money.
    #[default]
    Test,
    /// Stripe, through its HTTP API.
    Stripe,
}

/// A Stripe account, as written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawStripe {
    /// `sk_…`, or better a restricted `rk_…` that may write payment intents and refunds.
    pub secret_key: String,
    /// Of the webhook endpoint (`whsec_…`). Two while one is being replaced by the other.
    pub webhook_secrets: Vec<String>,
    /// What stands in for Stripe, as in tests.
    #[serde(default = "default_base_url")]
    pub base_url: String,
    /// Types of payment method to offer on the checkout page, of those that move the money at once, as `ideal`.
    #[serde(default)]
    pub at_once: Vec<String>,
    /// How long one of Stripe's answers is waited for.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u64,
}

fn default_reconcile_seconds() -> u64 {
    5
}
fn default_base_url() -> String {
    "https://api.stripe.com".to_owned()
}
fn default_timeout_seconds() -> u64 {
    10
}

/// The payment service, as checked.
#[derive(Clone, Debug)]
pub(crate) enum PaymentsConfig {
    /// The built-in one.
    Test {
        /// Signs its webhooks.
        secret: WebhookSecret,
        /// How long its slow cards take.
        delay: Duration,
        /// File of its own books.
        database: PathBuf,
    },
    /// Stripe.
    Stripe(stripe::Settings),
}

impl fmt::Debug for RawStripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawStripe").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

/// Checks what is needed for `products` to be paid for at the shop that shoppers see at `public_url`.
pub(super) fn check(
    raw: &RawPayments,
    products: &[RawProduct],
    public_url: &str,
    database: &Database,
    faults: &mut Faults,
) -> Option<PaymentsConfig> {
    match (raw.provider, &raw.stripe) {
        (RawProvider::Test, None) => test(raw, database, faults),
        (RawProvider::Stripe, Some(stripe)) => {
            refuse_test_settings(raw, faults);
            account(stripe, products, public_url, faults)
        }
        (RawProvider::Test, Some(_)) => {
            faults.add("payments.stripe", "is not used; say provider = \"stripe\", or take it out");
            None
        }
        (RawProvider::Stripe, None) => {
            faults.add(
                "payments.stripe",
                "is needed: add a [payments.stripe] table with secret_key and webhook_secrets",
            );
            None
        }
    }
}

/// Who sets these beside Stripe takes them for Stripe's.
fn refuse_test_settings(raw: &RawPayments, faults: &mut Faults) {
    for (is_set, field, mend) in [
        (
            raw.webhook_secret.is_some(),
            "payments.webhook_secret",
            "is the test provider's; Stripe's stand in payments.stripe.webhook_secrets",
        ),
        (raw.test_delay_ms.is_some(), "payments.test_delay_ms", "is the test provider's; take it out"),
        (raw.test_database.is_some(), "payments.test_database", "is the test provider's; take it out"),
    ] {
        faults.check(!is_set, field, mend);
    }
}

fn test(raw: &RawPayments, database: &Database, faults: &mut Faults) -> Option<PaymentsConfig> {
    let delay = raw.test_delay_ms.unwrap_or(5_000);
    faults.check(
        delay <= 3_600_000,
        "payments.test_delay_ms",
        format!("must be at most 3600000, is {delay}"),
    );
    let Some(secret) = raw.webhook_secret.as_deref().and_then(WebhookSecret::new) else {
        faults.add(
            "payments.webhook_secret",
            "must have at least 16 characters and no spaces; take 32 random ones",
        );
        return None;
    };
    let database = match (&raw.test_database, database) {
        (Some(own), _) if own.file_name().is_some() => own.clone(),
        (None, Database::File(shop)) => {
            let mut name = shop.file_name().unwrap_or_default().to_owned();
            name.push("-payments");
            shop.with_file_name(name)
        }
        (Some(_), _) | (None, Database::Postgres(_)) => {
            faults.add(
                "payments.test_database",
                "must name a file: the test provider keeps its own books there, as database is not a file",
            );
            return None;
        }
    };
    Some(PaymentsConfig::Test { secret, delay: Duration::from_millis(delay), database })
}

fn account(
    raw: &RawStripe,
    products: &[RawProduct],
    public_url: &str,
    faults: &mut Faults,
) -> Option<PaymentsConfig> {
    let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    faults.check(
        raw.secret_key.len() >= 8 && printable(&raw.secret_key) && !raw.secret_key.starts_with("pk_"),
        "payments.stripe.secret_key",
        "must be the account's secret key (sk_…) or a restricted one (rk_…), not the publishable one",
    );
    faults.check(
        is_safe(&raw.base_url),
        "payments.stripe.base_url",
        "must be an https:// address without path or query; http:// is for this machine alone, since the secret key is sent there",
    );
    let secrets: Vec<WebhookSecret> =
        raw.webhook_secrets.iter().filter_map(|secret| WebhookSecret::new(secret)).collect();
    faults.check(
        !secrets.is_empty() && secrets.len() == raw.webhook_secrets.len() && secrets.len() <= 4,
        "payments.stripe.webhook_secrets",
        "must list one to four secrets of the webhook endpoint, of at least 16 characters each and no spaces",
    );
    let kinds: HashSet<&String> = raw.at_once.iter().collect();
    let good = |kind: &String| {
        (1..=40).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    faults.check(
        kinds.len() == raw.at_once.len() && raw.at_once.iter().all(good),
        "payments.stripe.at_once",
        "must list types of payment method as Stripe writes them, each once, as \"ideal\"",
    );
    let timeout = faults.seconds("payments.stripe.timeout_seconds", raw.timeout_seconds, 1, 60);
    for (index, product) in products.iter().enumerate() {
        faults.check(
            stripe::amounts::amount(product.price_minor, &product.currency).is_some_and(|amount| amount > 0),
            &format!("products[{index}].price_minor"),
            format!("{} {} cannot be charged through Stripe", product.price_minor, product.currency),
        );
    }
    Some(PaymentsConfig::Stripe(stripe::Settings {
        secret_key: SecretKey(raw.secret_key.clone()),
        base_url: raw.base_url.clone(),
        webhook_secrets: secrets,
        at_once: raw.at_once.clone(),
        timeout,
        public_url: public_url.trim_end_matches('/').to_owned(),
    }))
}

/// Whether a secret may be sent there.
fn is_safe(base_url: &str) -> bool {
    let Some(uri) = address(base_url) else { return false };
    let bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && !base_url.contains('#');
    bare && is_confidential(&uri)
}
