//! The contract on one server, on a cluster, by TLS and by a sentinel, and what only this store can get wrong.

mod failing;
mod fairness;
pub(super) mod fixture;
mod history;
mod losing;
mod racing;
mod scene;
mod secure;
