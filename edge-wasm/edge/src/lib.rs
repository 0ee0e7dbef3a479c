#![no_std]
//! What an edge does with a request: pure, and the same on every host.
//!
//! [`Settings`] are what the gateway exports for an edge: a policy, the public admission keys, and how long both may be
//! relied on. [`Settings::plan`] takes the parts of a request and the time, and answers a [`Plan`]: forward it, serve
//! the room of a sale in its place, or answer it here. A guest only translates: it reads the host's request, asks for
//! the plan and carries it out.
//!
//! An edge holds no secret and keeps nothing of a visitor's.

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer;
mod plan;
mod settings;

pub use answer::{Answer, must_wait, not_acceptable};
pub use plan::{Act, Forward, Kind, Plan, Reply, Room};
pub use settings::{PastExpiry, Settings, SettingsError, Upstream};

// What a guest needs to ask for a plan.
pub use ropeline_decision::{Request, header::Field};
