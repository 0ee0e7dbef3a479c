//! A payment service for tests: a real HTTP server that speaks the part of Stripe's API that a checkout needs.
//!
//! It keeps Stripe's promises. A key's first answer is kept, a failure too, and repeated with `Idempotent-Replayed`; the
//! same key with other parameters is refused; while its first request is at work it is busy. Intents go through their
//! states and no others. Events are signed, sent again for three days until they are taken, and come in any order.
//!
//! And it breaks what a network breaks, by a [`Plan`] that a seed decides. Its books ([`PaymentService::payments`]) say what
//! really happened to the money.

mod books;
mod plan;
mod server;
mod webhooks;

pub use books::{Payment, State};
pub use plan::Plan;
pub use server::PaymentService;
pub use webhooks::sign;
