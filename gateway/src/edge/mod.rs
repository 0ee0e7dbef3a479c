//! The gateway's side of the edges: the settings that it exports for them, and their own module, which may decide in its
//! stead or be watched doing so.

pub mod decider;
pub mod export;
#[cfg(feature = "edge-module")]
mod guest;
#[cfg(not(feature = "edge-module"))]
#[path = "no_guest.rs"]
mod guest;
mod reading;
mod shadow;
pub mod trial;

pub use guest::{Failed, Guest};
