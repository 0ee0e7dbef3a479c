//! What a host made of a request, against what had to come of it.

use ropeline_edge::Room;
use serde_json::Value;

use super::run::{BODY, HostTraits, has_body};
use super::upstream::{FROM, ROOM, ROOM_DROPPED, ROOM_KEPT, SERIAL, TO_CACHES, TO_QUEUE, path, target};
use super::vectors::{Act, Case, Vectors};
use crate::raw::{Outcome, Response};
use crate::shop::Received;

/// All that can be seen of a case from outside.
#[derive(Debug)]
pub(super) struct Seen {
    /// What the shopper got.
    pub(super) outcome: Outcome,
    /// What the gateway received, rooms aside.
    pub(super) gateway: Vec<Received>,
    /// What the shop received.
    pub(super) shop: Vec<Received>,
}

/// How a case came out.
#[derive(Debug)]
pub(super) enum Judgement {
    /// As expected.
    Agrees,
    /// Otherwise, but the host had changed the request, and nobody got past a gate.
    Safe,
    /// Wrongly, in these ways.
    Differs(Vec<String>),
}

/// Differences found so far.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    #[expect(clippy::needless_pass_by_value, reason = "it is asked with values made for the comparison")]
    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, expected: T) {
        if found != expected {
            self.0.push(format!("{what}: {found:?}, and not {expected:?}"));
        }
    }
}

/// Judges a case. `altered` says that the host does not hand on requests in this form as they are.
pub(super) fn judge(
    case: &Case,
    seen: &Seen,
    traits: &HostTraits,
    altered: bool,
    vectors: &Vectors,
) -> Judgement {
    let differences = match &case.expect.act {
        Act::Forward { to, target, set, .. } => forwarded(case, seen, traits, to, target, set),
        Act::Room { status, .. } => room(case, seen, *status),
        Act::Answer { status, headers, body } => answered(case, seen, *status, headers, body),
    };
    if differences.is_empty() {
        return Judgement::Agrees;
    }
    let breaches = breaches(case, seen, vectors);
    match (altered, breaches.is_empty()) {
        (true, true) => Judgement::Safe,
        (true, false) => Judgement::Differs(breaches),
        (false, _) => Judgement::Differs(differences),
    }
}

/// Judges a case whose edge has no gateway behind it (`away`), or one that has no rooms.
pub(super) fn judge_without_gateway(
    case: &Case,
    seen: &Seen,
    traits: &HostTraits,
    away: bool,
) -> Vec<String> {
    let unreachable = Room::unreachable();
    let headers: Vec<_> =
        unreachable.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let stands_in = || answered(case, seen, unreachable.status, &headers, &unreachable.body);
    match &case.expect.act {
        Act::Room { .. } => stands_in(),
        Act::Forward { room: true, .. } if away && !traits.hides_failures => stands_in(),
        Act::Forward { to, .. } if away && to == "gateway" => match &seen.outcome {
            Outcome::Answer(response) if (500..600).contains(&response.status) => Vec::new(),
            other => vec![format!("{other:?}, and not the host's own error")],
        },
        Act::Forward { to, target, set, .. } => forwarded(case, seen, traits, to, target, set),
        Act::Answer { status, headers, body } => answered(case, seen, *status, headers, body),
    }
}

/// Fields that hosts write themselves, in place of what a shopper said.
const HOSTS_OWN: [&str; 4] = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Fields that tell of a visitor: no room is asked for with them.
pub(super) fn is_personal(name: &str) -> bool {
    matches!(name, "cookie" | "authorization") || is_ours(name)
}

fn is_ours(name: &str) -> bool {
    name.starts_with("ropeline-") || name.starts_with("ropeline_")
}

fn response(seen: &Seen) -> Result<&Response, Vec<String>> {
    match &seen.outcome {
        Outcome::Answer(response) => Ok(response),
        Outcome::Closed(bytes) => Err(vec![format!("closed without an answer: {}", bytes.escape_ascii())]),
        Outcome::Silence(bytes) => Err(vec![format!("no answer in time: {}", bytes.escape_ascii())]),
    }
}

