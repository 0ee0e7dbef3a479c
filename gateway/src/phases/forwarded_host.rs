//! The host a shopper asked for, where a proxy in front cannot ask for it itself.
//!
//! Some edges can only ask for the gateway by the gateway's own name, and say in `X-Forwarded-Host` what the shopper
//! asked for. Where the operator has such a proxy, its word stands for the host from the first phase on, so that the
//! decision is made for the very host that the shop is asked for.

use http::{HeaderValue, Uri, header};
use pingora::http::RequestHeader;

/// Two hosts were said: which one the shopper asked for is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InDoubt;

/// Puts the host that a trusted proxy names in the place of the one it asked for. Without such a field nothing changes.
///
/// # Errors
/// The proxy names more than one, or none that could be one: it passes on what a client claimed, or stands behind another.
pub(super) fn apply(head: &mut RequestHeader) -> Result<(), InDoubt> {
    let mut lines = head.headers.get_all("x-forwarded-host").iter();
    let Some(host) = lines.next() else { return Ok(()) };
    let text = host.to_str().map_err(|_| InDoubt)?.trim();
    if lines.next().is_some() || ropeline_decision::host::name(text).is_none() {
        return Err(InDoubt);
    }
    let host = HeaderValue::from_str(text).map_err(|_| InDoubt)?;
    if head.uri.authority().is_some() {
        let mut parts = head.uri.clone().into_parts();
        parts.authority = Some(text.parse().map_err(|_| InDoubt)?);
        head.set_uri(Uri::from_parts(parts).map_err(|_| InDoubt)?);
    }
    head.insert_header(header::HOST, host).map_err(|_| InDoubt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&'static str, &str)]) -> RequestHeader {
        let mut head = RequestHeader::build("GET", b"/sale", None).unwrap();
        for (name, value) in fields {
            head.append_header(*name, *value).unwrap();
        }
        head
    }

    fn hosts(head: &RequestHeader) -> Vec<&str> {
        head.headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap()).collect()
    }

    #[test]
    fn what_the_proxy_says_stands_for_what_it_asked() {
        let mut said = head(&[("host", "gateway.internal:8080"), ("x-forwarded-host", " shop.example:444 ")]);
        apply(&mut said).unwrap();
        assert_eq!(hosts(&said), ["shop.example:444"]);

        let mut silent = head(&[("host", "shop.example")]);
        apply(&mut silent).unwrap();
        assert_eq!(hosts(&silent), ["shop.example"]);
    }

    #[test]
    fn on_http_2_the_authority_is_the_same() {
        let mut said = head(&[("x-forwarded-host", "shop.example")]);
        said.set_uri("https://gateway.internal/sale?a=b".parse().unwrap());
        apply(&mut said).unwrap();
        assert_eq!(said.uri, "https://shop.example/sale?a=b");
        assert_eq!(hosts(&said), ["shop.example"]);
    }

    #[test]
    fn a_host_in_doubt_is_no_host() {
        for fields in [
            &[("x-forwarded-host", "shop.example"), ("x-forwarded-host", "shop.example")][..],
            &[("x-forwarded-host", "other.example, shop.example")],
            &[("x-forwarded-host", "")],
            &[("x-forwarded-host", "shop.example/sale")],
            &[("x-forwarded-host", "a@shop.example")],
        ] {
            assert_eq!(apply(&mut head(fields)), Err(InDoubt), "{fields:?}");
        }
    }
}
