//! The settings, from the service's config store.

use fastly::ConfigStore;
use ropeline_edge::Settings;

const STORE: &str = "ropeline";

/// The settings in force.
///
/// The entry `settings` holds the document or, where it is longer than the 8,000 characters that an entry takes, the keys
/// of the entries that hold its parts: so one change of one entry replaces all of it.
pub(crate) fn settings() -> Result<Settings, String> {
    let store = ConfigStore::try_open(STORE).map_err(|error| format!("config store {STORE}: {error}"))?;
    let entry = |key: &str| match store.try_get(key) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(format!("config store {STORE} has no entry {key}")),
        Err(error) => Err(format!("config store {STORE}, entry {key}: {error}")),
    };
    let mut document = entry("settings")?;
    if !document.trim_start().starts_with('{') {
        document = document.split_whitespace().map(entry).collect::<Result<String, String>>()?;
    }
    Settings::from_json_unproven(document.as_bytes()).map_err(|refused| refused.to_string())
}
