//! An edge as an http-wasm plugin, for Traefik and Dapr.
//!
//! Its configuration is the settings document that the gateway exports, or an object with that document, as text, in the
//! member `settings`.
//!
//! A plugin of this kind cannot fetch anything. A request that waits is turned into one for the room, which the host sends
//! on like any other, and the status and fields of its answer are mended on the way back.

use std::time::SystemTime;

use http_wasm_guest::host::{Header, Request as HostRequest, Response, admin, feature};
use http_wasm_guest::{Guest, register};
use ropeline_edge::{Act, Answer, Field, Forward, Request, Room, Settings};
use ropeline_token::json;

/// The field that says to whom a request goes, for the host's routes. They remove it.
const UPSTREAM: &[u8] = b"ropeline-upstream";

/// A field that is in every answer which the gateway makes, and in none of the host's own.
const GATEWAYS_OWN: &[u8] = b"x-content-type-options";

/// What is to be done with an answer. The host hands it on from request to answer as a number.
enum Then {
    Pass,
    /// It is the gateway's. If it cannot be reached, a page says so.
    Gateway,
    /// It is the room, in place of a page, under this status.
    Room(u16),
}

/// The plugin. Without settings it lets nobody pass.
struct Edge {
    settings: Option<Settings>,
}

fn main() {
    register(Edge { settings: settings(&admin::config()) });
}

fn settings(configuration: &[u8]) -> Option<Settings> {
    let document = json::parse(configuration).ok();
    let member = document.as_ref().and_then(|value| value.as_object()?.get("settings")?.as_str());
    Settings::from_json(member.map_or(configuration, str::as_bytes)).ok()
}

impl Guest for Edge {
    fn handle_request(&self, host: &HostRequest, response: &Response) -> (bool, i32) {
        let (method, target) = (host.method(), host.uri());
        // What is no UTF-8 is no method and no target either, and is refused as such.
        let (method, target) = (String::from_utf8_lossy(&method), String::from_utf8_lossy(&target));
        let authority = host.header().get(b"host");
        let authority = String::from_utf8_lossy(authority.as_deref().unwrap_or_default());
        let fields = fields(host.header());
        let headers: Vec<Field<'_>> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let request = Request { method: &method, host: &authority, target: &target, headers: &headers };

        let Some(settings) = &self.settings else {
            return answer(response, &Room::unreachable(), &method);
        };
        match settings.plan(&request, now()).act {
            Act::Forward(act) => forward(host, &request, &act),
            Act::Room(room) => ask_for_room(host, &request, &room),
            Act::Answer(act) => answer(response, &act, &method),
        }
    }

    fn handle_response(&self, then: i32, host: &HostRequest, response: &Response, failed: bool) {
        let answered = !failed && !matches!(response.status(), 502..=504)
            || response.header().get(GATEWAYS_OWN).is_some();
        match Then::from_number(then) {
            Then::Room(status) if response.status() == 200 && !failed => mend(response, status),
            Then::Gateway if answered => {}
            // Nothing but what is buffered may be touched now.
            Then::Pass => {}
            Then::Room(_) | Then::Gateway => {
                strip(response.header(), |_| false);
                answer(response, &Room::unreachable(), &String::from_utf8_lossy(&host.method()));
            }
        }
    }
}

impl Then {
    fn number(&self) -> i32 {
        match self {
            Self::Pass => 0,
            Self::Gateway => 1,
            Self::Room(status) => i32::from(*status),
        }
    }

    fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Pass,
            1 => Self::Gateway,
            status => u16::try_from(status).map_or(Self::Gateway, Self::Room),
        }
    }
}

fn forward(host: &HostRequest, request: &Request<'_>, forward: &Forward<'_>) -> (bool, i32) {
    for (name, _) in request.headers {
        if forward.removes(name) {
            host.header().remove(name.as_bytes());
        }
    }
    for (name, value) in &forward.set {
        host.header().set(name.as_bytes(), value.as_bytes());
    }
    host.header().set(UPSTREAM, forward.to.as_str().as_bytes());
    // In any case: the host may have kept another spelling than the one it showed.
    host.set_uri(forward.target.as_bytes());
    if forward.room {
        admin::enable(feature::BufferResponse);
        return (true, Then::Gateway.number());
    }
    (true, Then::Pass.number())
}

/// Turns the request into one for the room, which is the same for everyone.
fn ask_for_room(host: &HostRequest, request: &Request<'_>, room: &Room) -> (bool, i32) {
    let asks = |name: &str| Room::ASKS.iter().any(|asks| name.eq_ignore_ascii_case(asks));
    for (name, _) in request.headers {
        if !name.eq_ignore_ascii_case("host") && !asks(name) {
            host.header().remove(name.as_bytes());
        }
    }
    host.header().set(UPSTREAM, b"gateway");
    host.set_uri(room.path.as_bytes());
    admin::enable(feature::BufferResponse);
    (true, Then::Room(room.status).number())
}

/// Makes the gateway's room the answer to another request.
fn mend(response: &Response, status: u16) {
    let framing =
        |name: &str| name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("date");
    strip(response.header(), |name| framing(name) || Room::keeps(name));
    let room = Room { path: String::new(), status };
    for (name, value) in Room::SETS {
        response.header().set(name.as_bytes(), value.as_bytes());
    }
    if let Some(seconds) = room.retry_after_s() {
        response.header().set(b"retry-after", seconds.to_string().as_bytes());
    }
    response.set_status(i32::from(status));
}

fn strip(header: &Header, keeps: impl Fn(&str) -> bool) {
    for name in header.names() {
        if !name.to_str().is_ok_and(&keeps) {
            header.remove(&name);
        }
    }
}

/// Answers in place of the upstream. The fields come first: the status sends them off.
fn answer(response: &Response, answer: &Answer, method: &str) -> (bool, i32) {
    for (name, value) in &answer.headers {
        response.header().set(name.as_bytes(), value.as_bytes());
    }
    response.header().set(b"content-length", answer.body.len().to_string().as_bytes());
    response.set_status(i32::from(answer.status));
    if method != "HEAD" {
        response.body().write(answer.body.as_bytes());
    }
    (false, Then::Pass.number())
}

fn fields(header: &Header) -> Vec<(String, Vec<u8>)> {
    let names = header.names().into_iter().filter_map(|name| name.to_str().ok().map(str::to_owned));
    names
        .flat_map(|name| {
            let values = header.get_all(name.as_bytes());
            values.into_iter().map(move |value| (name.clone(), value.to_vec()))
        })
        .collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
