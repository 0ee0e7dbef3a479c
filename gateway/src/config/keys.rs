//! `[keys]`: which file signs what.

use std::collections::HashMap;

use ropeline_token::KeySet;

use super::files;
use super::read::Section;
use super::report::Fault;
use crate::keys::{KeyRing, KeyState, Keys, LoadedKey, Purpose};

/// Thumbprints seen so far, each with the key in the file that named it.
type Seen = HashMap<String, String>;

pub(super) fn read(section: Section<'_>) -> Option<Keys> {
    let mut seen = Seen::new();
    let ticket = ring(&section, Purpose::Ticket, &mut seen);
    let admission = ring(&section, Purpose::Admission, &mut seen);
    let invitation = invitation(&section, &mut seen);
    section.finish();
    Some(Keys { ticket: ticket?, admission: admission?, invitation: invitation? })
}

/// Whose invitations are taken: public keys, since whoever signs invitations is somewhere else.
fn invitation(section: &Section<'_>, seen: &mut Seen) -> Option<Option<KeySet>> {
    const KEY: &str = "invitation";
    if !section.has(KEY) {
        return Some(None);
    }
    let keys = section.list(KEY, |item| {
        let path = item.path()?;
        let key = LoadedKey::read(&path, Purpose::Invitation)?;
        if key.is_private() {
            return Err(Fault::new(
                format!("{} holds the private key, which the gateway has no use for", path.display()),
                "name the file with the public part, which `ropeline keygen invitation` makes beside it",
            ));
        }
        Ok(key.public().clone())
    })?;
    if let Some(key) = keys.iter().find(|key| seen.contains_key(&key.thumbprint())) {
        let mend = "make a key of its own with `ropeline keygen invitation`";
        section.fault(KEY, Fault::new(format!("the key {} signs tokens, too", key.kid()), mend));
        return None;
    }
    for key in &keys {
        seen.insert(key.thumbprint(), KEY.to_owned());
    }
    match KeySet::new(keys) {
        Ok(set) => Some(Some(set)),
        Err(error) => {
            section.fault(KEY, Fault::new(error.to_string(), "name each key once, at least one"));
            None
        }
    }
}

fn ring(section: &Section<'_>, purpose: Purpose, seen: &mut Seen) -> Option<KeyRing> {
    let kind = purpose.name();
    let example = format!(
        "add {kind} = [{{ path = \"keys/{kind}.jwk\", state = \"sign\" }}] under [keys] (`ropeline keygen {kind}` makes one)"
    );
    if !section.has(kind) {
        section.missing(kind, &example);
        return None;
    }
    let mut whole = true;
    let mut loaded = Vec::new();
    for entry in section.tables(kind)? {
        match key(&entry, purpose, seen) {
            Some(key) => loaded.push(key),
            None => whole = false,
        }
        entry.finish();
    }
    if !whole {
        return None;
    }
    let signing = loaded.iter().filter(|(_, state)| *state == KeyState::Sign).count();
    KeyRing::new(loaded)
        .map_err(|error| {
            let mend = if signing == 0 {
                example
            } else {
                "keep one key on \"sign\", set others to \"publish\" or \"verify\"".to_owned()
            };
            section.fault(kind, Fault::new(error.to_string(), mend));
        })
        .ok()
}

fn key(entry: &Section<'_>, purpose: Purpose, seen: &mut Seen) -> Option<(LoadedKey, KeyState)> {
    let loaded = entry.need("path", "name the key's JWK file", |item| {
        let path = item.path()?;
        Ok((LoadedKey::read(&path, purpose)?, path))
    });
    let state = entry.need("state", "write \"publish\", \"sign\" or \"verify\"", |item| {
        let text = item.text()?;
        KeyState::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            Fault::new(format!("{text:?} is no state of a key"), "write \"publish\", \"sign\" or \"verify\"")
        })
    });
    let (key, path) = loaded?;
    if key.is_private()
        && let Some(fault) = files::readable_by_others(&path)
    {
        entry.warn("path", fault);
    }
    if let Some(first) = seen.insert(key.public().thumbprint(), entry.path().to_owned()) {
        entry.fault(
            "path",
            Fault::new(
                format!("is the same key as {first}"),
                "make a key of its own with `ropeline keygen`: a key signs one kind of token, and is named once",
            ),
        );
        return None;
    }
    Some((key, state?))
}
