use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use ropeline_token::{Claims, SigningKey};

use super::*;
use crate::path::tests::any_path;

const NOW: u64 = 1_000;
const NAVIGATION: Field<'static> = ("accept", b"text/html,*/*;q=0.8");

fn policy() -> Policy {
    let text = r#"{"issuer": "shop", "api_prefix": "/api/v1/queue", "secure_cookies": true, "sales": [
        {"sale": "shoe", "epoch": 1, "gate": "queue", "routes": [{"path": "/sale"}, {"host": "drop.example", "path": "/"}],
         "bypass": ["*.css", "/sale/help"], "page_status": 503},
        {"sale": "coat", "epoch": 0, "gate": "open", "routes": [{"path": "/coat"}]}]}"#;
    Policy::from_json(text.as_bytes()).unwrap()
}

fn keys() -> KeySet {
    KeySet::new([SigningKey::from_seed([1; 32]).public_key()]).unwrap()
}

fn token(change: impl FnOnce(&mut Claims)) -> String {
    let mut claims = Claims {
        iss: "shop".into(),
        aud: "shoe".into(),
        sub: "visitor".into(),
        jti: "1".into(),
        iat: 900,
        nbf: 900,
        exp: 1_100,
        epoch: 1,
        arrival: 4,
    };
    change(&mut claims);
    SigningKey::from_seed([1; 32]).sign_admission(&AdmissionClaims { claims, place: 4 }).unwrap()
}

fn cookie(token: &str) -> Vec<u8> {
    format!("__Host-ropeline-admission-shoe={token}").into_bytes()
}

