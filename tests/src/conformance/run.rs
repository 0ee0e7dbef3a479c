//! The runner for hosts on the network.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, stream};

use super::generate;
use super::judge::{Judgement, Seen, is_personal, judge, judge_without_gateway};
use super::raw_form::{self, RawForm};
use super::upstream::{CASE, Upstream};
use super::vectors::{Case, Vectors};
use crate::edge_hosts::{EdgeHost, Missing, permitted};
use crate::ports::Port;
use crate::raw::exchange;

#[cfg(test)]
mod tests;

/// The settings that are tried once more without a gateway.
const WITHOUT_GATEWAY: &str = "shop";

/// How many requests are on their way at once.
const AT_ONCE: usize = 8;

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// What the runner sends where a method has a body.
pub(super) const BODY: &str = "product=7&count=1";

/// A host and the way to start it, with exactly the files that an operator deploys.
pub trait EdgeUnderTest: Sync {
    /// Its name, for the report.
    fn name(&self) -> &str;

    /// What it does to requests before the guest sees them.
    fn traits(&self) -> HostTraits;

    /// Starts it with these settings, in front of these two, and waits until it takes connections.
    ///
    /// # Errors
    /// [`Missing`] when the host is not installed.
    fn start(
        &self,
        settings: &str,
        gateway: SocketAddr,
        shop: SocketAddr,
    ) -> impl Future<Output = Result<Running, Missing>> + Send;
}

/// What a host does to requests before the guest sees them, and after.
#[derive(Clone, Debug, Default)]
pub struct HostTraits {
    /// Forms of a request that it changes, or answers by itself with an error. Of a request in such a form only the
    /// safe thing is demanded where the right one does not come about: nobody gets past a gate.
    pub alters: BTreeSet<RawForm>,
    /// Whether the upstream sees the `Host` that the shopper sent.
    pub keeps_host: bool,
    /// Whether the host answers for an upstream it cannot reach by itself, without a word to the guest.
    pub hides_failures: bool,
    /// Whether calls whose answers are the same for everyone are sent on without what tells of a visitor, through the
    /// host's cache.
    pub shares_calls: bool,
}

/// A host that runs. It ends with this value.
pub struct Running {
    address: SocketAddr,
    _host: Box<dyn Any + Send>,
}

/// How many cases came out how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The host.
    pub host: String,
    /// As expected, to the byte.
    pub agree: usize,
    /// Not handed on by the host as they were, and nobody got past a gate.
    pub safe: Vec<String>,
    /// Not asked: they hold at a second of their own, and the host's clock cannot be set.
    pub untimely: usize,
    /// Asked once more with the gateway away or failing, and answered as they must be then.
    pub without_gateway: usize,
    /// What went wrong, by case.
    pub differences: Vec<(String, Vec<String>)>,
}

// === impl Running ===

