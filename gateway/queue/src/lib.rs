//! The queue of a sale as a pure state machine: arrivals, draw, calling, pacing, ETA.
//!
//! Nothing here reads a clock, a socket or a file. Every function that depends on time takes `now`, and
//! [`Queue`] says after each event what a store has to keep ([`Changes`]); [`SaleView`] is what the
//! gateways need to answer everybody else. Wall times are Unix milliseconds ([`UnixMillis`]).

pub mod beacon;
mod bygone;
mod calls;
mod definition;
pub mod draw;
pub mod flow;
pub mod health;
mod lane;
mod manifest;
mod outcome;
mod pacer;
pub mod poll;
mod queue;
mod reach;
mod state;
mod text;
mod turns;
pub mod types;
mod vacant;
mod view;
pub mod visitors;

pub use calls::{CallBatch, CallLog};
pub use definition::{
    DefinitionErrors, DrawBeacon, DrawDefinition, FieldError, LONGEST_TICK_MS, LaneDefinition, Pace, Protect,
    RawDefinition, SaleDefinition, StoreAway,
};
pub use lane::{Lane, Lines, MAX_LANES};
pub use manifest::{DrawState, Fallback, LanePromise, Manifest, Promise, Source, Trust, hex};
pub use outcome::{
    AdmissionRecord, AdmissionState, ChangeRefusal, Changes, ClaimRefusal, Claimed, Command, CommandDone,
    CommandRefusal, Invited, JoinOptions, JoinRecord, JoinRefusal, Joined, LeaseEvent, LeaveRefusal,
    PauseReason, TickInput, Update,
};
pub use pacer::{ClaimRatio, Pacer};
pub use queue::{PutBack, Queue};
pub use reach::Reach;
pub use state::{Core, DrawRecord, Totals};
pub use text::{Misplaced, misplaced};
pub use types::{Arrival, Epoch, Phase, Place, Position, SaleId, SaleIdError, Stock, UnixMillis, VisitorKey};
pub use vacant::Vacant;
pub use view::{
    Awaited, DrawView, LineView, SaleView, Snapshot, SnapshotBeacon, SnapshotDraw, SnapshotLane, Standing,
};
