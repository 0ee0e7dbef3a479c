//! The Ropeline gateway: a Pingora proxy with a waiting room in front of the shop.

pub mod cli;
pub mod config;
pub mod draw_document;
pub mod keys;
pub mod measured;
pub mod metrics;
pub mod operator;
pub mod page;
