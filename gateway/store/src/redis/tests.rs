//! The contract on one server and on a cluster, and what only this store can get wrong.

mod fixture;
mod history;
mod losing;
mod racing;
