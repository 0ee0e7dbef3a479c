//! Asks the module what was decided natively, beside the request's own path, and counts where it says otherwise.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arc_swap::ArcSwapOption;
use ropeline_decision::header::Field;
use ropeline_decision::{Policy, Request, Verdict};
use ropeline_token::{AdmissionClaims, Authentic, KeySet};

use super::guest::{Failed, Guest};
use super::reading::{self, Outcome};
use crate::metrics::Metrics;

/// Requests that wait for the module at most. Beyond, they are not compared: the shop's shoppers come first.
const WAITING: usize = 4_096;

/// Compares, on a thread of its own.
pub(super) struct Shadow {
    asked: SyncSender<Asked>,
    guest: Arc<Guest>,
    configured: Arc<ArcSwapOption<Policy>>,
    metrics: Arc<Metrics>,
}

/// A request, and what was decided about it.
struct Asked {
    method: String,
    host: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    now: u64,
    policy: Arc<Policy>,
    decided: Outcome,
}

/// How a comparison came out.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    Agree,
    Differ,
    Failed,
    /// The policy has changed since, or there was no time for it.
    Skipped,
}

/// The thread's own.
struct Worker {
    guest: Arc<Guest>,
    keys: KeySet,
    /// What the module has been given.
    configured: Arc<ArcSwapOption<Policy>>,
    metrics: Arc<Metrics>,
}

// === impl Shadow ===

impl Shadow {
    /// Begins to compare.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn start(guest: Arc<Guest>, keys: KeySet, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let (asked, waiting) = sync_channel(WAITING);
        let configured = Arc::new(ArcSwapOption::empty());
        let worker = Worker {
            guest: Arc::clone(&guest),
            keys,
            configured: Arc::clone(&configured),
            metrics: Arc::clone(&metrics),
        };
        std::thread::Builder::new().name("edge shadow".to_owned()).spawn(move || worker.run(&waiting))?;
        Ok(Self { asked, guest, configured, metrics })
    }

    pub(super) fn configure(&self, policy: &Arc<Policy>, settings: &str) -> Result<(), Failed> {
        self.guest.configure(settings)?;
        self.configured.store(Some(Arc::clone(policy)));
        Ok(())
    }

    /// Has what was decided compared, if there is time.
    pub(super) fn ask<A: Borrow<Authentic<AdmissionClaims>>>(
        &self,
        request: &Request<'_>,
        policy: &Arc<Policy>,
        now: u64,
        verdict: &Verdict<'_, A>,
    ) {
        let asked = Asked {
            method: request.method.to_owned(),
            host: request.host.to_owned(),
            target: request.target.to_owned(),
            headers: request
                .headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.to_vec()))
                .collect(),
            now,
            policy: Arc::clone(policy),
            decided: Outcome::of(verdict),
        };
        if self.asked.try_send(asked).is_err() {
            self.metrics.shadowed(Compared::Skipped.as_str());
        }
    }
}

// === impl Worker ===

impl Worker {
    fn run(&self, waiting: &Receiver<Asked>) {
        for asked in waiting {
            self.metrics.shadowed(self.compare(&asked).as_str());
        }
    }

    fn compare(&self, asked: &Asked) -> Compared {
        let configured =
            || self.configured.load().as_ref().is_some_and(|with| Arc::ptr_eq(with, &asked.policy));
        if !configured() {
            return Compared::Skipped;
        }
        let headers: Vec<Field<'_>> =
            asked.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let request =
            Request { method: &asked.method, host: &asked.host, target: &asked.target, headers: &headers };
        let planned = self.guest.plan(&request, asked.now);
        if !configured() {
            return Compared::Skipped;
        }
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                tracing::warn!(%error, native = %asked.decided, "the edge module fails on a request");
                return Compared::Failed;
            }
        };
        let module = match reading::verdict(&plan, &request, &asked.policy, &self.keys) {
            Ok(verdict) => Outcome::of(&verdict),
            Err(strange) => {
                tracing::warn!(%strange, native = %asked.decided, "the edge module decides otherwise");
                return Compared::Differ;
            }
        };
        let differences = asked.decided.differences(&module);
        if differences.is_empty() {
            return Compared::Agree;
        }
        tracing::warn!(?differences, native = %asked.decided, %module, "the edge module decides otherwise");
        Compared::Differ
    }
}

// === impl Compared ===

impl Compared {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Differ => "differ",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}
