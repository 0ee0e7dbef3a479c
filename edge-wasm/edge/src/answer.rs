//! Answers that an edge makes itself, without asking anybody. The gateway makes the same ones with these functions.

use alloc::string::String;
use alloc::vec::Vec;

use ropeline_decision::Rejection;
use ropeline_token::Refusal;
use ropeline_token::json::{Writer, decimal};

/// A whole answer. The host adds `Content-Length`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Name, in lower case, and value of each field.
    pub headers: Vec<(&'static str, String)>,
    /// The body. It is not sent in answer to `HEAD`.
    pub body: String,
}

/// Personal, or true only at this instant: nobody may keep it.
pub(crate) const NOT_TO_BE_KEPT: &str = "private, no-store";

/// When to ask again where no gateway can say it better, in seconds.
pub(crate) const RETRY_AFTER_S: u64 = 5;

/// A problem document (RFC 9457).
struct Problem<'a> {
    status: u16,
    code: &'a str,
    title: &'a str,
    detail: &'a str,
    waiting: Option<Waiting<'a>>,
}

/// Where a problem's visitor waits.
struct Waiting<'a> {
    sale: &'a str,
    room: &'a str,
    retry_after_s: u64,
}

/// What a request that is no navigation gets in place of a path that `sale` protects: why it was not admitted, where the
/// room is and when to try again, in seconds.
#[must_use]
pub fn must_wait(sale: &str, status: u16, refusal: Refusal, api_prefix: &str, retry_after_s: u64) -> Answer {
    let code = if refusal == Refusal::Missing { "admission_missing" } else { refusal.code() };
    problem(&Problem {
        status,
        code,
        title: "This part of the shop needs an admission",
        detail: "Join the queue, claim when called, and send the admission token.",
        waiting: Some(Waiting { sale, room: &room_path(api_prefix, sale), retry_after_s }),
    })
}

/// What a malformed request gets.
#[must_use]
pub fn not_acceptable(rejection: Rejection) -> Answer {
    let detail = [rejection.text(), "."].concat();
    problem(&Problem {
        status: rejection.status(),
        code: rejection.code(),
        title: "The request is not acceptable",
        detail: &detail,
        waiting: None,
    })
}

/// The room's own address: the same bytes for everyone.
pub(crate) fn room_path(api_prefix: &str, sale: &str) -> String {
    [api_prefix, "/sales/", sale, "/room"].concat()
}

fn problem(problem: &Problem<'_>) -> Answer {
    let mut writer = Writer::new();
    writer.begin_object();
    let mut member = |name: &str, value: &str| {
        writer.name(name);
        writer.text(value);
    };
    member("type", &["urn:ropeline:problem:", problem.code].concat());
    member("title", problem.title);
    writer.name("status");
    writer.integer(problem.status.into());
    let mut member = |name: &str, value: &str| {
        writer.name(name);
        writer.text(value);
    };
    member("detail", problem.detail);
    member("code", problem.code);
    let mut headers = Vec::new();
    let mut header = |name, value: &str| headers.push((name, String::from(value)));
    header("content-type", "application/problem+json");
    if let Some(waiting) = &problem.waiting {
        member("sale", waiting.sale);
        member("room", waiting.room);
        writer.name("retry_after_s");
        writer.integer(waiting.retry_after_s);
        header("retry-after", &decimal(waiting.retry_after_s));
    }
    writer.end_object();
    if problem.status == 405 {
        // RFC 9110 §15.5.6: a 405 names methods.
        header("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    }
    if problem.status == 401 {
        // RFC 9110 §11.6.1: a 401 names a scheme.
        header("www-authenticate", "Ropeline realm=\"sale\"");
    }
    header("cache-control", NOT_TO_BE_KEPT);
    header("x-content-type-options", "nosniff");
    Answer { status: problem.status, headers, body: writer.finish() }
}

/// The page that stands in for a room which could not be fetched. It says so, and asks again by itself.
pub(crate) fn room_unreachable() -> Answer {
    let headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("retry-after", "10"),
        (
            "content-security-policy",
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cache-control", NOT_TO_BE_KEPT),
        ("x-content-type-options", "nosniff"),
    ];
    Answer {
        status: 503,
        headers: headers.into_iter().map(|(name, value)| (name, value.into())).collect(),
        body: "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta http-equiv=\"refresh\" content=\"10\">\
<title>The waiting room cannot be reached</title><main><h1>The waiting room cannot be reached</h1>\
<p>The queue is not answering right now. If you have joined it, your place is kept. \
This page tries again by itself every ten seconds.</p></main></html>\n"
            .into(),
    }
}
