//! The phases of a proxied request, one file each; here they are only wired to Pingora.

pub mod context;
mod failure;
mod forwarded_host;
mod logging;
pub mod request;
mod request_body;
mod upstream_peer;
mod upstream_request;
mod upstream_response;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use pingora::Error;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;

use crate::gateway::Gateway;
use context::Context;

/// The gateway as Pingora sees it.
pub struct Phases(Arc<Gateway>);

impl Phases {
    /// Proxies for this gateway.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self(gateway)
    }
}

#[async_trait]
impl ProxyHttp for Phases {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::default()
    }

    /// No modules: rooms are compressed beforehand, and the shop's answers pass as they are.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn request_filter(&self, session: &mut Session, context: &mut Context) -> pingora::Result<bool> {
        request::filter(&self.0, session, context).await
    }

    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        context: &mut Context,
    ) -> pingora::Result<()> {
        let (limit, time) = (self.0.upstream_settings.max_request_body, self.0.limits.request_timeout);
        request_body::filter(limit, time, body.as_ref(), end_of_stream, context)
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        context: &mut Context,
    ) -> pingora::Result<Box<HttpPeer>> {
        context.forwarded_at = Some(Instant::now());
        context.body_bytes = 0;
        context.body_sent = session.as_downstream_mut().is_body_empty();
        upstream_peer::peer(self.0.upstream.next(), &self.0.upstream_settings)
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        context: &mut Context,
    ) -> pingora::Result<()> {
        let scheme = upstream_request::scheme(&self.0, session);
        upstream_request::filter(request, &self.0.upstream_settings.host_header, scheme, context)
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut Context,
    ) -> pingora::Result<()> {
        upstream_response::filter(&self.0, response, context)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        context: &mut Context,
    ) -> FailToProxy {
        failure::answer(&self.0, session, error, context).await
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, context: &mut Context) {
        logging::log(&self.0, session, error, context);
    }

    /// Clients that go away are no errors of ours.
    fn suppress_error_log(&self, _session: &Session, _context: &Context, error: &Error) -> bool {
        matches!(error.esource(), pingora::ErrorSource::Downstream)
    }
}

/// The time since `from` in whole milliseconds.
fn elapsed_ms(from: Instant) -> u64 {
    u64::try_from(Duration::as_millis(&from.elapsed())).unwrap_or(u64::MAX)
}
