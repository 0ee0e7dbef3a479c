//! What the shop tells the queue in the headers of its answers.
//!
//! `Ropeline-Stock: N` or `N; held=H`: units left to sell, and units in other shoppers' holds.
//! `Ropeline-Load: P`: how much the shop has to do, in percent of what it wants to have at once. From 100 on the queue lets
//! in fewer.
//! `Ropeline-Lease: hold` says that this admission now has a hold, `open` that it has none any more, `end` that its
//! shopper is done.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderName};
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use ropeline_decision::header;
use ropeline_queue::{Arrival, LeaseEvent, SaleId, Stock};
use ropeline_store::QueueStore;
use tokio::sync::{Mutex, mpsc};

/// Reports that wait for the store at most. Beyond, they are dropped: a lease still ends by its clock, and the next
/// answer carries the stock again.
const WAITING: usize = 16_384;
/// Reports carried to the store at once.
const BATCH: usize = 1_024;

/// The header of the shop's load; it goes no further than this gateway, so that no edge need know it by name.
const LOAD: HeaderName = HeaderName::from_static("ropeline-load");

/// What the shop told the queue in one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// What became of the lease under which the request went forward.
    pub lease: Option<LeaseReport>,
    /// What is left.
    pub stock: Option<StockReport>,
}

/// Units as the shop counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockReport {
    /// Units nobody holds.
    pub available: u32,
    /// Units in holds; `None` when the shop does not say.
    pub held: Option<u32>,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseReport {
    /// The shopper has a hold.
    Hold,
    /// The shopper has no hold any more.
    Open,
    /// The shopper is done; the capacity is free.
    End,
}

impl From<LeaseReport> for LeaseEvent {
    fn from(report: LeaseReport) -> Self {
        match report {
            LeaseReport::Hold => Self::Holding,
            LeaseReport::Open => Self::Released,
            LeaseReport::End => Self::Ended,
        }
    }
}

/// The stock the shop reports, if it does and the header can be read.
#[must_use]
pub fn stock(headers: &HeaderMap) -> Option<StockReport> {
    parse_stock(headers.get(header::STOCK)?.to_str().ok()?)
}

/// What the shop says of the lease, if anything.
#[must_use]
pub fn lease(headers: &HeaderMap) -> Option<LeaseReport> {
    match headers.get(header::LEASE)?.as_bytes() {
        b"hold" => Some(LeaseReport::Hold),
        b"open" => Some(LeaseReport::Open),
        b"end" => Some(LeaseReport::End),
        _ => None,
    }
}

/// How much the shop says it has to do, in percent of what it wants to have at once; if it does and the header can be read.
#[must_use]
pub fn load(headers: &HeaderMap) -> Option<u32> {
    let text = headers.get(LOAD)?.to_str().ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn parse_stock(text: &str) -> Option<StockReport> {
    let mut parts = text.split(';').map(str::trim);
    let available = parts.next()?.parse().ok()?;
    let mut held = None;
    for parameter in parts {
        let (name, value) = parameter.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("held") {
            held = Some(value.trim().parse().ok()?);
        }
    }
    Some(StockReport { available, held })
}

/// Takes reports on the request path, without waiting.
#[derive(Clone)]
pub struct Sink(mpsc::Sender<Report>);

struct Report {
    sale: SaleId,
    arrival: Arrival,
    heard: Heard,
}

impl Sink {
    /// Hands a report on.
    pub fn tell(&self, sale: &SaleId, arrival: Arrival, heard: Heard) {
        if heard == Heard::default() {
            return;
        }
        if self.0.try_send(Report { sale: sale.clone(), arrival, heard }).is_err() {
            tracing::warn!(%sale, "a report of the shop was dropped: the store is too slow");
        }
    }
}

/// The service that carries reports to the store.
pub struct Carrier {
    store: Arc<dyn QueueStore>,
    reports: Mutex<mpsc::Receiver<Report>>,
}

/// A sink and the service behind it. Whoever tells it to stop waits for the requests first that are still open: they may
/// carry reports, and it does not end before it has handed on all that are there.
#[must_use]
pub fn channel(store: Arc<dyn QueueStore>) -> (Sink, Carrier) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Sink(sender), Carrier { store, reports: Mutex::new(receiver) })
}

