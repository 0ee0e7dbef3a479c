//! Payment services: what the shop asks of one, Stripe, and the built-in test provider.

pub(crate) mod signature;
pub(crate) mod stripe;
pub(crate) mod test_provider;

use async_trait::async_trait;

use crate::checkout::Report;
use signature::WebhookSecret;

/// More of what a payment service says to a shopper is not kept, in characters.
const LONGEST_WORDS: usize = 500;

/// A payment, as both sides know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    /// The shop's name for the payment: asking twice by one name never charges twice.
    pub purchase: String,
    /// The payment service's name for it, as the shop's books have it.
    pub reference: Option<String>,
    /// In the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// As [`Payments::method`] gave it.
    pub method: String,
}

/// What the payment service's books say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nothing under this name.
    Unknown,
    /// It has a name there, and the money has not been asked for.
    Opened,
    /// Not decided yet.
    Pending {
        /// Where the shopper has to confirm it.
        redirect: Option<String>,
    },
    /// The money is set aside.
    Authorised,
    /// No, with words for the shopper.
    Declined(String),
    /// Set aside, and it will not be moved; with words for the shopper.
    CaptureRefused(String),
    /// The money has moved.
    Captured,
    /// What was set aside is given back, and nothing can be taken under this name any more.
    Voided,
    /// What had moved is given back.
    Refunded,
}

/// What came of [`Payments::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The payment service goes by the shop's names.
    Nameless,
    /// Its name there.
    Named(String),
    /// There will be no payment, in words for the shopper.
    Refused(String),
}

/// No answer, or none that makes sense: what was asked may or may not have been done.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the payment service: {0}")]
pub(crate) struct NoReply(pub String);

/// A means of payment that the shopper can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// What a form or program sends as `payment_method`.
    pub value: String,
    /// For people.
    pub label: String,
    /// What it does, for people.
    pub detail: String,
}

/// How to pay at the checkout page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Till {
    /// Over the means of payment.
    pub title: &'static str,
    /// What to know about them; or, where the page has none, how else to pay.
    pub note: &'static str,
    /// The means of payment.
    pub offers: Vec<Offer>,
}

/// A webhook, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The payment service's name for the event; it may come more than once.
    pub id: String,
    /// Its type, as written.
    pub kind: String,
    /// The shop's name for the payment, if the event has it.
    pub purchase: Option<String>,
    /// The payment service's.
    pub reference: Option<String>,
    /// What it says.
    pub says: Says,
}

/// What a webhook says of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Nothing that counts.
    Nothing,
    /// This is so. With the payment service's words for the shopper.
    Told(Report, Option<String>),
    /// This was so when the event was made; where it would change anything, the payment service is to be asked.
    Ask(Report),
    /// The payment service has something to say when asked.
    Look,
}

/// A payment service. Every call may be repeated; it does its work once for a purchase and answers with the books.
#[async_trait]
pub(crate) trait Payments: Send + Sync + 'static {
    /// Its own name for a means of payment as a shopper gives it, or what is wrong with it, in words for the shopper.
    /// A name is what the shop keeps; what a shopper typed is not.
    fn method(&self, given: &str) -> Result<String, String>;

    /// The means of payment to show at checkout.
    fn till(&self) -> Till;

    /// Makes a payment known there, of which no money moves. Nothing else is asked of it before its name is in the books.
    async fn open(&self, charge: &Charge) -> Result<Opened, NoReply>;

    /// Sets the money aside; or moves it, by means of payment that know no other way.
    async fn authorise(&self, charge: &Charge) -> Result<Status, NoReply>;

    /// Moves the money that was set aside.
    async fn capture(&self, charge: &Charge) -> Result<Status, NoReply>;

    /// Gives back what was set aside, and shuts a payment that has not come so far.
    async fn void(&self, charge: &Charge) -> Result<Status, NoReply>;

    /// Gives back what has moved.
    async fn refund(&self, charge: &Charge) -> Result<Status, NoReply>;

    /// Looks into the books.
    async fn status(&self, charge: &Charge) -> Result<Status, NoReply>;

    /// The shop's name for the payment of this name of the payment service's; `None`: it is none of the shop's.
    async fn whose(&self, reference: &str) -> Result<Option<String>, NoReply>;

    /// The header that carries a webhook's signature.
    fn signature_header(&self) -> &'static str;

    /// What webhooks are signed with; any will do.
    fn secrets(&self) -> &[WebhookSecret];

    /// Reads a webhook that is believed.
    ///
    /// # Errors
    /// When it is none.
    fn read(&self, body: &[u8]) -> Result<Message, serde_json::Error>;
}

/// A payment service's words for the shopper as they can be kept and shown: on one line, and no longer than anybody reads.
pub(crate) fn words(said: &str) -> String {
    said.chars().take(LONGEST_WORDS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

// === impl Message ===

impl Message {
    /// Whether its names are such as can be kept.
    #[must_use]
    pub(crate) fn is_plain(&self) -> bool {
        let is_plain = |name: &str| (1..=255).contains(&name.len()) && !name.contains(char::is_control);
        [Some(&self.id), Some(&self.kind), self.purchase.as_ref(), self.reference.as_ref()]
            .into_iter()
            .flatten()
            .all(|name| is_plain(name))
    }
}

// === impl Status ===

impl Status {
    /// What it tells the shop, with words for the shopper; `None`: nothing yet.
    #[must_use]
    pub(crate) fn report(self) -> Option<(Report, Option<String>)> {
        Some(match self {
            Self::Unknown | Self::Opened | Self::Pending { .. } => return None,
            Self::Authorised => (Report::Authorised, None),
            Self::Declined(reason) => (Report::Declined, Some(words(&reason))),
            Self::CaptureRefused(reason) => (Report::CaptureRefused, Some(words(&reason))),
            Self::Captured => (Report::Captured, None),
            Self::Voided => (Report::Voided, None),
            Self::Refunded => (Report::Refunded, None),
        })
    }
}
