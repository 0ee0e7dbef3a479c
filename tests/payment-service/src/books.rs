//! The payment service's books: what happened to each payment intent, and what the rules allow.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

/// Where a payment intent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Made, and no money asked for.
    Created,
    /// Until the shopper has confirmed it at the bank.
    RequiresAction,
    /// Until the bank has decided.
    Processing,
    /// Money is set aside.
    Authorised,
    /// The bank said no.
    Declined,
    /// Money has moved.
    Captured,
    /// Cancelled, or what was set aside ran out.
    Canceled,
}

/// What a means of payment does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Accepted,
    Declined,
    /// 3-D Secure; the shopper is sent to the bank.
    Confirmed,
    /// The same, and the bank says no in the end.
    ConfirmedDeclined,
    /// Set aside, and then not paid.
    CaptureRefused,
    /// No card: the bank takes its time and moves the money at once.
    AtOnce,
}

/// A payment intent.
#[derive(Debug, Clone)]
pub struct Payment {
    /// `pi_…`
    pub id: String,
    /// The shop's name for it, from the metadata.
    pub purchase: String,
    /// In Stripe's unit.
    pub amount: i64,
    /// In small letters.
    pub currency: String,
    /// Where it stands.
    pub state: State,
    /// Times that money was set aside.
    pub authorised: u32,
    /// Times that money moved.
    pub captured: u32,
    /// Times that what was set aside was given back.
    pub voided: u32,
    /// Times that what had moved was given back.
    pub refunded: u32,
    pub(crate) method: Method,
    pub(crate) manual: bool,
    pub(crate) return_url: Option<String>,
}

/// An answer that is kept with its key.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) request: String,
    /// `None` while the first request is being worked on.
    pub(crate) answer: Option<(u16, Value)>,
}

/// Everything that is written down.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) payments: BTreeMap<String, Payment>,
    pub(crate) keys: HashMap<String, Kept>,
    pub(crate) events: Vec<(String, Value)>,
    made: u64,
}

/// A refusal as Stripe words it: status, type, code, message.
pub(crate) type Refusal = (u16, &'static str, &'static str, &'static str);

const STATE: Refusal = (
    400,
    "invalid_request_error",
    "payment_intent_unexpected_state",
    "This PaymentIntent's status does not allow it.",
);
const MISSING: Refusal = (404, "invalid_request_error", "resource_missing", "No such payment_intent.");
pub(crate) const DECLINED: Refusal = (402, "card_error", "card_declined", "Your card was declined.");

// === impl Method ===

impl Method {
    /// By Stripe's names of test methods, and two of ours for what Stripe has no test method for.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pm_card_visa" | "pm_card_mastercard" => Self::Accepted,
            "pm_card_visa_chargeDeclined" => Self::Declined,
            "pm_card_threeDSecure2Required" => Self::Confirmed,
            "pm_card_threeDSecureRequiredChargeDeclined" => Self::ConfirmedDeclined,
            "pm_card_captureRefused" => Self::CaptureRefused,
            "ideal" | "bancontact" => Self::AtOnce,
            _ => return None,
        })
    }
}

// === impl Payment ===

impl Payment {
    /// As Stripe writes it.
    pub(crate) fn json(&self, base: &str) -> Value {
        let status = match self.state {
            State::Created => "requires_confirmation",
            State::RequiresAction => "requires_action",
            State::Processing => "processing",
            State::Authorised => "requires_capture",
            State::Declined => "requires_payment_method",
            State::Captured => "succeeded",
            State::Canceled => "canceled",
        };
        let next_action = (self.state == State::RequiresAction).then(|| {
            json!({
                "type": "redirect_to_url",
                "redirect_to_url": { "url": format!("{base}/bank/{}", self.id), "return_url": self.return_url },
            })
        });
        let error = (self.state == State::Declined).then(
            || json!({ "type": "card_error", "code": "card_declined", "message": "Your card was declined." }),
        );
        let charge = (self.authorised + self.captured > 0).then(|| {
            json!({
                "id": format!("ch_{}", &self.id[3..]), "object": "charge", "amount": self.amount,
                "payment_intent": self.id, "captured": self.captured > 0, "refunded": self.refunded > 0,
                "metadata": { "purchase": self.purchase },
            })
        });
        json!({
            "id": self.id,
            "object": "payment_intent",
            "amount": self.amount,
            "currency": self.currency,
            "status": status,
            "capture_method": if self.manual { "manual" } else { "automatic" },
            "next_action": next_action,
            "last_payment_error": error,
            "latest_charge": charge,
            "metadata": { "purchase": self.purchase },
        })
    }
}

// === impl Books ===

