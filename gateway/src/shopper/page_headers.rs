//! Headers of every page the gateway shows.

use http::{HeaderValue, header};

use crate::answer::Answer;
use crate::page;

/// Adds what keeps the page from being framed, sniffed, or fed scripts.
pub(super) fn guarded(answer: Answer) -> Answer {
    answer
        .header(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::CONTENT_SECURITY_POLICY))
        .header(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
        .header(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"))
}
