use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use ropeline_decision::header::{self, Field};
use ropeline_decision::{Authenticate, Policy, Request, Verdict, Wait, cookie, decide, presented, response};
use ropeline_token::json::Writer;
use ropeline_token::{AdmissionClaims, Authentic, KeySet, Refusal};

use crate::answer::{self, Answer, RETRY_AFTER_S};
use crate::settings::{PastExpiry, Settings, Upstream};

#[cfg(test)]
mod tests;

/// What an edge does with a request, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// What is to be done.
    pub act: Act<'a>,
    /// What was decided.
    pub kind: Kind,
    /// The sale that protects the path, where one does.
    pub sale: Option<&'a str>,
    /// Why the request waits or is rejected: the stable code of a refusal or a rejection.
    pub code: Option<&'static str>,
}

/// What was decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It goes on.
    Forward,
    /// Its visitor waits.
    Wait,
    /// It is malformed.
    Reject,
    /// It is a call to the gateway.
    Api,
}

impl Kind {
    /// As a word, for logs and for hosts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Wait => "wait",
            Self::Reject => "reject",
            Self::Api => "api",
        }
    }
}

/// What is to be done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act<'a> {
    /// Send it on, and what [`Forward::reply`] leaves of its answer back.
    Forward(Forward<'a>),
    /// Answer with the room.
    Room(Room),
    /// Answer with this.
    Answer(Answer),
}

/// A request that is sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward<'a> {
    /// To whom.
    pub to: Upstream,
    /// Path and query to ask for.
    pub target: Cow<'a, str>,
    /// Fields to set, names in lower case, once those that [`Self::removes`] names are gone.
    pub set: Vec<(&'static str, String)>,
    /// Whether the page of [`Room::unreachable`] stands in for an upstream that cannot be reached.
    pub room: bool,
}

impl Forward<'_> {
    /// Whether a field of the request must not reach the upstream. The gateway checks such fields itself.
    #[must_use]
    pub fn removes(&self, name: &str) -> bool {
        self.to == Upstream::Shop && header::is_barred(name)
    }

    /// What becomes of the answer.
    #[must_use]
    pub const fn reply(&self) -> Reply {
        match self.to {
            Upstream::Gateway => Reply::Gateways,
            Upstream::Shop if self.set.is_empty() => Reply::Shops,
            Upstream::Shop => Reply::Personal,
        }
    }
}

/// An upstream's answer, and what the shopper gets of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The gateway's: the shopper gets it as it is.
    Gateways,
    /// The shop's, without what it tells the queue.
    Shops,
    /// The shop's to somebody who was admitted: no shared cache may keep it either.
    Personal,
}

impl Reply {
    /// Whether a field of the answer must not reach the shopper.
    #[must_use]
    pub fn removes(self, name: &str) -> bool {
        self != Self::Gateways && response::is_removed(name, self == Self::Personal)
    }

    /// The field to set in place of all lines of that name, where the answer has these lines of `Cache-Control`.
    pub fn sets<'a>(self, lines: impl Iterator<Item = &'a [u8]>) -> Option<(&'static str, &'static str)> {
        (self == Self::Personal && !response::is_personal(lines))
            .then_some(("cache-control", response::PERSONAL))
    }
}

/// A room that stands in for a page.
///
/// The host fetches `path` from the gateway, through its cache and with no other fields than [`Self::ASKS`], and
/// answers with the body and those fields that [`Self::keeps`] names, under this status, with [`Self::SETS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The room's own address at the gateway.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
}

impl Room {
    /// The request's fields that choose among the room's forms.
    pub const ASKS: [&'static str; 2] = ["accept-encoding", "accept-language"];
    /// Fields of the answer: what stands under a protected address is true for one visitor at one instant.
    pub const SETS: [(&'static str, &'static str); 1] = [("cache-control", answer::NOT_TO_BE_KEPT)];

    /// Whether a field of the gateway's room belongs to the answer as well.
    #[must_use]
    pub fn keeps(name: &str) -> bool {
        const KEPT: [&str; 8] = [
            "content-type",
            "content-encoding",
            "content-language",
            "content-security-policy",
            "x-content-type-options",
            "x-frame-options",
            "referrer-policy",
            "vary",
        ];
        KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept))
    }

    /// When to ask again, in seconds, for the `Retry-After` of an answer that is no success.
    #[must_use]
    pub fn retry_after_s(&self) -> Option<u64> {
        (self.status >= 400).then_some(RETRY_AFTER_S)
    }

    /// The answer when the gateway gives no room: it is away, or answers with something else than 200.
    #[must_use]
    pub fn unreachable() -> Answer {
        answer::room_unreachable()
    }
}

/// The keys, unless they are too old to be relied on.
struct Keys<'a>(Option<&'a KeySet>);