fn forwarded(
    case: &Case,
    seen: &Seen,
    traits: &HostTraits,
    to: &str,
    expected_target: &str,
    set: &[(String, String)],
) -> Vec<String> {
    let mut differences = Differences::default();
    let (here, there) = if to == "shop" { (&seen.shop, &seen.gateway) } else { (&seen.gateway, &seen.shop) };
    differences.expect("requests to the other upstream", lines(there), Vec::new());
    let [request] = here.as_slice() else {
        differences.0.push(format!("the {to} received {:?}, and not one request", lines(here)));
        differences.0.push(format!("the answer was {:?}", seen.outcome));
        return differences.0;
    };
    received(&mut differences, case, request, traits, expected_target, set);

    let response = match response(seen) {
        Ok(response) => response,
        Err(why) => return why,
    };
    let asked = expected_target.split_once("answer-with=").and_then(|(_, status)| status.get(..3));
    differences.expect("status", response.status.to_string().as_str(), asked.unwrap_or("200"));
    differences.expect("answered by", response.header(FROM), Some(to));
    differences.expect("content-type", response.header("content-type"), Some("application/json"));
    // What is behind an admission is its visitor's alone. Of the gateway's answer the gateway has seen to that.
    let personal = to == "shop" && !set.is_empty();
    for (name, value) in TO_CACHES {
        let instead = (name == "cache-control").then_some("private, no-cache");
        differences.expect(name, response.header(name), if personal { instead } else { Some(value) });
    }
    for (name, _) in TO_QUEUE {
        differences.expect(name, response.header(name), None);
    }
    let cookies: Vec<_> = response.headers.iter().filter(|(name, _)| name == "set-cookie").collect();
    differences.expect(
        "cookies",
        cookies.iter().map(|(_, value)| value.as_str()).collect(),
        vec!["first=1; Path=/", "second=2; Path=/"],
    );
    let redirect = response.status / 100 == 3;
    differences.expect("location", response.header("location"), redirect.then_some("/somewhere-else"));
    if response.header(SERIAL).is_none() {
        differences.0.push("the answer's number is gone".to_owned());
    }
    if case.method == "HEAD" {
        differences.expect("body", response.text().as_str(), "");
    } else {
        let echo: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        differences.expect("the line in the answer", echo["line"].as_str(), Some(request.line.as_str()));
    }
    differences.0
}

/// What the upstream received.
fn received(
    differences: &mut Differences,
    case: &Case,
    request: &Received,
    traits: &HostTraits,
    expected_target: &str,
    set: &[(String, String)],
) {
    let method = request.line.split(' ').next().unwrap_or_default();
    differences.expect("method", method, case.method.as_str());
    differences.expect("target", target(request), expected_target);
    for (name, value) in set {
        differences.expect(name, request.header(name), vec![value.as_str()]);
    }
    let is_set = |name: &str| set.iter().any(|(set, _)| set == name);
    for name in &case.expect.gone {
        let name = name.to_ascii_lowercase();
        if HOSTS_OWN.contains(&name.as_str()) {
            let said = request.header(&name).concat();
            differences.expect(&name, said.contains("forged"), false);
        } else if !is_set(&name) {
            differences.expect(&name, request.header(&name), Vec::new());
        }
    }
    // Fields of the shopper's that stay: lines of one name may have been joined.
    let mut names: Vec<_> = case.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let shared = traits.shares_calls && case.expect.kind == "api" && expected_target.contains("/sales/");
    names.retain(|name| !shared || !is_personal(name));
    names.sort();
    names.dedup();
    let gone: Vec<_> = case.expect.gone.iter().map(|name| name.to_ascii_lowercase()).collect();
    let hosts = |name: &str| HOSTS_OWN.contains(&name) || name == "accept-encoding";
    for name in names.iter().filter(|name| !is_set(name) && !gone.contains(name) && !hosts(name)) {
        let sent = case.fields().into_iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let sent: Vec<_> = sent.map(|(_, value)| String::from_utf8_lossy(&value).trim().to_owned()).collect();
        let glue = if name == "cookie" { "; " } else { ", " };
        differences.expect(name, request.header(name).join(glue), sent.join(glue));
    }
    if traits.keeps_host {
        let host = request.header("host").concat().to_ascii_lowercase();
        differences.expect("host", host, case.host.to_ascii_lowercase());
    }
    let body = String::from_utf8_lossy(&request.body);
    if has_body(case) {
        // Chunked, it still holds the whole.
        differences.expect("the body holds what was sent", body.contains(BODY), true);
    } else {
        differences.expect(
            "length of the body",
            request.header("content-length").concat().trim_matches('0'),
            "",
        );
    }
}

