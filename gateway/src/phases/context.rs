//! What one request carries from phase to phase.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::HeaderValue;
use ropeline_queue::Arrival;

use crate::sales::LiveSale;

/// The admission under which a request goes forward.
#[derive(Clone)]
pub struct Admitted {
    /// The sale it is for.
    pub sale: Arc<LiveSale>,
    /// The ticket's number, which names the lease.
    pub arrival: Arrival,
}

/// What one request carries from phase to phase.
pub struct Context {
    /// When its head had arrived.
    pub started: Instant,
    /// When the shop had all of it, so far as is known.
    pub forwarded_at: Option<Instant>,
    /// Who sent it.
    pub client: Option<IpAddr>,
    /// The admission under which it goes forward, if its path is protected.
    pub admitted: Option<Admitted>,
    /// Headers to set on the way to the shop, after every `Ropeline-*` of the client's was taken off.
    pub headers: Vec<(&'static str, String)>,
    /// Cookies that the visitor is to keep, with the shop's answer.
    pub cookies: Vec<HeaderValue>,
    /// The path and query to ask the shop for: the one that was decided upon.
    pub target: Option<String>,
    /// Body bytes passed on so far.
    pub body_bytes: u64,
    /// Whether the shop has the whole request: only then is the wait the shop's.
    pub body_sent: bool,
    /// What was decided, for metrics and the access log.
    pub verdict: &'static str,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            forwarded_at: None,
            client: None,
            admitted: None,
            headers: Vec::new(),
            cookies: Vec::new(),
            target: None,
            body_bytes: 0,
            body_sent: false,
            verdict: "unread",
        }
    }
}
