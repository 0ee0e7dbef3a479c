#![no_std]
//! Whether a request goes forward, waits or is refused: pure, the same in the gateway and on every edge.
//!
//! [`decide`] takes the request's parts, a [`Policy`], the admission keys and the time, and answers a [`Verdict`]. It
//! reads nothing else. Host and path are normalised first, so that no spelling of a protected path walks past the
//! room; a path that could be read in two ways is refused.
//!
//! The modules below are what `decide` is made of. The gateway reads its own calls with the same functions.

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cookie;
mod decide;
mod fold;
pub mod header;
pub mod host;
mod navigation;
pub mod negotiate;
pub mod path;
mod policy;
pub mod response;

pub use decide::{
    Admission, Authenticate, Forward, JWKS_PATH, Rejection, Request, Verdict, Wait, decide, presented,
};
pub use navigation::is_navigation;
pub use policy::{
    Bypass, Gate, HostName, OtherStatus, PageStatus, PathPattern, Policy, PolicyError, Route, SaleName,
    SalePolicy,
};