fn room(case: &Case, seen: &Seen, status: u16) -> Vec<String> {
    let mut differences = Differences::default();
    nobody_asked(&mut differences, seen);
    let response = match response(seen) {
        Ok(response) => response,
        Err(why) => return why,
    };
    differences.expect("status", response.status, status);
    for (name, value) in ROOM_KEPT {
        differences.expect(name, response.header(name), Some(value));
    }
    for (name, _) in ROOM_DROPPED.into_iter().chain([(SERIAL, ""), ("set-cookie", "")]) {
        differences.expect(name, response.header(name), None);
    }
    differences.expect("cache-control", response.header("cache-control"), Some("private, no-store"));
    differences.expect("retry-after", response.header("retry-after"), (status >= 400).then_some("5"));
    differences.expect("body", response.text().as_str(), if case.method == "HEAD" { "" } else { ROOM });
    differences.0
}

fn answered(case: &Case, seen: &Seen, status: u16, headers: &[(String, String)], body: &str) -> Vec<String> {
    let mut differences = Differences::default();
    nobody_asked(&mut differences, seen);
    let response = match response(seen) {
        Ok(response) => response,
        Err(why) => return why,
    };
    differences.expect("status", response.status, status);
    for (name, value) in headers {
        differences.expect(name, response.header(name), Some(value.as_str()));
    }
    differences.expect("set-cookie", response.header("set-cookie"), None);
    differences.expect("body", response.text().as_str(), if case.method == "HEAD" { "" } else { body });
    differences.0
}

fn nobody_asked(differences: &mut Differences, seen: &Seen) {
    differences.expect("requests to the gateway", lines(&seen.gateway), Vec::new());
    differences.expect("requests to the shop", lines(&seen.shop), Vec::new());
}

fn lines(requests: &[Received]) -> Vec<&str> {
    requests.iter().map(|request| request.line.as_str()).collect()
}

/// What must never happen, however a host reads a request: somebody gets past a gate, or speaks to the shop in our name.
fn breaches(case: &Case, seen: &Seen, vectors: &Vectors) -> Vec<String> {
    let mut breaches = Vec::new();
    let document = &vectors.settings[&case.settings];
    let to_shop = document["send_to"] == "shop";
    let (set, goes_on): (&[_], _) = match &case.expect.act {
        Act::Forward { set, .. } => (set, case.expect.kind == "forward"),
        _ => (&[], false),
    };
    for request in &seen.shop {
        let ours = request.headers.iter().filter(|(name, _)| is_ours(name));
        for (name, value) in ours.filter(|field| !set.contains(field)) {
            breaches.push(format!("the shop was told {name}: {value}"));
        }
    }
    let passed = if to_shop { &seen.shop } else { &seen.gateway };
    let asks_gateway = matches!(&case.expect.act, Act::Forward { to, .. } if to == "gateway");
    if !goes_on && (to_shop || !asks_gateway) {
        let guarded = passed.iter().filter(|request| is_guarded(document, path(request)));
        breaches.extend(guarded.map(|request| format!("past the gate went {}", request.line)));
    }
    if let Outcome::Answer(response) = &seen.outcome {
        let from_upstream = response.header(SERIAL).is_some();
        if !from_upstream && !matches!(response.status, 200 | 202 | 400..=599) {
            breaches.push(format!("the host answered {}", response.status));
        }
    }
    breaches
}

/// Whether a shop, however it reads paths, could take this one for one that a sale protects.
fn is_guarded(settings: &Value, path: &str) -> bool {
    let path = plain(path);
    let sales = settings["policy"]["sales"].as_array().map(Vec::as_slice).unwrap_or_default();
    let queues = sales.iter().filter(|sale| sale["gate"] == "queue");
    queues.flat_map(|sale| sale["routes"].as_array().into_iter().flatten()).any(|route| {
        let route = plain(route["path"].as_str().unwrap_or_default().trim_start_matches('='));
        path == route || path.starts_with(&format!("{}/", route.trim_end_matches('/')))
    })
}

/// A path as the most lenient of shops reads it.
fn plain(path: &str) -> String {
    let (bytes, mut decoded, mut at) = (path.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = path.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match digits {
            Some(byte) if bytes[at] == b'%' => {
                decoded.push(byte);
                at += 3;
            }
            _ => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    let text = String::from_utf8_lossy(&decoded).to_lowercase().replace('\\', "/");
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_as_leniently_as_can_be() {
        for spelling in ["/sale/7", "//Sale//7/", "/x/../sale/%37", "/sale%2f7", "/sale;a=b/7", "\\sale\\7"] {
            assert_eq!(plain(spelling), "/sale/7", "{spelling}");
        }
    }
}