impl Carrier {
    /// Of several stocks of one sale only the last one counts: the shop's own count, as it was answered last. So does
    /// the last word on a lease, but an end is the end.
    async fn carry(&self, reports: Vec<Report>) {
        let mut stocks = HashMap::new();
        let mut leases = HashMap::new();
        for Report { sale, arrival, heard } in reports {
            if let Some(stock) = heard.stock {
                stocks.insert(sale.clone(), stock);
            }
            let Some(report) = heard.lease else { continue };
            let last = leases.entry((sale, arrival)).or_insert(LeaseEvent::from(report));
            if *last != LeaseEvent::Ended {
                *last = report.into();
            }
        }
        let (released, others): (Vec<_>, Vec<_>) =
            leases.into_iter().partition(|(_, event)| *event == LeaseEvent::Released);
        // Who gave a hold back counts again before the unit does, …
        self.tell(&released).await;
        // … and whom the end of a lease makes room for is called for what is left now, not for what was.
        for (sale, StockReport { available, held }) in stocks {
            let stock = Stock { available: available.into(), held: held.map(u64::from) };
            if let Err(error) = self.store.stock(&sale, stock).await {
                tracing::warn!(%sale, %error, "the shop's stock was not noted; its next answer carries it again");
            }
        }
        self.tell(&others).await;
    }

    /// All at once, so that the store can write them together.
    async fn tell(&self, leases: &[((SaleId, Arrival), LeaseEvent)]) {
        let told = leases.iter().map(|((sale, arrival), event)| self.store.lease(sale, *arrival, *event));
        for error in join_all(told).await.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "the shop's word on a lease was lost; its clock ends it");
        }
    }
}

#[async_trait]
impl BackgroundService for Carrier {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut reports = self.reports.lock().await;
        let stopped = async {
            // A closed channel means the same: the process is ending.
            let _ = shutdown.changed().await;
        };
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                taken = reports.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        return;
                    }
                    self.carry(batch).await;
                }
                () = &mut stopped => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_words_on_a_lease_and_no_others() {
        let words =
            [("hold", LeaseEvent::Holding), ("open", LeaseEvent::Released), ("end", LeaseEvent::Ended)];
        for (word, event) in words {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static(header::LEASE),
                http::HeaderValue::from_static(word),
            )]);
            assert_eq!(lease(&headers).map(LeaseEvent::from), Some(event), "{word}");
        }
        for bad in ["", "Hold", "opened", "end "] {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static(header::LEASE),
                http::HeaderValue::from_static(bad),
            )]);
            assert_eq!(lease(&headers), None, "{bad}");
        }
        assert_eq!(lease(&HeaderMap::new()), None);
    }

    #[test]
    fn a_load_is_a_whole_number_of_percent() {
        let said =
            |text: &'static str| load(&HeaderMap::from_iter([(LOAD, http::HeaderValue::from_static(text))]));
        for (text, percent) in [("0", 0), ("85", 85), ("100", 100), ("4294967295", u32::MAX)] {
            assert_eq!(said(text), Some(percent), "{text}");
        }
        for bad in ["", "0.8", "+80", "-1", "80%", " 80", "4294967296"] {
            assert_eq!(said(bad), None, "{bad}");
        }
        assert_eq!(load(&HeaderMap::new()), None);
    }

    #[test]
    fn reads_what_the_shop_says_and_nothing_into_it() {
        assert_eq!(parse_stock("25000"), Some(StockReport { available: 25_000, held: None }));
        assert_eq!(parse_stock("0; held=12"), Some(StockReport { available: 0, held: Some(12) }));
        assert_eq!(parse_stock(" 3 ;HELD = 1; extra=x"), Some(StockReport { available: 3, held: Some(1) }));
        for bad in ["", "x", "-1", "1.5", "4294967296", "1; held", "1; held=x", "1, 2"] {
            assert_eq!(parse_stock(bad), None, "{bad}");
        }
    }
}
