//! What Pingora reads from a client's connection, looked at first: in time, and well formed.
//!
//! Pingora bounds each single read. A client that sends a byte now and then never meets that bound, and keeps a
//! connection and its buffers for as long as it likes ("slowloris"). [`Guarded`] puts a bound on the whole: bytes
//! that come too long after the first byte of the same request end the connection, and so does a head that does not
//! come at all. It also follows where each request begins and ends, for what Pingora reads too kindly ([`crate::framing`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream,
    TimingDigest, UniqueID, UniqueIDType,
};
use pingora::proxy::Session;
use pingora::server::ShutdownWatch;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::config::Limits;
use crate::framing::{Framing, Malformed};

#[cfg(test)]
mod tests;

/// What is wrong with what a session's client has sent. A request filter that is told so answers 400, and whatever it
/// answers, nothing on this connection may be read as a request again. Always `None` for HTTP/2, whose frames are clear.
#[must_use]
pub fn fault(session: &Session) -> Option<Malformed> {
    let stream = session.as_downstream().as_http1()?.stream();
    (**stream).as_any().downcast_ref::<Connection>()?.framing.fault()
}

/// An application whose requests must arrive within a time, and be well formed.
pub struct Guarded<A> {
    app: Arc<A>,
    time: Duration,
    head_bytes: usize,
}

impl<A> Guarded<A> {
    /// Gives each request of each connection to `app` the time and the head that `limits` allow.
    #[must_use]
    pub fn new(app: A, limits: &Limits) -> Self {
        Self { app: Arc::new(app), time: limits.request_timeout, head_bytes: limits.header_bytes }
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> ServerApp for Guarded<A> {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        // A connection that is used again comes back as it was given out. One of HTTP/2 carries many requests at once,
        // whose bodies are bounded one by one, and is closed by its own idle timeout.
        let multiplexed = stream.selected_alpn_proto() == Some(ALPN::H2);
        let stream = if multiplexed || stream.as_any().is::<Connection>() {
            stream
        } else {
            Box::new(Connection::new(stream, self.time, self.head_bytes))
        };
        self.app.process_new(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.app.cleanup().await;
    }
}

/// A connection that knows when the request being read began, and how far it has come.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    limit: Duration,
    /// A request begins with the first byte after the last one written.
    began: Option<Instant>,
    /// Whether nothing was ever read.
    fresh: bool,
    /// Ends a silence where a head should be. Set while there is one.
    deadline: Option<Pin<Box<Sleep>>>,
    framing: Framing,
}

impl Connection {
    fn new(stream: Stream, limit: Duration, head_bytes: usize) -> Self {
        Self { stream, limit, began: None, fresh: true, deadline: None, framing: Framing::new(head_bytes) }
    }

    /// Looks at bytes that came.
    fn received(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.fresh = false;
        self.deadline = None;
        let now = Instant::now();
        if now.duration_since(*self.began.get_or_insert(now)) > self.limit {
            return Err(too_late());
        }
        // Where nobody acts on the request yet, it is answered: the request filter asks for the fault, and Pingora has
        // an answer of its own for what it cannot read at all. A body that is on its way already must not go further.
        let unheard = self.framing.unheard();
        match self.framing.push(bytes) {
            Err(fault) if !unheard => Err(io::Error::new(io::ErrorKind::InvalidData, fault)),
            _ => Ok(()),
        }
    }

    /// Waits for bytes where silence is not right: on a new connection, and within a head. Elsewhere a client may be
    /// waiting for an answer, or have nothing to ask for the time being.
    fn silent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.fresh && !self.framing.amid_head() {
            return Poll::Pending;
        }
        let (began, limit) = (self.began, self.limit);
        let deadline = self.deadline.get_or_insert_with(|| {
            Box::pin(tokio::time::sleep_until(began.unwrap_or_else(Instant::now) + limit))
        });
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(too_late()))
    }

    fn wrote(&mut self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(outcome, Poll::Ready(Ok(1..))) {
            self.began = None;
        }
        outcome
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the request took too long to arrive")
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let Poll::Ready(outcome) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            return self.silent(context);
        };
        outcome?;
        let outcome = match buffer.filled().get(before..) {
            Some(bytes @ [_, ..]) => self.received(bytes),
            _ => Ok(()),
        };
        if outcome.is_err() {
            buffer.set_filled(before);
        }
        Poll::Ready(outcome)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

// === What Pingora asks of a connection is the stream's to answer ===

#[async_trait]
impl Shutdown for Connection {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
    }
}

#[async_trait]
impl Peek for Connection {
    async fn try_peek(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        self.stream.try_peek(buffer).await
    }
}

impl UniqueID for Connection {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for Connection {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.stream.get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.stream.selected_alpn_proto()
    }
}

impl GetTimingDigest for Connection {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.stream.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.stream.get_write_pending_time()
    }
}

impl GetProxyDigest for Connection {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        self.stream.set_proxy_digest(digest);
    }
}

impl GetSocketDigest for Connection {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.stream.set_socket_digest(digest);
    }
}
