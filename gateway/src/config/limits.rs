//! `[limits]`: what one client may take.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::join_limits::{self, JoinLimits};
use super::read::Section;

/// What one client may take, and how the process shares the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest request head, in bytes.
    pub header_bytes: usize,
    /// How long a connection without a request is kept.
    pub keepalive: Duration,
    /// Longest time for a request to arrive, head and body.
    pub request_timeout: Duration,
    /// Worker threads of the proxy.
    pub threads: NonZeroUsize,
    /// How long the process takes to stop at most: notice for load balancers, then open requests finish.
    pub shutdown_grace: Duration,
    /// What a first number in a sale costs.
    pub join: JoinLimits,
}

pub(super) fn read(section: Section<'_>) -> Limits {
    let seconds = Duration::from_secs;
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let header_bytes = section.or("header_bytes", 32 << 10, |item| item.size_in(4 << 10, 1 << 20));
    let join_section = section.table("join");
    let join = join_limits::read(&join_section);
    join_section.finish();
    let limits = Limits {
        header_bytes: usize::try_from(header_bytes).unwrap_or(usize::MAX),
        keepalive: section.or("keepalive", seconds(60), |item| item.duration_in(seconds(1), seconds(3_600))),
        request_timeout: section
            .or("request_timeout", seconds(30), |item| item.duration_in(seconds(1), seconds(3_600))),
        threads: section.or("threads", cores, |item| {
            item.number(1_usize, 1_024).map(|threads| NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN))
        }),
        shutdown_grace: section
            .or("shutdown_grace", seconds(8), |item| item.duration_in(seconds(0), seconds(600))),
        join,
    };
    section.finish();
    limits
}
