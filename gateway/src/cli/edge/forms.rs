//! The forms in which hosts take the settings.

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::cli::Failure;

/// Longest value of a Fastly Config Store, in characters.
const STORE_VALUE: usize = 8_000;

/// The variable that hosts without files and stores are told the settings in.
const VARIABLE: &str = "ROPELINE_SETTINGS";

/// A folder of `cdn-config` with a module in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cdn {
    Cloudflare,
    DenoNetlify,
    Envoy,
    Fastly,
    GoogleServiceExtensions,
    LambdaEdge,
    Spin,
    Traefik,
    Vercel,
    WasmtimeServe,
}

impl Cdn {
    /// The document in the form that this host takes.
    pub(super) fn form(self, document: &str) -> String {
        match self {
            Self::Cloudflare
            | Self::DenoNetlify
            | Self::Envoy
            | Self::GoogleServiceExtensions
            | Self::LambdaEdge
            | Self::Traefik => format!("{document}\n"),
            Self::Fastly => config_store(document),
            Self::Spin | Self::Vercel | Self::WasmtimeServe => variable(document),
        }
    }
}

/// A Config Store as an object of strings: `settings` says how many pieces there are, `settings.0` is the first.
fn config_store(document: &str) -> String {
    let pieces = pieces(document);
    let mut store = Map::new();
    store.insert("settings".to_owned(), pieces.len().to_string().into());
    for (number, piece) in pieces.into_iter().enumerate() {
        store.insert(format!("settings.{number}"), piece.into());
    }
    format!("{:#}\n", json!(store))
}

fn pieces(document: &str) -> Vec<String> {
    let characters: Vec<char> = document.chars().collect();
    characters.chunks(STORE_VALUE).map(|piece| piece.iter().collect()).collect()
}

/// A line for a shell or an `.env` file.
fn variable(document: &str) -> String {
    // In JSON an apostrophe stands within a string alone, where its escape means the same.
    format!("{VARIABLE}='{}'\n", document.replace('\'', "\\u0027"))
}

/// The document, in whichever of these forms, or within the configuration of a host.
///
/// # Errors
/// When there is none.
pub(super) fn document(text: &str) -> Result<String, Failure> {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix(VARIABLE).and_then(|rest| rest.strip_prefix('=')) {
        let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        return Ok(inner.unwrap_or(quoted).to_owned());
    }
    // What is no JSON at all is told by whoever reads the document.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return Ok(text.to_owned()) };
    if value.get("version").is_some() {
        return Ok(text.to_owned());
    }
    within(&value).ok_or_else(|| Failure::Found("it holds no settings in any known form".to_owned()))
}

fn within(value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => {
            let count = members.get("settings").and_then(Value::as_str).and_then(|count| count.parse().ok());
            if let Some(count) = count {
                let piece = |number: usize| members.get(&format!("settings.{number}"))?.as_str();
                return (0..count).map(piece).collect();
            }
            members.values().find_map(within)
        }
        Value::Array(entries) => entries.iter().find_map(within),
        Value::String(text) if text.trim_start().starts_with('{') => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_for_a_host_is_found_again() {
        let text = format!(r#"{{"version":1,"issuer":"it's ü {}"}}"#, "ä".repeat(20_000));
        let told: Value = serde_json::from_str(&text).unwrap();
        for cdn in Cdn::value_variants() {
            let read = document(&cdn.form(&text)).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&read).unwrap(), told, "{cdn:?}");
        }
    }

    #[test]
    fn no_value_of_a_config_store_is_too_long() {
        let store: Map<String, Value> =
            serde_json::from_str(&Cdn::Fastly.form(&"ö".repeat(2 * STORE_VALUE + 1))).unwrap();
        assert_eq!(store["settings"], "3");
        assert_eq!(store.len(), 4);
        for value in store.values() {
            assert!(value.as_str().unwrap().chars().count() <= STORE_VALUE);
        }
    }

    #[test]
    fn what_holds_no_settings_is_told() {
        for text in ["[]", r#"{"keys":[]}"#, r#"{"settings":"2","settings.0":"{"}"#, "7"] {
            assert!(document(text).is_err(), "{text}");
        }
    }
}
