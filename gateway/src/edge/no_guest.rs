//! In place of the module that edges run, in a build that cannot run one.

use ropeline_decision::Request;
use thiserror::Error;

/// Why there is no module.
#[derive(Debug, Error)]
#[error("this build runs no WebAssembly; build the gateway with --features edge-module")]
pub struct Failed;

/// There is none.
#[derive(Debug)]
pub enum Guest {}

impl Guest {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn compile(_bytes: &[u8]) -> Result<Self, Failed> {
        Err(Failed)
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn configure(&self, _settings: &str) -> Result<(), Failed> {
        match *self {}
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn plan(&self, _request: &Request<'_>, _now: u64) -> Result<String, Failed> {
        match *self {}
    }
}
