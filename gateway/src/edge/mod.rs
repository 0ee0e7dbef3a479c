//! The gateway's side of the edges: the settings that it exports for them.

pub mod export;
