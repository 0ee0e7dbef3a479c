//! The request as the shop sees it.

use http::HeaderValue;
use pingora::http::RequestHeader;

use ropeline_decision::header;

use crate::config::HostHeader;
use crate::phases::context::Context;

/// Takes off what the client may not say and sets what the gateway knows.
pub(super) fn filter(
    request: &mut RequestHeader,
    host: &HostHeader,
    scheme: &'static str,
    context: &Context,
) -> pingora::Result<()> {
    let forged: Vec<_> =
        request.headers.keys().filter(|name| header::is_barred(name.as_str())).cloned().collect();
    for name in &forged {
        request.remove_header(name);
    }

    // Borrowed, not taken: a request is tried again when a pooled connection had died, and must be the same then.
    if let Some(target) = &context.target {
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
    for (name, value) in &context.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            request.insert_header(*name, value)?;
        }
    }
    Ok(())
}

/// How the client reached us, or our proxy in front.
pub(super) fn scheme(gateway: &crate::gateway::Gateway, session: &pingora::proxy::Session) -> &'static str {
    let tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some());
    if tls || gateway.cookies.secure { "https" } else { "http" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/x/../sale", None).unwrap();
        for (name, value) in [
            ("Host", "shop.example"),
            ("Ropeline-Admission", "forged"),
            ("ropeline_visitor", "forged"),
            ("X-Forwarded-For", "1.2.3.4"),
            ("X_Forwarded_For", "1.2.3.4"),
            ("X-Forwarded-Prefix", "/admin"),
            ("X_Original_URL", "/admin"),
            ("X-HTTP-Method-Override", "DELETE"),
            ("True_Client_IP", "1.2.3.4"),
            ("Accept", "text/html"),
        ] {
            request.append_header(name, value).unwrap();
        }
        request
    }

    fn context() -> Context {
        Context {
            client: Some("203.0.113.9".parse().unwrap()),
            headers: vec![(header::ADMISSION, "token".to_owned())],
            target: Some("/sale".to_owned()),
            ..Context::default()
        }
    }

    #[test]
    fn the_shop_sees_what_we_know_and_nothing_that_a_client_claims() {
        let mut request = request();
        filter(&mut request, &HostHeader::Preserve, "https", &context()).unwrap();
        let mut seen: Vec<_> = request
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        seen.sort();
        assert_eq!(
            seen,
            [
                "accept: text/html",
                "host: shop.example",
                "ropeline-admission: token",
                "x-forwarded-for: 203.0.113.9",
                "x-forwarded-host: shop.example",
                "x-forwarded-proto: https",
            ]
        );
        assert_eq!(request.raw_path(), b"/sale");
    }

    #[test]
    fn a_second_try_is_the_same_request() {
        let context = context();
        let (mut first, mut second) = (request(), request());
        for request in [&mut first, &mut second] {
            filter(request, &HostHeader::Preserve, "https", &context).unwrap();
        }
        assert_eq!(first.headers, second.headers);
        assert_eq!(first.raw_path(), second.raw_path());
    }
}
