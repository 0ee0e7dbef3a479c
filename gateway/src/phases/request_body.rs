//! Bodies on their way to the shop: bounded.

use pingora::{Error, ErrorType};

use crate::phases::context::Context;

/// Counts the body's bytes and stops the request where they pass the limit.
pub(super) fn filter(limit: u64, chunk: Option<&bytes::Bytes>, context: &mut Context) -> pingora::Result<()> {
    let Some(chunk) = chunk else { return Ok(()) };
    context.body_bytes = context.body_bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
    if context.body_bytes > limit {
        return Error::e_explain(
            ErrorType::HTTPStatus(413),
            format!("request body longer than {limit} bytes"),
        );
    }
    Ok(())
}
