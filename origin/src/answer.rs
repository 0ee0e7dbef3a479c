//! Answers apart from their wire form: kept with their idempotency key, and rendered for programs or for browsers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::checkout::{BeginRefusal, CancelRefusal, ExtendRefusal, Hold, Payment};
use crate::documents::{Basics, Members};
use crate::model::{Product, Purchase, Reservation, Stock};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The `Location` header, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Where a browser goes from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The `Retry-After` header, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
    /// The body: a problem document (RFC 9457) from status 400, else the thing itself.
    pub body: Value,
}

// === impl Answer ===

impl Answer {
    fn of(status: u16, body: Value) -> Self {
        Self { status, location: None, page: None, retry_after_s: None, body }
    }

    /// A problem document.
    #[must_use]
    pub(crate) fn problem(status: u16, code: &str, title: &str, detail: impl Into<String>) -> Self {
        let problem = Basics {
            kind: format!("urn:ropeline:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code: code.to_owned(),
        };
        Self::of(status, json!(problem))
    }

    /// Whether the body is a problem document.
    #[must_use]
    pub(crate) fn is_problem(&self) -> bool {
        self.status >= 400
    }

    /// Whether this refused what may be possible in a moment, having changed nothing: its key is not used up by it.
    #[must_use]
    pub(crate) fn is_passing(&self) -> bool {
        self.is_problem() && self.retry_after_s.is_some()
    }

    /// One of the body's texts, for the page.
    #[must_use]
    pub(crate) fn text(&self, member: &str) -> &str {
        self.body.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    /// Adds members to a problem document.
    #[must_use]
    pub(crate) fn with(mut self, set: impl FnOnce(&mut Members)) -> Self {
        let mut members = Members::default();
        set(&mut members);
        if let (Value::Object(body), Value::Object(more)) = (&mut self.body, json!(members)) {
            body.extend(more);
        }
        self
    }

    /// Says where a browser goes.
    #[must_use]
    pub(crate) fn page(mut self, page: impl Into<String>) -> Self {
        self.page = Some(page.into());
        self
    }

    /// Says when to try again.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self.with(|more| more.retry_after_s = Some(seconds))
    }

    fn at(mut self, location: String) -> Self {
        self.location = Some(location);
        self
    }

    /// 201: the hold that was made.
    #[must_use]
    pub(crate) fn reserved(hold: &Reservation) -> Self {
        Self { status: 201, ..Self::reservation(hold) }
    }

    /// 200: a reservation.
    #[must_use]
    pub(crate) fn reservation(hold: &Reservation) -> Self {
        Self::of(200, json!(hold.document())).at(hold.path()).page(hold.page())
    }

    /// 204: the hold is over.
    #[must_use]
    pub(crate) fn cancelled(hold: &Reservation) -> Self {
        Self::of(204, Value::Null).page(format!("/products/{}", hold.product))
    }

    /// 200: a purchase as it stands, whatever that is.
    #[must_use]
    pub(crate) fn purchase(purchase: &Purchase) -> Self {
        let answer = Self::of(200, json!(purchase.document())).page(purchase.path());
        match purchase.state {
            Payment::Authorising | Payment::Capturing => Self { retry_after_s: Some(1), ..answer },
            _ => answer,
        }
    }

    /// What a purchase call is answered: 201 sold, 202 still under way, 402 declined, 409 too late.
    #[must_use]
    pub(crate) fn purchased(purchase: &Purchase) -> Self {
        // Who still has a hold can pay another way at once.
        let hold = &purchase.reservation;
        let page = if hold.state == Hold::Held { hold.page() } else { purchase.path() };
        let link = |answer: Self| {
            answer
                .with(|more| more.purchase = Some(purchase.path()))
                .with(|more| more.reservation = Some(hold.path()))
                .at(purchase.path())
                .page(page.clone())
        };
        match purchase.state {
            Payment::Sold => Self { status: 201, ..Self::purchase(purchase) }.at(purchase.path()),
            Payment::Authorising | Payment::Capturing => {
                Self { status: 202, ..Self::purchase(purchase) }.at(purchase.path())
            }
            // Whatever came before it: money was taken.
            Payment::Refunding | Payment::Refunded => link(Self::problem(
                409,
                "payment_too_late",
                "The payment came too late",
                format!(
                    "There was no hold for it any more{}. {} You may reserve again.",
                    if purchase.reservation.chosen {
                        ", and nobody is sold other units than those that they chose"
                    } else {
                        ""
                    },
                    money(purchase.state)
                ),
            )),
            // With a reason it was the payment service's no; without, the hold was over first.
            state if state == Payment::Declined || purchase.reason.is_some() => link(Self::problem(
                402,
                "payment_declined",
                "The payment was declined",
                format!(
                    "{} {} {}",
                    purchase.reason.as_deref().unwrap_or("The payment service said no."),
                    money(purchase.state),
                    if purchase.reservation.state == Hold::Held {
                        "The hold stays yours until its time is over; pay another way."
                    } else {
                        "The hold is over meanwhile; reserve again."
                    }
                ),
            )),
            state => link(Self::problem(
                409,
                "payment_too_late",
                "The payment came too late",
                format!(
                    "{} before the payment was certain, and the unit went back to the others. {} You may reserve again.",
                    if hold.state == Hold::Cancelled { "You gave it back" } else { "The hold ended" },
                    money(state)
                ),
            )),
        }
    }

    /// 409: nothing to hold.
    #[must_use]
    pub(crate) fn nothing_left(product: &Product, left: Stock, quantity: i64) -> Self {
        let answer = if left.available > 0 {
            Self::problem(
                409,
                "not_enough",
                "Not that many left",
                format!("You asked for {quantity}; {} can be had. Ask for fewer.", left.available),
            )
        } else if left.held > 0 {
            Self::problem(
                409,
                "all_held",
                "All of them are in other baskets",
                "Every unit left is held by somebody who may still pay. Try again soon: some come back.",
            )
            .retry_after(5)
        } else {
            Self::problem(409, "sold_out", "Sold out", "Every unit is sold.")
        };
        answer
            .with(|more| more.available = Some(left.available))
            .with(|more| more.held = Some(left.held))
            .page(format!("/products/{}", product.id))
    }

    /// 409: one visitor, one purchase.
    #[must_use]
    pub(crate) fn already_bought(hold: &Reservation) -> Self {
        Self::problem(409, "already_bought", "You already have it", "One visitor can buy this product once.")
            .with(|more| more.reservation = Some(hold.path()))
            .page(hold.page())
    }

    /// 404: no such product.
    #[must_use]
    pub(crate) fn no_product() -> Self {
        Self::problem(
            404,
            "product_unknown",
            "No such product",
            "This shop does not sell a product of that name.",
        )
    }

    /// 404: no such reservation, or another visitor's.
    #[must_use]
    pub(crate) fn no_reservation() -> Self {
        Self::problem(
            404,
            "reservation_unknown",
            "No such reservation",
            "There is no reservation of that name, or it is another visitor's.",
        )
    }

    /// 404: no such purchase, or another visitor's.
    #[must_use]
    pub(crate) fn no_purchase() -> Self {
        Self::problem(
            404,
            "purchase_unknown",
            "No such purchase",
            "There is no purchase of that name, or it is another visitor's.",
        )
    }

    /// 422: more than one visitor may hold.
    #[must_use]
    ///
    /// `asked`: the member that asked for so many.
    pub(crate) fn too_many(product: &Product, asked: &str) -> Self {
        Self::problem(
            422,
            "quantity_too_large",
            "Too many for one visitor",
            format!("{asked}: at most {} of this product; ask for fewer.", product.max_quantity),
        )
        .with(|more| more.max_quantity = Some(product.max_quantity))
        .page(format!("/products/{}", product.id))
    }

    /// 422: the product's units have no numbers to choose by.
    #[must_use]
    pub(crate) fn not_numbered(product: &Product) -> Self {
        Self::problem(
            422,
            "units_not_numbered",
            "Its units have no numbers",
            "units: one of this product is like the other; ask for a quantity.",
        )
        .page(format!("/products/{}", product.id))
    }

    /// 422: there are no units of these labels.
    #[must_use]
    pub(crate) fn unit_unknown(product: &Product, labels: &[String]) -> Self {
        Self::problem(
            422,
            "unit_unknown",
            "There is no such unit",
            format!("units: this product has no {}.", labels.join(", ")),
        )
        .with(|more| more.unknown = Some(labels.to_vec()))
        .page(format!("/products/{}", product.id))
    }

    /// 409: chosen units are somebody else's; none of the others was taken.
    #[must_use]
    pub(crate) fn unit_taken(product: &Product, labels: &[String]) -> Self {
        Self::problem(
            409,
            "unit_taken",
            "Somebody else was faster",
            format!("{} cannot be had any more. Nothing was reserved: choose others.", labels.join(", ")),
        )
        .with(|more| more.taken = Some(labels.to_vec()))
        .page(format!("/products/{}", product.id))
    }

    /// 409: as many as one visitor may have.
    #[must_use]
    pub(crate) fn visitor_limit(product: &Product, limit: i64, has: i64) -> Self {
        Self::problem(
            409,
            "visitor_limit",
            "That is more than one visitor may have",
            format!("One visitor may have {limit} of everything together, and you hold or own {has}."),
        )
        .with(|more| more.units_per_visitor = Some(limit))
        .with(|more| more.has = Some(has))
        .page(format!("/products/{}", product.id))
    }

    /// 503: the product's books do not add up.
    #[must_use]
    pub(crate) fn stopped(product: &Product) -> Self {
        Self::problem(
            503,
            "product_stopped",
            "Its sale is stopped for now",
            "The shop is checking how many of it there are. Nothing is lost; look again later.",
        )
        .retry_after(30)
        .page(format!("/products/{}", product.id))
    }

    /// 409: the hold's time stays as it is.
    #[must_use]
    pub(crate) fn cannot_extend(why: ExtendRefusal, hold: &Reservation) -> Self {
        let (code, title, detail) = match why {
            ExtendRefusal::Off => {
                ("extension_off", "There is no more time to be had", "Holds are not extended here.")
            }
            ExtendRefusal::Used => (
                "extension_used",
                "It was extended before",
                "A hold is extended once; pay before its time is over.",
            ),
            ExtendRefusal::Certain => (
                "extension_needless",
                "It needs no more time",
                "The payment has been authorised, so the unit is yours whatever the time.",
            ),
            ExtendRefusal::Over => ("hold_over", "The hold is over", over(hold)),
        };
        Self::problem(409, code, title, detail)
            .with(|more| more.reservation = Some(hold.path()))
            .page(hold.page())
    }

    /// 422: the key belongs to another request.
    #[must_use]
    pub(crate) fn key_reused() -> Self {
        Self::problem(
            422,
            "idempotency_key_reused",
            "This key belongs to another request",
            "The Idempotency-Key was used before with other content. Use a new key for a new request.",
        )
    }

    /// 409: the same request is being worked on.
    #[must_use]
    pub(crate) fn in_flight() -> Self {
        Self::problem(
            409,
            "request_in_flight",
            "This request is being worked on",
            "A request with this Idempotency-Key has not been answered yet. Repeat it in a moment to have its answer.",
        )
        .retry_after(1)
    }

    /// 409: no payment can be started.
    #[must_use]
    pub(crate) fn cannot_pay(why: BeginRefusal, hold: &Reservation) -> Self {
        match why {
            BeginRefusal::Running => Self::problem(
                409,
                "payment_running",
                "A payment is under way",
                "Another payment for this reservation has not been settled. Look at the reservation for its outcome.",
            )
            .retry_after(1),
            BeginRefusal::Sold => {
                return Self::already_bought(hold);
            }
            BeginRefusal::Over => Self::problem(
                409,
                "hold_over",
                "The hold is over",
                format!("{} No payment was started.", over(hold)),
            ),
        }
        .with(|more| more.reservation = Some(hold.path()))
        .page(hold.page())
    }

    /// 409: the hold cannot be given back.
    #[must_use]
    pub(crate) fn cannot_cancel(why: CancelRefusal, hold: &Reservation) -> Self {
        match why {
            CancelRefusal::Capturing => Self::problem(
                409,
                "payment_capturing",
                "The payment is being taken",
                "The payment has been authorised and is being taken this moment; the unit is yours.",
            ),
            CancelRefusal::Sold => Self::problem(
                409,
                "already_bought",
                "You already have it",
                "What is paid for cannot be given back here.",
            ),
        }
        .with(|more| more.reservation = Some(hold.path()))
        .page(hold.page())
    }

    /// 503: the store did not answer as it should.
    #[must_use]
    pub(crate) fn unavailable() -> Self {
        Self::problem(
            503,
            "unavailable",
            "The shop cannot answer just now",
            "Nothing is lost. Repeat the request with the same Idempotency-Key in a moment.",
        )
        .retry_after(2)
    }
}

/// What became of the shopper's money, in the one wording for answers and pages.
#[must_use]
pub(crate) fn money(payment: Payment) -> &'static str {
    match payment {
        Payment::Authorising | Payment::Capturing => {
            "Should money still be taken without a unit for it, it comes back in full."
        }
        Payment::Sold => "The money was taken.",
        Payment::Declined => "Nothing was charged.",
        Payment::Voiding | Payment::Voided => "Nothing was charged: what was set aside is released.",
        Payment::Refunding => "The money that was taken is being given back in full.",
        Payment::Refunded => "The money that was taken has been given back in full.",
    }
}

