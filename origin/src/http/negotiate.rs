//! Page or data: content negotiation by q-values (RFC 9110, section 12.5.1).

/// Whether the client would rather have a page than data. Undecided clients get data.
pub(super) fn prefers_page<'a>(accept: impl IntoIterator<Item = &'a str>) -> bool {
    let ranges: Vec<(&str, u32)> =
        accept.into_iter().flat_map(|line| line.split(',')).filter_map(range).collect();
    let page = quality(&ranges, "text/html").max(quality(&ranges, "application/xhtml+xml"));
    let data = quality(&ranges, "application/json").max(quality(&ranges, "application/problem+json"));
    page > data
}

/// The most exact range that fits decides.
fn quality(ranges: &[(&str, u32)], wanted: &str) -> u32 {
    let family = wanted.split('/').next().unwrap_or_default();
    let exactness = |range: &str| {
        if range.eq_ignore_ascii_case(wanted) {
            Some(2)
        } else if range.strip_suffix("/*").is_some_and(|it| it.eq_ignore_ascii_case(family)) {
            Some(1)
        } else {
            (range == "*/*").then_some(0)
        }
    };
    ranges
        .iter()
        .filter_map(|(range, quality)| Some((exactness(range)?, *quality)))
        .max()
        .map_or(0, |(_, quality)| quality)
}

/// A media range and its quality in thousandths; what cannot be read counts as absent.
fn range(item: &str) -> Option<(&str, u32)> {
    let mut parts = item.split(';').map(str::trim);
    let range = parts.next().filter(|range| range.contains('/'))?;
    let mut quality = 1_000;
    for part in parts {
        if let Some(value) = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")) {
            quality = thousandths(value)?;
        }
    }
    Some((range, quality))
}

fn thousandths(value: &str) -> Option<u32> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = format!("{fraction:0<3}").parse::<u32>().ok()?;
    match whole {
        "0" => Some(fraction),
        "1" if fraction == 0 => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::prefers_page;

    #[test]
    fn browsers_get_pages_and_programs_get_data() {
        for (accept, page) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", true),
            ("text/html", true),
            ("text/*", true),
            ("application/json;q=0.5, text/html;q=0.6", true),
            ("text/html;q=1.0, application/json;q=0.999", true),
            // What axios sends: a page is acceptable, but not preferred.
            ("application/json, text/plain, */*", false),
            ("*/*", false),
            ("", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("text/html;q=0.1, application/*", false),
            ("text/html;q=0", false),
            ("text/html;q=7", false),
            ("text/html;q=0.1234", false),
            ("text/html;q=0, */*", false),
        ] {
            assert_eq!(prefers_page([accept]), page, "{accept}");
        }
        assert!(!prefers_page([]));
        assert!(prefers_page(["application/json;q=0.1", "text/html"]), "every Accept line counts");
    }
}
