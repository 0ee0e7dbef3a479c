use crate::header::{self, Field};
use crate::negotiate;

#[cfg(test)]
mod tests;

/// Whether a person is going to look at the answer: a browser navigates to it in a window or frame.
///
/// Browsers say so in `Sec-Fetch-Mode` and `Sec-Fetch-Dest` (Fetch Metadata), but only to secure addresses; elsewhere,
/// and from old browsers, `Accept` must ask for HTML by name. Prefetches are never navigations: nobody may ever look.
#[must_use]
pub fn is_navigation(headers: &[Field<'_>]) -> bool {
    let says = |name, word: &[u8]| {
        header::values(headers, name).any(|value| {
            value
                .split(|byte| matches!(byte, b';' | b','))
                .any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
        })
    };
    let prefetch = ["sec-purpose", "purpose", "x-purpose", "x-moz"]
        .iter()
        .any(|name| [&b"prefetch"[..], b"prerender", b"preview"].iter().any(|word| says(name, word)));
    if prefetch || says("x-requested-with", b"XMLHttpRequest") {
        return false;
    }
    if header::values(headers, "sec-fetch-mode").next().is_none() {
        return negotiate::prefers_html(headers);
    }
    let destination_is_page = header::values(headers, "sec-fetch-dest").next().is_none()
        || [&b"document"[..], b"iframe", b"frame"].iter().any(|page| says("sec-fetch-dest", page));
    says("sec-fetch-mode", b"navigate") && destination_is_page && negotiate::accepts_html(headers)
}
