//! Payment services: what the shop asks of one, and the built-in test provider.

pub(crate) mod signature;
pub(crate) mod test_provider;

use async_trait::async_trait;

/// What is to be paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    /// The shop's name for the payment: asking twice by one name never charges twice.
    pub purchase: String,
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
    /// Not decided yet.
    Pending,
    /// The money is set aside.
    Authorised,
    /// No, with words for the shopper.
    Declined(String),
    /// Set aside, and it will not be moved; with words for the shopper.
    CaptureRefused(String),
    /// The money has moved.
    Captured,
    /// What was set aside is given back.
    Voided,
    /// What had moved is given back.
    Refunded,
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

/// A payment service. Every call may be repeated; it does its work once for a purchase and answers with the books.
#[async_trait]
pub(crate) trait Payments: Send + Sync + 'static {
    /// Its own name for a means of payment as a shopper gives it, or what is wrong with it, in words for the shopper.
    /// A name is what the shop keeps; what a shopper typed is not.
    fn method(&self, given: &str) -> Result<String, String>;

    /// The means of payment to show at checkout.
    fn offers(&self) -> Vec<Offer>;

    /// Sets the money aside.
    async fn authorise(&self, charge: &Charge) -> Result<Status, NoReply>;

    /// Moves the money that was set aside.
    async fn capture(&self, purchase: &str) -> Result<Status, NoReply>;

    /// Gives back what was set aside.
    async fn void(&self, purchase: &str) -> Result<Status, NoReply>;

    /// Gives back what has moved.
    async fn refund(&self, purchase: &str) -> Result<Status, NoReply>;

    /// Looks into the books.
    async fn status(&self, purchase: &str) -> Result<Status, NoReply>;
}
