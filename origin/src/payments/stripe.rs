//! Stripe, through its HTTP API.
//!
//! **Why a thin client.** `async-stripe` has been in pre-release for its 1.0 since April 2025 (1.0.0-rc.10 when this was
//! written), brings an HTTP stack of its own beside the one that is here, some hundred thousand generated lines for the six
//! calls that a checkout needs, and does not show the answers' headers, by which a kept failure is told from a fresh one
//! and what may be asked again from what may not.
//!
//! **In two steps.** A payment intent is created first, unconfirmed, which moves nothing; its name goes into the shop's
//! books; and only then it is confirmed, captured, cancelled and refunded, by that name. So a reply may be lost anywhere:
//! - of the creation: it is asked for again by the same key, and another intent more, should the key be forgotten, moves
//!   no money, since nobody confirms what the books have no name for;
//! - of anything later: the intent is looked at.
//!
//! And when a hold is over, its intent is cancelled, which shuts it for whatever may still be under way.

pub(crate) mod amounts;
mod client;
mod events;

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use super::signature::WebhookSecret;
use super::{Charge, Message, NoReply, Offer, Opened, Payments, Status, Till};
use client::{Answered, Client, Fault};

/// What a shopper is told where Stripe has no words made for shoppers.
const UNUSABLE: &str = "This means of payment cannot be used here.";
/// Longer names of payment methods are not Stripe's.
const LONGEST_METHOD: usize = 255;

/// What is needed to work with a Stripe account.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `sk_…` or `rk_…`.
    pub(crate) secret_key: SecretKey,
    /// `https://api.stripe.com`, or what stands in for it.
    pub(crate) base_url: String,
    /// Any of them may have signed a webhook: two while one is being replaced by the other.
    pub(crate) webhook_secrets: Vec<WebhookSecret>,
    /// Types of payment method that are offered on the checkout page and move the money at once, as `ideal`.
    pub(crate) at_once: Vec<String>,
    /// How long one answer is waited for.
    pub(crate) timeout: Duration,
    /// Where shoppers see the shop, without a slash at its end: the bank sends them back there.
    pub(crate) public_url: String,
}

/// A key that is shown nowhere.
#[derive(Clone)]
pub(crate) struct SecretKey(pub(crate) String);

/// The Stripe account; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Stripe {
    client: Client,
    settings: Settings,
}

/// A payment intent, as far as it matters. Cards and addresses are not read.
#[derive(Clone, Debug, Deserialize)]
struct Intent {
    id: String,
    status: String,
    #[serde(default)]
    next_action: Option<NextAction>,
    #[serde(default)]
    last_payment_error: Option<PaymentError>,
    #[serde(default)]
    latest_charge: Option<LatestCharge>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Clone, Debug, Deserialize)]
struct NextAction {
    redirect_to_url: Option<Redirect>,
}

