//! The first phase: who asks, what for, and whether the request goes forward.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use ropeline_decision::{Authenticate, Rejection, Request, Verdict, Wait};
use ropeline_queue::Arrival;
use ropeline_token::{AdmissionClaims, Authentic, Refusal};

use crate::answer::Answer;
use crate::gateway::Gateway;
use crate::identity::Field;
use crate::phases::context::{Admitted, Context};
use crate::phases::failure;
use crate::phases::head::{self, Malformed};
use crate::problem::Problem;
use crate::shopper;
use crate::verified::Verified;

impl Authenticate for Verified {
    type Admission = Arc<Authentic<AdmissionClaims>>;

    fn admission(&self, token: &str) -> Result<Self::Admission, Refusal> {
        Self::admission(self, token)
    }
}

/// What becomes of a request.
enum Next {
    Forward,
    Api(String),
    Room { sale: String, page: bool, status: u16, refusal: Refusal },
    Answer(Answer),
}

/// Decides on the request; `true` when it was answered here.
pub(super) async fn filter(
    gateway: &Gateway,
    session: &mut Session,
    context: &mut Context,
) -> pingora::Result<bool> {
    let peer = session.client_addr().and_then(|address| address.as_inet()).map(std::net::SocketAddr::ip);
    context.client = peer.map(|peer| client(gateway, session.req_header(), peer));
    let downstream = session.as_downstream_mut();
    downstream.set_read_timeout(Some(gateway.limits.request_timeout));
    downstream.set_write_timeout(Some(gateway.limits.request_timeout));
    if downstream.get_keepalive().is_some() {
        downstream.set_keepalive(Some(gateway.limits.keepalive.as_secs().max(1)));
    }

    let malformed = session
        .as_downstream()
        .as_http1()
        .and_then(|http1| head::check(&http1.get_headers_raw_bytes()).err());
    let next = match malformed {
        Some(fault) => {
            // Where this request ends is in doubt, so nothing after it can be read.
            session.as_downstream_mut().set_keepalive(None);
            context.verdict = "reject";
            Next::Answer(request_malformed(fault).answer())
        }
        None => decide(gateway, session.req_header(), context),
    };
    let answer = match next {
        Next::Forward => return Ok(false),
        Next::Answer(answer) => answer,
        Next::Api(path) => {
            context.verdict = "api";
            shopper::answer(gateway, session, &path).await
        }
        Next::Room { sale, page, status, refusal } => {
            context.verdict = "wait";
            if page {
                shopper::room_in_place(gateway, session.req_header(), &sale, status).await
            } else {
                shopper::must_wait(gateway, &sale, status, refusal)
            }
        }
    };
    answer.send(session).await?;
    Ok(true)
}

/// The header fields of a request, in the order received.
#[must_use]
pub fn fields(request: &RequestHeader) -> Vec<Field<'_>> {
    request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

fn client(gateway: &Gateway, request: &RequestHeader, peer: IpAddr) -> IpAddr {
    let lines: Vec<&[u8]> =
        request.headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes).collect();
    gateway.trusted.client(peer, lines.into_iter())
}

fn request_malformed(fault: Malformed) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "request_malformed",
        "The request is malformed",
        format!("Send a request as RFC 9112 says: {fault}."),
    )
}

fn decide(gateway: &Gateway, head: &RequestHeader, context: &mut Context) -> Next {
    if head_bytes(head) > gateway.limits.header_bytes {
        context.verdict = "reject";
        return Next::Answer(
            Problem::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "head_too_large",
                "The request head is too large",
                format!("Send at most {} bytes of request line and headers.", gateway.limits.header_bytes),
            )
            .answer(),
        );
    }
    if head.method == Method::TRACE {
        // It would have the shop echo cookies and tokens, those that scripts may not read among them.
        context.verdict = "reject";
        return Next::Answer(
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_refused",
                "The method is not allowed",
                "TRACE is not passed on.",
            )
            .answer(),
        );
    }
    let (Some(host), Ok(target)) = (host(head), std::str::from_utf8(head.raw_path())) else {
        return reject(context, Rejection::HostInvalid);
    };
    let fields = fields(head);
    let request = Request { method: head.method.as_str(), host, target, headers: &fields };
    let policy = gateway.sales.policy();
    match ropeline_decision::decide(&request, &policy, &gateway.verified, gateway.now_s()) {
        Verdict::Api(path) => Next::Api(path.into_owned()),
        Verdict::Reject(rejection) => reject(context, rejection),
        Verdict::Wait(wait) => room(&wait, wait.refusal),
        Verdict::Forward(forward) => {
            if let (Some(admission), Some(sale)) = (&forward.admission, forward.sale) {
                // A pass that was handed on is worth nothing without the visitor it was issued to.
                let claims = admission.claims();
                let bound = gateway
                    .identifier
                    .known(&fields)
                    .is_ok_and(|visitor| visitor.subject == claims.claims.sub);
                let arrival = Arrival(claims.claims.arrival);
                let live = gateway.sales.get(sale.sale.as_str());
                let left = live.as_ref().is_some_and(|live| live.has_left(arrival));
                if left || !bound {
                    let wait = Wait {
                        sale,
                        refusal: Refusal::Missing,
                        page: ropeline_decision::is_navigation(&fields),
                    };
                    return room(&wait, Refusal::Missing);
                }
                context.admitted = live.map(|sale| Admitted { sale, arrival });
                context.headers =
                    admission.headers().into_iter().map(|(name, value)| (name, value.to_owned())).collect();
                context.verdict = "admitted";
            } else {
                context.verdict = "open";
            }
            context.target = match forward.target {
                std::borrow::Cow::Borrowed(_) => None,
                std::borrow::Cow::Owned(target) => Some(target),
            };
            if declared_length(head) > gateway.upstream_settings.max_request_body {
                context.verdict = "reject";
                return Next::Answer(failure::body_too_large().answer());
            }
            Next::Forward
        }
    }
}

fn room(wait: &Wait<'_>, refusal: Refusal) -> Next {
    Next::Room { sale: wait.sale.sale.as_str().to_owned(), page: wait.page, status: wait.status(), refusal }
}

fn reject(context: &mut Context, rejection: Rejection) -> Next {
    context.verdict = "reject";
    Next::Answer(ropeline_edge::not_acceptable(rejection).into())
}

/// The one host a request names. Two that differ are refused: gate and shop might each believe another one.
fn host(head: &RequestHeader) -> Option<&str> {
    let mut lines = head.headers.get_all(header::HOST).iter();
    let line = lines.next();
    if lines.next().is_some() {
        return None;
    }
    let line = line.map(|value| value.to_str()).transpose().ok()?;
    match (head.uri.authority().map(http::uri::Authority::as_str), line) {
        (Some(authority), Some(line)) => authority.eq_ignore_ascii_case(line).then_some(line),
        (Some(authority), None) => Some(authority),
        (None, line) => line,
    }
}

/// What a body says of its own length; nothing where it comes in chunks.
fn declared_length(head: &RequestHeader) -> u64 {
    let value = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    value.and_then(|length| length.parse().ok()).unwrap_or(0)
}

fn head_bytes(head: &RequestHeader) -> usize {
    head.headers.iter().fold(head.method.as_str().len() + head.raw_path().len(), |sum, (name, value)| {
        sum + name.as_str().len() + value.len() + 4
    })
}
