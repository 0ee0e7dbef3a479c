//! Serving what was prepared beforehand.

use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::answer::{Answer, Caching};
use crate::page;

/// The answer made from a prepared document: the best coding, 304 where the client has it already.
pub(super) fn answer(prepared: &page::Prepared, request: &HeaderMap, caching: Caching) -> Answer {
    let accept_encoding = joined(request, &header::ACCEPT_ENCODING);
    let if_none_match = joined(request, &header::IF_NONE_MATCH);
    let selected = prepared.select(accept_encoding.as_deref(), if_none_match.as_deref());
    let chosen = selected.representation;

    let mut answer = if selected.not_modified {
        Answer::empty(StatusCode::NOT_MODIFIED)
    } else {
        Answer::with_body(StatusCode::OK, prepared.content_type, chosen.body.clone())
    };
    answer.headers.push((header::VARY, HeaderValue::from_static("accept-encoding")));
    if let Ok(etag) = HeaderValue::try_from(&chosen.etag) {
        answer.headers.push((header::ETAG, etag));
    }
    if let Some(coding) = chosen.encoding.header() {
        answer.headers.push((header::CONTENT_ENCODING, HeaderValue::from_static(coding)));
    }
    answer.caching(caching)
}

/// The page under the shop's own address: the same bytes, but true only now and kept by nobody.
pub(super) fn in_place(prepared: &page::Prepared, request: &HeaderMap, status: StatusCode) -> Answer {
    let accept_encoding = joined(request, &header::ACCEPT_ENCODING);
    let chosen = prepared.select(accept_encoding.as_deref(), None).representation;
    let mut answer = Answer::with_body(status, prepared.content_type, chosen.body.clone())
        .header(header::VARY, HeaderValue::from_static("accept-encoding, accept, cookie"));
    if let Some(coding) = chosen.encoding.header() {
        answer.headers.push((header::CONTENT_ENCODING, HeaderValue::from_static(coding)));
    }
    answer
}

/// All lines of one header as one list (RFC 9110 §5.3).
pub(super) fn joined(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    let mut lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let mut all = lines.next()?.to_owned();
    for line in lines {
        all.push(',');
        all.push_str(line);
    }
    Some(all)
}
