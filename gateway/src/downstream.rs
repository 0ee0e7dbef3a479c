//! A bound on how long a request may take to arrive.
//!
//! Pingora bounds each single read. A client that sends a byte now and then never meets that bound, and keeps a
//! connection and its buffers for as long as it likes ("slowloris"). [`Bounded`] puts a bound on the whole: bytes
//! that come too long after the first byte of the same request end the connection.

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
use pingora::server::ShutdownWatch;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// An application whose requests must arrive within a time.
pub struct Bounded<A> {
    app: Arc<A>,
    limit: Duration,
}

impl<A> Bounded<A> {
    /// Gives each request of each connection to `app` at most `limit` from its first byte to its last.
    #[must_use]
    pub fn new(app: A, limit: Duration) -> Self {
        Self { app: Arc::new(app), limit }
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> ServerApp for Bounded<A> {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        // A connection that is used again comes back as it was given out. One of HTTP/2 carries many requests at once,
        // whose bodies are bounded one by one, and is closed by its own idle timeout.
        let multiplexed = stream.selected_alpn_proto() == Some(ALPN::H2);
        let stream = if multiplexed || stream.as_any().is::<Connection>() {
            stream
        } else {
            Box::new(Connection { stream, limit: self.limit, began: None })
        };
        self.app.process_new(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.app.cleanup().await;
    }
}

/// A connection that knows when the request being read began.
///
/// It knows nothing of HTTP: a request begins with the first byte after the last one written. Silence is not its
/// business (the single read is bounded, and a client that waits for an answer is silent rightly); late bytes are.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    limit: Duration,
    began: Option<Instant>,
}

impl Connection {
    /// Whether bytes that come now come in time.
    fn in_time(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.began.get_or_insert(now)) <= self.limit
    }

    fn wrote(&mut self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(outcome, Poll::Ready(Ok(1..))) {
            self.began = None;
        }
        outcome
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before && !self.in_time() {
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the request took too long to arrive",
            )));
        }
        Poll::Ready(Ok(()))
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
