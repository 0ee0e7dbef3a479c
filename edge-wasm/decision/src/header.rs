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

/// What a shopper may not say to a shop, in lower case: names of fields. With it goes whatever begins as one of
/// [`BARRED_BEGINNINGS`]. They say where a request came from, which is not the shopper's to say, or are taken by
/// frameworks for another host, path or method than the one that was decided upon.
pub const BARRED: [&str; 23] = [
    "cf-connecting-ip",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "forwarded-for",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-original-path",
    "x-forwarded",
    "x-host",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-for",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
    "x-url-scheme",
];

/// Beginnings of names that a shopper may not say, in lower case.
pub const BARRED_BEGINNINGS: [&str; 2] = [OURS, "x-forwarded-"];

const OURS: &str = "ropeline-";

/// Whether a field belongs to Ropeline, so that one from outside must not reach the shop.
///
/// `Ropeline_Admission` counts too: CGI-like servers hand both spellings to the application as one variable.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    begins(name, OURS)
}

/// Whether a shopper may not say this to a shop: see [`BARRED`]. Underscores count as hyphens here, too.
#[must_use]
pub fn is_barred(name: &str) -> bool {
    BARRED_BEGINNINGS.into_iter().any(|beginning| begins(name, beginning))
        || BARRED.into_iter().any(|barred| name.len() == barred.len() && begins(name, barred))
}

/// Whether a name begins with this, in capitals or not and with underscores for hyphens.
fn begins(name: &str, beginning: &str) -> bool {
    let letters = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() });
    name.len() >= beginning.len() && letters.zip(beginning.bytes()).all(|(letter, wanted)| letter == wanted)
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
            "X_HTTP-METHOD",
            "X-Original-Forwarded-For",
            "X-Envoy-Original-Path",
            "x_url_scheme",
            "X-Forwarded-User",
            "x_forwarded_for",
            "Forwarded",
            "TRUE_CLIENT_IP",
        ] {
            assert!(is_barred(name), "{name}");
        }
        for name in
            ["X-Original", "X-Rewrite-URLs", "X-Method", "Forwarded-By", "X-Forwardeds", "Via", "ropelin"]
        {
            assert!(!is_barred(name), "{name}");
        }
        for name in ["", "Rope", "Ropeline", "Ropelines-X", "X-Ropeline-Sale", "ropeliné-x"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
