//! The first phase: who asks, what for, and whether the request goes forward.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, Version, header};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use ropeline_decision::{Authenticate, Gate, Policy, Rejection, Request, Verdict, Wait, header as ours};
use ropeline_queue::Arrival;
use ropeline_token::{AdmissionClaims, Authentic, Refusal};

use crate::answer::Answer;
use crate::downstream;
use crate::framing::Malformed;
use crate::gateway::Gateway;
use crate::identity::Field;
use crate::phases::context::{Admitted, Context};
use crate::phases::{failure, forwarded_host, upstream_request};
use crate::problem::Problem;
use crate::sales::LiveSale;
use crate::shopper::{self, Entry, Pass};
use crate::verified::Verified;

impl Authenticate for Verified {
    type Admission = Arc<Authentic<AdmissionClaims>>;

    fn admission(&self, token: &str) -> Result<Self::Admission, Refusal> {
        Self::admission(self, token)
    }
}

/// What becomes of a request.
pub(crate) enum Next {
    /// It goes to the shop, as the context says.
    Forward,
    /// It is a call of the queue's own, at this path.
    Api(String),
    /// Its visitor waits.
    Room {
        /// For which sale.
        sale: String,
        /// Whether the room itself is the answer.
        page: bool,
        /// The status of the answer.
        status: u16,
        /// Why.
        refusal: Refusal,
    },
    /// It is refused with this.
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
        // Who is told to close while connections are still taken comes back without a loss, and to another gateway. What
        // is sent as an idle connection is closed at the end is lost.
        let keepalive = gateway.limits.keepalive.as_secs().max(1);
        downstream.set_keepalive((!gateway.stopping.is_set()).then_some(keepalive));
    }

    let next = match downstream::fault(session) {
        Some(fault) => {
            // Where this request ends is in doubt, so nothing after it can be read.
            session.as_downstream_mut().set_keepalive(None);
            context.verdict = "reject";
            Next::Answer(malformed(fault, gateway.limits.header_bytes).answer())
        }
        None => {
            let believed =
                gateway.trust_forwarded_host && peer.is_some_and(|peer| gateway.trusted.contains(peer));
            let scheme = upstream_request::scheme(gateway, session);
            if let Some(target) = origin_form(session.req_header(), scheme) {
                session.req_header_mut().set_raw_path(target.as_bytes())?;
            }
            if believed && forwarded_host::apply(session.req_header_mut()).is_err() {
                reject(context, Rejection::HostInvalid)
            } else {
                decide(gateway, session.req_header(), context)
            }
        }
    };
    let answer = match next {
        Next::Forward => return Ok(false),
        Next::Answer(answer) => answer,
        Next::Api(path) => {
            context.verdict = "api";
            shopper::answer(gateway, session, context.client, &path).await
        }
        Next::Room { sale, page, status, refusal } => {
            let head = session.req_header();
            let entry = match gateway.sales.get(&sale) {
                Some(live) if live.is_away() => match shopper::let_in_unqueued(gateway, head, &live, page) {
                    Some(pass) => Err(pass_on(gateway, head, live, pass, context)),
                    None => Ok(Vec::new()),
                },
                Some(live) => {
                    let client = context.client;
                    match shopper::straight_through(gateway, head, client, &live, page).await {
                        Entry::Through(pass) => Err(pass_on(gateway, head, live, pass, context)),
                        Entry::Waits(cookies) => Ok(cookies),
                        Entry::Outside => Ok(Vec::new()),
                    }
                }
                None => Ok(Vec::new()),
            };
            match entry {
                Ok(cookies) => {
                    context.verdict = "wait";
                    context.cookies = cookies;
                    if page {
                        shopper::room_in_place(gateway, head, &sale, status).await
                    } else {
                        shopper::must_wait(gateway, &sale, status, refusal)
                    }
                }
                Err(Next::Answer(answer)) => answer,
                Err(_) => return Ok(false),
            }
        }
    };
    let answer = context.cookies.drain(..).fold(answer, Answer::cookie);
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

/// What to tell a client that sent such a request.
pub(super) fn malformed(fault: Malformed, head_limit: usize) -> Problem {
    match fault {
        Malformed::HeadTooLong => Problem::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "head_too_large",
            "The request head is too large",
            format!("Send at most {head_limit} bytes of request line and headers."),
        ),
        _ => Problem::new(
            StatusCode::BAD_REQUEST,
            "request_malformed",
            "The request is malformed",
            format!("Send a request as RFC 9112 says: {fault}."),
        ),
    }
}

/// Decides on a request whose host is the shopper's, and notes in `context` what goes to the shop with it.
pub(crate) fn decide(gateway: &Gateway, head: &RequestHeader, context: &mut Context) -> Next {
    let head_limit = gateway.limits.header_bytes;
    if head_bytes(head) > head_limit {
        context.verdict = "reject";
        return Next::Answer(malformed(Malformed::HeadTooLong, head_limit).answer());
    }
    let (Some(host), Ok(target)) = (host(head), std::str::from_utf8(head.raw_path())) else {
        return reject(context, Rejection::HostInvalid);
    };
    let fields = fields(head);
    let request = Request { method: head.method.as_str(), host, target, headers: &fields };
    let now = gateway.now_s();
    let Ok(plan) = gateway.decider.plan(&request, now) else { return no_verdict(context) };
    let policy = gateway.sales.policy();
    let verdict = gateway.decider.decide(plan.as_deref(), &request, &policy, &gateway.verified, now);
    let Ok(verdict) = verdict else { return no_verdict(context) };
    match verdict {
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
            } else if gateway.sales.are_complete() {
                context.verdict = "open";
            } else {
                // Nobody knows yet whether another sale protects this.
                return no_verdict(context);
            }
            forward_to(gateway, head, forward.target, context)
        }
    }
}

