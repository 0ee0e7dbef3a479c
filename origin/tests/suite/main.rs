//! The reservation service as its clients see it: over HTTP, with real tokens, and with its process killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test stops at the first thing that is not as it should be"
)]

mod authority;
mod checkout;
mod commands;
mod common;
mod crash;
mod faults;
mod holds;
mod hostile;
mod idempotency;
mod keys;
mod localstripe;
mod logs;
mod notify;
mod openapi;
mod outbox;
mod pages;
mod postgres;
mod postgres_tls;
mod premises;
mod receivers;
mod receivers_tls;
mod shop;
mod slow;
mod stops;
mod stripe;
mod stripe_faults;
mod units;
