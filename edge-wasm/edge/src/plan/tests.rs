use std::vec;

use ropeline_token::{Claims, SigningKey};

use super::*;

const NOW: u64 = 1_800_000_000;
const PAGE: Field<'static> = ("accept", b"text/html,*/*;q=0.8");

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn settings() -> Settings {
    let policy = Policy::from_json(
        br#"{"issuer":"https://shop.example","api_prefix":"/api/v1/queue","secure_cookies":false,"sales":[
            {"sale":"drop","epoch":3,"gate":"queue","routes":[{"path":"/sale"}],"page_status":503,"other_status":429}]}"#,
    );
    Settings::new(policy.unwrap(), KeySet::new([key().public_key()]).unwrap())
}

fn token() -> String {
    let claims = Claims {
        iss: "https://shop.example".into(),
        aud: "drop".into(),
        sub: "visitor-1".into(),
        jti: "drop-0-12".into(),
        iat: NOW,
        nbf: NOW,
        exp: NOW + 600,
        epoch: 3,
        arrival: 12,
    };
    key().sign_admission(&AdmissionClaims { claims, place: 5 }).unwrap()
}

fn request<'a>(method: &'a str, target: &'a str, headers: &'a [Field<'a>]) -> Request<'a> {
    Request { method, host: "shop.example", target, headers }
}

fn forward(act: Act<'_>) -> Forward<'_> {
    match act {
        Act::Forward(forward) => forward,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_gateway_gets_a_request_as_it_came_and_the_shop_learns_who_was_admitted() {
    let token = token();
    let headers = [("ropeline-admission", token.as_bytes()), ("ropeline-visitor", b"forged")];
    let settings = settings();
    let plan = settings.plan(&request("GET", "//sale/7?a=b", &headers), NOW);
    assert_eq!((plan.kind, plan.sale, plan.code), (Kind::Forward, Some("drop"), None));
    let to_gateway = forward(plan.act);
    assert_eq!(
        (to_gateway.to, &*to_gateway.target, to_gateway.set.len()),
        (Upstream::Gateway, "/sale/7?a=b", 0)
    );
    assert!(!to_gateway.removes("Ropeline-Visitor"));

    let settings = settings.sending_to(Upstream::Shop);
    let to_shop = forward(settings.plan(&request("GET", "//sale/7?a=b", &headers), NOW).act);
    let set = vec![
        ("ropeline-admission", token.clone()),
        ("ropeline-sale", "drop".into()),
        ("ropeline-visitor", "visitor-1".into()),
    ];
    assert_eq!((to_shop.to, to_shop.set, &*to_shop.target), (Upstream::Shop, set, "/sale/7?a=b"));
    let open = forward(settings.plan(&request("GET", "/", &headers), NOW).act);
    assert!(open.set.is_empty() && open.removes("Ropeline_Visitor") && !open.removes("cookie"));
}

#[test]
fn calls_of_the_queue_go_to_the_gateway_whole() {
    let settings = settings().sending_to(Upstream::Shop);
    for target in ["/api/v1/queue/join", "/api/v1/queue/sales/drop/room?x", "/.well-known/jwks.json"] {
        let plan = settings.plan(&request("POST", target, &[]), NOW);
        assert_eq!(plan.kind, Kind::Api);
        let call = forward(plan.act);
        assert_eq!(
            (call.to, &*call.target, call.removes("ropeline-ticket")),
            (Upstream::Gateway, target, false)
        );
    }
}

#[test]
fn a_page_is_the_room_and_anything_else_a_problem() {
    let settings = settings();
    let plan = settings.plan(&request("GET", "/sale", &[PAGE]), NOW);
    assert_eq!((plan.kind, plan.sale, plan.code), (Kind::Wait, Some("drop"), Some("token_missing")));
    let room = Room { path: "/api/v1/queue/sales/drop/room".into(), status: 503 };
    assert_eq!(plan.act, Act::Room(room.clone()));
    assert_eq!(room.retry_after_s(), Some(5));

    let Act::Answer(answer) = settings.plan(&request("POST", "/sale", &[]), NOW).act else { panic!() };
    let document: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        document,
        serde_json::json!({
            "type": "urn:ropeline:problem:admission_missing",
            "title": "This part of the shop needs an admission",
            "status": 429,
            "detail": "Join the queue, claim when called, and send the admission token.",
            "code": "admission_missing",
            "sale": "drop",
            "room": "/api/v1/queue/sales/drop/room",
            "retry_after_s": 5,
        })
    );
    let header =
        |name| answer.headers.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str());
    assert_eq!(header("content-type"), Some("application/problem+json"));
    assert_eq!(header("cache-control"), Some("private, no-store"));
    assert_eq!(header("retry-after"), Some("5"));
}

#[test]
fn whoever_holds_a_ticket_or_sends_a_form_is_for_the_gateway_to_answer() {
    let settings = settings().sending_to(Upstream::Shop);
    let with_ticket = [PAGE, ("cookie", b"ropeline-ticket-drop=x".as_slice())];
    for request in [request("GET", "/sale?a", &with_ticket), request("POST", "/sale?a", &[PAGE])] {
        let act = forward(settings.plan(&request, NOW).act);
        assert_eq!((act.to, &*act.target, act.room), (Upstream::Gateway, "/sale?a", true));
        assert!(act.set.is_empty() && !act.removes("ropeline-visitor"));
    }
    let of_another_sale = [PAGE, ("cookie", b"ropeline-ticket-other=x".as_slice())];
    assert!(matches!(settings.plan(&request("GET", "/sale", &of_another_sale), NOW).act, Act::Room(_)));
}

#[test]
fn settings_that_were_not_renewed_fail_as_told() {
    let token = token();
    let headers = [PAGE, ("ropeline-admission", token.as_bytes())];
    let closed = settings().until(NOW, PastExpiry::Closed);
    assert_eq!(closed.plan(&request("GET", "/sale", &headers), NOW - 1).kind, Kind::Forward);
    let plan = closed.plan(&request("GET", "/sale", &headers), NOW);
    assert_eq!((plan.kind, plan.code), (Kind::Wait, Some("keys_outdated")));
    assert_eq!(closed.plan(&request("GET", "/free", &[PAGE]), NOW).kind, Kind::Forward);

    let open = settings().until(NOW, PastExpiry::Open);
    assert_eq!(open.plan(&request("GET", "/sale", &[PAGE]), NOW - 1).kind, Kind::Wait);
    assert_eq!(open.plan(&request("GET", "/sale", &[PAGE]), NOW).kind, Kind::Forward);
    assert_eq!(open.plan(&request("GET", "/sale%2fx", &[PAGE]), NOW).kind, Kind::Reject);
}

#[test]
fn a_plan_is_written_for_hosts_without_rust() {
    let settings = settings();
    let json = |request: &Request<'_>| -> serde_json::Value {
        serde_json::from_str(&settings.plan(request, NOW).to_json()).unwrap()
    };
    assert_eq!(
        json(&request("GET", "/a\"b", &[])),
        serde_json::json!({"act": "forward", "to": "gateway", "target": "/a\"b", "set": [], "room": false,
            "kind": "forward", "sale": null, "code": null})
    );
    assert_eq!(
        json(&request("GET", "/sale", &[PAGE])),
        serde_json::json!({"act": "room", "path": "/api/v1/queue/sales/drop/room", "status": 503,
            "kind": "wait", "sale": "drop", "code": "token_missing"})
    );
    let rejected = json(&request("GET", "/a%2fb", &[]));
    assert_eq!(
        (&rejected["act"], &rejected["status"], &rejected["code"]),
        (&"answer".into(), &400.into(), &"path_ambiguous".into())
    );
}
