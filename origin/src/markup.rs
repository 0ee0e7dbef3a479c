//! Texts as they stand in HTML, and amounts as people write them.

/// Text made safe between tags and in quoted attributes.
#[must_use]
pub(crate) fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// An amount in its currency's minor unit, as people write it; digits after the point as in ISO 4217.
#[must_use]
pub(crate) fn money(minor: i64, currency: &str) -> String {
    let digits = match currency {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "VND"
        | "VUV" | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        _ => 2,
    };
    let unit = 10_i64.pow(digits);
    let whole = minor / unit;
    match usize::try_from(digits) {
        Ok(width) if width > 0 => format!("{whole}.{:0width$} {}", minor % unit, text(currency)),
        _ => format!("{whole} {}", text(currency)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_their_currency_s_digits() {
        assert_eq!(money(18_905, "EUR"), "189.05 EUR");
        assert_eq!(money(5, "EUR"), "0.05 EUR");
        assert_eq!(money(18_905, "JPY"), "18905 JPY");
        assert_eq!(money(18_905, "KWD"), "18.905 KWD");
    }

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(text("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
    }
}
