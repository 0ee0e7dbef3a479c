//! The smallest template that can be right: text with `{{name}}` slots, every value escaped, every name known at start.

/// A template taken apart once.
#[derive(Debug)]
pub(super) struct Template<S> {
    parts: Vec<Part<S>>,
    literal_len: usize,
}

#[derive(Debug)]
enum Part<S> {
    Literal(&'static str),
    Slot(S),
}

/// What stands in a slot.
pub(super) enum Value<'a> {
    /// Text, written with HTML's special characters escaped: safe in content and in a double-quoted attribute.
    Text(&'a str),
    /// Whether the element carries the `hidden` attribute.
    Hidden(bool),
}

impl<S: Copy> Template<S> {
    /// Parses `source`; `slot` names the slots there are.
    ///
    /// Errs with the name that is not one, or with what follows an opening that is never closed.
    pub(super) fn parse(
        source: &'static str,
        slot: impl Fn(&str) -> Option<S>,
    ) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut literal_len = 0;
        let mut rest = source;
        while let Some((literal, tail)) = rest.split_once("{{") {
            let (name, after) = tail.split_once("}}").ok_or(tail)?;
            literal_len += literal.len();
            parts.push(Part::Literal(literal));
            parts.push(Part::Slot(slot(name).ok_or(name)?));
            rest = after;
        }
        literal_len += rest.len();
        parts.push(Part::Literal(rest));
        Ok(Self { parts, literal_len })
    }

    /// Writes the template with `value` in its slots.
    pub(super) fn render<'a>(&self, mut value: impl FnMut(S) -> Value<'a>) -> String {
        let mut out = String::with_capacity(self.literal_len * 3);
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Slot(slot) => match value(*slot) {
                    Value::Text(text) => escape_into(&mut out, text),
                    Value::Hidden(true) => out.push_str(" hidden"),
                    Value::Hidden(false) => {}
                },
            }
        }
        out
    }
}

/// Escapes for HTML content and quoted attributes. NUL, which HTML cannot carry, becomes U+FFFD.
fn escape_into(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}
