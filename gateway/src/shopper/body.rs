//! The small bodies of the queue's own calls: JSON from scripts and apps, forms from pages without JavaScript.

use std::time::Duration;

use http::{StatusCode, header};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use serde::Deserialize;

use crate::problem::Problem;

/// Longest body taken, in bytes.
const MAX_BODY: usize = 4 * 1024;
/// Longest a client may take to send it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a shopper's call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The sale's identifier, as sent.
    pub sale: String,
    /// Asks for a new number at the back after a lapse.
    pub again: bool,
    /// The invitation that the visitor shows, as sent.
    pub invitation: Option<String>,
    /// The proof of work that a join was asked for, as sent.
    pub proof: Option<String>,
    /// Set when the call came from a form: where its sender goes next. Always a path of this site.
    pub return_to: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    sale: String,
    #[serde(default)]
    again: bool,
    #[serde(default)]
    invitation: Option<String>,
    #[serde(default)]
    proof: Option<String>,
}

/// Reads and parses the body of one of the queue's own calls.
///
/// # Errors
/// A problem that says what to mend: wrong media type, too long, too slow, or not what was expected.
pub(super) async fn read_call(session: &mut Session, api_prefix: &str) -> Result<Call, Problem> {
    let media_type = session
        .req_header()
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
        .unwrap_or_default();
    let body = tokio::time::timeout(PATIENCE, read_bounded(session)).await.map_err(|_| {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_too_slow",
            "The request body came too slowly",
            "Send the whole body within 5 seconds.",
        )
    })??;
    let mut call = parse_call(&media_type, &body)?;
    if call.return_to.is_some() {
        // The static room cannot know under which address it was shown; the browser does.
        if let Some(page) = referring_page(session.req_header(), api_prefix) {
            call.return_to = Some(page);
        }
    }
    // A link to the sale may carry it. It has done its work then, and goes no further.
    if let Some((page, shown)) = call.return_to.as_deref().map(without_invitation) {
        call.invitation = call.invitation.or(shown);
        call.return_to = Some(page);
    }
    Ok(call)
}

/// The page of this host that a form was sent from, as a path with its query; not the room at its own address.
pub(super) fn referring_page(head: &RequestHeader, api_prefix: &str) -> Option<String> {
    let referer = head.headers.get(header::REFERER)?.to_str().ok()?;
    let host = head.headers.get(header::HOST)?.to_str().ok()?;
    let (_, rest) = referer.split_once("://")?;
    let path = rest.strip_prefix(host).filter(|path| path.starts_with('/'))?;
    same_site_path(path).filter(|path| !path.starts_with(api_prefix)).map(str::to_owned)
}

/// A path without the invitation in its query, and that.
pub(super) fn without_invitation(path: &str) -> (String, Option<String>) {
    let Some((page, query)) = path.split_once('?') else { return (path.to_owned(), None) };
    let (mut kept, mut shown) = (Vec::new(), None);
    for part in query.split('&') {
        match form_urlencoded::parse(part.as_bytes()).next() {
            Some((name, value)) if name == "invitation" => shown = Some(value.into_owned()),
            _ => kept.push(part),
        }
    }
    let page = if kept.is_empty() { page.to_owned() } else { format!("{page}?{}", kept.join("&")) };
    (page, shown.filter(|shown| !shown.is_empty()))
}

async fn read_bounded(session: &mut Session) -> Result<Vec<u8>, Problem> {
    let mut body = Vec::new();
    loop {
        match session.as_downstream_mut().read_request_body().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY => {
                return Err(Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "body_too_large",
                    "The request body is too large",
                    format!("Send at most {MAX_BODY} bytes."),
                ));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(_) => {
                return Err(Problem::new(
                    StatusCode::BAD_REQUEST,
                    "body_broken",
                    "The request body could not be read",
                    "Send the body whole, framed by Content-Length or chunked as RFC 9112 says.",
                ));
            }
        }
    }
}

