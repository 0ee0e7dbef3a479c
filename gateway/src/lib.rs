//! The Ropeline gateway: a Pingora proxy with a waiting room in front of the shop.

pub mod config;
pub mod keys;
pub mod page;