/// Sends a request on to the shop that nothing but its size speaks against.
fn forward_to(gateway: &Gateway, head: &RequestHeader, target: Cow<'_, str>, context: &mut Context) -> Next {
    context.target = match target {
        Cow::Borrowed(_) => None,
        Cow::Owned(target) => Some(target),
    };
    if declared_length(head) > gateway.upstream_settings.max_request_body {
        context.verdict = "reject";
        return Next::Answer(failure::body_too_large().answer());
    }
    Next::Forward
}

/// What becomes of a request whose sender need not wait.
fn pass_on(
    gateway: &Gateway,
    head: &RequestHeader,
    sale: Arc<LiveSale>,
    pass: Pass,
    context: &mut Context,
) -> Next {
    let Pass { subject, arrival, token, cookies } = pass;
    let mut policy = Policy::clone(&gateway.sales.policy());
    let own = policy.sales.iter_mut().find(|policy| policy.sale.as_str() == sale.id.as_str());
    if let Some(own) = own {
        own.gate = Gate::Open;
    }
    let (Some(host), Ok(target)) = (host(head), std::str::from_utf8(head.raw_path())) else {
        return reject(context, Rejection::HostInvalid);
    };
    let fields = fields(head);
    let request = Request { method: head.method.as_str(), host, target, headers: &fields };
    let verdict = ropeline_decision::decide(&request, &policy, &gateway.verified, gateway.now_s());
    // Only a policy that has just changed says anything else.
    let Verdict::Forward(forward) = verdict else { return no_verdict(context) };
    context.headers =
        vec![(ours::ADMISSION, token), (ours::SALE, sale.id.to_string()), (ours::VISITOR, subject)];
    context.admitted = Some(Admitted { sale, arrival });
    context.cookies = cookies;
    context.verdict = "admitted";
    forward_to(gateway, head, forward.target, context)
}

fn room(wait: &Wait<'_>, refusal: Refusal) -> Next {
    Next::Room { sale: wait.sale.sale.as_str().to_owned(), page: wait.page, status: wait.status(), refusal }
}

/// Nobody passes whom nobody has decided on.
fn no_verdict(context: &mut Context) -> Next {
    context.verdict = "failed";
    Next::Answer(ropeline_edge::Room::unreachable().into())
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

/// The path and query of a target in absolute form (RFC 9112, section 3.2.2) that names this very server as the client
/// reached it. Any other is no path, and refused as such: the gateway is no forward proxy.
fn origin_form(head: &RequestHeader, scheme: &str) -> Option<String> {
    let target = std::str::from_utf8(head.raw_path()).ok()?;
    if target.starts_with('/') || head.version > Version::HTTP_11 {
        return None;
    }
    let (named, rest) = target.split_once("://")?;
    let line = head.headers.get(header::HOST)?.to_str().ok()?;
    let rest = rest.strip_prefix(line)?;
    if !named.eq_ignore_ascii_case(scheme) {
        return None;
    }
    match rest.as_bytes().first() {
        Some(b'/') => Some(rest.to_owned()),
        Some(b'?') => Some(format!("/{rest}")),
        // For OPTIONS it would be the asterisk (section 3.2.4).
        None if head.method != Method::OPTIONS => Some("/".to_owned()),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: &str, target: &str, version: Version) -> RequestHeader {
        let mut head = RequestHeader::build(method, target.as_bytes(), None).unwrap();
        head.set_version(version);
        head.insert_header(header::HOST, "shop.example:80").unwrap();
        head
    }

    #[test]
    fn an_absolute_target_is_a_path_of_this_server_or_none() {
        for (target, path) in [
            ("http://shop.example:80/a/../b?c", Some("/a/../b?c")),
            ("HTTP://shop.example:80/a", Some("/a")),
            ("http://shop.example:80", Some("/")),
            ("http://shop.example:80?a", Some("/?a")),
            ("http://shop.example:80//a", Some("//a")),
            ("http://shop.example/a", None),
            ("http://shop.example:8080/a", None),
            ("http://shop.example:80.other.example/a", None),
            ("http://shop.example:80@other.example/a", None),
            ("http://user@shop.example:80/a", None),
            ("http://other.example/a", None),
            ("https://shop.example:80/a", None),
            ("ftp://shop.example:80/a", None),
            ("/http://shop.example:80/a", None),
            ("*", None),
        ] {
            let head = head("GET", target, Version::HTTP_11);
            assert_eq!(origin_form(&head, "http").as_deref(), path, "{target}");
        }
        let options = head("OPTIONS", "http://shop.example:80", Version::HTTP_11);
        assert_eq!(origin_form(&options, "http"), None);
        let mut hostless = head("GET", "http://shop.example:80/", Version::HTTP_11);
        hostless.remove_header(&header::HOST);
        assert_eq!(origin_form(&hostless, "http"), None);
        assert_eq!(origin_form(&head("GET", "http://shop.example:80/", Version::HTTP_2), "http"), None);
    }
}
