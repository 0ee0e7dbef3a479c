//! How the process ends: readiness first, so that load balancers turn away before the listeners close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ListenFds, RuntimeOpts, ShutdownSignal, ShutdownSignalWatch, ShutdownWatch};
use pingora::services::{ServiceReadyNotifier, ServiceWithDependents};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// The share of the time in which load balancers have to notice that the process is about to stop.
const NOTICE_SHARE: u32 = 4;

/// How long what the last requests have left to do may take.
pub const LAST: Duration = Duration::from_millis(500);

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
    /// The operating system: SIGTERM lets open requests finish, SIGINT does not. A second one, whichever, ends the
    /// process at once.
    Signals,
    /// The program that the gateway runs in, by `true` or by dropping the sender; open requests do not finish.
    Program(watch::Receiver<bool>),
}

/// How the services are told that they are to end. Pingora would tell all of them at once, and then sleep for as long as
/// they may take, whether anything is open or not.
#[derive(Debug, Default)]
pub struct Stages {
    /// No new work. Whatever is still open holds a receiver: each service, and each connection of the shop's listeners.
    closing: watch::Sender<bool>,
    /// Nothing is open any more, or will not be for long.
    last: watch::Sender<bool>,
}

impl Stages {
    /// The service, told at once, and waited for.
    pub fn first<S>(&self, service: S) -> Told<S> {
        Told { service, told: Some(self.closing.subscribe()) }
    }

    /// The service, told when all others have ended: what the last of their requests leave to it is done, too.
    pub fn last<S>(&self, service: S) -> Told<S> {
        Told { service, told: Some(self.last.subscribe()) }
    }
}

/// A service that [`Stages`] tell of the end, in place of Pingora.
pub struct Told<S> {
    service: S,
    /// Gone once the service has ended.
    told: Option<watch::Receiver<bool>>,
}

#[async_trait]
impl<S: ServiceWithDependents> ServiceWithDependents for Told<S> {
    async fn start_service(
        &mut self,
        descriptors: Option<ListenFds>,
        shutdown: ShutdownWatch,
        listeners_per_fd: usize,
        ready: ServiceReadyNotifier,
    ) {
        let told = self.told.take().unwrap_or(shutdown);
        self.service.start_service(descriptors, told.clone(), listeners_per_fd, ready).await;
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn threads(&self) -> Option<usize> {
        self.service.threads()
    }

    fn runtime_opts_override(&self, global: &RuntimeOpts) -> Option<RuntimeOpts> {
        self.service.runtime_opts_override(global)
    }

    fn on_startup_delay(&self, waited: Duration) {
        self.service.on_startup_delay(waited);
    }

    fn listen_addresses(&self) -> Option<Vec<String>> {
        self.service.listen_addresses()
    }
}

/// Waits for the order; then lets load balancers see the changed readiness before the listeners close, and requests
/// finish before it passes SIGTERM on.
pub struct Shutdown {
    order: Order,
    stopping: Stopping,
    stages: Arc<Stages>,
    grace: Duration,
}

impl Shutdown {
    /// Has the whole end take at most `grace`, and [`LAST`] beyond.
    #[must_use]
    pub fn new(order: Order, stopping: Stopping, stages: Arc<Stages>, grace: Duration) -> Self {
        Self { order, stopping, stages, grace }
    }

    /// Ends the services: when nothing is open any more, or the time is over.
    async fn finish(&self) {
        let over = Instant::now() + self.grace;
        tokio::time::sleep(self.grace / NOTICE_SHARE).await;
        self.stages.closing.send_replace(true);
        if timeout_at(over, self.stages.closing.closed()).await.is_err() {
            tracing::warn!("the time to stop in is over; what is still open is cut off");
        }
        self.stages.last.send_replace(true);
        if timeout(LAST, self.stages.last.closed()).await.is_err() {
            tracing::warn!("the shop's last reports are lost: the store is too slow");
        }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Shutdown {
    async fn recv(&self) -> ShutdownSignal {
        let fast = match &self.order {
            Order::Signals => {
                let Some(mut signals) = Signals::watch() else { return std::future::pending().await };
                let first = signals.next().await;
                tokio::spawn(async move {
                    let second = signals.next().await;
                    tracing::warn!("told to stop again: it ends at once");
                    // As a shell says of a process that the signal has ended.
                    std::process::exit(128 + second.as_raw_value());
                });
                first == SignalKind::interrupt()
            }
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
        self.finish().await;
        ShutdownSignal::GracefulTerminate
    }
}

/// The signals that say that the process is to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn watch() -> Option<Self> {
        let (Ok(terminate), Ok(interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            tracing::error!("signals cannot be watched; the process can only be killed");
            return None;
        };
        Some(Self { terminate, interrupt })
    }

    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopping_in(grace: Duration) -> (Arc<Stages>, Shutdown) {
        let stages = Arc::new(Stages::default());
        (Arc::clone(&stages), Shutdown::new(Order::Signals, Stopping::default(), stages, grace))
    }

    const GRACE: Duration = Duration::from_secs(8);

    #[tokio::test(start_paused = true)]
    async fn where_nothing_is_open_it_ends_with_the_notice() {
        let (stages, shutdown) = stopping_in(GRACE);
        let service = stages.first(());
        let ended = tokio::spawn(async move {
            let mut told = service.told.unwrap();
            told.changed().await.unwrap();
            Instant::now()
        });
        let begun = Instant::now();
        shutdown.finish().await;
        assert_eq!(begun.elapsed(), GRACE / NOTICE_SHARE);
        assert_eq!(
            ended.await.unwrap() - begun,
            GRACE / NOTICE_SHARE,
            "told before balancers could hear of it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_open_is_waited_for_and_then_its_reports() {
        let (stages, shutdown) = stopping_in(GRACE);
        let (open, reports) = (stages.first(()), stages.last(()));
        let request = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(open);
        });
        let carrier = tokio::spawn(async move {
            let mut told = reports.told.unwrap();
            told.changed().await.unwrap();
            assert!(request.is_finished(), "told while a request is open");
            tokio::time::sleep(LAST / 2).await;
        });
        let begun = Instant::now();
        shutdown.finish().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5) + LAST / 2);
        carrier.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_ends_is_waited_for_as_long_as_it_may_take() {
        let (stages, shutdown) = stopping_in(GRACE);
        let _open = (stages.first(()), stages.last(()));
        let begun = Instant::now();
        shutdown.finish().await;
        assert_eq!(begun.elapsed(), GRACE + LAST);
    }
}