impl Books {
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}_{:016}", self.made)
    }

    pub(crate) fn find(&mut self, id: &str) -> Result<&mut Payment, Refusal> {
        self.payments.get_mut(id).ok_or(MISSING)
    }

    pub(crate) fn tell(&mut self, kind: &str, object: &Value) {
        let id = self.name("evt");
        let event = json!({ "id": id, "object": "event", "type": kind, "data": { "object": object } });
        self.events.push((id, event));
    }

    fn tell_of(&mut self, kind: &str, id: &str, base: &str) {
        if let Some(payment) = self.payments.get(id) {
            let object = payment.json(base);
            self.tell(kind, &object);
        }
    }

    pub(crate) fn create(&mut self, fields: &HashMap<String, String>, base: &str) -> Result<String, Refusal> {
        let field = |name: &str| fields.get(name).map(String::as_str);
        let method = field("payment_method").or(field("payment_method_data[type]")).and_then(Method::parse);
        let amount = field("amount").and_then(|amount| amount.parse().ok()).filter(|amount| *amount > 0);
        let manual = field("capture_method") == Some("manual");
        let (Some(method), Some(amount)) = (method, amount) else {
            return Err((400, "invalid_request_error", "parameter_invalid", "A parameter cannot be used."));
        };
        if manual && method == Method::AtOnce {
            return Err((
                400,
                "invalid_request_error",
                "parameter_invalid",
                "No manual capture with this method.",
            ));
        }
        let id = self.name("pi");
        let payment = Payment {
            id: id.clone(),
            purchase: field("metadata[purchase]").unwrap_or_default().to_owned(),
            amount,
            currency: field("currency").unwrap_or_default().to_owned(),
            state: State::Created,
            authorised: 0,
            captured: 0,
            voided: 0,
            refunded: 0,
            method,
            manual,
            return_url: None,
        };
        self.payments.insert(id.clone(), payment);
        self.tell_of("payment_intent.created", &id, base);
        Ok(id)
    }

    /// `Ok(true)`: the bank is to decide it by and by.
    pub(crate) fn confirm(
        &mut self,
        id: &str,
        return_url: Option<String>,
        base: &str,
    ) -> Result<bool, Refusal> {
        let payment = self.find(id)?;
        if payment.state != State::Created {
            return Err(STATE);
        }
        payment.return_url = return_url;
        match payment.method {
            Method::Accepted | Method::CaptureRefused => self.accept(id, base),
            Method::Declined => {
                self.decline(id, base);
                return Err(DECLINED);
            }
            Method::Confirmed | Method::ConfirmedDeclined => {
                payment.state = State::RequiresAction;
                self.tell_of("payment_intent.requires_action", id, base);
                return Ok(true);
            }
            Method::AtOnce => {
                payment.state = State::Processing;
                self.tell_of("payment_intent.processing", id, base);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn accept(&mut self, id: &str, base: &str) {
        let Some(payment) = self.payments.get_mut(id) else { return };
        if payment.manual {
            payment.state = State::Authorised;
            payment.authorised += 1;
            self.tell_of("payment_intent.amount_capturable_updated", id, base);
        } else {
            payment.state = State::Captured;
            payment.captured += 1;
            self.tell_of("payment_intent.succeeded", id, base);
        }
    }

    fn decline(&mut self, id: &str, base: &str) {
        if let Some(payment) = self.payments.get_mut(id) {
            payment.state = State::Declined;
            self.tell_of("payment_intent.payment_failed", id, base);
        }
    }

    /// The bank decides what is pending. `false`: nothing is.
    pub(crate) fn decide(&mut self, id: &str, base: &str) -> bool {
        let Some(payment) = self.payments.get(id) else { return false };
        if !matches!(payment.state, State::RequiresAction | State::Processing) {
            return false;
        }
        if payment.method == Method::ConfirmedDeclined {
            self.decline(id, base);
        } else {
            self.accept(id, base);
        }
        true
    }

    pub(crate) fn capture(&mut self, id: &str, base: &str) -> Result<(), Refusal> {
        let payment = self.find(id)?;
        if payment.state != State::Authorised {
            return Err(STATE);
        }
        if payment.method == Method::CaptureRefused {
            return Err(DECLINED);
        }
        payment.state = State::Captured;
        payment.captured += 1;
        self.tell_of("payment_intent.succeeded", id, base);
        Ok(())
    }

    /// Cancelled by the shop, or because seven days are over.
    pub(crate) fn cancel(&mut self, id: &str, base: &str) -> Result<(), Refusal> {
        let payment = self.find(id)?;
        match payment.state {
            State::Authorised => payment.voided += 1,
            State::Created | State::RequiresAction | State::Declined => {}
            State::Processing | State::Captured | State::Canceled => return Err(STATE),
        }
        payment.state = State::Canceled;
        self.tell_of("payment_intent.canceled", id, base);
        Ok(())
    }

    pub(crate) fn refund(&mut self, id: &str, base: &str) -> Result<Value, Refusal> {
        let payment = self.find(id)?;
        if payment.state != State::Captured {
            return Err(STATE);
        }
        if payment.refunded > 0 {
            return Err((400, "invalid_request_error", "charge_already_refunded", "It has been refunded."));
        }
        payment.refunded += 1;
        let (amount, charge) = (payment.amount, payment.json(base)["latest_charge"].clone());
        self.tell("charge.refunded", &charge);
        let refund = self.name("re");
        Ok(
            json!({ "id": refund, "object": "refund", "amount": amount, "payment_intent": id, "status": "succeeded" }),
        )
    }
}
