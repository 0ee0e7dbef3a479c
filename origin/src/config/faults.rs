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
    // What serde found stands in these; what it expected is no secret.
    let found = ["invalid type: string", "invalid value: string", "unknown variant"];
    let message = match found.into_iter().find(|found| error.message().starts_with(found)) {
        Some(found) => {
            let expected = error.message().rsplit_once(", expected ").map_or("", |(_, expected)| expected);
            format!("{found}, expected {expected}")
        }
        None => error.message().to_owned(),
    };
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let (line, column) = (
        before.matches('\n').count() + 1,
        before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
    );
    let mend = format!("line {line}, column {column}: {message}");
    ConfigError(vec![Fault { field: String::new(), mend }])
}
