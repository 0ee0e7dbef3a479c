//! Fields of requests and answers.

use ropeline_edge::{Field, Forward};
use wasip2::http::types::{Fields, Method};

/// Fields that belong to one connection and not to the message (RFC 9110 §7.6.1), and those that the host writes or
/// answers itself.
const OF_THE_CONNECTION: [&str; 10] = [
    "connection",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A method as it is sent.
pub(crate) fn method_name(method: &Method) -> &str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Connect => "CONNECT",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Patch => "PATCH",
        Method::Other(name) => name,
    }
}

/// Adds a field, unless it belongs to a connection. Hosts may forbid more; those are theirs to set.
pub(crate) fn append(fields: &Fields, name: &str, value: &[u8]) {
    if !OF_THE_CONNECTION.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        let _ = fields.append(name, value);
    }
}

/// The head of a request that is sent on. The host writes the upstream's own name into `Host`, so the name that was asked
/// for goes into `X-Forwarded-Host`. The shopper's address is believed only where this host is said to tell it.
pub(crate) fn onward(
    forward: &Forward<'_>,
    host: &str,
    fields: &[Field<'_>],
    has_body: bool,
    client_address: Option<&str>,
) -> Fields {
    let head = Fields::new();
    for (name, value) in fields {
        let ours = ["x-forwarded-host", "x-forwarded-for"].iter().any(|ours| name.eq_ignore_ascii_case(ours));
        // A length that none follows, as of a request that was chunked, would have the upstream wait for it.
        let stale = !has_body && name.eq_ignore_ascii_case("content-length") && *value != b"0";
        if !ours && !stale && !forward.removes(name) {
            append(&head, name, value);
        }
        if client_address.is_some_and(|field| name.eq_ignore_ascii_case(field)) {
            append(&head, "x-forwarded-for", value);
        }
    }
    append(&head, "x-forwarded-host", host.as_bytes());
    for (name, value) in &forward.set {
        append(&head, name, value.as_bytes());
    }
    head
}
