//! Checkout as a pure state machine: hold → paying → capturing → sold.
//!
//! Two things move together, the hold on the stock and the payment for it. Money is authorised while the hold is
//! [`Hold::Paying`], and captured only after the step to [`Hold::Capturing`], from where a hold can neither expire nor
//! be cancelled: money never moves without a unit. An authorisation that comes when the hold is over is voided.
//!
//! Nothing here looks at a clock. Whether a hold is due is decided by the store on the database's clock, which calls
//! [`expire`] for every due hold before it does anything else in a transaction.
//!
//! Reports of the payment service may come twice, late and in any order; every one of them has an answer in every state.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// The state of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Units are set aside until the hold's end.
    Held,
    /// A payment has been started; the hold still ends at its time.
    Paying,
    /// The payment is authorised and the units are certain; money is being captured.
    Capturing,
    /// The visitor owns the units.
    Sold,
    /// The visitor gave the units back.
    Cancelled,
    /// The hold's time was over.
    Expired,
}

/// The state of one payment for a hold. A hold may see several, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payment {
    /// The payment service has been, or is about to be, asked for the money.
    Authorising,
    /// The money is to be captured.
    Capturing,
    /// Money captured, units sold.
    Sold,
    /// Refused; no money moved.
    Declined,
    /// Authorised, but there is no hold for it: the authorisation is to be given back.
    Voiding,
    /// The authorisation was given back; no money moved.
    Voided,
    /// Captured without a hold (by a method that captures at once): the money is to be given back.
    Refunding,
    /// The money was given back.
    Refunded,
}

/// What happens to the units of the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StockMove {
    /// Nothing.
    Stay,
    /// From held to available.
    Release,
    /// From held to sold.
    Sell,
}

/// What the payment service says about a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// The money is set aside.
    Authorised,
    /// No.
    Declined,
    /// It never heard of this payment, and it shall not be asked again.
    NeverHeard,
    /// The money has moved.
    Captured,
    /// It will not move the money that it had set aside.
    CaptureRefused,
    /// The authorisation is over without a capture.
    Voided,
    /// The money has been given back.
    Refunded,
}

/// The outcome of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The hold from now on.
    pub hold: Hold,
    /// The payment from now on.
    pub payment: Payment,
    /// What happens to the units.
    pub stock: StockMove,
}

/// Why no payment can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginRefusal {
    /// Another payment for this hold is under way.
    Running,
    /// The units are paid for.
    Sold,
    /// The hold is over.
    Over,
}

/// Why a hold cannot be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelRefusal {
    /// The money is being captured.
    Capturing,
    /// The units are paid for.
    Sold,
}

/// Why a hold's time cannot be extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendRefusal {
    /// Holds are not extended here.
    Off,
    /// It has been extended.
    Used,
    /// The units are certain, and need no more time.
    Certain,
    /// The hold is over.
    Over,
}

/// Starts a payment.
///
/// # Errors
/// When one is under way or done, or the hold is over.
pub fn begin(hold: Hold) -> Result<(Hold, Payment), BeginRefusal> {
    match hold {
        Hold::Held => Ok((Hold::Paying, Payment::Authorising)),
        Hold::Paying | Hold::Capturing => Err(BeginRefusal::Running),
        Hold::Sold => Err(BeginRefusal::Sold),
        Hold::Cancelled | Hold::Expired => Err(BeginRefusal::Over),
    }
}

/// The visitor gives the units back. A hold whose time was over is not sold any more after that either, whatever a
/// payment still says.
///
/// # Errors
/// When the money is being captured or has been.
pub fn cancel(hold: Hold) -> Result<(Hold, StockMove), CancelRefusal> {
    match hold {
        Hold::Held | Hold::Paying => Ok((Hold::Cancelled, StockMove::Release)),
        Hold::Cancelled | Hold::Expired => Ok((Hold::Cancelled, StockMove::Stay)),
        Hold::Capturing => Err(CancelRefusal::Capturing),
        Hold::Sold => Err(CancelRefusal::Sold),
    }
}

/// The hold's time is over.
#[must_use]
pub fn expire(hold: Hold) -> (Hold, StockMove) {
    match hold {
        Hold::Held | Hold::Paying => (Hold::Expired, StockMove::Release),
        Hold::Capturing | Hold::Sold | Hold::Cancelled | Hold::Expired => (hold, StockMove::Stay),
    }
}

/// The visitor asks for more time, which is given once and changes no state. `offered`: whether it is given at all.
///
/// # Errors
/// When it is not to be had.
pub fn extend(hold: Hold, extended: bool, offered: bool) -> Result<(), ExtendRefusal> {
    match hold {
        _ if !offered => Err(ExtendRefusal::Off),
        Hold::Cancelled | Hold::Expired => Err(ExtendRefusal::Over),
        Hold::Capturing | Hold::Sold => Err(ExtendRefusal::Certain),
        Hold::Held | Hold::Paying if extended => Err(ExtendRefusal::Used),
        Hold::Held | Hold::Paying => Ok(()),
    }
}

