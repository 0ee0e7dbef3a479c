//! An edge as a component of the world `wasi:http/proxy`.
//!
//! Hosts make a new instance for each request, or for a few. What the edge must know is in its environment; see
//! [`environment`].

#![no_std]

extern crate alloc;

use alloc::vec::Vec;

use ropeline_edge::{Act, Field, Kind, Request, Room, Upstream};
use spin::Mutex;
use wasip2::clocks::wall_clock;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, Method, ResponseOutparam};

use crate::client::Client;
use crate::environment::Environment;
use crate::exchange::{Answers, Body};
use crate::settings::Known;

mod client;
mod environment;
mod exchange;
mod head;
mod runtime;
mod settings;

wasip2::http::proxy::export!(Edge);

struct Edge;

static KNOWN: Mutex<Known> = Mutex::new(Known::nothing());

impl Guest for Edge {
    fn handle(request: IncomingRequest, response: ResponseOutparam) {
        let method = request.method();
        let client = Client::new(response, &method);
        let Some(environment) = environment::read() else { return client.answer(&Room::unreachable()) };
        // No other request comes to this instance before this one is answered.
        let mut known = KNOWN.lock();
        let Some(settings) = known.current(&environment.settings) else {
            return client.answer(&Room::unreachable());
        };
        let target = request.path_with_query().unwrap_or_default();
        let host = request.authority().unwrap_or_default();
        let entries = request.headers().entries();
        let fields: Vec<Field<'_>> =
            entries.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let parts =
            Request { method: head::method_name(&method), host: &host, target: &target, headers: &fields };
        let plan = settings.plan(&parts, wall_clock::now().seconds);
        let answers = if plan.kind == Kind::Forward { Answers::Shop } else { Answers::Gateway };
        match plan.act {
            Act::Answer(answer) => client.answer(&answer),
            Act::Room(room) => serve_room(environment, &room, &fields, client),
            Act::Forward(forward) => {
                let upstream = match forward.to {
                    Upstream::Gateway => Some(&environment.gateway),
                    Upstream::Shop => environment.shop.as_ref(),
                };
                let Some(upstream) = upstream else { return client.answer(&Room::unreachable()) };
                let body = match request.consume().ok().map_or(Ok(None), Body::begun) {
                    Ok(body) => body,
                    Err(status) => return client.refuse(status),
                };
                let client_address = environment.client_address.as_deref();
                let head = head::onward(&forward, &host, &fields, body.is_some(), client_address);
                match exchange::send(upstream, &method, &forward.target, head, body, answers) {
                    Ok(answered) => client.relay(forward.reply(), answered),
                    Err(_) if forward.room => client.answer(&Room::unreachable()),
                    Err(error) => client.fail(&error),
                }
            }
        }
    }
}

/// These hosts have no cache: each room is fetched.
fn serve_room(environment: &Environment, room: &Room, fields: &[Field<'_>], client: Client) {
    let asks = Fields::new();
    for (name, value) in fields {
        if Room::ASKS.contains(name) {
            head::append(&asks, name, value);
        }
    }
    match exchange::send(&environment.gateway, &Method::Get, &room.path, asks, None, Answers::Gateway) {
        Ok(answered) if answered.response.status() == 200 => client.room(room, answered),
        _ => client.answer(&Room::unreachable()),
    }
}
