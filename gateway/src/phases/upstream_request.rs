//! The request as the shop sees it.

use http::HeaderValue;
use pingora::http::RequestHeader;

use ropeline_decision::header;

use crate::config::HostHeader;
use crate::phases::context::Context;

/// Headers that say where a request came from, or that frameworks take for another path than the one decided upon. What
/// the client claims is taken off; what we know is set.
const FORWARDING: [&str; 15] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "x-original-url",
    "x-rewrite-url",
];

/// Takes off what the client may not say and sets what the gateway knows.
pub(super) fn filter(
    request: &mut RequestHeader,
    host: &HostHeader,
    scheme: &'static str,
    context: &mut Context,
) -> pingora::Result<()> {
    let forged: Vec<_> = request
        .headers
        .keys()
        .filter(|name| header::is_ours(name.as_str()) || FORWARDING.contains(&name.as_str()))
        .cloned()
        .collect();
    for name in &forged {
        request.remove_header(name);
    }

    if let Some(target) = context.target.take() {
        request.set_raw_path(target.as_bytes())?;
    }
    if let Some(original) = request.headers.get(http::header::HOST).cloned() {
        request.insert_header("x-forwarded-host", original)?;
    }
    if let HostHeader::Fixed(fixed) = host {
        request.insert_header(http::header::HOST, fixed.clone())?;
    }
    request.insert_header("x-forwarded-proto", scheme)?;
    if let Some(client) = context.client {
        request.insert_header("x-forwarded-for", client.to_string())?;
    }
    for (name, value) in context.headers.drain(..) {
        if let Ok(value) = HeaderValue::try_from(value) {
            request.insert_header(name, value)?;
        }
    }
    Ok(())
}

/// How the client reached us, or our proxy in front.
pub(super) fn scheme(gateway: &crate::gateway::Gateway, session: &pingora::proxy::Session) -> &'static str {
    let tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some());
    if tls || gateway.cookies.secure { "https" } else { "http" }
}
