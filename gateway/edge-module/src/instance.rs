use std::fmt;

use ropeline_edge::Request;
use wasmtime::{Engine, InstancePre, Memory, Store, StoreLimits, StoreLimitsBuilder, TypedFunc};

use crate::{Limits, ModuleError};

/// What an instance's store knows of the host: how much memory it grants.
pub(crate) type Host = StoreLimits;

/// One instance, and what it exports.
pub(crate) struct Instance {
    store: Store<Host>,
    fuel: u64,
    memory: Memory,
    input: TypedFunc<u32, u32>,
    output: TypedFunc<(), u32>,
    configure: TypedFunc<(), u32>,
    plan: TypedFunc<u64, u32>,
}

impl fmt::Debug for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Instance").field("memory_bytes", &self.memory_bytes()).finish_non_exhaustive()
    }
}

impl Instance {
    pub(crate) fn new(
        engine: &Engine,
        prepared: &InstancePre<Host>,
        limits: Limits,
    ) -> Result<Self, ModuleError> {
        let granted = StoreLimitsBuilder::new().memory_size(limits.memory_bytes).memories(1).tables(1);
        let mut store = Store::new(engine, granted.build());
        store.limiter(|limits| limits);
        store.set_fuel(limits.fuel).map_err(ModuleError::compiling)?;
        let instance = prepared.instantiate(&mut store).map_err(ModuleError::compiling)?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.ok_or_else(|| ModuleError::NoEdge("it exports no memory".to_owned()))?;
        let mut exports = Exports { store: &mut store, instance };
        let (input, output) = (exports.function("input")?, exports.function("output")?);
        let (configure, plan) = (exports.function("configure")?, exports.function("plan")?);
        Ok(Self { store, fuel: limits.fuel, memory, input, output, configure, plan })
    }

    pub(crate) fn configure(&mut self, settings: &[u8]) -> Result<(), ModuleError> {
        self.refuel()?;
        self.hand_over(settings)?;
        let length = self.configure.call(&mut self.store, ()).map_err(ModuleError::running)?;
        if length == 0 { Ok(()) } else { Err(ModuleError::SettingsRefused { code: self.said(length)? }) }
    }

    pub(crate) fn plan(&mut self, request: &Request<'_>, now: u64) -> Result<String, ModuleError> {
        let lines = lines(request)?;
        self.refuel()?;
        self.hand_over(&lines)?;
        let length = self.plan.call(&mut self.store, now).map_err(ModuleError::running)?;
        if length == 0 { Err(ModuleError::Request) } else { self.said(length) }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.data_size(&self.store)
    }

    fn refuel(&mut self) -> Result<(), ModuleError> {
        self.store.set_fuel(self.fuel).map_err(ModuleError::running)
    }

    fn hand_over(&mut self, bytes: &[u8]) -> Result<(), ModuleError> {
        let length = u32::try_from(bytes.len()).map_err(|_| ModuleError::Request)?;
        let at = self.input.call(&mut self.store, length).map_err(ModuleError::running)?;
        let at = usize::try_from(at).map_err(|_| ModuleError::Answer)?;
        self.memory.write(&mut self.store, at, bytes).map_err(|_| ModuleError::Answer)
    }

    fn said(&mut self, length: u32) -> Result<String, ModuleError> {
        let at = self.output.call(&mut self.store, ()).map_err(ModuleError::running)?;
        let (at, length) = (usize::try_from(at).ok(), usize::try_from(length).ok());
        let (Some(at), Some(length)) = (at, length) else { return Err(ModuleError::Answer) };
        let end = at.checked_add(length).ok_or(ModuleError::Answer)?;
        let said = self.memory.data(&self.store).get(at..end).ok_or(ModuleError::Answer)?;
        String::from_utf8(said.to_vec()).map_err(|_| ModuleError::Answer)
    }
}

struct Exports<'s> {
    store: &'s mut Store<Host>,
    instance: wasmtime::Instance,
}

impl Exports<'_> {
    fn function<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
        &mut self,
        name: &str,
    ) -> Result<TypedFunc<P, R>, ModuleError> {
        self.instance.get_typed_func(&mut *self.store, name).map_err(ModuleError::compiling)
    }
}

/// The request as the module reads it: method, host and target, then name and value of each field, a line each.
fn lines(request: &Request<'_>) -> Result<Vec<u8>, ModuleError> {
    let head = [request.method, request.host, request.target].map(str::as_bytes);
    let fields = request.headers.iter().flat_map(|(name, value)| [name.as_bytes(), value]);
    let mut lines = Vec::new();
    for (number, line) in head.into_iter().chain(fields).enumerate() {
        if line.contains(&b'\n') {
            return Err(ModuleError::Request);
        }
        if number > 0 {
            lines.push(b'\n');
        }
        lines.extend_from_slice(line);
    }
    Ok(lines)
}
