//! An edge as an http-wasm plugin, for Traefik and Dapr.
//!
//! Its configuration is the settings document that the gateway exports, or an object with that document, as text, in the
//! member `settings`.
//!
//! A plugin of this kind cannot fetch anything. A request that waits is turned into one for the room, which the host sends
//! on like any other, and the status and fields of its answer are mended on the way back.
//!
//! Built for a WebAssembly without bulk memory operations: under the runtime of Traefik 3.7 (wazero 1.8), a
//! `memory.copy` or `memory.fill` of more than 2,048 bytes leaves the guest's own variables in ruins.

#![no_std]

extern crate alloc;

mod host;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rlsf::SmallGlobalTlsf;
use ropeline_edge::{Act, Answer, Field, Forward, Reply, Request, Room, Settings, SettingsError};
use ropeline_token::json;
use spin::Once;

use crate::host::Message;

#[global_allocator]
static ALLOCATOR: SmallGlobalTlsf = SmallGlobalTlsf::new();

/// Nothing here panics on purpose, and the message of one that did would double the module's size.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// The field that says to whom a request goes, for the host's routes. They remove it.
const UPSTREAM: &str = "ropeline-upstream";

/// What the host says itself of where a request came from, in place of what a shopper says.
const HOSTS_OWN: [&str; 5] =
    ["x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-forwarded-server", "x-real-ip"];

/// A field that is in every answer which the gateway makes, and in none of the host's own.
const GATEWAYS_OWN: &str = "x-content-type-options";

/// None within: without settings that hold nobody passes.
static SETTINGS: Once<Option<Settings>> = Once::new();

/// What becomes of a request.
enum Next {
    /// It is answered.
    Answered,
    /// It goes on.
    Upstream(Then),
}

/// What is to be done with an answer from the upstream. The host hands it on, from request to answer, as a number.
#[derive(PartialEq)]
enum Then {
    /// Nothing.
    Pass,
    /// It is the gateway's. If it cannot be reached, a page says so.
    Gateway,
    /// It is the shop's, to somebody who was admitted.
    Personal,
    /// It is the room, in place of a page, under this status.
    Room(u16),
}

/// Called by the host in each new instance, so that no shopper waits for it.
#[unsafe(no_mangle)]
extern "C" fn _initialize() {
    settings();
}

fn settings() -> Option<&'static Settings> {
    SETTINGS.call_once(|| match read_settings(&host::configuration()) {
        Ok(settings) => Some(settings),
        Err(refused) => {
            host::complain(&["ropeline: nobody passes: ", refused.code()].concat());
            None
        }
    });
    SETTINGS.get().and_then(Option::as_ref)
}

fn read_settings(configuration: &[u8]) -> Result<Settings, SettingsError> {
    let document = json::parse(configuration).ok();
    let member = document.as_ref().and_then(|value| value.as_object()?.get("settings")?.as_str());
    Settings::from_json(member.map_or(configuration, str::as_bytes))
}

/// For each request: whether it goes on, in the lower half, and what [`handle_response`] is told, in the upper.
#[unsafe(no_mangle)]
extern "C" fn handle_request() -> u64 {
    let (method, target, fields) = (host::method(), host::target(), host::fields(Message::Request));
    let headers: Vec<Field<'_>> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let authority = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = String::from_utf8_lossy(authority.map_or(&[], |(_, value)| *value));
    let request = Request { method: &method, host: &authority, target: &target, headers: &headers };
    let next = match settings() {
        None => answer(&Room::unreachable(), &method),
        Some(settings) => match settings.plan(&request, host::now()).act {
            Act::Forward(act) => forward(&request, &act),
            Act::Room(room) => ask_for_room(&request, &room),
            Act::Answer(act) => answer(&act, &method),
        },
    };
    match next {
        Next::Answered => 0,
        Next::Upstream(then) => (u64::from(then.number()) << 32) | 1,
    }
}

