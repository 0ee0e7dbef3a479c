//! Who may call: every shopper call brings an admission token, and the shop verifies it itself.
//!
//! That the gateway let a request through is not believed: it may have been walked around. The key set comes from a file
//! or an address and is read again from time to time, so that keys can be rotated; while it cannot be read, the one that
//! was read last stays in force.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ropeline_token::{Expect, KeySet, Leeway, Refusal};

use crate::answer::Answer;

/// The request header that carries the token.
pub(crate) const HEADER: &str = "ropeline-admission";
/// A key set larger than this is none.
const LARGEST_KEY_SET: usize = 64 * 1024;
/// An unknown key makes the set be read again, but not more often than this.
const SOONEST: Duration = Duration::from_secs(2);
/// While there are no keys: the pauses between tries begin with this and double …
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// … up to this.
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Where the key set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// A JWK Set in a file.
    File(PathBuf),
    /// A JWK Set at an `http` or `https` address.
    Url(String),
}

/// What a token must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// `iss`.
    pub issuer: String,
    /// `aud`: the sale.
    pub audience: String,
    /// The oldest epoch that still counts.
    pub min_epoch: u32,
    /// For times.
    pub leeway: Leeway,
}

/// The key set could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the key set at {place} cannot be read: {why}")]
pub struct KeysUnreadable {
    place: String,
    why: String,
}

/// Verifies tokens; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    terms: Arc<Terms>,
    source: Arc<KeySource>,
    client: reqwest::Client,
    keys: Arc<Mutex<Keys>>,
    wanted: Arc<tokio::sync::Notify>,
}

#[derive(Debug)]
struct Keys {
    set: Option<Arc<KeySet>>,
    tried: Instant,
}

// === impl Admission ===

impl Admission {
    /// A verifier without keys; [`Admission::refresh`] brings them.
    ///
    /// # Errors
    /// When there is no HTTP client to be had.
    pub(crate) fn new(terms: Terms, source: KeySource) -> Result<Self, reqwest::Error> {
        let url = match &source {
            KeySource::File(_) => "",
            KeySource::Url(url) => url,
        };
        let client = crate::client::new(url)?;
        Ok(Self {
            terms: Arc::new(terms),
            source: Arc::new(source),
            client,
            keys: Arc::new(Mutex::new(Keys { set: None, tried: Instant::now() })),
            wanted: Arc::new(tokio::sync::Notify::new()),
        })
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are keys to verify with.
    #[must_use]
    pub(crate) fn is_ready(&self) -> bool {
        self.keys().set.is_some()
    }

    /// Reads the key set again.
    ///
    /// # Errors
    /// When it cannot be read or is none; the keys so far stay in force.
    pub(crate) async fn refresh(&self) -> Result<(), KeysUnreadable> {
        let read =
            self.read().await.and_then(|jwks| KeySet::from_jwks(&jwks).map_err(|error| error.to_string()));
        let mut keys = self.keys();
        keys.tried = Instant::now();
        match read {
            Ok(set) => {
                keys.set = Some(Arc::new(set));
                Ok(())
            }
            Err(why) => Err(KeysUnreadable {
                place: match &*self.source {
                    KeySource::File(path) => path.display().to_string(),
                    KeySource::Url(url) => url.clone(),
                },
                why,
            }),
        }
    }

    async fn read(&self) -> Result<Vec<u8>, String> {
        let too_large = || format!("it is larger than {LARGEST_KEY_SET} bytes");
        match &*self.source {
            KeySource::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                let jwks = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
                if jwks.len() > LARGEST_KEY_SET { Err(too_large()) } else { Ok(jwks) }
            }
            KeySource::Url(url) => {
                let fetched = async {
                    let mut answer = self.client.get(url).send().await?.error_for_status()?;
                    let mut jwks = Vec::new();
                    while let Some(chunk) = answer.chunk().await? {
                        jwks.extend_from_slice(&chunk);
                        if jwks.len() > LARGEST_KEY_SET {
                            return Ok(None);
                        }
                    }
                    Ok(Some(jwks))
                };
                fetched
                    .await
                    .map_err(|error: reqwest::Error| error.without_url().to_string())?
                    .ok_or_else(too_large)
            }
        }
    }

    /// Reads the key set at once if there is none, then every `every`, and soon after a token named a key that is not in
    /// it, until it is dropped.
    pub(crate) async fn keep_refreshing(self, every: Duration) {
        let mut retry = Duration::ZERO;
        loop {
            let pause = if self.is_ready() { every } else { retry };
            retry = (retry * 2).clamp(FIRST_RETRY, LONGEST_RETRY);
            // Woken early when a key is wanted that the set does not have.
            let _ = tokio::time::timeout(pause, self.wanted.notified()).await;
            if let Err(error) = self.refresh().await {
                tracing::warn!(%error, "the key set was not read; those that were read before, if any, stay in force");
            }
        }
    }

    /// The visitor whose token this is, at `now` (Unix seconds).
    ///
    /// # Errors
    /// A problem document: 401 without a good token, 503 while there are no keys.
    pub(crate) fn visitor(&self, token: &str, now: u64) -> Result<String, Answer> {
        let Some(keys) = self.keys().set.clone() else { return Err(no_keys()) };
        let expect = Expect {
            issuer: &self.terms.issuer,
            audience: &self.terms.audience,
            min_epoch: self.terms.min_epoch,
            leeway: self.terms.leeway,
        };
        let verified = keys
            .admission(token)
            .and_then(|token| token.accept(&expect, now).map(|admission| admission.claims.sub.clone()));
        verified.map_err(|refusal| {
            if refusal == Refusal::KeyUnknown && self.keys().tried.elapsed() > SOONEST {
                self.wanted.notify_one();
            }
            refused(refusal.code(), &refusal.to_string())
        })
    }
}

/// Reads so much of a file as tells whether it is too large: a device has no end.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut jwks = Vec::new();
    let most = u64::try_from(LARGEST_KEY_SET).unwrap_or(u64::MAX);
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut jwks)?;
    Ok(jwks)
}

/// 401: no token, or one that is not good.
#[must_use]
pub(crate) fn refused(code: &str, why: &str) -> Answer {
    Answer::problem(
        401,
        code,
        "You need to be let in",
        format!("This part of the shop is open to those whose turn it is in the waiting room: {why}."),
    )
}

fn no_keys() -> Answer {
    Answer::problem(
        503,
        "keys_unavailable",
        "Nobody can be let in just now",
        "The shop has not yet got the keys by which it knows who was let in. Try again in a moment.",
    )
    .retry_after(1)
}
