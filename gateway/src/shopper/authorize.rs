//! `GET /authorize`: what would become of another request, for proxies that ask about each before they send it on
//! (`auth_request` of nginx, forward-auth of others).
//!
//! 204: it may go to the shop, at the target named and with the fields named. 401: its visitor waits. 403: the gateway
//! answers it itself, be it a call, be it a refusal. A proxy sends to the gateway whatever is not 204, and lets nobody
//! pass when there is no answer.
//!
//! Whoever asks learns only what the request with its own fields would meet, so anybody may.

use http::{HeaderName, HeaderValue, StatusCode};
use pingora::http::RequestHeader;

use super::must_wait;
use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::phases::context::Context;
use crate::phases::request::{Next, decide};
use crate::problem::Problem;

/// The fields in which a proxy says what it was asked for: the target and the method, under either pair of names.
const TARGETS: [&str; 2] = ["x-original-uri", "x-forwarded-uri"];
const METHODS: [&str; 2] = ["x-original-method", "x-forwarded-method"];

/// To the proxy: the path and query to ask the shop for, in the one spelling that was decided upon.
const TARGET: HeaderName = HeaderName::from_static("ropeline-target");

pub(super) fn answer(gateway: &Gateway, head: &RequestHeader) -> Result<Answer, Problem> {
    let original = original(head)?;
    let mut context = Context::default();
    match decide(gateway, &original, &mut context) {
        Next::Forward => {
            let target = context.target.as_ref().map_or(original.raw_path(), String::as_bytes);
            let mut answer = Answer::empty(StatusCode::NO_CONTENT).header(TARGET, value(target)?);
            for (name, text) in &context.headers {
                answer = answer.header(HeaderName::from_static(name), value(text.as_bytes())?);
            }
            Ok(answer)
        }
        Next::Room { sale, refusal, .. } => {
            Ok(must_wait(gateway, &sale, StatusCode::UNAUTHORIZED.as_u16(), refusal))
        }
        Next::Api(_) | Next::Answer(_) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "not_for_the_shop",
            "The request is not for the shop",
            "Send it to the gateway, which answers it.",
        )),
    }
}

fn value(bytes: &[u8]) -> Result<HeaderValue, Problem> {
    HeaderValue::from_bytes(bytes).map_err(|_| Problem::internal())
}

/// The head of the request that is asked about. Its host and its other fields are those of the question.
fn original(head: &RequestHeader) -> Result<RequestHeader, Problem> {
    let target = one(head, "target", &TARGETS)?;
    let method = one(head, "method", &METHODS)?;
    let method = http::Method::from_bytes(method).map_err(|_| original_invalid("method", &METHODS))?;
    let mut original = RequestHeader::build(method, target, Some(head.headers.len()))
        .map_err(|_| original_invalid("target", &TARGETS))?;
    original.set_version(head.version);
    for (name, value) in &head.headers {
        if !TARGETS.iter().chain(&METHODS).any(|said| name == said) {
            original.append_header(name, value).map_err(|_| Problem::internal())?;
        }
    }
    if let Some(authority) = head.uri.authority() {
        // HTTP/2 says the host there.
        if !original.headers.contains_key(http::header::HOST) {
            original
                .insert_header(http::header::HOST, authority.as_str())
                .map_err(|_| Problem::internal())?;
        }
    }
    Ok(original)
}

/// The one thing that these fields say. If a shopper could add a second one, it would be the shopper who says.
fn one<'a>(head: &'a RequestHeader, what: &str, names: &[&str; 2]) -> Result<&'a [u8], Problem> {
    let mut values = names.iter().flat_map(|name| head.headers.get_all(*name));
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value.as_bytes()),
        (None, _) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "original_missing",
            "The request asked about is not named",
            format!("Name its {what} in {} or {}.", names[0], names[1]),
        )),
        (Some(_), Some(_)) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "original_ambiguous",
            "The request asked about is named twice",
            format!(
                "Name its {what} once: set one of {} and {}, and take off the other.",
                names[0], names[1]
            ),
        )),
    }
}

fn original_invalid(what: &str, names: &[&str; 2]) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "original_invalid",
        "The request asked about is none",
        format!("Name its {what} in {} or {} as it was sent.", names[0], names[1]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(fields: &[(&'static str, &str)]) -> RequestHeader {
        let mut head = RequestHeader::build("GET", b"/api/v1/queue/authorize", None).unwrap();
        for (name, value) in fields {
            head.append_header(*name, *value).unwrap();
        }
        head
    }

    #[test]
    fn the_original_is_what_the_proxy_was_asked_for() {
        for (uri, method) in TARGETS.into_iter().zip(METHODS) {
            let asked = question(&[
                (uri, "/a/../sale%2f?b=c"),
                (method, "POST"),
                ("host", "shop.example"),
                ("cookie", "a=b"),
                ("cookie", "c=d"),
            ]);
            let original = original(&asked).unwrap();
            assert_eq!(original.method, "POST");
            assert_eq!(original.raw_path(), b"/a/../sale%2f?b=c");
            let names: Vec<_> = original.headers.keys().map(HeaderName::as_str).collect();
            assert_eq!(names, ["host", "cookie"]);
            assert_eq!(original.headers.get_all("cookie").iter().count(), 2);
        }
    }

    #[test]
    fn what_is_missing_or_said_twice_is_named() {
        let (uri, method) = (("x-original-uri", "/sale"), ("x-original-method", "GET"));
        for (fields, code) in [
            (&[][..], "original_missing"),
            (&[uri], "original_missing"),
            (&[method], "original_missing"),
            (&[uri, uri, method], "original_ambiguous"),
            (&[uri, method, ("x-forwarded-uri", "/free")], "original_ambiguous"),
            (&[uri, method, ("x-forwarded-method", "GET")], "original_ambiguous"),
            (&[uri, ("x-original-method", "no method")], "original_invalid"),
        ] {
            let problem = original(&question(fields)).unwrap_err();
            assert_eq!((problem.status(), problem.code()), (StatusCode::BAD_REQUEST, code), "{fields:?}");
        }
    }
}
