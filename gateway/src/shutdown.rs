//! How the process ends: readiness first, so that load balancers turn away before the listeners close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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

/// Who says that the process, or the gateway within one, is to end.
#[derive(Clone, Debug)]
pub enum Order {
    /// The operating system: SIGTERM lets open requests finish, SIGINT does not.
    Signals,
    /// The program that the gateway runs in, by `true` or by dropping the sender; open requests do not finish.
    Program(watch::Receiver<bool>),
}

/// Waits for the order; then lets load balancers see the changed readiness before it passes SIGTERM on.
pub struct Shutdown {
    order: Order,
    stopping: Stopping,
    notice: Duration,
}

impl Shutdown {
    /// Gives load balancers `notice` to turn away.
    #[must_use]
    pub fn new(order: Order, stopping: Stopping, notice: Duration) -> Self {
        Self { order, stopping, notice }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Shutdown {
    async fn recv(&self) -> ShutdownSignal {
        let fast = match &self.order {
            Order::Signals => interrupted().await,
            Order::Program(told) => {
                // A sender that is gone says the same.
                let _ = told.clone().wait_for(|told| *told).await;
                true
            }
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

/// Waits for SIGTERM or SIGINT; `true` when it was SIGINT.
async fn interrupted() -> bool {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be watched; the process can only be killed");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => false,
        _ = interrupt.recv() => true,
    }
}
