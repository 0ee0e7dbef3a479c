//! The operator's side of the sale: creates it, and watches that it keeps its promises.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::{Client, Method};
use ropeline_queue::SaleDefinition;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::plan::SALE;
use super::tally::Tally;
use crate::config::OperatorToken;
use crate::http_client;
use crate::operator::sales::SaleDocument;

/// How often the sale is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Longest time for one answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Calls the operator listener; cheap to clone.
#[derive(Clone)]
pub(super) struct Operator {
    client: Client,
    base: String,
    token: OperatorToken,
}

/// The sale as it was looked at last, and how it was on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// As it is.
    pub(super) sale: Option<Arc<SaleDocument>>,
    /// How often it was looked at.
    pub(super) looks: u64,
    /// Most visitors called or admitted at one instant.
    pub(super) most_active: u64,
}

// === impl Operator ===

impl Operator {
    /// For the listener at `address`.
    ///
    /// # Errors
    /// When there is no HTTP client to be had.
    pub(super) fn new(address: SocketAddr, token: OperatorToken) -> anyhow::Result<Self> {
        let base = format!("http://{address}");
        let client = http_client::builder(&base).no_proxy().timeout(TIMEOUT).build()?;
        Ok(Self { client, base, token })
    }

    /// Waits until the gateway says that shoppers can be served.
    pub(super) async fn ready(&self) {
        loop {
            let answer = self.client.get(format!("{}/readyz", self.base)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Creates the sale.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) async fn create(&self, sale: &SaleDefinition) -> anyhow::Result<()> {
        self.call(Method::POST, "", Some(sale)).await.map(drop)
    }

    /// Shows the sale.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub(super) async fn show(&self) -> anyhow::Result<SaleDocument> {
        self.call(Method::GET, &format!("/{SALE}"), None::<&()>).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        document: Option<&impl Serialize>,
    ) -> anyhow::Result<SaleDocument> {
        let url = format!("{}/api/v1/operator/sales{path}", self.base);
        let mut request = self.client.request(method, url).bearer_auth(self.token.expose());
        if let Some(document) = document {
            request = request.json(document);
        }
        let answer = request.send().await.context("the operator listener")?;
        let (status, body) = (answer.status(), answer.bytes().await?);
        if !status.is_success() {
            bail!("the operator is answered {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(serde_json::from_slice(&body)?)
    }

    /// Looks at the sale again and again. What breaks a promise goes to the tally as a fault.
    pub(super) async fn keep_watching(self, seen: watch::Sender<Seen>, tally: Arc<Tally>) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let before = seen.borrow().sale.clone();
            match self.show().await {
                Ok(sale) => {
                    if let Err(broken) = promises(&sale, before.as_deref()) {
                        tally.counts().fault(format!("{broken:#}"));
                    }
                    seen.send_modify(|seen| {
                        seen.looks += 1;
                        seen.most_active = seen.most_active.max(sale.active + sale.unclaimed);
                        seen.sale = Some(Arc::new(sale));
                    });
                }
                Err(error) => tally.counts().fault(format!("{error:#}")),
            }
        }
    }
}

/// What must hold of every look, and from one to the next.
fn promises(sale: &SaleDocument, before: Option<&SaleDocument>) -> anyhow::Result<()> {
    let busy = sale.active + sale.unclaimed;
    let cap = u64::from(sale.definition.max_active);
    ensure!(busy <= cap, "{busy} visitors are called or admitted; at most {cap} may be");
    ensure!(sale.serving <= sale.arrivals, "{} places are called of {}", sale.serving, sale.arrivals);
    let Some(before) = before else { return Ok(()) };
    ensure!(sale.serving >= before.serving, "serving fell from {} to {}", before.serving, sale.serving);
    ensure!(sale.arrivals >= before.arrivals, "arrivals fell from {} to {}", before.arrivals, sale.arrivals);
    let redrawn = before.draw_seed.is_some() && before.draw_seed != sale.draw_seed;
    ensure!(!redrawn, "the draw was made twice");
    Ok(())
}
