//! Stripe's events, read. Their order is not kept, so none of them is taken for how things stand: each says what would
//! have to be so, and where that is not what the books say, Stripe is asked.

use serde::Deserialize;

use crate::checkout::Report;
use crate::payments::{Message, Says};

/// Members that are not named are passed over: cards and addresses among them.
#[derive(Deserialize)]
struct Event {
    id: String,
    r#type: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    id: String,
    #[serde(default)]
    payment_intent: Option<String>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    purchase: Option<String>,
}

/// Reads the body of a webhook.
///
/// # Errors
/// When it is no event.
pub(super) fn read(body: &[u8]) -> Result<Message, serde_json::Error> {
    let Event { id, r#type: kind, data: Data { object } } = serde_json::from_slice(body)?;
    let would_be = match kind.as_str() {
        "payment_intent.amount_capturable_updated" => Some(Report::Authorised),
        "payment_intent.succeeded" => Some(Report::Captured),
        "payment_intent.payment_failed" => Some(Report::Declined),
        "payment_intent.canceled" => Some(Report::Voided),
        "charge.refunded" => Some(Report::Refunded),
        _ => None,
    };
    let reference = if kind.starts_with("payment_intent.") { Some(object.id) } else { object.payment_intent };
    let says = match would_be {
        Some(report) => Says::Ask(report),
        // Where the shopper has to go may be news, though nothing is decided.
        None if kind == "payment_intent.requires_action" => Says::Look,
        None => {
            if kind.starts_with("charge.dispute.") || kind.starts_with("refund.failed") {
                tracing::warn!(event = id, kind, payment = reference, "for a person to look at");
            }
            Says::Nothing
        }
    };
    Ok(Message {
        id,
        kind,
        purchase: object.metadata.and_then(|metadata| metadata.purchase),
        reference,
        says,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, object: &str) -> Message {
        read(
            format!(r#"{{"id":"evt_1","object":"event","type":"{kind}","data":{{"object":{object}}}}}"#)
                .as_bytes(),
        )
        .unwrap()
    }

    #[test]
    fn events_say_what_would_have_to_be_so() {
        let intent =
            r#"{"id":"pi_1","object":"payment_intent","amount":5,"metadata":{"purchase":"pur_1","x":"y"}}"#;
        for (kind, says) in [
            ("payment_intent.amount_capturable_updated", Says::Ask(Report::Authorised)),
            ("payment_intent.succeeded", Says::Ask(Report::Captured)),
            ("payment_intent.payment_failed", Says::Ask(Report::Declined)),
            ("payment_intent.canceled", Says::Ask(Report::Voided)),
            ("payment_intent.requires_action", Says::Look),
            ("payment_intent.created", Says::Nothing),
        ] {
            let message = event(kind, intent);
            assert_eq!(message.says, says, "{kind}");
            assert_eq!(
                (message.purchase.as_deref(), message.reference.as_deref()),
                (Some("pur_1"), Some("pi_1"))
            );
        }
    }

    #[test]
    fn a_charge_s_event_names_the_payment_that_it_belongs_to() {
        let refunded = event("charge.refunded", r#"{"id":"ch_1","payment_intent":"pi_1","metadata":{}}"#);
        assert_eq!(refunded.says, Says::Ask(Report::Refunded));
        assert_eq!((refunded.purchase, refunded.reference.as_deref()), (None, Some("pi_1")));
        let disputed = event("charge.dispute.created", r#"{"id":"dp_1","payment_intent":"pi_1"}"#);
        assert_eq!((disputed.says, disputed.reference.as_deref()), (Says::Nothing, Some("pi_1")));
        assert_eq!(event("customer.created", r#"{"id":"cus_1"}"#).says, Says::Nothing);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for body in ["", "{}", r#"{"id":1}"#, r#"{"id":"evt_1","type":"x"}"#] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
