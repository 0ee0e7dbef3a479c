//! What is wrong in a configuration, and how to mend it.

use std::fmt;
use std::time::Duration;

/// Something wrong in a configuration, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The member, as `products[1].currency`.
    pub field: String,
    /// What is wrong and what would be right.
    pub mend: String,
}

/// Everything wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(pub Vec<Fault>);

// === impl ConfigError ===

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        writeln!(f, "the configuration has {count} fault{}:", if count == 1 { "" } else { "s" })?;
        for Fault { field, mend } in &self.0 {
            let colon = if field.is_empty() { "" } else { ": " };
            writeln!(f, "  {field}{colon}{mend}")?;
        }
        Ok(())
    }
}

/// Collects faults.
#[derive(Default)]
pub(super) struct Faults(pub(super) Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, field: &str, mend: impl Into<String>) {
        self.0.push(Fault { field: field.to_owned(), mend: mend.into() });
    }

    pub(super) fn check(&mut self, good: bool, field: &str, mend: impl Into<String>) {
        if !good {
            self.add(field, mend);
        }
    }

    /// Whether there is one of this member already.
    pub(super) fn names(&self, field: &str) -> bool {
        self.0.iter().any(|fault| fault.field == field)
    }

    pub(super) fn seconds(&mut self, field: &str, given: u64, least: u64, most: u64) -> Duration {
        self.check(
            (least..=most).contains(&given),
            field,
            format!("must be from {least} to {most}, is {given}"),
        );
        Duration::from_secs(given)
    }
}

/// What is wrong with a file's form, and where. Nothing of what it says: that may be a secret, and errors are logged.
pub(super) fn unreadable(text: &str, error: &toml::de::Error) -> ConfigError {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let (line, column) = (
        before.matches('\n').count() + 1,
        before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
    );
    let mend = format!("line {line}, column {column}: {}", in_plain_words(error.message()));
    ConfigError(vec![Fault { field: member(before).to_owned(), mend }])
}

/// The member whose value begins after `before`; empty where none does.
fn member(before: &str) -> &str {
    let Some(before) = before.trim_end_matches([' ', '\t']).strip_suffix('=') else { return "" };
    let before = before.trim_end_matches([' ', '\t']);
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
    start.map_or(before, |start| before.get(start + 1..).unwrap_or_default())
}

/// The same, for who writes the file and knows no Rust. What serde found is not repeated; what it expected is no secret.
fn in_plain_words(message: &str) -> String {
    if let Some(member) = message.strip_prefix("missing field ") {
        return format!("{member} is missing; add it");
    }
    let expected = message.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
    if message.starts_with("unknown variant ") {
        return format!("must be {expected}");
    }
    let found =
        ["invalid type: ", "invalid value: "].into_iter().find_map(|start| message.strip_prefix(start));
    let Some(found) = found else { return message.to_owned() };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more, without quotes",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number, without quotes",
        "a boolean" => "true or false, without quotes",
        "a string" | "path string" => "text in quotes",
        "a sequence" => "a list in square brackets",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    };
    let is = [
        ("string", "text in quotes"),
        ("integer", "a number"),
        ("floating point", "a number with a point"),
        ("boolean", "true or false"),
        ("sequence", "a list"),
        ("map", "a table"),
    ];
    let is = is.into_iter().find(|(kind, _)| found.starts_with(kind)).map_or("something else", |(_, is)| is);
    // As -1 is, where nothing below 0 can be.
    let other =
        if found.starts_with("integer") && expected.contains("number") { "another number" } else { is };
    format!("must be {expected}, and is {other}")
}