impl Running {
    /// A host that listens on `address` as long as `host` lives.
    pub fn new(address: SocketAddr, host: impl Any + Send) -> Self {
        Self { address, _host: Box::new(host) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl From<EdgeHost> for Running {
    fn from(host: EdgeHost) -> Self {
        Self::new(host.address(), host)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

// === impl Report ===

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.agree + self.safe.len() + self.differences.len();
        write!(
            formatter,
            "conformance: {}: {} of {asked} agree; {} more reach the guest in another form, and pass no gate; \
             {} with the gateway away; {} need a clock that can be set",
            self.host,
            self.agree,
            self.safe.len(),
            self.without_gateway,
            self.untimely,
        )
    }
}

/// Runs all vectors against a host, and prints how many agree.
///
/// A host that is not installed is passed over only where `tests/conformance/unavailable.txt` names it.
///
/// # Panics
/// When there are differences, all of which are named, or when the host is missing.
pub async fn run(edge: &impl EdgeUnderTest) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
    let vectors = generate(now);
    let mut report = Report { host: edge.name().to_owned(), ..Report::default() };
    if permitted(run_all(edge, &vectors, &mut report).await).is_some() {
        eprintln!("{report}");
    }
    if !report.differences.is_empty() {
        let mut text = String::new();
        for (case, differences) in &report.differences {
            write!(text, "\n{case}").expect("memory");
            for difference in differences {
                write!(text, "\n    {difference}").expect("memory");
            }
        }
        panic!("{} of the cases differ on {}:{text}", report.differences.len(), report.host);
    }
    report
}

async fn run_all(edge: &impl EdgeUnderTest, vectors: &Vectors, report: &mut Report) -> Result<(), Missing> {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let traits = edge.traits();
    for settings in vectors.settings.keys() {
        let cases: Vec<_> = of_settings(vectors, settings).filter(|(_, case)| case.now.is_none()).collect();
        report.untimely += of_settings(vectors, settings).count() - cases.len();
        if cases.is_empty() {
            continue;
        }
        let document = vectors.document(settings);
        let host = edge.start(&document, gateway.address(), shop.address()).await?;
        for (case, seen) in ask(host.address(), &cases, &gateway, &shop).await {
            let altered = !raw_form::of(case).is_disjoint(&traits.alters);
            match judge(case, &seen, &traits, altered, vectors) {
                Judgement::Agrees => report.agree += 1,
                Judgement::Safe => report.safe.push(case.name.clone()),
                Judgement::Differs(differences) => report.differences.push((case.name.clone(), differences)),
            }
        }
    }
    for room in gateway.rooms() {
        let told: Vec<_> = room.headers.iter().filter(|(name, _)| is_personal(name)).collect();
        if !told.is_empty() {
            report.differences.push((room.line.clone(), vec![format!("a room was asked for with {told:?}")]));
        }
    }
    without_gateway(edge, vectors, &traits, report).await
}

/// The gateway is away, and then it has no rooms: whoever is admitted still gets to the shop, and the rest are told.
async fn without_gateway(
    edge: &impl EdgeUnderTest,
    vectors: &Vectors,
    traits: &HostTraits,
    report: &mut Report,
) -> Result<(), Missing> {
    let cases: Vec<_> = of_settings(vectors, WITHOUT_GATEWAY)
        .filter(|(_, case)| case.now.is_none() && raw_form::of(case).is_disjoint(&traits.alters))
        .collect();
    let document = vectors.document(WITHOUT_GATEWAY);
    let nobody = Port::free();
    for away in [true, false] {
        let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
        gateway.answer_rooms_with(500);
        let address = if away { nobody.address() } else { gateway.address() };
        let host = edge.start(&document, address, shop.address()).await?;
        for (case, seen) in ask(host.address(), &cases, &gateway, &shop).await {
            let differences = judge_without_gateway(case, &seen, traits, away);
            if differences.is_empty() {
                report.without_gateway += 1;
            } else {
                let how = if away { "with the gateway away" } else { "with a gateway that has no rooms" };
                report.differences.push((format!("{}, {how}", case.name), differences));
            }
        }
    }
    Ok(())
}

/// The cases under these settings, each with its number.
fn of_settings<'v>(vectors: &'v Vectors, settings: &str) -> impl Iterator<Item = (usize, &'v Case)> {
    vectors.cases.iter().enumerate().filter(move |(_, case)| case.settings == settings)
}

/// Sends the requests to a host, several at once, each on a connection of its own.
async fn ask<'v>(
    host: SocketAddr,
    cases: &[(usize, &'v Case)],
    gateway: &Upstream,
    shop: &Upstream,
) -> Vec<(&'v Case, Seen)> {
    let answers = stream::iter(cases.iter().copied()).map(|(number, case)| async move {
        let outcome = exchange(host, &on_the_wire(number, case), LIMIT).await;
        let seen = Seen { outcome, gateway: gateway.received(number), shop: shop.received(number) };
        (case, seen)
    });
    answers.buffered(AT_ONCE).collect().await
}

/// The request as it is sent.
fn on_the_wire(number: usize, case: &Case) -> Vec<u8> {
    let mut bytes =
        format!("{} {} HTTP/1.1\r\nHost: {}\r\n", case.method, case.target, case.host).into_bytes();
    for (name, value) in case.fields() {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("{CASE}: {number}\r\nConnection: close\r\n").as_bytes());
    if has_body(case) {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n{BODY}", BODY.len()).as_bytes());
    } else {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Whether the runner sends a body with it.
pub(super) fn has_body(case: &Case) -> bool {
    matches!(case.method.as_str(), "POST" | "PUT" | "PATCH")
}
