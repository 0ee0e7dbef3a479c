//! How the process ends: readiness first, so that load balancers turn away before the listeners close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::signal::unix::{SignalKind, signal};

/// Whether new work is welcome. Shared by the signal watcher and `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct Stopping(Arc<AtomicBool>);

impl Stopping {
    /// Whether the process is about to stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Waits for SIGTERM or SIGINT; then lets load balancers see the changed readiness before it passes them on.
pub struct Signals {
    stopping: Stopping,
    notice: Duration,
}

impl Signals {
    /// Gives load balancers `notice` to turn away.
    #[must_use]
    pub fn new(stopping: Stopping, notice: Duration) -> Self {
        Self { stopping, notice }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            tracing::error!("signals cannot be watched; the process can only be killed");
            return std::future::pending().await;
        };
        let fast = tokio::select! {
            _ = terminate.recv() => false,
            _ = interrupt.recv() => true,
        };
        self.stopping.set();
        tracing::info!(fast, "stopping");
        if fast {
            return ShutdownSignal::FastShutdown;
        }
        tokio::time::sleep(self.notice).await;
        ShutdownSignal::GracefulTerminate
    }
}
