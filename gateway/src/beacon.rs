//! Public randomness for draws: what a beacon publishes is fetched from relays nobody has to trust, because each answer
//! is checked against the beacon's public key before it comes near a queue.

mod relays;
mod signature;
mod watch;

pub use relays::{Fetched, RelayAddress, RelayAddressError, Relays};
pub use signature::{WrongSignature, verify};
pub use watch::BeaconWatch;
