//! Content negotiation by quality (RFC 9110, section 12.5.1).

use crate::header::{self, Field};

/// What `Accept` says of one media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference {
    /// In thousandths, 0 (refused) to 1,000.
    pub quality: u16,
    /// Whether the type was named itself, not by a wildcard or by saying nothing.
    pub named: bool,
}

/// What the request's `Accept` lines say of `kind/subtype`: the most specific range counts. Without the field, anything
/// is acceptable. Ranges with parameters (`text/html;level=1`) are other things than the plain type and are passed over,
/// as is what does not parse.
#[must_use]
pub fn preference(headers: &[Field<'_>], kind: &str, subtype: &str) -> Preference {
    let mut best: Option<(u8, u16)> = None;
    let mut said = false;
    for line in header::values(headers, "accept") {
        for range in line.split(|byte| *byte == b',') {
            said |= !range.trim_ascii().is_empty();
            let Some((specificity, quality)) = range_for(range, kind, subtype) else { continue };
            // Of two equally specific ranges the first counts.
            if best.is_none_or(|(known, _)| specificity > known) {
                best = Some((specificity, quality));
            }
        }
    }
    match best {
        Some((specificity, quality)) => Preference { quality, named: specificity == 2 },
        None => Preference { quality: if said { 0 } else { 1_000 }, named: false },
    }
}

/// Whether the client asks for HTML by name and likes it at least as well as JSON.
///
/// `application/json, text/plain, */*` takes HTML only because it takes anything: it does not.
#[must_use]
pub fn prefers_html(headers: &[Field<'_>]) -> bool {
    let html = html(headers);
    let json = ["json", "problem+json"].map(|subtype| preference(headers, "application", subtype));
    let json = json.iter().filter(|json| json.named).map(|json| json.quality).max().unwrap_or(0);
    html.named && html.quality > 0 && html.quality >= json
}

/// Whether HTML is acceptable at all.
#[must_use]
pub fn accepts_html(headers: &[Field<'_>]) -> bool {
    html(headers).quality > 0
}

fn html(headers: &[Field<'_>]) -> Preference {
    let (html, xhtml) =
        (preference(headers, "text", "html"), preference(headers, "application", "xhtml+xml"));
    if html.named || !xhtml.named { html } else { xhtml }
}

/// Specificity (0 `*/*`, 1 `text/*`, 2 `text/html`) and quality of a range that covers the type.
fn range_for(range: &[u8], kind: &str, subtype: &str) -> Option<(u8, u16)> {
    let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let media = parts.next()?;
    let slash = media.iter().position(|byte| *byte == b'/')?;
    let (range_kind, range_subtype) = (media.get(..slash)?, media.get(slash + 1..)?);
    let specificity = if range_kind.eq_ignore_ascii_case(kind.as_bytes()) {
        if range_subtype.eq_ignore_ascii_case(subtype.as_bytes()) {
            2
        } else if range_subtype == b"*" {
            1
        } else {
            return None;
        }
    } else if range_kind == b"*" && range_subtype == b"*" {
        0
    } else {
        return None;
    };
    match parts.next() {
        None => Some((specificity, 1_000)),
        Some(parameter) => quality(parameter).map(|quality| (specificity, quality)),
    }
}

/// `q=0.8` in thousandths (RFC 9110, section 12.4.2: at most three decimals, at most 1).
fn quality(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (&whole, decimals) = value.split_first()?;
    let decimals = match decimals.split_first() {
        None => decimals,
        Some((b'.', decimals)) if decimals.len() <= 3 => decimals,
        Some(_) => return None,
    };
    let mut thousandths = 0;
    for place in 0..3 {
        let digit = decimals.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = thousandths * 10 + u16::from(digit - b'0');
    }
    match (whole, thousandths) {
        (b'0', thousandths) => Some(thousandths),
        (b'1', 0) => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