/// What became of a request, in a word.
fn outcome(host: &str, target: &str, headers: &[Field<'_>]) -> String {
    outcome_of("GET", host, target, headers)
}

fn outcome_of(method: &str, host: &str, target: &str, headers: &[Field<'_>]) -> String {
    match decide(&Request { method, host, target, headers }, &policy(), &keys(), NOW) {
        Verdict::Forward(forward) => match forward.admission {
            Some(admission) => format!("admitted {} {}", forward.target, admission.claims().claims.sub),
            None => format!("forward {}", forward.target),
        },
        Verdict::Wait(wait) => format!(
            "wait {} {} {} {}",
            wait.sale.sale.as_str(),
            if wait.page { "page" } else { "problem" },
            wait.status(),
            wait.refusal.code()
        ),
        Verdict::Reject(rejection) => format!("reject {} {}", rejection.status(), rejection.code()),
        Verdict::Api(path) => format!("api {path}"),
    }
}

#[test]
fn what_no_sale_protects_goes_forward() {
    for target in ["/", "/sales", "/products/1?x=/sale", "/?/../sale"] {
        assert_eq!(outcome("shop.example", target, &[]), format!("forward {target}"));
    }
}

#[test]
fn a_navigation_waits_in_the_room_and_anything_else_gets_a_problem() {
    assert_eq!(outcome("h", "/sale", &[NAVIGATION]), "wait shoe page 503 token_missing");
    assert_eq!(
        outcome("h", "/sale", &[("accept", b"image/*,*/*;q=0.8")]),
        "wait shoe problem 401 token_missing"
    );
    assert_eq!(outcome("h", "/sale", &[]), "wait shoe problem 401 token_missing");
}

/// Each of these walked past some waiting room.
#[test]
fn no_spelling_of_a_protected_path_walks_past_the_room() {
    for target in [
        "/sale",
        "/Sale",
        "/SALE",
        "/sale/",
        "/sale//",
        "//sale",
        "/./sale",
        "/%73ale",
        "/%53ale",
        "/x/../sale",
        "/x/%2e%2e/sale",
        "/../sale",
        "/sale/.",
        "/sale/x/..",
        "/sale;x=1",
        "/sale;jsessionid=1/x",
        "/sale%3Bx",
        "/sale?x",
        "/sale?",
        "/sale/a.css/pay",
        "/sale;a.css",
        "/sale/help/../pay",
    ] {
        assert_eq!(outcome("h", target, &[NAVIGATION]), "wait shoe page 503 token_missing", "{target}");
    }
    for target in [
        "/sale%2f..",
        "/sale%2F",
        "/%2fsale",
        "/x%5c..%5csale",
        "/x\\..\\sale",
        "/sale%00",
        "/sale%",
        "/%2573ale",
        "/%c0%af..%c0%afsale",
        "/x/..;/sale",
        "/%c1%b3ale",
    ] {
        assert_eq!(outcome("h", target, &[NAVIGATION]), "reject 400 path_ambiguous", "{target}");
    }
    for target in ["", "*", "http://h/sale", "sale", "/sale#x", "/sale x", "/s\u{e4}le", "/?a b", "/?\u{7f}"]
    {
        assert_eq!(outcome("h", target, &[NAVIGATION]), "reject 400 target_invalid", "{target}");
    }
}

#[test]
fn what_is_forwarded_is_what_was_matched() {
    assert_eq!(outcome("h", "/sale/../x//y/%7e?q=%2f/../", &[]), "forward /x/y/~?q=%2f/../");
}

#[test]
fn a_host_is_the_same_in_any_spelling() {
    for host in ["drop.example", "DROP.example", "drop.example.", "drop.example:443", "Drop.Example.:8443"] {
        assert_eq!(outcome(host, "/x", &[]), "wait shoe problem 401 token_missing", "{host}");
    }
    for host in ["", "drop.example/", "drop.example,x", "x@drop.example"] {
        assert_eq!(outcome(host, "/x", &[]), "reject 400 host_invalid", "{host}");
    }
    assert_eq!(outcome("other.example", "/x", &[]), "forward /x");
}

#[test]
fn the_gateways_own_calls_are_not_protected() {
    assert_eq!(outcome("drop.example", "/api/v1/queue/join?x", &[]), "api /api/v1/queue/join");
    assert_eq!(outcome("h", "/api//v1/./queue/join", &[]), "api /api/v1/queue/join");
    assert_eq!(outcome("h", "/api/v1/queues", &[]), "forward /api/v1/queues");
}

#[test]
fn a_bypass_lets_reads_pass_and_nothing_else() {
    assert_eq!(outcome("h", "/sale/a.css", &[]), "forward /sale/a.css");
    assert_eq!(outcome_of("HEAD", "h", "/sale/help/1", &[]), "forward /sale/help/1");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "get", ""] {
        let outcome = outcome_of(method, "h", "/sale/a.css", &[]);
        assert_eq!(outcome, "wait shoe problem 401 token_missing", "{method}");
    }
}

#[test]
fn a_token_admits_from_cookie_or_field() {
    let token = token(|_| ());
    let cookie = cookie(&token);
    let headers: [Field<'_>; 2] = [("cookie", b"a=b"), ("Cookie", &cookie)];
    assert_eq!(outcome("h", "/sale/1?x", &headers), "admitted /sale/1?x visitor");
    assert_eq!(outcome("h", "/sale", &[("Ropeline-Admission", token.as_bytes())]), "admitted /sale visitor");
    let both: [Field<'_>; 2] = [("ropeline-admission", token.as_bytes()), ("cookie", &cookie)];
    assert_eq!(outcome("h", "/sale", &both), "admitted /sale visitor");

    let policy = policy();
    let request = Request { method: "GET", host: "h", target: "/sale", headers: &both };
    let Verdict::Forward(Forward { admission: Some(admission), sale: Some(sale), .. }) =
        decide(&request, &policy, &keys(), NOW)
    else {
        panic!("not admitted")
    };
    assert_eq!(sale.sale.as_str(), "shoe");
    let expected =
        [("ropeline-admission", token.as_str()), ("ropeline-sale", "shoe"), ("ropeline-visitor", "visitor")];
    assert_eq!(admission.headers(), expected);
}

#[test]
fn two_tokens_at_once_are_refused() {
    let (one, two) = (token(|_| ()), token(|claims| claims.jti = "2".into()));
    let (first, second) = (cookie(&one), cookie(&two));
    let twice = [first.as_slice(), b"; ", &first].concat();
    let cases: [Vec<Field<'_>>; 4] = [
        vec![("cookie", &first), ("cookie", &second)],
        vec![("cookie", &twice)],
        vec![("ropeline-admission", one.as_bytes()), ("cookie", &second)],
        vec![("ropeline-admission", one.as_bytes()), ("Ropeline-Admission", one.as_bytes())],
    ];
    for headers in cases {
        assert_eq!(outcome("h", "/sale", &headers), "wait shoe problem 401 token_ambiguous");
    }
}

#[test]
fn a_cookie_without_the_host_prefix_is_not_read_under_tls() {
    let planted = format!("ropeline-admission-shoe={}", token(|_| ()));
    assert_eq!(
        outcome("h", "/sale", &[("cookie", planted.as_bytes())]),
        "wait shoe problem 401 token_missing"
    );
}

#[test]
fn a_token_that_does_not_hold_names_its_refusal() {
    type Change = fn(&mut Claims);
    let cases: [(Change, &str); 5] = [
        (|c| c.aud = "coat".into(), "audience_refused"),
        (|c| c.iss = "else".into(), "issuer_refused"),
        (|c| c.epoch = 0, "epoch_outdated"),
        (|c| c.exp = 995, "token_expired"),
        (|c| c.nbf = 1_006, "token_not_yet_valid"),
    ];
    for (change, code) in cases {
        let cookie = cookie(&token(change));
        let outcome = outcome("h", "/sale", &[("cookie", &cookie)]);
        assert_eq!(outcome, format!("wait shoe problem 401 {code}"));
    }
    assert_eq!(
        outcome("h", "/sale", &[("ropeline-admission", b"\xff")]),
        "wait shoe problem 401 token_malformed"
    );
}

#[test]
fn an_open_gate_lets_everybody_through() {
    assert_eq!(outcome("h", "/coat", &[]), "forward /coat");
    assert_eq!(outcome("h", "/coat", &[("ropeline-admission", b"nonsense")]), "forward /coat");
    let coat = token(|claims| claims.aud = "coat".into());
    assert_eq!(outcome("h", "/coat", &[("ropeline-admission", coat.as_bytes())]), "admitted /coat visitor");
}

/// The first segment that a shop sees which decodes as often as told, cuts parameters, merges slashes, resolves dots and
/// ignores case: written without a look at `path`.
fn as_the_loosest_shop_reads_it(path: &str, decode: usize) -> Option<String> {
    let mut text = path.as_bytes().to_vec();
    for _ in 0..decode {
        text = decoded(&text);
    }
    let text = String::from_utf8_lossy(&text).replace('\\', "/").to_lowercase();
    let mut segments = Vec::new();
    for segment in text.split('/').map(|segment| segment.split(';').next().unwrap()) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments.first().map(|segment| String::from(*segment))
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| core::str::from_utf8(digits).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_path_that_reaches_a_protected_route_is_forwarded(path in any_path()) {
        let policy = policy();
        let request = Request { method: "GET", host: "h", target: &path, headers: &[] };
        if let Verdict::Forward(forward) = decide(&request, &policy, &keys(), NOW) {
            for path in [path.as_str(), &forward.target] {
                for decode in 0..3 {
                    let read = as_the_loosest_shop_reads_it(path, decode);
 prop_assert_ne!(read.as_deref(), Some("sale"), "{}", path);
                }
            }
        }
    }

    #[test]
    fn any_request_is_answered_without_a_panic(
        method in any::<String>(), host in any::<String>(), target in any::<String>(), name in any::<String>(), value in any::<Vec<u8>>(),
    ) {
        let headers: [Field<'_>; 4] = [(&name, &value), ("cookie", &value), ("accept", &value), ("sec-fetch-mode", &value)];
        let policy = policy();
        drop(decide(&Request { method: &method, host: &host, target: &target, headers: &headers }, &policy, &keys(), NOW));
        drop(Policy::from_json(&value));
    }
}
