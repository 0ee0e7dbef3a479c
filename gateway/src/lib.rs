//! The Ropeline gateway: a Pingora proxy with a waiting room in front of the shop.
//!
//! A request enters at [`phases`], is decided upon by `ropeline-decision`, and is forwarded, answered by [`shopper`]
//! (the queue's own calls and the room), or refused. [`sales`] keeps what every answer shows fresh from the store;
//! [`operator`] is the other listener, where sales are run. [`server`] puts the parts together.

pub mod answer;
pub mod beacon;
pub mod cli;
pub mod client_address;
pub mod config;
pub mod cookies;
#[cfg(feature = "demo")]
pub mod demo;
pub mod downstream;
pub mod draw_document;
pub mod edge;
pub mod feedback;
pub mod framing;
pub mod gateway;
pub mod http_client;
pub mod identity;
pub mod invitations;
pub mod issuer;
pub mod join_guard;
pub mod keys;
pub mod measured;
pub mod metrics;
pub mod operator;
pub mod page;
pub mod phases;
pub mod problem;
pub mod returning;
pub mod sales;
pub mod server;
pub mod shopper;
pub mod shutdown;
pub mod upstream;
pub mod verified;
