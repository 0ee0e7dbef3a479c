//! One request.

use std::rc::Rc;
use std::time::SystemTime;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use ropeline_edge::{Act, Answer, Field, Forward, Reply, Request, Room, Settings};

use crate::rooms::{Page, Question, Told};
use crate::{Gateway, SOON, now};

/// The field that says to whom a request goes, for the host's routes. They remove it.
const UPSTREAM: &str = "ropeline-upstream";

/// What the host says of an answer that came from the upstream rather than from itself.
const FROM_UPSTREAM: &[u8] = b"via_upstream";

/// The field in which Envoy notes how it was asked, and without which it finds no route.
const SCHEME: &str = "x-forwarded-proto";

/// The field to which Envoy adds, at its end, who connected to it.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// A field that is in every answer which the gateway makes.
const GATEWAYS_OWN: &str = "x-content-type-options";

pub(crate) struct Visit {
    context: u32,
    settings: Option<Rc<Settings>>,
    gateway: Option<Rc<Gateway>>,
    then: Then,
}

/// What is to be done with the answer.
enum Then {
    /// Nothing.
    Pass,
    /// It is the room, in place of a page.
    Room(Room),
    /// It is the shop's, of which the shopper gets what this leaves.
    Shop(Reply),
    /// It is the gateway's. If it cannot be reached, a page says so.
    Gateway,
}

impl Visit {
    pub(crate) fn new(context: u32, settings: Option<Rc<Settings>>, gateway: Option<Rc<Gateway>>) -> Self {
        Self { context, settings, gateway, then: Then::Pass }
    }

    fn forward(&mut self, request: &Request<'_>, forward: &Forward<'_>) -> Action {
        for (name, value) in request.headers {
            match *name {
                // The gateway goes by `Host`, which the host leaves as it is.
                "x-forwarded-host" => self.set_http_request_header(name, None),
                _ if !forward.removes(name) => {}
                SCHEME => {}
                FORWARDED_FOR => {
                    let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                    self.set_http_request_header_bytes(name, Some(last.trim_ascii()));
                }
                _ => self.set_http_request_header(name, None),
            }
        }
        if forward.target != request.target {
            self.set_http_request_header(":path", Some(&forward.target));
        }
        for (name, value) in &forward.set {
            self.set_http_request_header(name, Some(value));
        }
        self.set_http_request_header(UPSTREAM, Some(forward.to.as_str()));
        self.then = match forward.reply() {
            Reply::Gateways if forward.room => Then::Gateway,
            Reply::Gateways => Then::Pass,
            reply => Then::Shop(reply),
        };
        Action::Continue
    }

    fn room(&mut self, request: &Request<'_>, room: Room) -> Action {
        let Some(gateway) = self.gateway.clone() else {
            self.ask_for_room(request, room);
            return Action::Continue;
        };
        let asks = Room::ASKS.map(|name| {
            let mut values = request.headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
            let values = values.by_ref().filter_map(|(_, value)| std::str::from_utf8(value).ok());
            let values: Vec<_> = values.collect();
            (!values.is_empty()).then(|| values.join(","))
        });
        let question = Question::new(request.host, &room.path, asks);
        let told = gateway.rooms.borrow_mut().ask(question, self.context, room.clone(), now());
        match told {
            Told::Known(page) => answer_with_room(page.as_deref(), &room),
            Told::Waits => {}
            Told::Ask => drop(hostcalls::set_tick_period(SOON)),
        }
        Action::Pause
    }

    /// Turns the request into one for the room, which is the same for everyone.
    fn ask_for_room(&mut self, request: &Request<'_>, room: Room) {
        for (name, _) in request.headers {
            let asks = Room::ASKS.iter().any(|asks| name.eq_ignore_ascii_case(asks));
            if !name.starts_with(':') && *name != SCHEME && !asks {
                self.set_http_request_header(name, None);
            }
        }
        self.set_http_request_header(":path", Some(&room.path));
        self.set_http_request_header(UPSTREAM, Some("gateway"));
        self.then = Then::Room(room);
    }
}

