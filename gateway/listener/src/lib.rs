//! Serves a router over HTTP/1.1, as `axum::serve` does, to clients that get on with it.
//!
//! `axum::serve` has no bound on how long a request head may take, so that a client that sends a byte now and then, or
//! none, keeps a connection for as long as it likes. What bounds the rest of a request is the router's own.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;

#[cfg(test)]
mod tests;

/// Answers calls until `shutdown` is done, and then those still open.
///
/// A connection whose next head is not there `head_time` after it was opened, or after its last answer, is closed: so
/// this is also how long an idle one is kept.
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    head_time: Duration,
    shutdown: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_time);
    let open = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            (stream, _) = listener.accept() => stream,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection has ended early");
            }
        });
    }
    drop(listener);
    open.shutdown().await;
}
