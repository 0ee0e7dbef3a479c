use proptest::prelude::*;
use ropeline_edge::{Settings, Upstream};
use ropeline_token::{Claims, KeySet, SigningKey};

use super::*;

const NOW: u64 = 1_800_000_000;
const PAGE: header::Field<'static> = ("accept", b"text/html");

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn settings() -> Settings {
    let policy = Policy::from_json(
        br#"{"issuer":"https://shop.example","api_prefix":"/api/v1/queue","secure_cookies":false,"sales":[
            {"sale":"drop","epoch":3,"gate":"queue","routes":[{"path":"/sale"}],"page_status":503,"other_status":429},
            {"sale":"open","epoch":0,"gate":"open","routes":[{"path":"/sale/open"}]}]}"#,
    );
    let keys = KeySet::new([key().public_key()]).unwrap();
    Settings::new(policy.unwrap(), keys).sending_to(Upstream::Shop)
}

fn token(epoch: u32) -> String {
    let claims = Claims {
        iss: "https://shop.example".into(),
        aud: "drop".into(),
        sub: "visitor-1".into(),
        jti: "drop-0-12".into(),
        iat: NOW,
        nbf: NOW,
        exp: NOW + 600,
        epoch,
        arrival: 12,
    };
    key().sign_admission(&AdmissionClaims { claims, place: 5 }).unwrap()
}

fn same(request: &Request<'_>) -> Outcome {
    let settings = settings();
    let (policy, keys) = (settings.policy(), settings.keys());
    let native = Outcome::of(&ropeline_decision::decide(request, policy, keys, NOW));
    let plan = settings.plan(request, NOW).to_json();
    let read = Outcome::of(
        &verdict(&plan, request, policy, keys).unwrap_or_else(|strange| panic!("{strange}: {plan}")),
    );
    assert_eq!(native.differences(&read), Vec::<&str>::new(), "{request:?}: {plan}");
    read
}

#[test]
fn a_plan_is_read_as_the_verdict_that_it_follows_from() {
    let (good, revoked) = (token(3), token(2));
    let ticket: header::Field<'_> = ("cookie", b"ropeline-ticket-drop=x");
    let admitted: header::Field<'_> = ("ropeline-admission", good.as_bytes());
    let outdated: header::Field<'_> = ("ropeline-admission", revoked.as_bytes());
    for (target, headers, kind, code, page) in [
        ("/", &[][..], "forward", None, false),
        ("//sale/%7E?a=b", &[admitted], "forward", None, false),
        ("/sale/open", &[], "forward", None, false),
        ("/sale", &[], "wait", Some("token_missing"), false),
        ("/sale", &[PAGE], "wait", Some("token_missing"), true),
        ("/sale", &[PAGE, ticket], "wait", Some("token_missing"), true),
        ("/sale", &[outdated], "wait", Some("epoch_outdated"), false),
        ("/sale%2f", &[], "reject", Some("path_ambiguous"), false),
        ("*", &[], "reject", Some("target_invalid"), false),
        ("/api/v1//queue/join?x", &[], "api", None, false),
    ] {
        let request = Request { method: "GET", host: "shop.example", target, headers };
        let outcome = same(&request);
        assert_eq!((outcome.kind, outcome.code, outcome.page), (kind, code, page), "{target} {headers:?}");
        assert_eq!(outcome.token.is_some(), target.starts_with("//sale"), "{target}");
    }
}

#[test]
fn a_plan_of_no_verdict_is_refused() {
    let good = token(3);
    let request = Request {
        method: "GET",
        host: "shop.example",
        target: "/sale",
        headers: &[("ropeline-admission", good.as_bytes())],
    };
    let forward = |token: &str, sale: &str| {
        format!(
            r#"{{"act":"forward","to":"shop","target":"/sale","set":[["ropeline-admission","{token}"]],"room":false,
                "kind":"forward","sale":{sale},"code":null}}"#
        )
    };
    let wait =
        |sale: &str, code: &str| format!(r#"{{"act":"answer","kind":"wait","sale":{sale},"code":"{code}"}}"#);
    for (plan, what) in [
        (String::new(), "form"),
        ("{}".to_owned(), "form"),
        (r#"{"act":"forward","kind":"invite","sale":null,"code":null}"#.to_owned(), "kind"),
        (wait("null", "token_missing"), "kind"),
        (wait(r#""gone""#, "token_missing"), "sale"),
        (wait(r#""drop""#, "token_stolen"), "code"),
        (forward(&good, "null"), "sale"),
        (forward(&token(4), r#""drop""#), "token"),
        (r#"{"act":"forward","kind":"forward","sale":null,"code":null}"#.to_owned(), "target"),
    ] {
        let settings = settings();
        let read = verdict(&plan, &request, settings.policy(), settings.keys());
        assert_eq!(read.err(), Some(Strange(what)), "{plan}");
    }
    // A token that the request does bear, and that nobody signed.
    let request = Request { headers: &[("ropeline-admission", b"forged")], ..request };
    let settings = settings();
    let read = verdict(&forward("forged", r#""drop""#), &request, settings.policy(), settings.keys());
    assert_eq!(read.err(), Some(Strange("token")));
}

#[test]
fn what_is_logged_holds_no_token_and_no_path() {
    let good = token(3);
    let headers: &[header::Field<'_>] = &[("ropeline-admission", good.as_bytes())];
    let request = Request { method: "GET", host: "shop.example", target: "/sale?secret", headers };
    assert_eq!(same(&request).to_string(), "forward drop - admitted");
    assert_eq!(same(&Request { headers: &[], ..request }).to_string(), "wait drop token_missing -");
}

proptest! {
    #[test]
    fn any_request_is_read_as_it_is_decided(
        method in "GET|HEAD|POST|get",
        target in "(/|//)?(sale|api/v1/queue|open|x)?(/|%2f|%2F|;a|\\.\\.|/open)*(\\?[a-z= ]*)?",
        host in "shop.example|\\[::1\\]:80|a b|",
        accept in "text/html|\\*/\\*|application/json;q=0.5",
        admitted in any::<bool>(),
    ) {
        let good = token(3);
        let headers: [header::Field<'_>; 2] = [("accept", accept.as_bytes()), ("ropeline-admission", good.as_bytes())];
        let headers = if admitted { &headers[..] } else { &headers[..1] };
        same(&Request { method: &method, host: &host, target: &target, headers });
    }
}
