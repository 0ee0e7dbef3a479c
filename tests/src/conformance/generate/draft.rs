//! A request in the making, and what is expected of it.

use serde_json::json;

use super::settings::{Sale, Setting};
use crate::conformance::vectors::{Act, Case, Expect, FieldValue, Jose};

/// What a browser says it would like when it navigates.
pub(super) const PAGE: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// The field of an admission token.
pub(super) const ADMISSION: &str = "ropeline-admission";

/// A request in the making.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    settings: &'static Setting,
    name: String,
    now: Option<u64>,
    method: String,
    host: String,
    target: String,
    headers: Vec<(String, FieldValue)>,
    /// Whether a browser navigates. Whoever makes the request knows.
    navigates: bool,
    /// Whether it bears a ticket of the sale.
    ticket: bool,
    jose: Option<Jose>,
}

impl Draft {
    pub(super) fn new(settings: &'static Setting, name: impl Into<String>, target: &str) -> Self {
        Self {
            settings,
            name: name.into(),
            now: None,
            method: "GET".to_owned(),
            host: "shop.example".to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            navigates: false,
            ticket: false,
            jose: None,
        }
    }

    // === How it is made ===

    /// At this very second.
    pub(super) fn at(self, now: u64) -> Self {
        Self { now: Some(now), ..self }
    }

    pub(super) fn method(self, method: &str) -> Self {
        Self { method: method.to_owned(), ..self }
    }

