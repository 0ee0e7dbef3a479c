//! An edge as a Proxy-Wasm plugin, for Envoy, Istio, Google Service Extensions and Media CDN.
//!
//! Its configuration is the settings document that the gateway exports. With the variable `ROPELINE_GATEWAY`, the name of
//! an upstream (Envoy: a cluster), it fetches the room from there and keeps it for a second. Without, and where a host lets
//! no plugin fetch, the request that waits is turned into one for the room, which the host sends on like any other, and
//! the status and fields of its answer are mended on the way back.

mod rooms;
mod visit;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{ContextType, LogLevel};
use ropeline_edge::Settings;

use crate::rooms::{Fetched, Page, Rooms};
use crate::visit::Visit;

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|_| Box::new(Edge::default()));
}}

/// The upstream that rooms are fetched from.
const GATEWAY: &str = "ROPELINE_GATEWAY";

/// How long the gateway has to answer with a room.
const PATIENCE: Duration = Duration::from_secs(3);

/// Soon: the shortest time that a host lets pass before it calls.
const SOON: Duration = Duration::from_millis(1);

/// A plugin with its configuration. What it shares with its requests outlives none of them.
#[derive(Default)]
struct Edge {
    settings: Option<Rc<Settings>>,
    gateway: Option<Rc<Gateway>>,
}

/// Where rooms come from, and those that are here.
struct Gateway {
    upstream: String,
    rooms: RefCell<Rooms>,
}

impl Context for Edge {
    fn on_http_call_response(&mut self, call: u32, _: usize, size: usize, _: usize) {
        let Some(gateway) = &self.gateway else { return };
        let fields = self.get_http_call_response_headers_bytes();
        let body = || self.get_http_call_response_body(0, size).unwrap_or_default();
        let page = Page::of(fields, body);
        let fetched = gateway.rooms.borrow_mut().answered(call, page, now());
        fetched.into_iter().for_each(serve);
    }
}

impl RootContext for Edge {
    fn on_configure(&mut self, _: usize) -> bool {
        let document = self.get_plugin_configuration().unwrap_or_default();
        match Settings::from_json(&document) {
            Ok(settings) => {
                self.settings = Some(Rc::new(settings));
                self.gateway = std::env::var(GATEWAY)
                    .ok()
                    .map(|upstream| Rc::new(Gateway { upstream, rooms: RefCell::default() }));
                true
            }
            // The host does not put this configuration into force, and stays with the one it has.
            Err(refused) => {
                let _ = hostcalls::log(LogLevel::Error, refused.code());
                false
            }
        }
    }

    /// Fetches the rooms that are asked for. A request cannot: its visitor may leave, and the host then drops what it
    /// fetches, while others wait for the same.
    fn on_tick(&mut self) {
        self.set_tick_period(Duration::ZERO);
        let Some(gateway) = &self.gateway else { return };
        let asked = gateway.rooms.borrow_mut().to_be_asked();
        for question in asked {
            let call =
                self.dispatch_http_call(&gateway.upstream, question.fields(), None, Vec::new(), PATIENCE);
            let mut rooms = gateway.rooms.borrow_mut();
            let without = match call {
                Ok(call) => {
                    rooms.asked(&question, call);
                    Vec::new()
                }
                Err(_) => rooms.gave_up(&question, now()),
            };
            drop(rooms);
            without.into_iter().for_each(serve);
        }
    }

    fn create_http_context(&self, context: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Visit::new(context, self.settings.clone(), self.gateway.clone())))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

/// Answers a request that waits for a room.
fn serve(fetched: Fetched) {
    // A request that is gone has no context any more.
    if hostcalls::set_effective_context(fetched.context).is_ok() {
        visit::answer_with_room(fetched.page.as_deref(), &fetched.room);
    }
}

/// The host's time. The ABI's own call: a host need not hand its clock on to WASI.
fn now() -> SystemTime {
    hostcalls::get_current_time().unwrap_or(SystemTime::UNIX_EPOCH)
}
