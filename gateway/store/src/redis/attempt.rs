//! Something that is tried once for all who wait for it.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::StoreError;

/// What has become of one attempt, which all share who wait for it: nothing yet, what it is about, or why that is not to be had.
pub(super) type Attempt<T> = watch::Receiver<Option<Result<T, StoreError>>>;

/// Where an attempt says what has become of it.
pub(super) type Told<T> = watch::Sender<Option<Result<T, StoreError>>>;

/// The latest attempt; none where what it was about was lost since.
#[derive(Debug)]
pub(super) struct Latest<T>(Mutex<Option<Attempt<T>>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Latest<T> {
    /// It has come to something, as far as is known.
    pub(super) fn is_well(&self) -> bool {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().is_some_and(|attempt| matches!(&*attempt.borrow(), Some(Ok(_))))
    }

    /// The latest attempt; another one, which `begin` is to set out on, where that has failed.
    pub(super) fn or_begin(&self, begin: impl FnOnce(Told<T>)) -> Attempt<T> {
        let is_of_use = |attempt: &Attempt<T>| match &*attempt.borrow() {
            Some(made) => made.is_ok(),
            // Its runtime may have ended meanwhile.
            None => attempt.has_changed().is_ok(),
        };
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(attempt) = latest.as_ref().filter(|attempt| is_of_use(attempt)) {
            return attempt.clone();
        }
        let (told, attempt) = watch::channel(None);
        begin(told);
        latest.insert(attempt).clone()
    }

    /// What came of that attempt is lost. There may be a later one already.
    pub(super) fn lose(&self, attempt: &Attempt<T>) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.as_ref().is_some_and(|latest| latest.same_channel(attempt)) {
            *latest = None;
        }
    }
}
