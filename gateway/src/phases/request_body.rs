//! Bodies on their way to the shop: bounded in length and in time.

use std::time::{Duration, Instant};

use pingora::{Error, ErrorType};

use crate::phases::context::Context;

/// Counts the body's bytes and stops the request where they pass the limit, or come too late.
pub(super) fn filter(
    limit: u64,
    time: Duration,
    chunk: Option<&bytes::Bytes>,
    end: bool,
    context: &mut Context,
) -> pingora::Result<()> {
    if end {
        // A slow upload is the client's doing; the shop's time starts here.
        context.body_sent = true;
        context.forwarded_at = Some(Instant::now());
    }
    let Some(chunk) = chunk else { return Ok(()) };
    context.body_bytes = context.body_bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
    if context.body_bytes > limit {
        return Error::e_explain(
            ErrorType::HTTPStatus(413),
            format!("request body longer than {limit} bytes"),
        );
    }
    if !chunk.is_empty() && context.started.elapsed() > time {
        return Error::e_explain(ErrorType::HTTPStatus(408), format!("request body slower than {time:?}"));
    }
    Ok(())
}
