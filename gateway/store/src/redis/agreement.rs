//! What the gateways that share the servers must agree on: one checkpoint, and each has the keys that any other signs with.
//!
//! A gateway that does not fit is found out when it starts, before it has anything to do with a sale. What it signs would be
//! refused by the others, and with two checkpoints numbers could be given twice after a loss. Those who are here already
//! look again every few seconds, and say so. Who has not looked for a while is gone, and who ends says so. Keys may be
//! replaced while gateways are restarted one after the other, as long as nobody signs with one that somebody else does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::attempt::Latest;
use super::{Shared, keys};
use crate::StoreError;

/// How often a gateway says that it is here: several times before it is taken to be gone, `LATELY_MS` of the script.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Keys or secrets of one kind, by names that say nothing of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisKeys {
    /// What this gateway signs with.
    pub signs: String,
    /// Whatever signature it takes, its own among them.
    pub takes: BTreeSet<String>,
}

/// All kinds, each by the setting that names it.
type Kinds = BTreeMap<String, RedisKeys>;

/// What one gateway knows of the others.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    /// Its own keys; none until it is told.
    pub(super) keys: OnceLock<Kinds>,
    /// Whether it has found the others to agree with it.
    begun: Latest<()>,
    /// Why it does not any more.
    differs: Mutex<Option<String>>,
    /// Once it is to be found among them no more. Whoever holds this is about to tell them something.
    gone: tokio::sync::Mutex<bool>,
}

/// What speaks against a gateway.
struct Objection {
    reason: String,
    /// As in [`StoreError::Disagrees`].
    lasts: Option<Duration>,
}

// === impl Agreement ===

impl Agreement {
    /// The gateways do not agree, as far as is known.
    pub(super) fn is_broken(&self) -> bool {
        self.differs.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn heard(&self, differs: Option<String>) {
        let mut known = self.differs.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != differs {
            match &differs {
                Some(reason) => tracing::error!(%reason, "the gateways do not agree any more"),
                None => tracing::info!("the gateways agree again"),
            }
            *known = differs;
        }
    }
}

impl Shared {
    /// Goes on once the others have been found to agree with this gateway. Until then it has nothing to do with any sale.
    /// All who wait for that share one attempt.
    ///
    /// # Errors
    /// [`StoreError::Disagrees`]; whatever keeps it from asking.
    pub(super) async fn agree(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut attempt = self.agreement.begun.or_begin(|told| {
            let shared = Arc::clone(self);
            self.link.spawn(async move {
                let begun = shared.begin().await;
                if begun.is_ok() {
                    let gateway = Arc::downgrade(&shared);
                    shared.link.spawn(look_again(gateway));
                }
                told.send_replace(Some(begun));
            });
        });
        let gone = || StoreError::Unavailable { reason: "the other gateways were not looked for".into() };
        match attempt.wait_for(Option::is_some).await {
            Ok(begun) => begun.clone().unwrap_or_else(|| Err(gone())),
            Err(_) => Err(gone()),
        }
    }

    async fn begin(&self) -> Result<(), StoreError> {
        let checkpoint = self.checkpoint_name().await?;
        // Who does not fit leaves no trace; of two that start at once and do not, the first stays.
        for stays in [false, true] {
            if let Some(Objection { reason, lasts }) = self.meet(&checkpoint, stays).await? {
                if stays {
                    // If that is not heard, it is forgotten after a while.
                    let _ = self.forget_me().await;
                }
                return Err(StoreError::Disagrees { reason, lasts });
            }
        }
        Ok(())
    }

    /// Tells the others again that this gateway is here, and looks whether they still agree.
    pub(super) async fn stay(&self) -> Result<(), StoreError> {
        let gone = self.agreement.gone.lock().await;
        if !*gone {
            // Another one may be where it was.
            let checkpoint = self.checkpoint_name().await?;
            let objection = self.meet(&checkpoint, true).await?;
            self.agreement.heard(objection.map(|objection| objection.reason));
        }
        Ok(())
    }

    /// Has the others not count this gateway any more.
    pub(super) async fn part(&self) -> Result<(), StoreError> {
        let mut gone = self.agreement.gone.lock().await;
        *gone = true;
        if self.agreement.begun.is_well() { self.forget_me().await } else { Ok(()) }
    }

    async fn forget_me(&self) -> Result<(), StoreError> {
        let me = self.me()?;
        self.link.ask::<u64>(redis::cmd("HDEL").arg(keys::GATEWAYS).arg(me)).await.map(drop)
    }

    /// What the others know this gateway by: a name, and its keys.
    fn me(&self) -> Result<String, StoreError> {
        let none = Kinds::new();
        let keys = serde_json::to_string(self.agreement.keys.get().unwrap_or(&none));
        let keys = keys.map_err(|error| StoreError::Unavailable { reason: error.to_string() })?;
        Ok(format!("{:016x} {keys}", self.id))
    }

    async fn checkpoint_name(&self) -> Result<String, StoreError> {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.name().await,
            None => Ok(String::new()),
        }
    }

