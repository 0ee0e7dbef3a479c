//! Header fields, by name and in the order received; fields may repeat.

/// Name and value of one field. Names are compared without case.
pub type Field<'a> = (&'a str, &'a [u8]);

/// An admission token: from an app to the gateway, and from the gateway to the shop.
pub const ADMISSION: &str = "ropeline-admission";
/// A queue ticket, from an app.
pub const TICKET: &str = "ropeline-ticket";
/// The visitor: a signed one from an app; to the shop, the `sub` of the admission token.
pub const VISITOR: &str = "ropeline-visitor";
/// The sale a forwarded request was admitted to.
pub const SALE: &str = "ropeline-sale";
/// From the shop: `hold` when the lease has a hold, `end` when it may end.
pub const LEASE: &str = "ropeline-lease";
/// From the shop: what is left to sell.
pub const STOCK: &str = "ropeline-stock";

/// Whether a field belongs to Ropeline, so that one from outside must not reach the shop.
///
/// `Ropeline_Admission` counts too: CGI-like servers hand both spellings to the application as one variable.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    let (prefix, separator) = (name.as_bytes().get(..8), name.as_bytes().get(8));
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"ropeline"))
        && matches!(separator, Some(b'-' | b'_'))
}

/// Fields that frameworks take for another path or method than the one that was decided upon.
const MISLEADING: [&[u8]; 4] =
    [b"x-original-url", b"x-rewrite-url", b"x-http-method-override", b"x-method-override"];

/// Whether a shopper may not say this to a shop: it is ours to say, or would lead the shop to another page than the one
/// that was decided upon. Underscores count as hyphens here, too.
#[must_use]
pub fn is_barred(name: &str) -> bool {
    let spelt = |barred: &[u8]| {
        let letters = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() });
        letters.eq(barred.iter().copied())
    };
    is_ours(name) || MISLEADING.into_iter().any(spelt)
}

/// All values of the named field, in order.
pub fn values<'a>(headers: &'a [Field<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_fields_are_known_in_any_spelling_that_a_shop_may_take_for_them() {
        for name in
            ["Ropeline-Admission", "ROPELINE-VISITOR", "ropeline_sale", "ropeline-", "Ropeline_Anything"]
        {
            assert!(is_ours(name), "{name}");
        }
        for name in [
            "Ropeline-Sale",
            "X-Original-URL",
            "x_rewrite_url",
            "X-HTTP-Method_Override",
            "X-Method-Override",
        ] {
            assert!(is_barred(name), "{name}");
        }
        for name in ["X-Original-URI", "X-Rewrite-URLs", "X-Method"] {
            assert!(!is_barred(name), "{name}");
        }
        for name in ["", "Rope", "Ropeline", "Ropelines-X", "X-Ropeline-Sale", "ropeliné-x"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
