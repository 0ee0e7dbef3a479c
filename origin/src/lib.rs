//! The reservation service: holds, checkout and purchases that never oversell and never charge twice.
//!
//! It stands behind the gateway, but does not lean on it: every shopper call brings an admission token that is verified
//! here again. A program that wants the service in its own process builds a [`config::RawConfig`], checks it, and runs
//! [`Origin`]:
//!
//! ```no_run
//! # async fn demo(raw: ropeline_origin::config::RawConfig) -> Result<(), Box<dyn std::error::Error>> {
//! let origin = ropeline_origin::Origin::bind(raw.check()?).await?;
//! let (address, handle) = (origin.local_addr(), origin.handle());
//! tokio::spawn(origin.serve(std::future::pending()));
//! println!("http://{address}: {:?}", handle.audit().await?);
//! # Ok(()) }
//! ```

mod admission;
mod answer;
#[cfg(feature = "bench")]
pub mod bench;
mod cashier;
pub mod checkout;
mod client;
pub mod config;
mod documents;
mod http;
mod markup;
mod model;
pub mod notify;
pub mod operator;
mod outbox;
mod payments;
mod premises;
mod service;
mod store;

pub use admission::KeysUnreadable;
pub use config::{Config, ConfigError, RawConfig};
pub use model::{Audit, ProductAudit};
pub use outbox::RelayError;
pub use payments::test_provider::OpenError as TestProviderError;
pub use premises::PremisesError;
pub use service::{Handle, Origin, StartError, run};
pub use store::{OpenError, OutboxEvent, Resumed, SeedError, StoreError};
