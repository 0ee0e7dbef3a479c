//! An edge as a service of Fastly Compute.
//!
//! It has a config store `ropeline` with the settings, a backend `gateway`, and a backend `shop` where the settings say
//! `send_to: shop`.

use std::time::{SystemTime, UNIX_EPOCH};

use fastly::http::{Method, StatusCode, Url};
use fastly::{Request, Response};
use ropeline_edge::{Act, Answer, Field, Kind, Room, Settings, Upstream};

use crate::onward::Onward;

mod onward;
mod store;

const GATEWAY: &str = "gateway";
const SHOP: &str = "shop";

#[fastly::main]
fn main(request: Request) -> Result<Response, fastly::Error> {
    let head_only = request.get_method() == Method::HEAD;
    let next = match store::settings() {
        Ok(settings) => decide(&settings, &request),
        Err(reason) => {
            eprintln!("ropeline: nobody passes: {reason}");
            Next::Here(Room::unreachable())
        }
    };
    let mut response = match next {
        Next::Onward(onward) => return Ok(onward.send(request)),
        Next::Here(answer) => here(answer),
        Next::Room(room) => in_place(&room, &request),
    };
    if head_only {
        response.take_body();
    }
    Ok(response)
}

/// What is done with a request, free of what a plan borrows from it.
enum Next {
    Here(Answer),
    Room(Room),
    Onward(Onward),
}

fn decide(settings: &Settings, request: &Request) -> Next {
    let fields: Vec<Field<'_>> =
        request.get_headers().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let mut hosts = request.get_header_all("host");
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        // Two might each be believed by somebody.
        _ => "",
    };
    let parts = ropeline_edge::Request {
        method: request.get_method_str(),
        host,
        target: target(request.get_url()),
        headers: &fields,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let plan = settings.plan(&parts, now);
    match plan.act {
        Act::Answer(answer) => Next::Here(answer),
        Act::Room(room) => Next::Room(room),
        Act::Forward(forward) => {
            let shared = plan.kind == Kind::Api && is_for_everyone(settings, &forward.target);
            Next::Onward(Onward {
                backend: match forward.to {
                    Upstream::Gateway => GATEWAY,
                    Upstream::Shop => SHOP,
                },
                removed: request
                    .get_header_names()
                    .filter(|name| forward.removes(name.as_str()))
                    .cloned()
                    .collect(),
                reply: forward.reply(),
                target: forward.target.into_owned(),
                set: forward.set,
                room: forward.room,
                shared,
            })
        }
    }
}

/// Path and query, which is all that stands after the authority. The SDK has resolved dot segments by now; this is also
/// what is sent on.
fn target(url: &Url) -> &str {
    let text = url.as_str();
    let path = text.match_indices('/').nth(2).map_or("", |(start, _)| text.split_at(start).1);
    path.split_once('#').map_or(path, |(target, _)| target)
}

/// Whether a call's answer is the same for everyone, so that the cache may keep it as long as the gateway says there. Only
/// what is spelt in the one way that the gateway writes it: of what could be read otherwise the cache hears nothing.
fn is_for_everyone(settings: &Settings, target: &str) -> bool {
    let prefix = settings.policy().api_prefix.to_text();
    let Some(rest) = target.strip_prefix(prefix.trim_start_matches('=')) else { return false };
    let plain = |part: &str| {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(safe)
    };
    match rest.split('/').collect::<Vec<_>>()[..] {
        ["", "sales", sale, "room" | "snapshot" | "draw"] => plain(sale),
        ["", "assets", name] => plain(name),
        _ => false,
    }
}

fn here(answer: Answer) -> Response {
    let mut response = Response::from_status(status(answer.status)).with_body(answer.body);
    for (name, value) in answer.headers {
        response.set_header(name, value);
    }
    response
}

/// The room under the address that was asked for. Only the room's own address is ever in the cache.
fn in_place(room: &Room, request: &Request) -> Response {
    let mut url = request.get_url().clone();
    url.set_path(&room.path);
    url.set_query(None);
    let mut fetch = Request::new(Method::GET, url);
    for name in Room::ASKS {
        for value in request.get_header_all(name) {
            fetch.append_header(name, value);
        }
    }
    let mut response = match fetch.send(GATEWAY) {
        Ok(response) if response.get_status() == StatusCode::OK => response,
        _ => return here(Room::unreachable()),
    };
    let dropped: Vec<_> =
        response.get_header_names().filter(|name| !Room::keeps(name.as_str())).cloned().collect();
    for name in dropped {
        response.remove_header(name);
    }
    for (name, value) in Room::SETS {
        response.set_header(name, value);
    }
    if let Some(seconds) = room.retry_after_s() {
        response.set_header("retry-after", seconds.to_string());
    }
    response.set_status(status(room.status));
    response
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
}
