//! The module that edges run, within limits.

use ropeline_decision::Request;
use ropeline_edge_module::{Limits, Module, ModuleError};
use thiserror::Error;

/// Why the module gave no answer.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct Failed(#[from] ModuleError);

/// The module that edges run, compiled for this machine.
#[derive(Debug)]
pub struct Guest(Module);

impl Guest {
    /// Compiles a module.
    ///
    /// # Errors
    /// It is no module of an edge.
    pub fn compile(bytes: &[u8]) -> Result<Self, Failed> {
        Ok(Self(Module::from_bytes(bytes, Limits::default())?))
    }

    /// Gives it settings, for all that it is asked from now on.
    ///
    /// # Errors
    /// It refuses them, or failed. Those that were there before stay.
    pub fn configure(&self, settings: &str) -> Result<(), Failed> {
        Ok(self.0.configure(settings.as_bytes())?)
    }

    /// Its plan for a request at `now` (Unix seconds), as JSON.
    ///
    /// # Errors
    /// It has no settings, or failed.
    pub fn plan(&self, request: &Request<'_>, now: u64) -> Result<String, Failed> {
        Ok(self.0.plan(request, now)?)
    }
}
