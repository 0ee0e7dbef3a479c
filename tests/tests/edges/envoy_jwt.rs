//! Envoy's own check of tokens, with the file of `cdn-config/envoy-jwt-authn`.

use std::net::SocketAddr;

use ropeline_tests::conformance::vectors::{Act, Case, Vectors};
use ropeline_tests::conformance::{Upstream, generate};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, permitted};
use ropeline_tests::guests::{deployed, set};

use crate::renewal::{ask, now};

/// Forms of a token that Envoy does not mind, and the gateway does. Only who holds the key can make such a token.
const LENIENT: [&str; 19] = [
    "token: alg \"ES256\", well signed",
    "token: alg \"RS256\", well signed",
    "token: alg \"HS512\", well signed",
    "token: without kid",
    "token: kid \"\"",
    "token: without typ",
    "token: typ \"ropeline-ticket+jwt\"",
    "token: typ \"ropeline-draw+jws\"",
    "token: typ \"JWT\"",
    "token: typ \"\"",
    "token: typ \"ropeline-admission+jwt \"",
    "token: header with crit exp",
    "token: header with crit empty",
    "token: header with crit of an extension",
    "token: header with crit b64, which is false",
    "token: header has a comma too many",
    "token: header has single quotes",
    "token: with a bare control character",
    "token: R of small order",
];

/// Tokens that Envoy refuses and the gateway takes. The gateway issues none of these.
const STRICT: [&str; 2] = ["token: for as long as can be", "token: alg Ed25519 (RFC 9864)"];

fn launch(address: SocketAddr, shop: SocketAddr, jwks: String) -> Launch {
    let mut text = deployed("envoy-jwt-authn/envoy.yaml");
    for (host, address) in [("0.0.0.0", address), ("shop.example", shop)] {
        let value = format!("address: {}, port_value: {}", address.ip(), address.port());
        text = set(&text, &format!("address: {host}, port_value: 8080"), &value);
    }
    Launch::new().file("envoy.yaml", text).file("jwks.json", jwks).arguments([
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "warning",
        "-c",
        "envoy.yaml",
    ])
}

/// Requests for the sale of the file whose tokens JOSE, too, has an opinion of.
fn cases(vectors: &Vectors) -> Vec<(&Case, bool)> {
    let of_drop = vectors.cases.iter().filter(|case| {
        let fields = case.fields();
        let in_header =
            matches!(fields.as_slice(), [(name, _)] if name.eq_ignore_ascii_case("ropeline-admission"));
        case.settings == "shop"
            && case.now.is_none()
            && case.method == "GET"
            && in_header
            && case.target == "/sale/7"
    });
    let judged = of_drop.filter_map(|case| {
        let jose = case.jose.as_ref()?;
        let admitted = matches!(case.expect.act, Act::Forward { .. });
        // Where Ropeline is stricter than JOSE, Envoy may do as it likes.
        (jose.sale == "drop" && jose.stricter.is_none() && jose.accepts == admitted)
            .then_some((case, admitted))
    });
    judged.collect()
}

#[tokio::test]
async fn envoys_own_check_takes_the_tokens_that_the_gateway_issues_and_no_others() {
    let vectors = generate(now());
    let shop = Upstream::open("shop").await;
    let jwks = vectors.settings["shop"]["keys"].to_string();
    let Some(envoy) =
        permitted(EdgeHost::start("envoy", |address, _| launch(address, shop.address(), jwks)).await)
    else {
        return;
    };
    let cases = cases(&vectors);
    let good: Vec<&Case> = cases.iter().filter(|(_, admitted)| *admitted).map(|(case, _)| *case).collect();
    let bad = cases.len() - good.len();
    assert!(!good.is_empty() && bad > 10, "{} good tokens, {bad} bad ones", good.len());
    let mut wrong = Vec::new();
    for (case, admitted) in &cases {
        let status = ask(envoy.address(), case).await.status;
        let differs = LENIENT.contains(&case.name.as_str()) || STRICT.contains(&case.name.as_str());
        if (status == 200) != (*admitted != differs) || !matches!(status, 200 | 401 | 403) {
            wrong.push(format!("{}: {status}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} tokens: {}", wrong.len(), cases.len(), wrong.join("\n"));
    let bare = Case { headers: Vec::new(), ..good[0].clone() };
    for spelling in [
        "/sale",
        "/SALE/7",
        "//sale/7",
        "/x/../sale",
        "/sale;a/7",
        "/sale%3b/7",
        "/sale%20",
        "/%73ale",
        "/sale?x",
    ] {
        let case = Case { target: spelling.to_owned(), ..bare.clone() };
        assert_eq!(ask(envoy.address(), &case).await.status, 401, "{spelling}");
    }
    let free = Case { target: "/elsewhere".to_owned(), ..bare };
    assert_eq!(ask(envoy.address(), &free).await.status, 200);
    let known = LENIENT.len() + STRICT.len();
    eprintln!(
        "envoy's jwt_authn: {} of {} tokens judged as the gateway does",
        cases.len() - known,
        cases.len()
    );
}