/// For the answer to each request that went on.
#[unsafe(no_mangle)]
extern "C" fn handle_response(then: u32, failed: u32) {
    let then = match Then::from_number(then) {
        // An answer that is not held back is gone already: the host takes it ill to be asked about it.
        Then::Pass => return,
        then => then,
    };
    if then == Then::Personal {
        return mend_personal();
    }
    let status = host::status();
    let answered = failed == 0
        && (!matches!(status, 502..=504)
            || host::names(Message::Response).iter().any(|name| name.eq_ignore_ascii_case(GATEWAYS_OWN)));
    match then {
        Then::Room(by_policy) if answered && status == 200 => mend(by_policy),
        Then::Gateway if answered => {}
        _ => {
            strip(|_| false);
            answer(&Room::unreachable(), &host::method());
        }
    }
}

impl Then {
    fn number(&self) -> u32 {
        match self {
            Self::Pass => 0,
            Self::Gateway => 1,
            Self::Personal => 2,
            Self::Room(status) => u32::from(*status),
        }
    }

    fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Pass,
            1 => Self::Gateway,
            2 => Self::Personal,
            status => u16::try_from(status).map_or(Self::Gateway, Self::Room),
        }
    }
}

fn forward(request: &Request<'_>, forward: &Forward<'_>) -> Next {
    for (name, _) in request.headers {
        if forward.removes(name) && !HOSTS_OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            host::remove(Message::Request, name);
        }
    }
    for (name, value) in &forward.set {
        host::set(Message::Request, name, value);
    }
    host::set(Message::Request, UPSTREAM, forward.to.as_str());
    // In any case: the host may have kept another spelling than the one it showed.
    host::set_target(&forward.target);
    let then = match forward.reply() {
        Reply::Personal => Then::Personal,
        _ if forward.room => Then::Gateway,
        // The host's own configuration takes off what the shop tells the queue: here that would hold the answer back.
        Reply::Shops | Reply::Gateways => return Next::Upstream(Then::Pass),
    };
    host::buffer_response();
    Next::Upstream(then)
}

/// Turns the request into one for the room, which is the same for everyone.
fn ask_for_room(request: &Request<'_>, room: &Room) -> Next {
    let asks = |name: &str| Room::ASKS.iter().any(|asks| name.eq_ignore_ascii_case(asks));
    for (name, _) in request.headers {
        if !name.eq_ignore_ascii_case("host") && !asks(name) {
            host::remove(Message::Request, name);
        }
    }
    host::set(Message::Request, UPSTREAM, "gateway");
    host::set_target(&room.path);
    host::buffer_response();
    Next::Upstream(Then::Room(room.status))
}

/// Makes the gateway's room the answer to another request.
fn mend(status: u16) {
    let framing =
        |name: &str| name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("date");
    strip(|name| framing(name) || Room::keeps(name));
    for (name, value) in Room::SETS {
        host::set(Message::Response, name, value);
    }
    if let Some(seconds) = (Room { path: String::new(), status }).retry_after_s() {
        host::set(Message::Response, "retry-after", &seconds.to_string());
    }
    host::set_status(status);
}

/// Makes the shop's answer one that no shared cache keeps.
fn mend_personal() {
    strip(|name| !Reply::Personal.removes(name));
    let fields = host::fields(Message::Response);
    let said = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
    if let Some((name, value)) = Reply::Personal.sets(said.map(|(_, value)| value.as_slice())) {
        host::set(Message::Response, name, value);
    }
}

/// Takes all other fields out of the answer.
fn strip(keeps: impl Fn(&str) -> bool) {
    for name in host::names(Message::Response) {
        if !keeps(&name) {
            host::remove(Message::Response, &name);
        }
    }
}

/// Answers in place of the upstream. The fields come first: the status sends them off.
fn answer(answer: &Answer, method: &str) -> Next {
    for (name, value) in &answer.headers {
        host::set(Message::Response, name, value);
    }
    host::set(Message::Response, "content-length", &answer.body.len().to_string());
    host::set_status(answer.status);
    if method != "HEAD" {
        host::write_body(&answer.body);
    }
    Next::Answered
}
