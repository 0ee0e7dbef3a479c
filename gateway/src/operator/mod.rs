//! The operator listener: sales are run here, and the gateway is watched. It has an address of its own and asks for
//! a bearer token (RFC 6750) on everything but the health checks.

mod auth;
pub(crate) mod edge;
mod problem;
pub mod sales;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use ropeline_edge::{Settings, SettingsError, Upstream};
use ropeline_queue::SaleId;
use ropeline_store::QueueStore;
use tokio::net::TcpListener;

use crate::config::OperatorAccess;
use crate::metrics::Metrics;
use problem::Problem;

/// Longest body that is read, in bytes. A definition has some kilobytes.
const MAX_BODY: usize = 256 << 10;

/// Longest time for a call's head, and again for the call itself, its body included.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// What the rest of the gateway does for the operator.
#[async_trait]
pub trait Gateway: Send + Sync + 'static {
    /// Shows a sale to shoppers as the store has it now, without waiting for the next tick.
    async fn refresh(&self, sale: &SaleId);

    /// Whether shoppers can be served, and what is amiss all the same.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn ready(&self) -> Result<Option<String>, String>;

    /// What edges have to know that send on to `upstream`, without an end.
    ///
    /// # Errors
    /// When the store's sales are not known yet; when keys and known answer do not belong together, which only a broken
    /// build brings about.
    fn edge_settings(&self, upstream: Upstream) -> Result<Settings, NoSettings>;

    /// The time in Unix seconds, as tokens count.
    fn now_s(&self) -> u64;
}

/// Why there are no settings for edges.
#[derive(Debug, thiserror::Error)]
pub enum NoSettings {
    /// An edge would protect nothing of what is not known yet.
    #[error("the queue's store has not been reached since the start, so that its sales are not known yet")]
    SalesUnknown,
    /// A broken build.
    #[error(transparent)]
    Broken(#[from] SettingsError),
}

/// What the operator listener works on.
#[derive(Clone)]
pub struct Operator {
    /// The sales.
    pub store: Arc<dyn QueueStore>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The rest of the gateway.
    pub gateway: Arc<dyn Gateway>,
    /// Who may.
    pub access: Arc<OperatorAccess>,
    /// The path under which shoppers reach the queue: no sale may guard it.
    pub api_prefix: Arc<str>,
    /// Whether every host names the same pages, so that two sales are not set apart by theirs.
    pub one_host: bool,
}

/// Answers operator calls until `shutdown` is done, and then those still open.
pub async fn serve(listener: TcpListener, operator: Operator, shutdown: impl Future<Output = ()>) {
    ropeline_listener::serve(listener, router(operator), TIME_LIMIT, shutdown).await;
}

/// Every route of the operator listener.
pub fn router(operator: Operator) -> Router {
    let metrics = Router::new().route("/metrics", get(metrics));
    let guarded = Router::new()
        .route("/api/v1/operator/sales", get(sales::list).post(sales::create))
        .route("/api/v1/operator/sales/{sale}", get(sales::show).put(sales::replace).patch(sales::patch))
        .route("/api/v1/operator/sales/{sale}/{command}", post(sales::command))
        .route("/api/v1/queue/admit", post(sales::admit))
        .route(edge::SETTINGS, get(edge::settings))
        .fallback(async || Problem::not_found());
    let guard = middleware::from_fn_with_state(operator.clone(), auth::require_token);
    let (open, guarded) = if operator.access.metrics_open {
        (metrics, guarded)
    } else {
        (Router::new(), guarded.merge(metrics))
    };
    open.route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .merge(guarded.method_not_allowed_fallback(async || Problem::method_not_allowed()).layer(guard))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(finish))
        .with_state(operator)
}

/// Ends calls that take too long, and keeps every answer out of caches.
async fn finish(request: Request, next: Next) -> Response {
    let mut response = match tokio::time::timeout(TIME_LIMIT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::too_slow().into_response(),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

async fn metrics(State(operator): State<Operator>) -> Response {
    match operator.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

async fn ready(State(operator): State<Operator>) -> (StatusCode, String) {
    match operator.gateway.ready() {
        Ok(None) => (StatusCode::OK, "ready\n".to_owned()),
        Ok(Some(amiss)) => (StatusCode::OK, format!("ready, but {amiss}\n")),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}
