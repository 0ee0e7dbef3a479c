//! Amounts as Stripe counts them, which is not always as ISO 4217 does.
//!
//! See <https://docs.stripe.com/currencies#minor-units> and its special cases.

/// An amount in Stripe's unit, from one in the minor unit of ISO 4217. `None`: Stripe cannot charge it.
#[must_use]
pub(crate) fn amount(minor: i64, currency: &str) -> Option<i64> {
    match currency {
        // Without decimals here, and with two there, of which no other than zeros are taken.
        "ISK" | "UGX" => minor.checked_mul(100),
        // With two here and without any there.
        "MGA" => (minor % 100 == 0).then_some(minor / 100),
        // Three decimals, of which the last has to be a zero.
        "BHD" | "JOD" | "KWD" | "OMR" | "TND" => (minor % 10 == 0).then_some(minor),
        _ => Some(minor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_in_the_unit_that_stripe_counts_in() {
        for (minor, currency, expected) in [
            (18_900, "EUR", Some(18_900)),
            (500, "JPY", Some(500)),
            (5, "ISK", Some(500)),
            (5, "UGX", Some(500)),
            (i64::MAX, "UGX", None),
            (500, "MGA", Some(5)),
            (550, "MGA", None),
            (5_120, "KWD", Some(5_120)),
            (5_124, "KWD", None),
        ] {
            assert_eq!(amount(minor, currency), expected, "{minor} {currency}");
        }
    }
}