/// Parses a call's body by its media type.
///
/// # Errors
/// A problem that says what to mend.
pub fn parse_call(media_type: &str, body: &[u8]) -> Result<Call, Problem> {
    match media_type {
        "application/json" => {
            let fields: Fields = serde_json::from_slice(body).map_err(|error| {
                Problem::new(
                    StatusCode::BAD_REQUEST,
                    "body_invalid",
                    "The request body is not what this call takes",
                    format!("Send a JSON object such as {{\"sale\":\"…\"}}: {error}."),
                )
            })?;
            let Fields { sale, again, invitation, proof } = fields;
            Ok(Call { sale, again, invitation, proof, return_to: None })
        }
        "application/x-www-form-urlencoded" => {
            let return_to = Some("/".to_owned());
            let sale = String::new();
            let mut call = Call { sale, again: false, invitation: None, proof: None, return_to };
            for (name, value) in form_urlencoded::parse(body) {
                match &*name {
                    "sale" => call.sale = value.into_owned(),
                    "invitation" => {
                        let shown = value.trim();
                        call.invitation = (!shown.is_empty()).then(|| shown.to_owned());
                    }
                    "again" => call.again = matches!(&*value, "1" | "true" | "on"),
                    "return" => call.return_to = Some(same_site_path(&value).unwrap_or("/").to_owned()),
                    _ => {}
                }
            }
            Ok(call)
        }
        _ => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media_type_unsupported",
            "This call takes JSON or a form",
            "Send Content-Type: application/json or application/x-www-form-urlencoded.",
        )),
    }
}

/// The path if it stays on this site: it starts with one slash, and holds nothing that a browser reads otherwise.
#[must_use]
pub fn same_site_path(path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?;
    let stays = !rest.starts_with(['/', '\\'])
        && path.len() <= 2048
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    stays.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_never_leads_to_another_site() {
        for bad in [
            "//evil.example/",
            "/\\evil.example",
            "https://evil.example",
            "evil",
            "",
            "/a\\b",
            "/\tx",
            "/a b",
            "/\r\nSet-Cookie: a=b",
        ] {
            assert_eq!(same_site_path(bad), None, "{bad:?}");
        }
        for good in ["/", "/sale?size=42&x=%2F", "/a/b#c", "/a//b"] {
            assert_eq!(same_site_path(good), Some(good));
        }
    }

    #[test]
    fn an_invitation_is_taken_out_of_a_path_and_nothing_else_is() {
        for (path, kept, shown) in [
            ("/sale", "/sale", None),
            ("/sale?invitation=a.b-c_", "/sale", Some("a.b-c_")),
            ("/sale?size=42&invitation=x&q=%2F+1", "/sale?size=42&q=%2F+1", Some("x")),
            ("/sale?invitation=&&a", "/sale?&a", None),
            ("/sale?%69nvitation=x", "/sale", Some("x")),
            ("/sale?invitations=x", "/sale?invitations=x", None),
        ] {
            assert_eq!(without_invitation(path), (kept.to_owned(), shown.map(str::to_owned)), "{path}");
        }
    }

    #[test]
    fn forms_and_json_say_the_same() {
        let json = parse_call("application/json", br#"{"sale":"demo","again":true}"#).unwrap();
        let form = parse_call(
            "application/x-www-form-urlencoded",
            b"sale=demo&again=1&return=%2Fsale%3Fsize%3D42&ignored=x",
        )
        .unwrap();
        assert_eq!((json.sale.as_str(), json.again, json.return_to), ("demo", true, None));
        assert_eq!((form.sale.as_str(), form.again), ("demo", true));
        assert_eq!(form.return_to.as_deref(), Some("/sale?size=42"));
    }

    #[test]
    fn wrong_bodies_say_what_to_mend() {
        for (media_type, body, code) in [
            ("application/json", &b"{"[..], "body_invalid"),
            ("application/json", b"[]", "body_invalid"),
            ("application/json", br#"{"sale":1}"#, "body_invalid"),
            ("application/json", br#"{"sale":"a","sael":"b"}"#, "body_invalid"),
            ("text/plain", br#"{"sale":"a"}"#, "media_type_unsupported"),
            ("", b"", "media_type_unsupported"),
        ] {
            assert_eq!(parse_call(media_type, body).unwrap_err().code(), code);
        }
    }
}
