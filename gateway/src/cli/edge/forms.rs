//! The forms in which hosts take the settings.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::cli::Failure;

/// Longest value of a Fastly Config Store, in characters.
const STORE_VALUE: usize = 8_000;

/// The variable that hosts without files and stores are told the settings in.
const VARIABLE: &str = "ROPELINE_SETTINGS";

/// A folder of `cdn-config` with a module in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cdn {
    Akamai,
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
            | Self::Traefik
            | Self::WasmtimeServe => format!("{document}\n"),
            Self::Fastly => config_store(document),
            Self::Akamai | Self::Spin | Self::Vercel => variable(document),
        }
    }
}

impl Cdn {
    /// A file of the host's with the settings in place of the word `SETTINGS`.
    ///
    /// # Errors
    /// When it does not stand there exactly once.
    pub(super) fn fill(self, template: &str, document: &str) -> Result<String, Failure> {
        const WORD: &str = "SETTINGS";
        if template.matches(WORD).count() != 1 {
            return Err(Failure::Found(format!(
                "the word {WORD} does not stand in the template exactly once"
            )));
        }
        let form = self.form(document);
        let form = form.trim_end();
        let quoted = format!("\"{WORD}\"");
        Ok(if template.contains(&quoted) {
            template.replace(&quoted, &Value::from(form).to_string())
        } else {
            template.replace(WORD, form)
        })
    }
}

/// A Config Store as an object of strings. `settings` is the document or, where that is too long, the keys of its pieces.
///
/// The keys tell the pieces of one document from those of another: `settings`, written last, replaces all at once.
fn config_store(document: &str) -> String {
    let pieces = pieces(document);
    if pieces.len() <= 1 {
        return format!("{:#}\n", json!({ "settings": document }));
    }
    let digest = Sha256::digest(document.as_bytes());
    let name = Base64UrlUnpadded::encode_string(digest.get(..6).unwrap_or_default());
    let keys: Vec<String> = (0..pieces.len()).map(|number| format!("{name}.{number}")).collect();
    let mut store = Map::from_iter([("settings".to_owned(), keys.join(" ").into())]);
    store.extend(keys.into_iter().zip(pieces.into_iter().map(Value::from)));
    format!("{:#}\n", json!(store))
}

fn pieces(document: &str) -> Vec<String> {
    let characters: Vec<char> = document.chars().collect();
    characters.chunks(STORE_VALUE).map(|piece| piece.iter().collect()).collect()
}

/// A line that a shell, an `.env` file and TOML read alike.
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
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Failure::Found(format!(
            "this is not a settings document ({error}); of a host's own file, check what `ropeline edge export` writes \
             without --template"
        ))
    })?;
    if value.get("version").is_some() {
        return Ok(text.to_owned());
    }
    within(&value).ok_or_else(|| Failure::Found("it holds no settings in any known form".to_owned()))
}

fn within(value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => {
            let keys = members.get("settings").and_then(Value::as_str).filter(|text| !is_object(text));
            match keys {
                Some(keys) => keys.split_whitespace().map(|key| members.get(key)?.as_str()).collect(),
                None => members.values().find_map(within),
            }
        }
        Value::Array(entries) => entries.iter().find_map(within),
        Value::String(text) if is_object(text) => Some(text.clone()),
        _ => None,
    }
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
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
        assert_eq!(store["settings"].as_str().unwrap().split(' ').count(), 3);
        assert_eq!(store.len(), 4);
        for value in store.values() {
            assert!(value.as_str().unwrap().chars().count() <= STORE_VALUE);
        }
    }

    #[test]
    fn two_documents_are_in_pieces_of_different_names() {
        let keys = |letter: &str| {
            let store = Cdn::Fastly.form(&letter.repeat(2 * STORE_VALUE));
            let store: Value = serde_json::from_str(&store).unwrap();
            store["settings"].as_str().unwrap().split(' ').map(str::to_owned).collect::<Vec<_>>()
        };
        let (one, other) = (keys("a"), keys("b"));
        assert!(one.iter().all(|key| !other.contains(key)), "{one:?} and {other:?}");
    }

    #[test]
    fn a_variable_reads_the_same_in_toml_and_in_a_shell() {
        let line = Cdn::Spin.form(r#"{"issuer":"it's \"quoted\""}"#);
        let toml: toml::Table = line.parse().unwrap();
        assert_eq!(toml["ROPELINE_SETTINGS"].as_str().unwrap(), r#"{"issuer":"it\u0027s \"quoted\""}"#);
        assert_eq!(line.matches('\'').count(), 2, "{line}");
    }

    #[test]
    fn what_holds_no_settings_is_told() {
        for text in ["[]", r#"{"keys":[]}"#, r#"{"settings":"a b","a":"{"}"#, "7"] {
            assert!(document(text).is_err(), "{text}");
        }
    }
}
