//! Requests that are sent on.

use fastly::http::request::SendErrorCause;
use fastly::http::{HeaderName, HeaderValue, Method, StatusCode};
use fastly::{Request, Response};
use ropeline_edge::{Reply, Room};

/// Fields that belong to one connection and not to the message (RFC 9110 §7.6.1). The host sets its own.
const OF_THE_CONNECTION: [&str; 8] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What becomes of a request that is sent on.
pub(crate) struct Onward {
    pub(crate) backend: &'static str,
    /// Path and query.
    pub(crate) target: String,
    /// Fields that must not reach the backend as they came.
    pub(crate) removed: Vec<HeaderName>,
    pub(crate) set: Vec<(&'static str, String)>,
    /// Whether a page stands in for a backend that cannot be reached.
    pub(crate) room: bool,
    /// Whether the answer is the same for everyone.
    pub(crate) shared: bool,
    /// What becomes of the answer.
    pub(crate) reply: Reply,
}

impl Onward {
    /// Sends the request and answers with what comes back. Bodies flow through the host, not through here.
    pub(crate) fn send(self, mut request: Request) -> Response {
        let (path, query) = match self.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.target.as_str(), None),
        };
        let mut url = request.get_url().clone();
        url.set_path(path);
        url.set_query(query);
        request.set_url(url);
        for name in self.removed {
            request.remove_header(name);
        }
        for name in OF_THE_CONNECTION {
            request.remove_header(name);
        }
        for (name, value) in self.set {
            request.set_header(name, value);
        }
        // What a client says of itself is not believed, nor handed on.
        match request.get_header("host").cloned() {
            Some(host) => request.set_header("x-forwarded-host", host),
            None => drop(request.remove_header("x-forwarded-host")),
        }
        let scheme = request.get_url().scheme().to_owned();
        request.set_header("x-forwarded-proto", scheme);
        match request.get_client_ip_addr() {
            Some(address) => request.set_header("x-forwarded-for", address.to_string()),
            None => drop(request.remove_header("x-forwarded-for")),
        }
        // What is not for everyone must neither come from the cache nor go there.
        let shared = self.shared && matches!(*request.get_method(), Method::GET | Method::HEAD);
        if shared {
            // Nor must what is for everyone be asked for by somebody.
            let personal: Vec<_> =
                request.get_header_names().filter(|name| is_personal(name)).cloned().collect();
            for name in personal {
                request.remove_header(name);
            }
        }
        request.set_pass(!shared);
        match request.send(self.backend) {
            Ok(mut response) => {
                for name in OF_THE_CONNECTION {
                    response.remove_header(name);
                }
                mend(&mut response, self.reply);
                response
            }
            Err(_) if self.room => crate::here(Room::unreachable()),
            Err(error) => {
                eprintln!("ropeline: backend {}: {}", self.backend, error.root_cause());
                unreachable(error.root_cause())
            }
        }
    }
}

fn mend(response: &mut Response, reply: Reply) {
    let removed: Vec<_> =
        response.get_header_names().filter(|name| reply.removes(name.as_str())).cloned().collect();
    for name in removed {
        response.remove_header(name);
    }
    if let Some((name, value)) =
        reply.sets(response.get_header_all("cache-control").map(HeaderValue::as_bytes))
    {
        response.set_header(name, value);
    }
}

/// Whether a field says who asks.
fn is_personal(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "cookie" | "authorization") || name.starts_with("ropeline-")
}

fn unreachable(cause: &SendErrorCause) -> Response {
    let late = matches!(
        cause,
        SendErrorCause::ConnectionTimeout | SendErrorCause::DnsTimeout | SendErrorCause::HttpResponseTimeout
    );
    let status = if late { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
    Response::from_status(status).with_header("cache-control", "no-store")
}
