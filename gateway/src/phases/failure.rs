//! When the shop cannot be reached, or a request breaks on its way: an honest answer, and nobody loses a place by it.

use http::StatusCode;
use pingora::proxy::{FailToProxy, Session};
use pingora::{Error, ErrorSource, ErrorType};

use crate::answer::Answer;
use crate::downstream;
use crate::gateway::Gateway;
use crate::phases::context::Context;
use crate::phases::request;
use crate::problem::Problem;

pub(super) async fn answer(
    gateway: &Gateway,
    session: &mut Session,
    error: &Error,
    context: &mut Context,
) -> FailToProxy {
    let told = match (error.esource(), downstream::fault(session)) {
        // Pingora knows only that it could not read on.
        (ErrorSource::Downstream, Some(fault)) => {
            Some(request::malformed(fault, gateway.limits.header_bytes))
        }
        _ => problem(error),
    };
    let Some(problem) = told else {
        return FailToProxy { error_code: 0, can_reuse_downstream: false };
    };
    context.verdict = problem.code();
    // Until the shop has the whole request, the wait may be the client's.
    if let (ErrorSource::Upstream, Some(at), true) =
        (error.esource(), context.forwarded_at, context.body_sent || connecting(error))
    {
        gateway.metrics.upstream_failed(problem.code());
        if let Some(admitted) = &context.admitted {
            admitted.sale.observe(false, super::elapsed_ms(at));
        }
    }
    gateway.metrics.failed(problem.code());
    let status = problem.status().as_u16();
    if session.response_written().is_none() {
        session.as_downstream_mut().set_keepalive(None);
        // Who was let straight through is admitted, even where the shop is away.
        let answer = context.cookies.drain(..).fold(problem.answer(), Answer::cookie);
        if let Err(error) = answer.send(session).await {
            tracing::debug!(%error, "client gone before the failure could be told");
        }
    }
    FailToProxy { error_code: status, can_reuse_downstream: false }
}

/// Whether the shop could not even be connected to, however much of the request there is.
fn connecting(error: &Error) -> bool {
    matches!(
        error.etype(),
        ErrorType::ConnectTimedout
            | ErrorType::ConnectRefused
            | ErrorType::ConnectNoRoute
            | ErrorType::ConnectError
            | ErrorType::TLSHandshakeFailure
            | ErrorType::TLSHandshakeTimedout
    )
}

/// For a body that is longer than the shop may be sent.
pub(super) fn body_too_large() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        "The request body is too large",
        "Send less.",
    )
}

/// What to tell the client; nothing if it is gone.
fn problem(error: &Error) -> Option<Problem> {
    let malformed = Problem::new(
        StatusCode::BAD_REQUEST,
        "request_malformed",
        "The request is malformed",
        "Send a request as RFC 9112 or RFC 9113 says.",
    );
    match (error.etype(), error.esource()) {
        (ErrorType::HTTPStatus(413), _) => Some(body_too_large()),
        (
            ErrorType::ReadError | ErrorType::WriteError | ErrorType::ConnectionClosed,
            ErrorSource::Downstream,
        ) => None,
        (ErrorType::HTTPStatus(408), _)
        | (ErrorType::ReadTimedout | ErrorType::WriteTimedout, ErrorSource::Downstream) => {
            Some(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "request_too_slow",
                "The request came too slowly",
                "Send it faster.",
            ))
        }
        (_, ErrorSource::Downstream) => Some(malformed),
        (
            ErrorType::ReadTimedout | ErrorType::WriteTimedout | ErrorType::ConnectTimedout,
            ErrorSource::Upstream,
        ) => Some(Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "shop_too_slow",
            "The shop did not answer in time",
            "Your admission is kept. Try again in a moment.",
        )),
        (_, ErrorSource::Upstream) => Some(
            Problem::new(
                StatusCode::BAD_GATEWAY,
                "shop_unreachable",
                "The shop cannot be reached",
                "Your admission is kept. Try again in a moment.",
            )
            .retry_after(5),
        ),
        (_, ErrorSource::Internal | ErrorSource::Unset) => Some(Problem::internal()),
    }
}