#[derive(Clone, Debug, Deserialize)]
struct Redirect {
    url: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct PaymentError {
    message: Option<String>,
}

/// Its name alone, unless it was asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum LatestCharge {
    Whole {
        refunded: bool,
    },
    #[expect(dead_code, reason = "told apart, not looked at")]
    Name(String),
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Metadata {
    purchase: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Refund {
    status: Option<String>,
}

// === impl SecretKey ===

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

// === impl Intent ===

impl Intent {
    fn status(&self) -> Status {
        match self.status.as_str() {
            "requires_confirmation" => Status::Opened,
            "requires_action" => {
                let action = self.next_action.as_ref().and_then(|action| action.redirect_to_url.as_ref());
                Status::Pending { redirect: action.and_then(|redirect| redirect.url.clone()) }
            }
            "requires_capture" => Status::Authorised,
            // It goes on from here with another method only, and the shop makes another intent for that.
            "requires_payment_method" => {
                let error = self.last_payment_error.as_ref().and_then(|error| error.message.clone());
                Status::Declined(error.unwrap_or_else(|| UNUSABLE.to_owned()))
            }
            "canceled" => Status::Voided,
            "succeeded" if matches!(self.latest_charge, Some(LatestCharge::Whole { refunded: true })) => {
                Status::Refunded
            }
            "succeeded" => Status::Captured,
            // `processing`, and what may come to be.
            _ => Status::Pending { redirect: None },
        }
    }
}

// === impl Stripe ===

impl Stripe {
    /// # Errors
    /// When TLS cannot be set up.
    pub(crate) fn new(settings: Settings) -> Result<Self, reqwest::Error> {
        let http = crate::client::new(&settings.base_url)?;
        let client = Client::new(http, &settings.base_url, &settings.secret_key.0, settings.timeout);
        Ok(Self { client, settings })
    }

    async fn look(&self, intent: &str) -> Result<Intent, Fault> {
        self.client.get(&format!("/v1/payment_intents/{intent}?expand[]=latest_charge")).await
    }

    async fn act(
        &self,
        charge: &Charge,
        action: &'static str,
        fields: &[(&str, &str)],
    ) -> Result<Result<Status, Fault>, NoReply> {
        let intent = name(charge)?;
        let path = format!("/v1/payment_intents/{intent}/{action}");
        let key = format!("{}-{action}", charge.purchase);
        match self.client.post::<Intent>(&path, fields, &key).await {
            Ok(Answered { body, replayed: false }) => Ok(Ok(body.status())),
            // What was so once.
            Ok(Answered { replayed: true, .. }) => Ok(Ok(self.status(charge).await?)),
            Err(fault @ (Fault::Card { .. } | Fault::Invalid { .. } | Fault::KeyReused)) => Ok(Err(fault)),
            Err(fault) => Err(no_reply(&fault)),
        }
    }
}

fn name(charge: &Charge) -> Result<&str, NoReply> {
    // Names that Stripe gave: nothing that would lead elsewhere in a path.
    charge
        .reference
        .as_deref()
        .filter(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
        .ok_or_else(|| NoReply("the payment has no name at Stripe".to_owned()))
}

fn no_reply(fault: &Fault) -> NoReply {
    match fault {
        Fault::Unauthorised(_) | Fault::KeyReused => {
            tracing::error!(%fault, "payments cannot go on until this is mended");
        }
        _ => {}
    }
    NoReply(fault.to_string())
}

#[async_trait]
impl Payments for Stripe {
    fn method(&self, given: &str) -> Result<String, String> {
        let is_id = given.starts_with("pm_")
            && given.len() <= LONGEST_METHOD
            && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_id || self.settings.at_once.iter().any(|kind| kind == given) {
            return Ok(given.to_owned());
        }
        let mut ways = self.settings.at_once.clone();
        ways.insert(0, "the id of a Stripe payment method (pm_…)".to_owned());
        Err(format!("payment_method: send {}. A card's number is never taken here.", ways.join(", or ")))
    }

    fn till(&self) -> Till {
        let offer = |kind: &String| Offer {
            value: kind.clone(),
            label: kind.replace('_', " "),
            detail: "pays at once, on the bank's own page".to_owned(),
        };
        let offers: Vec<Offer> = self.settings.at_once.iter().map(offer).collect();
        let note = if offers.is_empty() {
            "This page takes no cards: pay where you came from, in the shop's own page or app."
        } else {
            "You are sent to your bank and come back here. Cards are taken in the shop's own page or app."
        };
        Till { title: "Pay by", note, offers }
    }

    async fn open(&self, charge: &Charge) -> Result<Opened, NoReply> {
        let Some(amount) = amounts::amount(charge.amount_minor, &charge.currency) else {
            return Ok(Opened::Refused(UNUSABLE.to_owned()));
        };
        let (amount, currency) = (amount.to_string(), charge.currency.to_ascii_lowercase());
        let mut fields = vec![
            ("amount", amount.as_str()),
            ("currency", currency.as_str()),
            ("metadata[purchase]", charge.purchase.as_str()),
        ];
        if charge.method.starts_with("pm_") {
            fields.extend([("payment_method", charge.method.as_str()), ("capture_method", "manual")]);
        } else {
            fields.extend([
                ("payment_method_types[]", charge.method.as_str()),
                ("payment_method_data[type]", charge.method.as_str()),
                ("capture_method", "automatic"),
            ]);
        }
        let key = format!("{}-create", charge.purchase);
        match self.client.post::<Intent>("/v1/payment_intents", &fields, &key).await {
            Ok(Answered { body, .. }) => Ok(Opened::Named(body.id)),
            Err(Fault::Card { message, .. }) => Ok(Opened::Refused(message)),
            Err(Fault::Invalid { code }) => {
                tracing::warn!(purchase = charge.purchase, code, "Stripe takes no payment of this kind");
                Ok(Opened::Refused(UNUSABLE.to_owned()))
            }
            Err(fault) => Err(no_reply(&fault)),
        }
    }

    async fn authorise(&self, charge: &Charge) -> Result<Status, NoReply> {
        let back = format!("{}/purchases/{}/return", self.settings.public_url, charge.purchase);
        match self.act(charge, "confirm", &[("return_url", &back)]).await? {
            Ok(status) => Ok(status),
            // Stripe says it in the intent as well; the words in the error are those for the shopper.
            Err(Fault::Card { message, .. }) => match self.status(charge).await? {
                Status::Declined(_) | Status::Opened => Ok(Status::Declined(message)),
                status => Ok(status),
            },
            Err(fault) => match self.status(charge).await? {
                // Refused before anything began: a method that cannot be confirmed so.
                Status::Opened => {
                    tracing::warn!(purchase = charge.purchase, %fault, "Stripe does not confirm this payment");
                    Ok(Status::Declined(UNUSABLE.to_owned()))
                }
                status => Ok(status),
            },
        }
    }

    async fn capture(&self, charge: &Charge) -> Result<Status, NoReply> {
        match self.act(charge, "capture", &[]).await? {
            Ok(status) => Ok(status),
            Err(fault) => Ok(match self.status(charge).await? {
                Status::Authorised => Status::CaptureRefused(match fault {
                    Fault::Card { message, .. } => message,
                    _ => "The bank did not pay.".to_owned(),
                }),
                status => status,
            }),
        }
    }

    async fn void(&self, charge: &Charge) -> Result<Status, NoReply> {
        match self.act(charge, "cancel", &[]).await? {
            Ok(status) => Ok(status),
            // There is nothing to cancel, or not now: it has moved, or is about to.
            Err(_) => self.status(charge).await,
        }
    }

    async fn refund(&self, charge: &Charge) -> Result<Status, NoReply> {
        let fields = [("payment_intent", name(charge)?), ("metadata[purchase]", charge.purchase.as_str())];
        let key = format!("{}-refund", charge.purchase);
        match self.client.post::<Refund>("/v1/refunds", &fields, &key).await {
            Ok(Answered { body: Refund { status }, .. }) => match status.as_deref() {
                Some("failed" | "canceled") => {
                    tracing::error!(
                        purchase = charge.purchase,
                        "the refund failed: a person has to see to it"
                    );
                    Err(NoReply("the refund failed".to_owned()))
                }
                _ => Ok(Status::Refunded),
            },
            Err(Fault::Card { .. } | Fault::Invalid { .. } | Fault::KeyReused) => self.status(charge).await,
            Err(fault) => Err(no_reply(&fault)),
        }
    }

    async fn status(&self, charge: &Charge) -> Result<Status, NoReply> {
        match self.look(name(charge)?).await {
            Ok(intent) => Ok(intent.status()),
            Err(fault) => Err(no_reply(&fault)),
        }
    }

    async fn whose(&self, reference: &str) -> Result<Option<String>, NoReply> {
        let known = Charge { reference: Some(reference.to_owned()), ..Charge::default() };
        match self.look(name(&known)?).await {
            Ok(intent) => Ok(intent.metadata.purchase),
            Err(Fault::Invalid { .. }) => Ok(None),
            Err(fault) => Err(no_reply(&fault)),
        }
    }

    fn signature_header(&self) -> &'static str {
        "stripe-signature"
    }

    fn secrets(&self) -> &[WebhookSecret] {
        &self.settings.webhook_secrets
    }

    fn read(&self, body: &[u8]) -> Result<Message, serde_json::Error> {
        events::read(body)
    }
}
