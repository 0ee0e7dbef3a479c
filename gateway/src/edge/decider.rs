//! Who decides on requests: this build, or the module that edges run.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context as _;
use ropeline_decision::{Authenticate, Policy, Request, Verdict};
use ropeline_edge::Upstream;
use ropeline_token::{AdmissionClaims, Authentic};

use super::export::Exporter;
use super::guest::Guest;
use super::reading;
use super::shadow::Shadow;
use crate::keys::Keys;
use crate::metrics::Metrics;

/// Who decides, as the configuration says.
#[derive(Clone, Debug, Default)]
pub enum Decides {
    /// This build.
    #[default]
    Native,
    /// The module.
    Module(Arc<Guest>),
    /// This build, and the module is compared with it.
    Shadow(Arc<Guest>),
}

/// Decides on requests.
pub struct Decider {
    by: By,
    exporter: Exporter,
    metrics: Arc<Metrics>,
    /// When a failure was last told, in Unix seconds: the log must not drown in them.
    told: AtomicU64,
    /// Whether the module has refused the policy in force. By an older one, a token that was revoked would be good, and a
    /// sale that was made since then unprotected.
    behind: AtomicBool,
}

enum By {
    Native,
    Module(Arc<Guest>),
    Shadow(Shadow),
}

/// The module gave no verdict. It has been told and counted.
#[derive(Debug)]
pub struct NoVerdict;

impl Decider {
    /// Decides as `decides` says.
    ///
    /// # Errors
    /// When there is no thread to be had for comparing.
    pub fn new(decides: &Decides, keys: &Keys, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let by = match decides {
            Decides::Native => By::Native,
            Decides::Module(guest) => By::Module(Arc::clone(guest)),
            Decides::Shadow(guest) => {
                let keys = keys.admission.set().clone();
                let shadow = Shadow::start(Arc::clone(guest), keys, Arc::clone(&metrics));
                By::Shadow(shadow.context("edge.mode: no thread for comparing")?)
            }
        };
        Ok(Self {
            by,
            exporter: Exporter::new(keys)?,
            metrics,
            told: AtomicU64::new(0),
            behind: AtomicBool::new(false),
        })
    }

    /// Takes a policy that has come into force. Where the module refuses it, nothing is decided by the one that it has.
    ///
    /// # Errors
    /// The module refused it, or failed. It has been told and counted.
    pub fn take(&self, policy: &Arc<Policy>) -> anyhow::Result<()> {
        let given = match &self.by {
            By::Native => return Ok(()),
            By::Module(guest) => self.settings(policy).and_then(|settings| Ok(guest.configure(&settings)?)),
            By::Shadow(shadow) => {
                self.settings(policy).and_then(|settings| Ok(shadow.configure(policy, &settings)?))
            }
        };
        self.behind.store(given.is_err(), Ordering::Release);
        match &given {
            Ok(()) => self.metrics.module_configured("taken"),
            Err(error) => {
                self.metrics.module_configured("refused");
                tracing::error!(error = format!("{error:#}"), "the edge module refuses the policy in force");
            }
        }
        given
    }

    /// What the module must know. It plans as in front of the shop, where a plan tells who was admitted.
    fn settings(&self, policy: &Policy) -> anyhow::Result<String> {
        Ok(self.exporter.settings(policy.clone())?.sending_to(Upstream::Shop).to_json())
    }

    /// What the module says to a request, where it is the module that decides.
    ///
    /// # Errors
    /// It failed.
    pub fn plan(&self, request: &Request<'_>, now: u64) -> Result<Option<String>, NoVerdict> {
        let By::Module(guest) = &self.by else { return Ok(None) };
        if self.behind.load(Ordering::Acquire) {
            return Err(self.failed(&"it has refused the policy in force", now));
        }
        guest.plan(request, now).map(Some).map_err(|error| self.failed(&error, now))
    }

    /// The verdict: the one that the module's plan follows from, where there is one. `policy` is the one in force after
    /// the module was asked.
    ///
    /// # Errors
    /// The module's plan follows from no verdict.
    pub fn decide<'a, K: Authenticate>(
        &self,
        plan: Option<&str>,
        request: &Request<'a>,
        policy: &'a Arc<Policy>,
        keys: &K,
        now: u64,
    ) -> Result<Verdict<'a, K::Admission>, NoVerdict>
    where
        K::Admission: Borrow<Authentic<AdmissionClaims>>,
    {
        if let Some(plan) = plan {
            return reading::verdict(plan, request, policy, keys)
                .map_err(|strange| self.failed(&strange, now));
        }
        let verdict = ropeline_decision::decide(request, policy, keys, now);
        if let By::Shadow(shadow) = &self.by {
            shadow.ask(request, policy, now, &verdict);
        }
        Ok(verdict)
    }

    fn failed(&self, error: &dyn std::fmt::Display, now: u64) -> NoVerdict {
        self.metrics.failed("edge_module");
        if self.told.swap(now, Ordering::Relaxed) != now {
            tracing::error!(
                %error,
                "the edge module gives no verdict, and the request gets none; edge.mode = \"native\" decides without it"
            );
        }
        NoVerdict
    }
}