/// Whether units are to be sought once more before `report` is taken: the money moved by itself while the hold ran out.
/// The state that the hold is in if they are found; if not, the report is taken as it is, and the money goes back. What
/// the visitor gave back is not sought again.
#[must_use]
pub fn retake(hold: Hold, payment: Payment, report: Report) -> Option<Hold> {
    match (hold, payment, report) {
        (Hold::Expired, Payment::Authorising, Report::Captured) => Some(Hold::Paying),
        _ => None,
    }
}

/// The payment service reports on `payment`, which was started for `hold`.
#[must_use]
pub fn report(hold: Hold, payment: Payment, report: Report) -> Step {
    let stay = Step { hold, payment, stock: StockMove::Stay };
    let to = |payment| Step { payment, ..stay };
    // Only the payment in Authorising or Capturing is the hold's own; older ones never touch it.
    let back = |payment| Step { hold: if hold == Hold::Paying { Hold::Held } else { hold }, payment, ..stay };
    match (payment, report) {
        (Payment::Authorising, Report::Authorised) if hold == Hold::Paying => {
            Step { hold: Hold::Capturing, payment: Payment::Capturing, ..stay }
        }
        (Payment::Authorising, Report::Authorised) => to(Payment::Voiding),
        (Payment::Authorising, Report::Declined | Report::NeverHeard) => back(Payment::Declined),
        (Payment::Authorising, Report::Voided) => back(Payment::Voided),
        (Payment::Authorising, Report::Captured) if hold == Hold::Paying => {
            Step { hold: Hold::Sold, payment: Payment::Sold, stock: StockMove::Sell }
        }
        (Payment::Authorising, Report::Captured) => to(Payment::Refunding),
        (Payment::Authorising, Report::Refunded) => back(Payment::Refunded),
        (Payment::Authorising, Report::CaptureRefused) => stay,

        (Payment::Capturing, Report::Captured) => {
            Step { hold: Hold::Sold, payment: Payment::Sold, stock: StockMove::Sell }
        }
        // The unit goes back under its hold, which the store's clock ends if its time is over.
        (Payment::Capturing, Report::CaptureRefused | Report::Declined) => {
            Step { hold: Hold::Held, payment: Payment::Voiding, ..stay }
        }
        (Payment::Capturing, Report::Voided) => Step { hold: Hold::Held, payment: Payment::Voided, ..stay },
        (Payment::Capturing, Report::Refunded) => {
            Step { hold: Hold::Held, payment: Payment::Refunded, ..stay }
        }
        (Payment::Capturing, Report::Authorised | Report::NeverHeard) => stay,

        // Given up as never heard of, and then it arrived there after all.
        (Payment::Declined, Report::Authorised) => to(Payment::Voiding),
        (Payment::Voiding, Report::Voided | Report::Declined | Report::NeverHeard) => to(Payment::Voided),
        (Payment::Declined | Payment::Voiding | Payment::Voided, Report::Captured) => to(Payment::Refunding),
        (Payment::Voiding | Payment::Refunding, Report::Refunded) => to(Payment::Refunded),

        (Payment::Declined | Payment::Voiding | Payment::Voided, _) => stay,
        (Payment::Sold | Payment::Refunding | Payment::Refunded, _) => stay,
    }
}

/// Whether `report` is a no of the payment service, of which a reason is kept: that tells it from a payment that was shut
/// because its hold was over, by whoever found it so.
#[must_use]
pub fn is_refusal(hold: Hold, payment: Payment, report: Report) -> bool {
    match report {
        _ if payment == Payment::Voiding => false,
        Report::Declined | Report::NeverHeard | Report::CaptureRefused => true,
        Report::Voided => !matches!(hold, Hold::Cancelled | Hold::Expired),
        Report::Authorised | Report::Captured | Report::Refunded => false,
    }
}

// === impl Hold ===

impl Hold {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Held, Self::Paying, Self::Capturing, Self::Sold, Self::Cancelled, Self::Expired];

    /// The word for it in the database and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Paying => "paying",
            Self::Capturing => "capturing",
            Self::Sold => "sold",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The state of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

// === impl Payment ===

impl Payment {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Authorising,
        Self::Capturing,
        Self::Sold,
        Self::Declined,
        Self::Voiding,
        Self::Voided,
        Self::Refunding,
        Self::Refunded,
    ];

    /// The word for it in the database and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authorising => "authorising",
            Self::Capturing => "capturing",
            Self::Sold => "sold",
            Self::Declined => "declined",
            Self::Voiding => "voiding",
            Self::Voided => "voided",
            Self::Refunding => "refunding",
            Self::Refunded => "refunded",
        }
    }

    /// The state of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing more is to be asked of the payment service.
    #[must_use]
    pub fn is_settled(self) -> bool {
        match self {
            Self::Sold | Self::Declined | Self::Voided | Self::Refunded => true,
            Self::Authorising | Self::Capturing | Self::Voiding | Self::Refunding => false,
        }
    }
}
