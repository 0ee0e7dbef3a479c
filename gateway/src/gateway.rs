//! What every phase and every call shares.

use std::sync::Arc;

use bytes::Bytes;
use ropeline_store::{Clock, QueueStore};

use crate::client_address::TrustedProxies;
use crate::config;
use crate::cookies::CookieStyle;
use crate::edge::decider::Decider;
use crate::feedback::Sink;
use crate::identity::Identifier;
use crate::invitations::UsedInvitations;
use crate::issuer::Issuer;
use crate::join_guard::JoinGuard;
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::page;
use crate::returning;
use crate::sales::Sales;
use crate::shutdown::Stopping;

use crate::upstream::Upstream;
use crate::verified::Verified;

/// What every phase and every call shares. One per process.
pub struct Gateway {
    /// The queue's state.
    pub store: Arc<dyn QueueStore>,
    /// The sales and what they show.
    pub sales: Arc<Sales>,
    /// Signs tokens.
    pub issuer: Issuer,
    /// Verifies tokens.
    pub verified: Verified,
    /// Knows what a first number costs.
    pub guard: JoinGuard,
    /// Those that have brought a number, and bring no other for nothing.
    pub invitations: UsedInvitations,
    /// Makes out visitors.
    pub identifier: Arc<Identifier>,
    /// Renders rooms.
    pub room: Arc<page::Room>,
    /// The published key set.
    pub jwks: Bytes,
    /// How cookies are set.
    pub cookies: CookieStyle,
    /// Proxies of ours in front.
    pub trusted: TrustedProxies,
    /// Whether they also say which host the shopper asked for.
    pub trust_forwarded_host: bool,
    /// Where the shop is.
    pub upstream: Arc<Upstream>,
    /// How it is asked.
    pub upstream_settings: config::Upstream,
    /// What all sales share.
    pub queue: config::QueueSettings,
    /// What one client may take.
    pub limits: config::Limits,
    /// Whether the process is about to end.
    pub stopping: Stopping,
    /// The keys of all that is signed, and of those whose invitations are taken.
    pub keys: Arc<Keys>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Takes what the shop tells the queue.
    pub feedback: Sink,
    /// Takes tickets that come back after a loss of the store.
    pub returning: returning::Sink,
    /// Decides on requests.
    pub decider: Arc<Decider>,
    /// Tells the time to tokens.
    pub clock: Arc<dyn Clock>,
}

impl Gateway {
    /// The time in Unix seconds, as tokens count.
    #[must_use]
    pub fn now_s(&self) -> u64 {
        self.clock.now().seconds()
    }
}
