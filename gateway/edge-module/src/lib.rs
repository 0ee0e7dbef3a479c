//! The edge's WebAssembly module, `edge-wasm/abi`, run within limits: the very bytes that a CDN runs, under its host's
//! eyes.
//!
//! [`Module`] is compiled once. It keeps instances that stand ready, gives each call one of them, and takes none back
//! that failed.

mod error;
mod instance;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ropeline_edge::Request;
use wasmtime::{Config, Engine, InstancePre, Linker};

pub use error::ModuleError;
use instance::{Host, Instance};

/// What one call may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fuel, about one unit for each instruction of WebAssembly.
    pub fuel: u64,
    /// Memory of one instance, in bytes.
    pub memory_bytes: usize,
}

impl Default for Limits {
    /// Enough for settings of 32 keys and hundreds of sales, and less than a tenth of a second.
    fn default() -> Self {
        Self { fuel: 100_000_000, memory_bytes: 8 << 20 }
    }
}

/// A module, and its instances that stand ready.
pub struct Module {
    engine: Engine,
    prepared: InstancePre<Host>,
    limits: Limits,
    ready: Mutex<Ready>,
}

/// Instances with one and the same settings.
#[derive(Debug, Default)]
struct Ready {
    settings: Option<Arc<[u8]>>,
    instances: Vec<Instance>,
}

impl fmt::Debug for Module {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Module").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Module {
    /// Compiles a module.
    ///
    /// # Errors
    /// It is no WebAssembly, it imports something, or it does not export what `edge-wasm/abi` exports.
    pub fn from_bytes(bytes: &[u8], limits: Limits) -> Result<Self, ModuleError> {
        let mut config = Config::new();
        config.consume_fuel(true);
        let engine = Engine::new(&config).map_err(ModuleError::compiling)?;
        let module = wasmtime::Module::new(&engine, bytes).map_err(ModuleError::compiling)?;
        // Nothing is linked: a module that imports anything is refused.
        let prepared = Linker::new(&engine).instantiate_pre(&module).map_err(ModuleError::compiling)?;
        let module = Self { engine, prepared, limits, ready: Mutex::default() };
        module.instance()?;
        Ok(module)
    }

    /// Takes settings, as the gateway exports them for an edge: all calls that begin from now on see them.
    ///
    /// # Errors
    /// They are refused, or the module failed. Those that were there before stay.
    pub fn configure(&self, settings: &[u8]) -> Result<(), ModuleError> {
        let mut instance = self.instance()?;
        instance.configure(settings)?;
        *self.ready() = Ready { settings: Some(settings.into()), instances: vec![instance] };
        Ok(())
    }

    /// What to do with a request at `now` (Unix seconds): a plan in JSON, as [`ropeline_edge::Plan::to_json`] writes it.
    ///
    /// # Errors
    /// There are no settings, the request cannot be handed over, or the module failed.
    pub fn plan(&self, request: &Request<'_>, now: u64) -> Result<String, ModuleError> {
        let (settings, idle) = {
            let mut ready = self.ready();
            (ready.settings.clone().ok_or(ModuleError::Unconfigured)?, ready.instances.pop())
        };
        let mut instance = match idle {
            Some(instance) => instance,
            None => {
                let mut instance = self.instance()?;
                instance.configure(&settings)?;
                instance
            }
        };
        // An instance that fails is not kept: nobody knows what state it is in.
        let plan = instance.plan(request, now)?;
        let mut ready = self.ready();
        if ready.settings.as_ref().is_some_and(|current| Arc::ptr_eq(current, &settings)) {
            ready.instances.push(instance);
        }
        Ok(plan)
    }

    /// How much memory the instances that stand ready have, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.ready().instances.iter().map(Instance::memory_bytes).sum()
    }

    fn instance(&self) -> Result<Instance, ModuleError> {
        Instance::new(&self.engine, &self.prepared, self.limits)
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        // Every change is one assignment, so that a panic elsewhere leaves nothing half done.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