impl Context for Visit {}

impl HttpContext for Visit {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let Some(settings) = self.settings.clone() else {
            answer(&Room::unreachable());
            return Action::Pause;
        };
        let fields = self.get_http_request_headers_bytes();
        let pseudo = |name| {
            let value = fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_slice());
            // What is no UTF-8 is no target either, and is refused as such.
            String::from_utf8_lossy(value.unwrap_or_default())
        };
        let (method, host, target) = (pseudo(":method"), pseudo(":authority"), pseudo(":path"));
        let headers: Vec<Field<'_>> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let request = Request { method: &method, host: &host, target: &target, headers: &headers };
        let seconds = now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        match settings.plan(&request, seconds).act {
            Act::Forward(act) => self.forward(&request, &act),
            Act::Room(room) => self.room(&request, room),
            Act::Answer(act) => {
                answer(&act);
                Action::Pause
            }
        }
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        let status = self.get_http_response_header_bytes(":status").unwrap_or_default();
        match std::mem::replace(&mut self.then, Then::Pass) {
            Then::Pass => Action::Continue,
            Then::Shop(reply) => {
                self.mend(reply);
                Action::Continue
            }
            Then::Room(room) if status == b"200" => {
                for (name, _) in self.get_http_response_headers_bytes() {
                    let framing = matches!(name.as_str(), "content-length" | "transfer-encoding" | "date");
                    if !name.starts_with(':') && !framing && !Room::keeps(&name) {
                        self.set_http_response_header(&name, None);
                    }
                }
                self.set_http_response_header(":status", Some(&room.status.to_string()));
                for (name, value) in own_fields(&room) {
                    self.set_http_response_header(name, Some(&value));
                }
                Action::Continue
            }
            Then::Gateway if self.gateway_answered(&status) => Action::Continue,
            Then::Room(_) | Then::Gateway => {
                answer(&Room::unreachable());
                Action::Pause
            }
        }
    }
}

impl Visit {
    /// Takes off the shop's answer what is not for the shopper, or not for caches.
    fn mend(&self, reply: Reply) {
        let fields = self.get_http_response_headers_bytes();
        for (name, _) in fields.iter().filter(|(name, _)| reply.removes(name)) {
            self.set_http_response_header(name, None);
        }
        let said =
            fields.iter().filter(|(name, _)| name == "cache-control").map(|(_, value)| value.as_slice());
        if let Some((name, value)) = reply.sets(said) {
            self.set_http_response_header(name, Some(value));
        }
    }

    /// Whether the gateway answered, and not the host in its place.
    fn gateway_answered(&self, status: &[u8]) -> bool {
        if !matches!(status, b"502" | b"503" | b"504") {
            return true;
        }
        match self.get_property(vec!["response", "code_details"]) {
            Some(details) => details == FROM_UPSTREAM,
            None => self.get_http_response_header_bytes(GATEWAYS_OWN).is_some(),
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(gateway) = &self.gateway {
            gateway.rooms.borrow_mut().left(self.context);
        }
    }
}

/// The fields that a room has in place of the gateway's own.
fn own_fields(room: &Room) -> impl Iterator<Item = (&'static str, String)> {
    let sets = Room::SETS.into_iter().map(|(name, value)| (name, value.to_owned()));
    sets.chain(room.retry_after_s().map(|seconds| ("retry-after", seconds.to_string())))
}

/// Answers the request of the effective context with a room, or says that there is none.
pub(crate) fn answer_with_room(page: Option<&Page>, room: &Room) {
    let Some(page) = page else { return answer(&Room::unreachable()) };
    let own: Vec<_> = own_fields(room).collect();
    let kept = page.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields = kept.chain(own.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    let _ = hostcalls::send_http_response(room.status.into(), fields, Some(&page.body));
}

/// Answers the request of the effective context. The host leaves the body out where the method is HEAD.
fn answer(answer: &Answer) {
    let fields = answer.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let _ = hostcalls::send_http_response(answer.status.into(), fields, Some(answer.body.as_bytes()));
}
