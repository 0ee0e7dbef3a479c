//! What is counted, for Prometheus. Labels are sales, phases and fixed words, never anything a shopper sends.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use ropeline_queue::{Phase, SaleView};
use ropeline_store::StoreReport;

/// Every phase, for the gauge that is 1 for the present one.
const PHASES: [Phase; 7] = [
    Phase::Scheduled,
    Phase::PreQueue,
    Phase::Drawing,
    Phase::Open,
    Phase::Paused,
    Phase::SoldOut,
    Phase::Closed,
];

/// From a tenth of a millisecond, an answer from memory, to ten seconds, where nobody waits any more.
const SECONDS: [f64; 12] = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Everything that is counted, in a registry of its own.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    failures: IntCounterVec,
    upstream_seconds: Histogram,
    upstream_errors: IntCounterVec,
    joins: IntCounterVec,
    claims: IntCounterVec,
    store_seconds: HistogramVec,
    store_errors: IntCounterVec,
    events: IntCounterVec,
    edge_shadow: IntCounterVec,
    edge_policies: IntCounterVec,
    beacon_fetches: IntCounterVec,
    store: StoreMetrics,
    unqueued: IntCounterVec,
    proofs: IntCounterVec,
    sale: SaleGauges,
}

/// How the queue's store does.
struct StoreMetrics {
    up: IntGaugeVec,
    age: IntGaugeVec,
    did: IntCounterVec,
    disagrees: IntGaugeVec,
}

/// Where each sale stands.
struct SaleGauges {
    phase: IntGaugeVec,
    counts: IntGaugeVec,
    arrivals: IntGaugeVec,
    serving: IntGaugeVec,
    stock: IntGaugeVec,
    as_of: IntGaugeVec,
    draw_overdue: IntGaugeVec,
}

// === impl Metrics ===

