//! A sale as a person lives through it: a real Chromium before the real gateway, the real shop behind it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests: what fails is printed")]

mod cache;
mod checkout;
mod crowded;
mod edge;
mod place;
mod plain;
mod scripted;
mod stage;
mod trouble;