    async fn meet(&self, checkpoint: &str, stays: bool) -> Result<Option<Objection>, StoreError> {
        let Self { link, scripts, agreement, .. } = self;
        let none = Kinds::new();
        let mine = agreement.keys.get().unwrap_or(&none);
        let names = [keys::GATEWAYS, keys::CHECKPOINT];
        let args = [&*self.me()?, checkpoint, if stays { "stay" } else { "" }];
        let (theirs, here, lately_ms): (String, Vec<String>, u64) =
            link.run(&scripts.meet, &names, &args).await?;
        let checkpoint = other_checkpoint(checkpoint, &theirs);
        let checkpoint = checkpoint.map(|reason| Objection { reason, lasts: None });
        let lasts = Some(Duration::from_millis(lately_ms));
        // What cannot be read is that of another version, which knows better.
        let mut others = here.iter().filter_map(|gateway| keys_of(gateway));
        Ok(checkpoint.or_else(|| {
            others.find_map(|keys| other_keys(mine, &keys)).map(|reason| Objection { reason, lasts })
        }))
    }
}

/// The keys of a gateway, by what the others know it by.
fn keys_of(gateway: &str) -> Option<Kinds> {
    let (_, keys) = gateway.split_once(' ')?;
    serde_json::from_str(keys).ok()
}

/// As long as there is such a gateway, however long its sales take meanwhile.
async fn look_again(gateway: Weak<Shared>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(gateway) = gateway.upgrade() else { return };
        if let Err(error) = gateway.stay().await {
            tracing::debug!(%error, "the other gateways were not looked for");
        }
    }
}

fn other_checkpoint(own: &str, theirs: &str) -> Option<String> {
    if theirs.is_empty() || own == theirs {
        return None;
    }
    Some(if own.is_empty() {
        format!(
            "store.checkpoint: none is named here, but the gateways on this Redis keep one; name the same here, or, to go on \
             with none, stop all of them and remove {} from Redis (docs/redis.md)",
            keys::CHECKPOINT
        )
    } else {
        format!(
            "store.checkpoint: this one is {own}, but the gateways on this Redis keep {theirs}; see whether the right folder \
             is mounted, and name the same in each. To change it, stop all of them and remove {} from Redis (docs/redis.md)",
            keys::CHECKPOINT
        )
    })
}

fn other_keys(mine: &Kinds, theirs: &Kinds) -> Option<String> {
    mine.iter().find_map(|(setting, mine)| {
        let theirs = theirs.get(setting)?;
        if !mine.takes.contains(&theirs.signs) {
            let signs = &theirs.signs;
            return Some(format!(
                "{setting}: another gateway on this Redis signs with {signs}, which this one does not have; name the same in \
                 each"
            ));
        }
        (!theirs.takes.contains(&mine.signs)).then(|| {
            let signs = &mine.signs;
            format!(
                "{setting}: this gateway signs with {signs}, which another one on this Redis does not have; name it in each \
                 before it signs"
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(signs: &str, takes: &[&str]) -> Kinds {
        let takes = takes.iter().map(|name| (*name).to_owned()).collect();
        [("keys.ticket".to_owned(), RedisKeys { signs: signs.to_owned(), takes })].into()
    }

    /// What each of the two says to the other.
    fn both(one: &Kinds, other: &Kinds) -> [bool; 2] {
        [other_keys(one, other).is_some(), other_keys(other, one).is_some()]
    }

    #[test]
    fn each_has_to_have_what_the_other_signs_with_and_no_more() {
        // A key is replaced: published, then it signs, then the old one goes.
        let steps = [
            kinds("old", &["old"]),
            kinds("old", &["old", "new"]),
            kinds("new", &["old", "new"]),
            kinds("new", &["new"]),
        ];
        for beside in steps.windows(2) {
            assert_eq!(both(&beside[0], &beside[1]), [false; 2], "{beside:?}");
        }
        for beside in steps.windows(3) {
            assert_eq!(both(&beside[0], &beside[2]), [true; 2], "a step was left out: {beside:?}");
        }
        let known = other_keys(&kinds("a", &["a"]), &kinds("b", &["b"])).unwrap();
        assert!(known.starts_with("keys.ticket: ") && known.contains("signs with b"), "{known}");
        let unknown = other_keys(&kinds("a", &["a", "b"]), &kinds("b", &["b"])).unwrap();
        assert!(unknown.contains("signs with a"), "{unknown}");
        // A kind that one of them does not have is no matter of both.
        assert_eq!(both(&kinds("a", &["a"]), &Kinds::new()), [false; 2]);
    }

    #[test]
    fn who_keeps_no_checkpoint_is_no_obstacle_to_who_begins_one() {
        assert_eq!(other_checkpoint("a", ""), None);
        assert_eq!(other_checkpoint("", ""), None);
        assert_eq!(other_checkpoint("a", "a"), None);
        assert!(other_checkpoint("", "a").unwrap().contains("none is named here"));
        assert!(other_checkpoint("b", "a").unwrap().contains("this one is b"));
    }
}
