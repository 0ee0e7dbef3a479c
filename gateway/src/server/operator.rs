//! The operator listener as a service beside the proxy.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use ropeline_edge::{Settings, Upstream};
use ropeline_queue::SaleId;
use ropeline_store::Clock;

use crate::edge::export::Exporter;
use crate::operator::{self, NoSettings, Operator};
use crate::sales::Sales;
use crate::shutdown::Stopping;

/// Longest time in which nobody has even tried to move a sale on before the gateway is called not ready.
const STALE: Duration = Duration::from_secs(10);

/// Difference between wall clock and sales' clock beyond which tokens may be refused elsewhere: the usual leeway.
const SKEW_MS: u64 = 5_000;

/// Runs the operator listener.
pub(super) struct OperatorService {
    operator: Operator,
    listener: Mutex<Option<std::net::TcpListener>>,
}

impl OperatorService {
    /// Takes the address now, so that a taken one stops the start and not the first call.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(super) fn bind(address: SocketAddr, operator: Operator) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("listen.operator: cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        Ok(Self { operator, listener: Mutex::new(Some(listener)) })
    }
}

#[async_trait]
impl BackgroundService for OperatorService {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(listener) = listener else { return };
        let stopped = async move {
            // A closed channel means the same: the process is ending.
            let _ = shutdown.changed().await;
        };
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => operator::serve(listener, self.operator.clone(), stopped).await,
            Err(error) => tracing::error!(%error, "the operator listener has failed"),
        }
    }
}

/// What the operator listener needs of the gateway.
pub(super) struct Watch {
    pub(super) sales: Arc<Sales>,
    pub(super) stopping: Stopping,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) exporter: Exporter,
}

#[async_trait]
impl operator::Gateway for Watch {
    async fn refresh(&self, sale: &SaleId) {
        if let Err(error) = self.sales.refresh(sale).await {
            tracing::warn!(%sale, %error, "shoppers see the change with the next tick");
        }
    }

    fn ready(&self) -> Result<Option<String>, String> {
        if self.stopping.is_set() {
            return Err("stopping".to_owned());
        }
        let skew_ms = self.clock.skew_ms();
        if skew_ms.unsigned_abs() > SKEW_MS {
            return Err(format!("the wall clock has leapt: it is {skew_ms} ms off the sales' own"));
        }
        let amiss = self.sales.amiss();
        if !self.sales.have_begun() {
            let amiss = amiss.unwrap_or_else(|| "the queue's store has not been reached yet".to_owned());
            return Err(format!("{amiss}; it is tried again and again"));
        }
        let sales = self.sales.all();
        if let Some(sale) = sales.iter().find(|sale| sale.since_try() > STALE) {
            return Err(format!(
                "sale {}: nobody has moved it on for {} s",
                sale.id,
                sale.since_try().as_secs()
            ));
        }
        if let Some(sale) = self.sales.cut_off() {
            let why = sale.trouble().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(format!(
                "sale {}: the queue's store cannot be reached from here, and others reach it{why}",
                sale.id
            ));
        }
        if let Some(amiss) = amiss.as_ref().filter(|_| !self.sales.are_complete()) {
            return Ok(Some(format!(
                "{amiss}; until it can, what no sale protects that is known here is answered 503"
            )));
        }
        // As far as is known it is away for every gateway that shares it. Without any of them, not even those who are
        // admitted could pass.
        let away = sales.iter().find(|sale| sale.is_away()).map(|sale| {
            let seconds = sale.since_tick().as_secs();
            let why = sale.trouble().map(|error| format!(": {error}")).unwrap_or_default();
            format!("sale {}: the queue's store is away, and was reached {seconds} s ago{why}", sale.id)
        });
        Ok(away.or(amiss))
    }

    fn edge_settings(&self, upstream: Upstream) -> Result<Settings, NoSettings> {
        if !self.sales.are_complete() {
            return Err(NoSettings::SalesUnknown);
        }
        Ok(self.exporter.settings(self.sales.policy_of_edges(upstream))?)
    }

    fn now_s(&self) -> u64 {
        self.clock.now().seconds()
    }
}