impl Authenticate for Keys<'_> {
    type Admission = Authentic<AdmissionClaims>;

    fn admission(&self, token: &str) -> Result<Self::Admission, Refusal> {
        self.0.ok_or(Refusal::KeysOutdated)?.admission(token)
    }
}

impl Settings {
    /// What to do with a request at `now` (Unix seconds).
    #[must_use]
    pub fn plan<'a>(&'a self, request: &Request<'a>, now: u64) -> Plan<'a> {
        let (policy, keys) = match self.expiry {
            Some(expiry) if now >= expiry.at => match expiry.then {
                PastExpiry::Closed => (&self.policy, Keys(None)),
                PastExpiry::Open => (&self.open, Keys(Some(&self.keys))),
            },
            _ => (&self.policy, Keys(Some(&self.keys))),
        };
        match decide(request, policy, &keys, now) {
            Verdict::Forward(forward) => {
                let set = match (&forward.admission, self.upstream) {
                    (Some(admission), Upstream::Shop) => {
                        admission.headers().into_iter().map(|(name, value)| (name, value.into())).collect()
                    }
                    _ => Vec::new(),
                };
                Plan {
                    act: Act::Forward(Forward {
                        to: self.upstream,
                        target: forward.target,
                        set,
                        room: false,
                    }),
                    kind: Kind::Forward,
                    sale: forward.sale.map(|sale| sale.sale.as_str()),
                    code: None,
                }
            }
            Verdict::Wait(wait) => Plan {
                act: waits(request, policy, &wait),
                kind: Kind::Wait,
                sale: Some(wait.sale.sale.as_str()),
                code: Some(wait.refusal.code()),
            },
            Verdict::Reject(rejection) => Plan {
                act: Act::Answer(answer::not_acceptable(rejection)),
                kind: Kind::Reject,
                sale: None,
                code: Some(rejection.code()),
            },
            Verdict::Api(_) => Plan { act: as_sent(request, false), kind: Kind::Api, sale: None, code: None },
        }
    }
}

fn waits<'a>(request: &Request<'a>, policy: &Policy, wait: &Wait<'a>) -> Act<'a> {
    let prefix = policy.api_prefix.to_text();
    if !wait.page {
        let sale = wait.sale.sale.as_str();
        return Act::Answer(answer::must_wait(sale, wait.status(), wait.refusal, &prefix, RETRY_AFTER_S));
    }
    // The gateway alone can say where the holder of a ticket stands, let one in who was called, and tell where to go on
    // after a form that came too early. Without scripts there is no other way.
    let reads = matches!(request.method, "GET" | "HEAD");
    if !reads || holds_ticket(request.headers, wait.sale.sale.as_str(), policy.secure_cookies) {
        return as_sent(request, true);
    }
    Act::Room(Room { path: answer::room_path(&prefix, wait.sale.sale.as_str()), status: wait.status() })
}

fn holds_ticket(headers: &[Field<'_>], sale: &str, secure: bool) -> bool {
    !matches!(presented(headers, header::TICKET, &cookie::ticket(sale, secure)), Ok(None))
}

fn as_sent<'a>(request: &Request<'a>, room: bool) -> Act<'a> {
    Act::Forward(Forward {
        to: Upstream::Gateway,
        target: Cow::Borrowed(request.target),
        set: Vec::new(),
        room,
    })
}

impl Plan<'_> {
    /// The plan as JSON, for hosts that have no Rust: `act`, what goes with it, `kind`, `sale` and `code`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut writer = Writer::new();
        writer.begin_object();
        match &self.act {
            Act::Forward(forward) => {
                text(&mut writer, "act", "forward");
                text(&mut writer, "to", forward.to.as_str());
                text(&mut writer, "target", &forward.target);
                pairs(&mut writer, "set", &forward.set);
                writer.name("room");
                writer.boolean(forward.room);
            }
            Act::Room(room) => {
                text(&mut writer, "act", "room");
                text(&mut writer, "path", &room.path);
                writer.name("status");
                writer.integer(room.status.into());
            }
            Act::Answer(answer) => {
                text(&mut writer, "act", "answer");
                writer.name("status");
                writer.integer(answer.status.into());
                pairs(&mut writer, "headers", &answer.headers);
                text(&mut writer, "body", &answer.body);
            }
        }
        text(&mut writer, "kind", self.kind.as_str());
        for (name, value) in [("sale", self.sale), ("code", self.code)] {
            writer.name(name);
            match value {
                Some(value) => writer.text(value),
                None => writer.null(),
            }
        }
        writer.end_object();
        writer.finish()
    }
}

fn text(writer: &mut Writer, name: &str, value: &str) {
    writer.name(name);
    writer.text(value);
}

fn pairs(writer: &mut Writer, name: &str, pairs: &[(&'static str, String)]) {
    writer.name(name);
    writer.begin_array();
    for (name, value) in pairs {
        writer.begin_array();
        writer.text(name);
        writer.text(value);
        writer.end_array();
    }
    writer.end_array();
}
