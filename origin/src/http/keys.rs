//! Idempotency keys: read, bound to their content, and one request at a time for each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::answer::Answer;
use crate::store::KeyUse;

const HEADER: &str = "idempotency-key";
/// Longer keys are refused.
pub(super) const LONGEST: usize = 255;

/// Fingerprints of requests, by visitor and key.
type Fingerprints = HashMap<(String, String), [u8; 32]>;

/// The requests that are being worked on.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<Fingerprints>>);

/// A request that is being worked on, until this is dropped.
#[derive(Debug)]
pub(super) struct Working {
    all: InFlight,
    name: (String, String),
}

/// The key of a call, from the header (draft-ietf-httpapi-idempotency-key-header, section 2.1: a quoted string; bare words
/// are taken too) or the form's field.
pub(super) fn read(headers: &HeaderMap, field: Option<&str>) -> Result<String, Answer> {
    let mut lines = headers.get_all(HEADER).iter();
    let header = match (lines.next(), lines.next()) {
        (None, _) => None,
        (Some(line), None) => Some(unquoted(line.to_str().map_err(|_| invalid())?.trim())?),
        (Some(_), Some(_)) => return Err(invalid()),
    };
    let key = match (header, field) {
        (Some(header), Some(field)) if header != field => return Err(invalid()),
        (Some(key), _) => key,
        (None, Some(field)) => bare(field)?,
        (None, None) => {
            return Err(Answer::problem(
                400,
                "idempotency_key_missing",
                "An Idempotency-Key is needed",
                "Send an Idempotency-Key header, or the form field idempotency_key, with a value that you use for this \
                 request and its repetitions only, such as a random UUID.",
            ));
        }
    };
    if key.is_empty() || key.len() > LONGEST { Err(invalid()) } else { Ok(key) }
}

/// The content of a quoted string (RFC 9651, section 3.3.3), or a bare word as it is.
fn unquoted(line: &str) -> Result<String, Answer> {
    let Some(quoted) = line.strip_prefix('"') else { return bare(line) };
    let quoted = quoted.strip_suffix('"').ok_or_else(invalid)?;
    let mut key = String::with_capacity(quoted.len());
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | '"')) => key.push(escaped),
                _ => return Err(invalid()),
            },
            ' ' | '!' | '#'..='~' => key.push(letter),
            _ => return Err(invalid()),
        }
    }
    Ok(key)
}

/// A key without quotes.
fn bare(word: &str) -> Result<String, Answer> {
    let good = word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    if good { Ok(word.to_owned()) } else { Err(invalid()) }
}

fn invalid() -> Answer {
    Answer::problem(
        400,
        "idempotency_key_invalid",
        "The Idempotency-Key cannot be used",
        format!(
            "Send one Idempotency-Key of 1 to {LONGEST} ASCII characters in quotes, such as a random UUID."
        ),
    )
}

/// Binds a key to a call and its content.
pub(super) fn bind(visitor: &str, key: String, content: &[&str]) -> KeyUse {
    let mut hash = Sha256::new();
    for part in content {
        // With its length, so that nothing moves from one part into the next.
        hash.update(part.len().to_string());
        hash.update(":");
        hash.update(part);
    }
    KeyUse { visitor: visitor.to_owned(), key, fingerprint: hash.finalize().into() }
}

// === impl InFlight ===

impl InFlight {
    /// Begins to work on the request of this key.
    ///
    /// # Errors
    /// 409 when it is being worked on, 422 when another one is under the same key.
    pub(super) fn enter(&self, key: &KeyUse) -> Result<Working, Answer> {
        let name = (key.visitor.clone(), key.key.clone());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(&name) {
            None => {
                all.insert(name.clone(), key.fingerprint);
                drop(all);
                Ok(Working { all: self.clone(), name })
            }
            Some(fingerprint) if *fingerprint == key.fingerprint => Err(Answer::in_flight()),
            Some(_) => Err(Answer::key_reused()),
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_cannot_move_between_parts() {
        let print = |content: &[&str]| bind("v", "k".into(), content).fingerprint;
        assert_ne!(print(&["ab", "c"]), print(&["a", "bc"]));
        assert_ne!(print(&["a", ""]), print(&["a"]));
        assert_eq!(print(&["a", "b"]), print(&["a", "b"]));
    }

    #[test]
    fn one_request_at_a_time_for_a_key() {
        let all = InFlight::default();
        let (first, other) = (bind("v", "k".into(), &["1"]), bind("v", "k".into(), &["2"]));
        let working = all.enter(&first).unwrap();
        assert_eq!(all.enter(&first).unwrap_err().status, 409);
        assert_eq!(all.enter(&other).unwrap_err().status, 422);
        assert!(all.enter(&bind("w", "k".into(), &["2"])).is_ok(), "keys of different visitors never meet");
        drop(working);
        assert!(all.enter(&other).is_ok());
    }

    #[test]
    fn keys_are_read_quoted_and_bare_and_nothing_else() {
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HEADER, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            headers
        };
        assert_eq!(read(&with(&["abc"]), None).unwrap(), "abc");
        assert_eq!(read(&with(&["\"abc\""]), None).unwrap(), "abc");
        assert_eq!(read(&with(&[]), Some("abc")).unwrap(), "abc");
        assert_eq!(read(&with(&["abc"]), Some("abc")).unwrap(), "abc");
        assert_eq!(read(&with(&["\"a b;\\\\\\\"c\""]), None).unwrap(), "a b;\\\"c");
        let longest = "y".repeat(255);
        assert_eq!(read(&with(&[&format!("\"{longest}\"")]), None).unwrap(), longest);
        let long = "x".repeat(256);
        for bad in [
            vec![],
            vec![""],
            vec!["a", "a"],
            vec!["a b"],
            vec!["é"],
            vec!["\""],
            vec![long.as_str()],
            vec!["\"a"],
            vec!["a\""],
            vec!["\"a\"b\""],
            vec!["\"a\\\""],
            vec!["\"\\n\""],
            vec!["\"\""],
            vec!["\"a\";p=1"],
            vec!["\"\t\""],
        ] {
            assert_eq!(read(&with(&bad), None).unwrap_err().status, 400, "{bad:?}");
        }
        assert_eq!(read(&with(&["a"]), Some("b")).unwrap_err().status, 400);
    }
}