/// Why a hold is over, and what to do.
fn over(hold: &Reservation) -> &'static str {
    match hold.state {
        Hold::Cancelled => "You gave it back, and the unit went back to the others. Reserve again.",
        _ => "The time to pay is over and the unit went back to the others. Reserve again.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purchase(state: Payment, reason: Option<&str>) -> Purchase {
        Purchase {
            id: "pur_1".into(),
            state,
            method: "any".into(),
            reason: reason.map(str::to_owned),
            created_at: 1,
            provider_ref: None,
            redirect_url: None,
            email: None,
            reservation: Reservation {
                id: "rsv_1".into(),
                product: "runner".into(),
                visitor: "ann".into(),
                quantity: 1,
                amount_minor: 1,
                currency: "EUR".into(),
                state: Hold::Held,
                created_at: 1,
                expires_at: i64::MAX,
                extended: false,
                bucket: 0,
                version: 0,
                units: Vec::new(),
                chosen: false,
            },
        }
    }

    #[test]
    fn nobody_whose_money_was_taken_is_told_that_nothing_was_charged() {
        for state in [Payment::Refunding, Payment::Refunded] {
            for reason in [None, Some("The payment service did not take the payment.")] {
                let answer = Answer::purchased(&purchase(state, reason));
                assert_eq!((answer.status, answer.text("code")), (409, "payment_too_late"));
                let detail = answer.text("detail");
                assert!(detail.contains("given back in full") && !detail.contains("Nothing was"), "{detail}");
            }
        }
        for state in [Payment::Declined, Payment::Voiding, Payment::Voided] {
            let answer = Answer::purchased(&purchase(state, Some("Your bank said no.")));
            assert_eq!((answer.status, answer.text("code")), (402, "payment_declined"));
            let detail = answer.text("detail");
            assert!(detail.contains("Your bank said no. Nothing was charged"), "{detail}");
        }
    }

    #[test]
    fn who_gave_a_hold_back_is_not_told_that_it_ended() {
        for (state, told) in
            [(Hold::Cancelled, "You gave it back before"), (Hold::Expired, "The hold ended before")]
        {
            let mut over = purchase(Payment::Voided, None);
            over.reservation.state = state;
            let answer = Answer::purchased(&over);
            assert_eq!((answer.status, answer.text("code")), (409, "payment_too_late"));
            assert!(answer.text("detail").starts_with(told), "{}", answer.text("detail"));
        }
    }
}
