//! Paths and hosts in every spelling of the vectors, through a host, the real gateway and to a shop.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::StatusCode;
use ropeline_tests::conformance::vectors::{Act, Case, Vectors};
use ropeline_tests::conformance::{CASE, generate};
use ropeline_tests::edge_hosts::{EdgeHost, Missing};
use ropeline_tests::gateway::{Gateway, Sale};
use ropeline_tests::raw::{Outcome, exchange};
use ropeline_tests::shop::Shop;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;

use super::{behind, permitted};

const LIMIT: Duration = Duration::from_secs(20);

/// Settings of the vectors whose sales the gateway is given here.
const SETTINGS: &str = "shop";

/// Sales that an edge can be told of and that no configuration of a gateway makes at its start: one whose gate is open,
/// and one where letter case counts.
const OTHERS: [&str; 2] = ["outlet", "exact"];

/// How one case came out.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Agrees,
    /// The host refused it by itself or made something else of it, and the shop never saw it.
    Safe,
    Differs(String),
}

/// Nobody gets past a gate, and what goes to the shop is the spelling that was decided upon.
///
/// Tokens of the vectors are worth nothing to a gateway, which knows their visitor no more than their key; whoever has to
/// be admitted here has joined and claimed.
pub(super) async fn are_read_as_the_gateway_reads_them<F>(
    name: &str,
    start: impl FnOnce(SocketAddr, SocketAddr) -> F,
) where
    F: Future<Output = Result<EdgeHost, Missing>>,
{
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
    let vectors = generate(now);
    let sales = sales(&vectors);
    let shop = Shop::open().await;
    let gateway = Gateway::start(behind(shop.address()), &sales).await;
    let Some(host) = permitted(start(gateway.address(), shop.address()).await) else { return };
    let cookies = admitted_everywhere(&Visitor::at(&host.url("")), &vectors).await;

    let (mut agree, mut safe, mut wrong) = (0, Vec::new(), Vec::new());
    for (number, case) in vectors.cases.iter().enumerate().filter(|(_, case)| is_asked(case)) {
        let outcome = exchange(host.address(), &on_the_wire(number, case, &cookies), LIMIT).await;
        let number = number.to_string();
        let received = shop.requests().into_iter().filter(|request| request.header(CASE) == [&number]);
        let targets: Vec<_> =
            received.map(|request| request.line.split(' ').nth(1).unwrap_or_default().to_owned()).collect();
        match judge(case, &outcome, &targets) {
            Found::Agrees => agree += 1,
            Found::Safe => safe.push(case.name.as_str()),
            Found::Differs(how) => wrong.push(format!("{}: {how}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{} cases differ on {name}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(agree > 150, "only {agree} cases agree on {name}");
    eprintln!(
        "spellings: {name} with the gateway: {agree} agree; {} more the host refuses or reads otherwise, and pass no gate: {safe:?}",
        safe.len()
    );
}

fn is_asked(case: &Case) -> bool {
    let about = ["path: ", "query: ", "host: "].iter().any(|about| case.name.starts_with(about));
    let other = case.expect.sale.as_deref().is_some_and(|sale| OTHERS.contains(&sale));
    about && !other && case.settings == SETTINGS
}

/// The sales of the vectors, as an operator writes them down.
fn sales(vectors: &Vectors) -> Vec<Sale> {
    let sales = vectors.settings[SETTINGS]["policy"]["sales"].as_array().expect("sales");
    let texts = |value: &serde_json::Value| -> Vec<String> {
        let texts = value.as_array().map(Vec::as_slice).unwrap_or_default();
        texts.iter().map(|text| text.as_str().expect("text").to_owned()).collect()
    };
    let id = |sale: &serde_json::Value| sale["sale"].as_str().expect("a name").to_owned();
    let known = sales.iter().filter(|sale| !OTHERS.contains(&id(sale).as_str()));
    known
        .map(|sale| {
            let routes = sale["routes"].as_array().expect("routes");
            let paths: Vec<_> = routes.iter().map(|route| route["path"].as_str().expect("a path")).collect();
            let hosts: Vec<_> = routes.iter().filter_map(|route| route["host"].as_str()).take(1).collect();
            let mut made = Sale::new(&id(sale), &paths)
                .set("hosts", &format!("{hosts:?}"))
                .set("bypass", &format!("{:?}", texts(&sale["bypass"])));
            for status in ["page_status", "other_status"] {
                if let Some(code) = sale[status].as_u64() {
                    made = made.set(status, &code.to_string());
                }
            }
            made
        })
        .collect()
}

/// The cookies of a visitor who is in everywhere.
async fn admitted_everywhere(visitor: &Visitor, vectors: &Vectors) -> String {
    let sales = vectors.settings[SETTINGS]["policy"]["sales"].as_array().expect("sales");
    for sale in sales.iter().filter_map(|sale| sale["sale"].as_str()).filter(|sale| !OTHERS.contains(sale)) {
        let joined = visitor.join(sale).await;
        assert_eq!(joined.status, StatusCode::OK, "{}", joined.text());
        until("the visitor is called", || async {
            (visitor.claim(sale).await.status == StatusCode::OK).then_some(())
        })
        .await;
    }
    let pairs: Vec<_> =
        visitor.cookies().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("; ")
}

fn is_admitted(case: &Case) -> bool {
    matches!(&case.expect.act, Act::Forward { set, .. } if !set.is_empty())
}

fn on_the_wire(number: usize, case: &Case, cookies: &str) -> Vec<u8> {
    let mut bytes =
        format!("{} {} HTTP/1.1\r\nHost: {}\r\n", case.method, case.target, case.host).into_bytes();
    let fields = case.fields().into_iter().filter(|(name, _)| !name.starts_with("ropeline"));
    for (name, value) in fields {
        bytes.extend_from_slice(format!("{name}: ").as_bytes());
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(b"\r\n");
    }
    if is_admitted(case) {
        bytes.extend_from_slice(format!("Cookie: {cookies}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("{CASE}: {number}\r\nContent-Length: 0\r\n").as_bytes());
    bytes.extend_from_slice(b"Connection: close\r\n\r\n");
    bytes
}

fn judge(case: &Case, outcome: &Outcome, targets: &[String]) -> Found {
    let status = match outcome {
        Outcome::Answer(response) => response.status,
        Outcome::Closed(bytes) | Outcome::Silence(bytes) => {
            return Found::Differs(format!("no answer: {}", bytes.escape_ascii()));
        }
    };
    // Servers take the path out of an absolute target (RFC 9112, section 3.2.2).
    let absolute = case.target.starts_with("http://");
    let safe = targets.is_empty() && (absolute || matches!(status, 400 | 404 | 405 | 501));
    match &case.expect.act {
        Act::Forward { target, .. } if case.expect.kind == "forward" => match targets {
            [asked] if asked == target => Found::Agrees,
            [] if safe => Found::Safe,
            _ => Found::Differs(format!("{status}, and the shop was asked for {targets:?}, not {target}")),
        },
        Act::Room { status: expected, .. } | Act::Answer { status: expected, .. } => {
            if !targets.is_empty() {
                Found::Differs(format!("past the gate went {targets:?}"))
            } else if status == *expected {
                Found::Agrees
            } else if safe {
                Found::Safe
            } else {
                Found::Differs(format!("{status}, and not {expected}"))
            }
        }
        // A form that is sent, without a pass: the gateway sends its sender to a page.
        Act::Forward { .. } if targets.is_empty() && status == 303 => Found::Agrees,
        Act::Forward { .. } => Found::Differs(format!("{status}, and the shop was asked for {targets:?}")),
    }
}
