//! The hosts that run JavaScript, each with the folder that `scripts/edge-folder.sh` puts together for it.

mod deno;
mod edge_runtime;
mod lambda;
mod node;
mod workerd;
