//! The queue of a sale as a pure state machine: arrivals, draw, calling, pacing, ETA.
//!
//! Nothing here reads a clock, a socket or a file. Every function that depends on time takes `now`, and
//! `Queue` says after each event what a store has to keep ([`Changes`]); `SaleView` is what the
//! gateways need to answer everybody else. Wall times are Unix milliseconds ([`UnixMillis`]).

pub mod definition;
pub mod draw;
pub mod flow;
pub mod health;
pub mod outcome;
pub mod poll;
pub mod types;
pub mod visitors;

pub use definition::{
    DefinitionErrors, DrawDefinition, FieldError, Pace, Protect, RawDefinition, SaleDefinition,
};
pub use outcome::{
    AdmissionRecord, AdmissionState, ChangeRefusal, Changes, ClaimRefusal, Claimed, Command, CommandDone,
    CommandRefusal, JoinOptions, JoinRecord, JoinRefusal, Joined, LeaseEvent, LeaveRefusal, PauseReason,
    TickInput,
};
pub use types::{Arrival, Epoch, Phase, Place, Position, SaleId, SaleIdError, Stock, UnixMillis, VisitorKey};