impl Metrics {
    /// A registry with every metric in it, all at nothing.
    ///
    /// # Errors
    /// When two metrics have one name, which a test rules out.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        let seconds = |name: &str, help: &str, labels: &[&str]| {
            let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
            let histogram = HistogramVec::new(options, labels)?;
            registry.register(Box::new(histogram.clone()))?;
            prometheus::Result::Ok(histogram)
        };
        let upstream_seconds = Histogram::with_opts(
            HistogramOpts::new("ropeline_upstream_seconds", "Time until the shop answered.")
                .buckets(SECONDS.to_vec()),
        )?;
        registry.register(Box::new(upstream_seconds.clone()))?;
        let sale = SaleGauges {
            phase: gauge("ropeline_sale_phase", "1 for the phase a sale is in.", &["sale", "phase"])?,
            counts: gauge(
                "ropeline_sale_visitors",
                "Visitors: waiting, unclaimed (called and not yet admitted), active (admitted), holding (active with \
                 a unit on hold), recalls (lapsed, come back and to be called again).",
                &["sale", "state"],
            )?,
            arrivals: gauge("ropeline_sale_arrivals", "Arrival numbers given so far.", &["sale"])?,
            serving: gauge("ropeline_sale_serving", "All places below have been called.", &["sale"])?,
            stock: gauge("ropeline_sale_stock", "Units as the shop last reported them.", &["sale", "state"])?,
            as_of: gauge(
                "ropeline_sale_as_of_timestamp_milliseconds",
                "When what is shown of a sale was true, in Unix milliseconds; its age is the store's trouble.",
                &["sale"],
            )?,
            draw_overdue: gauge(
                "ropeline_sale_draw_overdue_seconds",
                "How long the beacon's round is overdue that a draw waits for; 0 when none is.",
                &["sale"],
            )?,
        };
        let store = StoreMetrics {
            up: gauge(
                "ropeline_store_up",
                "1 while the queue's store can be reached for a sale, 0 while it is away.",
                &["sale"],
            )?,
            age: gauge(
                "ropeline_sale_age_milliseconds",
                "How long ago the store moved a sale on: the age of what is shown of it.",
                &["sale"],
            )?,
            did: counter(
                "ropeline_store_server_total",
                "What this gateway did on the server that gateways share: commands, commits, conflicts (another gateway \
                 was faster, and it was done again), recoveries (after a restart or a loss of the server).",
                &["what"],
            )?,
            disagrees: gauge(
                "ropeline_store_disagrees",
                "1 while gateways that share a store do not have each other's keys, or not one checkpoint.",
                &[],
            )?,
        };
        let unqueued = counter(
            "ropeline_unqueued_admissions_total",
            "Admissions given without the queue, by sales that stay open while their store is away.",
            &["sale"],
        )?;
        let proofs = counter(
            "ropeline_join_proofs_total",
            "Joins by visitors without a number whose network had none free: asked (none was shown), accepted, invalid, \
             expired, too_easy, unsolved, spent.",
            &["sale", "result"],
        )?;
        let beacon_fetches = counter(
            "ropeline_beacon_fetches_total",
            "Rounds of a public beacon asked for, by relay: good, not_yet, unreachable, wrong (it gave something else).",
            &["relay", "result"],
        )?;
        Ok(Self {
            beacon_fetches,
            requests: counter(
                "ropeline_requests_total",
                "Shoppers' requests by what was decided and the class of the answer.",
                &["verdict", "status"],
            )?,
            request_seconds: seconds(
                "ropeline_request_seconds",
                "Time from request to the end of its answer.",
                &["verdict"],
            )?,
            failures: counter(
                "ropeline_failures_total",
                "Requests that could not be served, by problem code.",
                &["code"],
            )?,
            upstream_seconds,
            upstream_errors: counter(
                "ropeline_upstream_errors_total",
                "Forwarded requests that the shop failed: answered with 5xx, or not at all.",
                &["kind"],
            )?,
            joins: counter("ropeline_joins_total", "Joins by outcome.", &["sale", "outcome"])?,
            claims: counter("ropeline_claims_total", "Claims by outcome.", &["sale", "outcome"])?,
            store_seconds: seconds(
                "ropeline_store_seconds",
                "Time of each call to the queue's store.",
                &["operation"],
            )?,
            store_errors: counter("ropeline_store_errors_total", "Calls the store failed.", &["operation"])?,
            events: counter(
                "ropeline_sale_events_total",
                "What has happened to visitors: called, recalled, by_hand, claimed, lapsed, left, ended.",
                &["sale", "event"],
            )?,
            edge_shadow: counter(
                "ropeline_edge_shadow_total",
                "Verdicts compared with the edge module's: agree, differ, failed (it gave none), skipped (no time, or \
                 the policy had changed).",
                &["result"],
            )?,
            edge_policies: counter(
                "ropeline_edge_policies_total",
                "Policies that the edge module was given: taken, or refused, where it keeps the one before.",
                &["result"],
            )?,
            store,
            unqueued,
            proofs,
            sale,
            registry,
        })
    }

    /// One request of a shopper is over. `status` is 0 when nothing was answered.
    pub fn request(&self, verdict: &str, status: u16, elapsed: Duration) {
        let class = match status / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => "none",
        };
        self.requests.with_label_values(&[verdict, class]).inc();
        self.request_seconds.with_label_values(&[verdict]).observe(elapsed.as_secs_f64());
    }

    /// A request could not be served; `code` is the problem's.
    pub fn failed(&self, code: &str) {
        self.failures.with_label_values(&[code]).inc();
    }

    /// The shop answered a forwarded request after `elapsed`.
    pub fn upstream(&self, status: u16, elapsed: Duration) {
        self.upstream_seconds.observe(elapsed.as_secs_f64());
        if status >= 500 {
            self.upstream_errors.with_label_values(&["status"]).inc();
        }
    }

    /// The shop could not be reached or broke off; `kind` is a fixed word such as `connect` or `timeout`.
    pub fn upstream_failed(&self, kind: &str) {
        self.upstream_errors.with_label_values(&[kind]).inc();
    }

    pub(crate) fn joined(&self, sale: &str, outcome: &str) {
        self.joins.with_label_values(&[sale, outcome]).inc();
    }

    pub(crate) fn claimed(&self, sale: &str, outcome: &str) {
        self.claims.with_label_values(&[sale, outcome]).inc();
    }

    pub(crate) fn stored(&self, operation: &str, elapsed: Duration, failed: bool) {
        self.store_seconds.with_label_values(&[operation]).observe(elapsed.as_secs_f64());
        if failed {
            self.store_errors.with_label_values(&[operation]).inc();
        }
    }

    /// A verdict was compared with the edge module's.
    pub(crate) fn shadowed(&self, result: &str) {
        self.edge_shadow.with_label_values(&[result]).inc();
    }

    /// The edge module was given a policy.
    pub(crate) fn module_configured(&self, result: &str) {
        self.edge_policies.with_label_values(&[result]).inc();
    }

    /// A relay of a beacon was asked for a round.
    pub(crate) fn beacon_fetch(&self, relay: &str, result: &str) {
        self.beacon_fetches.with_label_values(&[relay, result]).inc();
    }

    /// Whether the store can be reached for a sale, and how old what is shown of it is.
    pub(crate) fn reached(&self, sale: &str, up: bool, age: Duration) {
        self.store.up.with_label_values(&[sale]).set(i64::from(up));
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.store.age.with_label_values(&[sale]).set(age);
    }

    /// What the store has done on its server so far.
    pub(crate) fn store_did(&self, report: &StoreReport) {
        let StoreReport { commands, commits, conflicts, recoveries, disagrees } = *report;
        self.store.disagrees.with_label_values::<&str>(&[]).set(i64::from(disagrees));
        for (what, total) in [
            ("commands", commands),
            ("commits", commits),
            ("conflicts", conflicts),
            ("recoveries", recoveries),
        ] {
            let counter = self.store.did.with_label_values(&[what]);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// Somebody was let in without the queue.
    pub(crate) fn let_in_unqueued(&self, sale: &str) {
        self.unqueued.with_label_values(&[sale]).inc();
    }

    /// Somebody new was asked for a proof, or showed one.
    pub(crate) fn proof(&self, sale: &str, result: &str) {
        self.proofs.with_label_values(&[sale, result]).inc();
    }

    /// Where a sale stands now.
    pub(crate) fn sale(&self, view: &SaleView) {
        let sale = view.definition.id.as_str();
        let set = |gauges: &IntGaugeVec, labels: &[&str], value: u64| {
            gauges.with_label_values(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        for phase in PHASES {
            set(&self.sale.phase, &[sale, phase.as_str()], u64::from(phase == view.phase));
        }
        for (state, count) in [
            ("waiting", view.waiting),
            ("unclaimed", view.unclaimed),
            ("active", view.active),
            ("holding", view.holding),
            ("recalls", view.recalls),
        ] {
            set(&self.sale.counts, &[sale, state], count);
        }
        set(&self.sale.arrivals, &[sale], view.arrivals());
        set(&self.sale.serving, &[sale], view.called());
        set(&self.sale.as_of, &[sale], view.as_of.0);
        if let Some(draw) = view.draw.as_ref().filter(|draw| draw.round().is_some()) {
            let overdue_ms = draw.awaited().map_or(0, |round| view.as_of.since(round.due_at));
            set(&self.sale.draw_overdue, &[sale], overdue_ms / 1_000);
        }
        if let Some(stock) = view.stock {
            set(&self.sale.stock, &[sale, "available"], stock.available);
            if let Some(held) = stock.held {
                set(&self.sale.stock, &[sale, "held"], held);
            }
        }
        let totals = &view.totals;
        for (event, total) in [
            ("called", totals.called),
            ("recalled", totals.recalled),
            ("by_hand", totals.by_hand),
            ("claimed", totals.claimed),
            ("lapsed", totals.lapsed),
            ("left", totals.left),
            ("ended", totals.ended),
        ] {
            // The store counts; here only what is new is added, so that a counter never falls.
            let counter = self.events.with_label_values(&[sale, event]);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// The text format of Prometheus, version 0.0.4.
    ///
    /// # Errors
    /// When a metric cannot be written.
    pub fn encode(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}
