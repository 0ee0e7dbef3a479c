use thiserror::Error;
use wasmtime::Trap;

/// Why a module gives no answer.
#[derive(Debug, Error)]
pub enum ModuleError {
    /// It is no module that runs here.
    #[error("this is no module of an edge: {0}")]
    NoEdge(String),
    /// The settings are refused.
    #[error("the module refuses the settings: {code}")]
    SettingsRefused {
        /// The code of [`ropeline_edge::SettingsError::code`].
        code: String,
    },
    /// It has been given no settings yet.
    #[error("the module has no settings yet")]
    Unconfigured,
    /// A part of the request holds a line feed, or is otherwise nothing that HTTP could carry.
    #[error("the request cannot be handed to the module")]
    Request,
    /// It used up its fuel.
    #[error("the module took longer than it may")]
    OutOfFuel,
    /// It trapped: there was no memory left, or there is a fault in it.
    #[error("the module failed: {0}")]
    Trapped(String),
    /// It answered with something that is no text, or lies outside its memory.
    #[error("the module's answer cannot be read")]
    Answer,
}

impl ModuleError {
    // By value, for it is what `map_err` calls.
    #[expect(clippy::needless_pass_by_value, reason = "handed over to be told and dropped")]
    pub(crate) fn compiling(error: wasmtime::Error) -> Self {
        Self::NoEdge(format!("{error:#}"))
    }

    #[expect(clippy::needless_pass_by_value, reason = "handed over to be told and dropped")]
    pub(crate) fn running(error: wasmtime::Error) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Self::OutOfFuel,
            _ => Self::Trapped(format!("{:#}", error.root_cause())),
        }
    }
}