    pub(super) fn host(self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self }
    }

    pub(super) fn field(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), FieldValue::new(value)));
        self
    }

    /// By a browser that navigates.
    pub(super) fn page(self) -> Self {
        self.field("accept", PAGE).navigating(true)
    }

    /// Whether what was said so far is a navigation.
    pub(super) fn navigating(self, navigates: bool) -> Self {
        Self { navigates, ..self }
    }

    /// With a ticket of the sale, however it is presented.
    pub(super) fn holding_ticket(self) -> Self {
        Self { ticket: true, ..self }
    }

    /// With a token in a field of its own.
    pub(super) fn token(self, token: impl Into<Vec<u8>>) -> Self {
        self.field(ADMISSION, token)
    }

    /// With a token in the cookie of a sale.
    pub(super) fn cookie(self, sale: &Sale, token: &str) -> Self {
        let cookie = format!("{}={token}", self.cookie_name(sale));
        self.field("cookie", cookie)
    }

    /// The name of the cookie for the admission to a sale.
    pub(super) fn cookie_name(&self, sale: &Sale) -> String {
        format!("{}ropeline-admission-{}", if self.settings.secure { "__Host-" } else { "" }, sale.name)
    }

    /// JOSE says the same of the token as Ropeline.
    pub(super) fn jose(self, sale: &Sale, accepts: bool) -> Self {
        Self { jose: Some(Jose { sale: sale.name.to_owned(), accepts, stricter: None }), ..self }
    }

    /// JOSE takes the token that Ropeline refuses.
    pub(super) fn stricter(self, sale: &Sale, reason: &str) -> Self {
        let jose = Jose { sale: sale.name.to_owned(), accepts: true, stricter: Some(reason.to_owned()) };
        Self { jose: Some(jose), ..self }
    }

    // === What comes of it ===

    /// It goes on as what no sale holds back; `target` is what the upstream is asked for.
    pub(super) fn passes(self, sale: Option<&Sale>, target: &str) -> Case {
        let act = Act::Forward {
            to: self.settings.to.to_owned(),
            target: target.to_owned(),
            set: Vec::new(),
            room: false,
        };
        self.case(act, "forward", sale, None)
    }

    /// Its visitor is admitted with this token.
    pub(super) fn admitted(self, sale: &Sale, target: &str, token: &str) -> Case {
        self.admitted_as("visitor-1", sale, target, token)
    }

    /// Its visitor, who is called `sub`, is admitted with this token.
    pub(super) fn admitted_as(self, sub: &str, sale: &Sale, target: &str, token: &str) -> Case {
        let set = [(ADMISSION, token), ("ropeline-sale", sale.name), ("ropeline-visitor", sub)];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        // The gateway checks again, and knows more.
        let set = if self.settings.to == "shop" { set.to_vec() } else { Vec::new() };
        let act =
            Act::Forward { to: self.settings.to.to_owned(), target: target.to_owned(), set, room: false };
        self.case(act, "forward", Some(sale), None)
    }

    /// Its visitor waits.
    pub(super) fn waits(self, sale: &Sale, code: &str) -> Case {
        let room = format!("{}/sales/{}/room", self.settings.api_prefix, sale.name);
        let act = if !self.navigates {
            problem_of_waiting(sale, code, &room)
        } else if self.ticket || !matches!(self.method.as_str(), "GET" | "HEAD") {
            Act::Forward {
                to: "gateway".to_owned(),
                target: self.target.clone(),
                set: Vec::new(),
                room: true,
            }
        } else {
            Act::Room { path: room, status: sale.page }
        };
        self.case(act, "wait", Some(sale), Some(code))
    }

    /// It is malformed.
    pub(super) fn rejected(self, code: &str) -> Case {
        let detail = match code {
            "method_refused" => "the method is not allowed.",
            "host_invalid" => "the host is not valid.",
            "target_invalid" => "the target is not valid.",
            "path_ambiguous" => "the path can be read in more than one way.",
            other => panic!("no rejection {other}"),
        };
        let status = if code == "method_refused" { 405 } else { 400 };
        let body = format!(
            r#"{{"type":"urn:ropeline:problem:{code}","title":"The request is not acceptable","status":{status},"detail":"{detail}","code":"{code}"}}"#
        );
        let mut all = vec![("content-type", "application/problem+json")];
        if status == 405 {
            all.push(("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
        }
        all.extend([("cache-control", "private, no-store"), ("x-content-type-options", "nosniff")]);
        self.case(Act::Answer { status, headers: headers(&all), body }, "reject", None, Some(code))
    }

    /// It is a call to the gateway.
    pub(super) fn calls_the_gateway(self) -> Case {
        let act = Act::Forward {
            to: "gateway".to_owned(),
            target: self.target.clone(),
            set: Vec::new(),
            room: false,
        };
        self.case(act, "api", None, None)
    }

    fn case(self, act: Act, kind: &str, sale: Option<&Sale>, code: Option<&str>) -> Case {
        let to_shop = matches!(&act, Act::Forward { to, .. } if to == "shop");
        let mut gone: Vec<_> = self.headers.iter().map(|(name, _)| name.clone()).collect();
        gone.retain(|name| to_shop && is_forged(name));
        gone.dedup();
        let expect = Expect {
            act,
            kind: kind.to_owned(),
            sale: sale.map(|sale| sale.name.to_owned()),
            code: code.map(str::to_owned),
            gone,
        };
        Case {
            name: self.name,
            settings: self.settings.name.to_owned(),
            now: self.now,
            method: self.method,
            host: self.host,
            target: self.target,
            headers: self.headers,
            expect,
            jose: self.jose,
        }
    }
}

/// Whether it is ours, or the edge's, to say this to a shop.
fn is_forged(name: &str) -> bool {
    const WHOSE: [&str; 23] = [
        "client-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-real-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
        "forwarded",
        "forwarded-for",
        "x-forwarded",
        "x-host",
        "x-envoy-original-path",
        "x-original-for",
        "x-original-forwarded-for",
        "x-original-host",
        "x-original-method",
        "x-original-uri",
        "x-original-url",
        "x-rewrite-url",
        "x-url-scheme",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    ];
    let name = name.to_ascii_lowercase().replace('_', "-");
    name.starts_with("ropeline-") || name.starts_with("x-forwarded-") || WHOSE.contains(&name.as_str())
}

fn problem_of_waiting(sale: &Sale, code: &str, room: &str) -> Act {
    let (name, status) = (sale.name, sale.other);
    let code = if code == "token_missing" { "admission_missing" } else { code };
    let mut all = vec![("content-type", "application/problem+json"), ("retry-after", "5")];
    if status == 401 {
        all.push(("www-authenticate", r#"Ropeline realm="sale""#));
    }
    all.extend([("cache-control", "private, no-store"), ("x-content-type-options", "nosniff")]);
    let body = json!({
        "type": format!("urn:ropeline:problem:{code}"),
        "title": "This part of the shop needs an admission",
        "status": status,
        "detail": "Join the queue, claim when called, and send the admission token.",
        "code": code,
        "sale": name,
        "room": room,
        "retry_after_s": 5,
    });
    // In the order in which it is written.
    let members = ["type", "title", "status", "detail", "code", "sale", "room", "retry_after_s"];
    let members: Vec<_> = members.iter().map(|name| format!("\"{name}\":{}", body[*name])).collect();
    Act::Answer { status, headers: headers(&all), body: format!("{{{}}}", members.join(",")) }
}

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
