//! The last phase: what is counted and what is written down. No visitor, token or address is logged.

use pingora::Error;
use pingora::proxy::Session;

use crate::gateway::Gateway;
use crate::phases::context::Context;

pub(super) fn log(gateway: &Gateway, session: &Session, error: Option<&Error>, context: &Context) {
    let status = session.response_written().map_or(0, |response| response.status.as_u16());
    let elapsed = context.started.elapsed();
    gateway.metrics.request(context.verdict, status, elapsed);
    tracing::debug!(
        method = %session.req_header().method,
        verdict = context.verdict,
        status,
        elapsed_ms = super::elapsed_ms(context.started),
        error = error.map(|error| error.etype().as_str()),
        "request"
    );
}
