//! Scripts that join again and again, and the people who share a network with them: cases 10 and 12.

use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::http;
use ropeline_tests::shop::{self, Shop};
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};
use ropeline_tests::wait::until;
use ropeline_token::{InvitationClaims, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::*;

const JOIN: &str = "/api/v1/queue/join";
/// What one address has free at each gateway.
const FREE: u64 = 5;
/// The script's address, and those who share it.
const CROWDED: &str = "192.0.2.7";

/// Clients say by themselves where they come from, as through a proxy of the shop's.
fn guarded(settings: Settings) -> Settings {
    settings
        .set("listen", "trusted_proxies", r#"["127.0.0.1"]"#)
        .set("limits.join", "exempt", "[]")
        .set("limits.join", "window", r#""1h""#)
        .set("limits.join", "ipv4", &FREE.to_string())
        .set("limits.join", "hardest_bits", "16")
}

async fn house(sale: Sale) -> House {
    House::with(sale, guarded).await
}

/// How many an address gets for nothing at all gateways together.
fn free(house: &House) -> u64 {
    FREE * house.gateway.nodes().len() as u64
}

async fn post(visitor: &Visitor, client: &str, path: &str, document: &Value) -> Answer {
    let from = |request: reqwest::RequestBuilder| request.header("x-forwarded-for", client).json(document);
    visitor.send(Method::POST, path, from).await
}

async fn join(visitor: &Visitor, client: &str) -> Answer {
    post(visitor, client, JOIN, &json!({ "sale": SALE })).await
}

async fn join_with(visitor: &Visitor, client: &str, proof: &str) -> Answer {
    post(visitor, client, JOIN, &json!({ "sale": SALE, "proof": proof })).await
}

/// The challenge of an answer, and its bits.
fn asked(answer: &Answer) -> (String, u32) {
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{}", answer.text());
    assert!(answer.headers.contains_key(RETRY_AFTER));
    assert_eq!(answer.headers["cache-control"], "private, no-store");
    let proof = &answer.json()["proof"];
    assert_eq!(proof["algorithm"], "sha256", "{}", answer.text());
    let bits = u32::try_from(number(&proof["bits"])).unwrap();
    (proof["challenge"].as_str().expect("a challenge").to_owned(), bits)
}

fn is_solved(proof: &str, bits: u32) -> bool {
    let hash = Sha256::digest(proof.as_bytes());
    u32::from_be_bytes(hash[..4].try_into().unwrap()).leading_zeros() >= bits
}

fn solve((challenge, bits): &(String, u32)) -> String {
    let proofs = (0_u64..).map(|nonce| format!("{challenge}.{nonce}"));
    proofs.into_iter().find(|proof| is_solved(proof, *bits)).expect("a proof")
}

/// Uses up what the script's address has free at every gateway.
async fn crowd_the_network(house: &House) {
    for node in house.gateway.nodes() {
        let mut given = 0;
        while join(&house.visitor().only_at(node), CROWDED).await.status == StatusCode::OK {
            given += 1;
            assert!(given <= FREE, "a network gets more for nothing than it has free");
        }
    }
}

/// Joins as the visitor with whatever proofs it takes; how many.
async fn join_by_proof(visitor: &Visitor, client: &str) -> usize {
    let mut answer = join(visitor, client).await;
    for proofs in 0..40 {
        if answer.status == StatusCode::OK {
            return proofs;
        }
        answer = join_with(visitor, client, &solve(&asked(&answer))).await;
    }
    panic!("forty proofs were not enough: {}", answer.text());
}

/// A challenge as the gateways make them, by another implementation.
fn challenge(gateway: &Gateway, sale: &str, visitor: &str, expires_at: u64, bits: u8) -> String {
    let secret = std::fs::read_to_string(gateway.folder().join("keys/visitor.secret")).unwrap();
    let secret = Base64UrlUnpadded::decode_vec(secret.trim()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
    mac.update(b"ropeline-proof-v1\0");
    mac.update(&expires_at.to_be_bytes());
    mac.update(&[bits]);
    mac.update(&(sale.len() as u64).to_be_bytes());
    mac.update(sale.as_bytes());
    mac.update(visitor.as_bytes());
    let mut bytes = expires_at.to_be_bytes().to_vec();
    bytes.push(bits);
    bytes.extend_from_slice(&mac.finalize().into_bytes()[..18]);
    Base64UrlUnpadded::encode_string(&bytes)
}

#[tokio::test]
async fn case_10_a_script_that_joins_again_and_again_gets_few_numbers() {
    let house = house(sale_not_yet_open()).await;
    let mut given = 0;
    for _ in 0..300 {
        let answer = join(&house.visitor(), CROWDED).await;
        if answer.status == StatusCode::OK {
            given += 1;
        } else {
            assert_eq!(answer.problem(), "proof_required");
            assert!(!answer.text().contains("ticket"), "{}", answer.text());
            asked(&answer);
        }
    }
    assert_eq!(given, free(&house));
    assert_eq!(number(&house.sale().await["arrivals"]), given);

    // Others are not asked, and whoever says to come from elsewhere further left is not believed.
    for client in ["198.51.100.1", "2001:db8::1"] {
        assert_eq!(join(&house.visitor(), client).await.status, StatusCode::OK, "{client}");
    }
    for client in ["203.0.113.1, 192.0.2.7", "::ffff:192.0.2.7"] {
        assert_eq!(join(&house.visitor(), client).await.problem(), "proof_required", "{client}");
    }
    let mut counted = String::new();
    for node in house.gateway.nodes() {
        counted += &http::client()
            .get(node.metrics_url())
            .bearer_auth(house.gateway.operator_token())
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
    }
    assert!(counted.contains(r#"ropeline_join_proofs_total{result="asked",sale="drop"} "#), "{counted}");
}

#[tokio::test]
async fn case_10_each_number_for_a_proof_makes_the_next_dearer_up_to_the_hardest() {
    let house = house(sale_not_yet_open()).await;
    let node = &house.gateway.nodes()[0];
    crowd_the_network(&house).await;
    let mut bits = Vec::new();
    for _ in 0..6 {
        let visitor = house.visitor().only_at(node);
        let asked = asked(&join(&visitor, CROWDED).await);
        let proof = solve(&asked);
        let answer = join_with(&visitor, CROWDED, &proof).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        // Shown again it brings the same number, and nobody else another.
        let again = join_with(&visitor, CROWDED, &proof).await.json();
        assert_eq!(again["arrival"], answer.json()["arrival"]);
        visitor.lose_cookie(TICKET_COOKIE);
        let again = join_with(&visitor, CROWDED, &proof).await.json();
        assert_eq!(again["arrival"], answer.json()["arrival"]);
        let stolen = join_with(&house.visitor().only_at(node), CROWDED, &proof).await;
        assert_eq!(stolen.problem(), "proof_invalid");
        bits.push(asked.1);
    }
    assert_eq!(bits, [14, 15, 15, 16, 16, 16]);
    assert_eq!(number(&house.sale().await["arrivals"]), free(&house) + 6);
}

#[tokio::test]
async fn case_10_a_proof_that_one_gateway_asked_for_counts_at_every_other() {
    let house = house(sale_not_yet_open()).await;
    crowd_the_network(&house).await;
    let nodes = house.gateway.nodes();
    for (from, to) in [(0, nodes.len() - 1), (nodes.len() - 1, 0)] {
        let visitor = house.visitor().only_at(&nodes[from]);
        let proof = solve(&asked(&join(&visitor, CROWDED).await));
        // Both have been asked for as many by then.
        let answer = join_with(&visitor.only_at(&nodes[to]), CROWDED, &proof).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    }
}

#[tokio::test]
async fn case_10_no_proof_but_the_one_that_was_asked_for_brings_a_number() {
    let shop = Shop::open().await;
    let sales = [sale_not_yet_open(), Sale::new("next", &["/next"])];
    let gateway = Gateway::start(guarded(Settings::new(shop.address())).on(crate::STORE), &sales).await;
    let house = House { shop, gateway };
    crowd_the_network(&house).await;
    let arrivals = number(&house.sale().await["arrivals"]);
    let node = &house.gateway.nodes()[0];
    let visitor = house.visitor().only_at(node);
    let first = join(&visitor, CROWDED).await;
    let name = first.json()["visitor"].as_str().expect("a visitor").to_owned();
    let subject = name.split('.').next().unwrap().to_owned();
    let (asked, bits) = asked(&first);
    let expires_at = number(&first.json()["proof"]["expires_at"]);

    // What another implementation makes of the same is the same.
    assert_eq!(challenge(&house.gateway, SALE, &subject, expires_at, 14), asked);
    assert_eq!(bits, 14);
    let other = |sale: &str, visitor: &str, expires_at, bits: u8| {
        solve(&(challenge(&house.gateway, sale, visitor, expires_at, bits), bits.into()))
    };
    let mut forged = asked.clone().into_bytes();
    forged[20] = if forged[20] == b'A' { b'B' } else { b'A' };
    let forged = solve(&(String::from_utf8(forged).unwrap(), bits));
    let unsolved =
        (0..).map(|nonce| format!("{asked}.{nonce}")).find(|proof| !is_solved(proof, bits)).unwrap();
    for (what, proof, code) in [
        ("forged", forged, "proof_invalid"),
        ("another visitor's", other(SALE, "somebody", expires_at, 14), "proof_invalid"),
        ("another sale's", other("next", &subject, expires_at, 14), "proof_invalid"),
        ("one that is over", other(SALE, &subject, 1_700_000_000, 14), "proof_expired"),
        ("one of too few bits", other(SALE, &subject, expires_at, 13), "proof_too_easy"),
        ("one that is not solved", unsolved, "proof_unsolved"),
        ("garbage", "x".to_owned(), "proof_invalid"),
        ("nothing", String::new(), "proof_invalid"),
    ] {
        let answer = join_with(&visitor, CROWDED, &proof).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (StatusCode::TOO_MANY_REQUESTS, code),
            "{what}"
        );
        assert!(answer.json()["detail"].as_str().is_some_and(|text| text.len() > 20), "{what}: no help");
        // There is a way on from every one of them.
        assert!(answer.json()["proof"]["challenge"].is_string(), "{what}");
        assert!(!visitor.cookies().contains_key(TICKET_COOKIE), "{what}: a ticket all the same");
    }
    assert_eq!(number(&house.sale().await["arrivals"]), arrivals, "a number was given all the same");
    let good = solve(&(asked, bits));
    assert_eq!(join_with(&visitor, CROWDED, &good).await.status, StatusCode::OK);
}

#[tokio::test]
async fn case_10_without_javascript_the_room_says_why_and_when_and_that_is_true() {
    let house = House::with(sale_not_yet_open(), |settings| {
        guarded(settings).set("limits.join", "window", r#""10s""#)
    })
    .await;
    let node = &house.gateway.nodes()[0];
    let form = async |visitor: &Visitor| {
        let send = |request: reqwest::RequestBuilder| {
            let request = request.header("x-forwarded-for", CROWDED).header(ACCEPT, BROWSER_ACCEPT);
            request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(format!("sale={SALE}&return=%2Fsale"))
        };
        visitor.send(Method::POST, JOIN, send).await
    };
    // Whoever is fast enough uses up what is free.
    let visitor = house.visitor().only_at(node);
    let mut told = None;
    for _ in 0..50 {
        let answer = form(&visitor.another_tab()).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            told = Some(answer);
            break;
        }
        assert_eq!(
            (answer.status, &answer.headers[LOCATION]),
            (StatusCode::SEE_OTHER, &PAGE.parse().unwrap())
        );
    }
    let told = told.expect("it was never dear");
    assert_eq!(told.header("content-type"), Some("text/html; charset=utf-8"));
    let wait: u64 = told.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&wait), "{wait} s, where a number is free every 2 s");
    let text = told.text();
    assert!(text.contains("a browser without JavaScript"), "{text}");
    assert!(text.contains(&format!("In {wait} seconds the next place for your network is free")), "{text}");
    // The time that was told, and no more.
    tokio::time::sleep(Duration::from_secs(wait)).await;
    assert_eq!(form(&visitor).await.status, StatusCode::SEE_OTHER, "what the page said was not true");
    assert!(visitor.cookies().contains_key(TICKET_COOKIE));
}

#[tokio::test]
async fn case_10_a_sale_on_demand_lets_no_more_straight_through_than_may_join() {
    let sale = sale().set("on_demand", "true").set("max_active", "1000");
    let house = house(sale.set("pace", r#"{ admit = 1000, per = "1s", burst = 1000 }"#)).await;
    let visit = async |visitor: Visitor| {
        let from = |request: reqwest::RequestBuilder| {
            request.header(ACCEPT, BROWSER_ACCEPT).header("x-forwarded-for", CROWDED)
        };
        let answer = visitor.send(Method::GET, PAGE, from).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        answer.text()
    };
    let mut let_in = 0;
    for _ in 0..60 {
        let text = visit(house.visitor()).await;
        if text == shop::BODY {
            let_in += 1;
        } else {
            assert!(text.contains("id=\"room\""), "{text}");
        }
    }
    let arrivals = number(&house.sale().await["arrivals"]);
    assert!(arrivals <= free(&house) && let_in <= arrivals, "{arrivals} numbers, {let_in} let in");
}

#[tokio::test]
async fn case_12_who_holds_a_place_keeps_it_in_the_midst_of_a_flood_from_the_same_network() {
    let house = house(sale()).await;
    let person = house.visitor();
    let place = join(&person, CROWDED).await.json()["arrival"].clone();
    // Coming again uses up nothing that others have free.
    for _ in 0..4 * free(&house) {
        let device = person.another_tab();
        device.lose_cookie(TICKET_COOKIE);
        assert_eq!(join(&device, CROWDED).await.json()["arrival"], place);
    }
    assert_eq!(join(&house.visitor(), CROWDED).await.status, StatusCode::OK, "tries were counted");
    crowd_the_network(&house).await;
    let flood = async {
        for _ in 0..150 {
            let answer = join(&house.visitor(), CROWDED).await;
            assert_eq!(answer.problem(), "proof_required");
        }
        for _ in 0..3 {
            join_by_proof(&house.visitor(), CROWDED).await;
        }
    };
    let goes_on = async {
        for round in 0..10 {
            assert_eq!(state_from(&person).await.0, StatusCode::OK);
            let again = join(&person, CROWDED).await;
            assert_eq!((again.status, &again.json()["arrival"]), (StatusCode::OK, &place), "round {round}");
            // From another device of the same visitor, which has no ticket yet; and with a proof that is none.
            let device = person.another_tab();
            device.lose_cookie(TICKET_COOKIE);
            let again = join(&device, CROWDED).await;
            assert_eq!((again.status, &again.json()["arrival"]), (StatusCode::OK, &place), "round {round}");
            device.lose_cookie(TICKET_COOKIE);
            let again = join_with(&device, CROWDED, "no proof").await;
            assert_eq!((again.status, &again.json()["arrival"]), (StatusCode::OK, &place), "round {round}");
        }
        admitted(&person).await;
        let leaves = post(&person, CROWDED, "/api/v1/queue/leave", &json!({ "sale": SALE })).await;
        assert_eq!(leaves.status, StatusCode::NO_CONTENT);
        // Whoever has given the place up holds none, and may have another as everybody may.
        let again = join(&person, CROWDED).await;
        assert_eq!(again.problem(), "proof_required");
        join_by_proof(&person, CROWDED).await;
        assert_ne!(join(&person, CROWDED).await.json()["arrival"], place);
    };
    tokio::join!(flood, goes_on);
}

#[tokio::test]
async fn case_10_a_ticket_that_was_left_and_a_proof_that_was_used_bring_no_other_number() {
    // The hardest proof is one that goes on being hard enough.
    let house = House::with(sale_not_yet_open(), |settings| {
        guarded(settings).set("limits.join", "hardest_bits", "14")
    })
    .await;
    let node = &house.gateway.nodes()[0];
    let leave = async |visitor: &Visitor| {
        let left = post(visitor, CROWDED, "/api/v1/queue/leave", &json!({ "sale": SALE })).await;
        assert_eq!(left.status, StatusCode::NO_CONTENT, "{}", left.text());
    };
    let script = house.visitor().only_at(node);
    assert_eq!(join(&script, CROWDED).await.status, StatusCode::OK);
    // Its cookies as they were when it had a number.
    let kept = script.another_tab();
    leave(&script).await;
    crowd_the_network(&house).await;
    let arrivals = number(&house.sale().await["arrivals"]);
    for _ in 0..20 {
        let answer = join(&kept, CROWDED).await;
        assert_eq!(answer.problem(), "proof_required", "{}", answer.text());
    }
    let proof = solve(&asked(&join(&kept, CROWDED).await));
    // From several tabs at once: all of them get the one number.
    let join = || join_with(&kept, CROWDED, &proof);
    let (one, two, three, four) = tokio::join!(join(), join(), join(), join());
    for answer in [one, two, three, four] {
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(answer.problem(), "join_running");
            continue;
        }
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        assert_eq!(number(&answer.json()["arrival"]), arrivals);
    }
    let answer = join().await;
    assert_eq!(number(&answer.json()["arrival"]), arrivals, "{}", answer.text());
    // As long as it is held, the proof brings the same number, without a ticket too.
    let device = kept.another_tab();
    device.lose_cookie(TICKET_COOKIE);
    assert_eq!(number(&join_with(&device, CROWDED, &proof).await.json()["arrival"]), arrivals);
    let with_the_new_ticket = kept.another_tab();
    leave(&kept).await;
    for visitor in [&kept, &with_the_new_ticket] {
        for _ in 0..5 {
            let answer = join_with(visitor, CROWDED, &proof).await;
            assert_eq!(
                (answer.status, answer.problem().as_str()),
                (StatusCode::TOO_MANY_REQUESTS, "proof_spent")
            );
        }
    }
    assert_eq!(number(&house.sale().await["arrivals"]), arrivals + 1, "numbers were given for nothing");
}

#[tokio::test]
async fn case_12_who_lapsed_pays_nothing_for_one_new_number_and_no_more() {
    let quick = sale().set("claim_window", r#""1s""#).set("recall_grace", r#""0s""#);
    let house = house(quick).await;
    let person = house.visitor().only_at(&house.gateway.nodes()[0]);
    let first = join(&person, CROWDED).await.json()["arrival"].clone();
    crowd_the_network(&house).await;
    until("the call has lapsed", || async { (state_from(&person).await.1 == "lapsed").then_some(()) }).await;
    let again = json!({ "sale": SALE, "again": true });
    let kept = person.another_tab();
    let answer = post(&person, CROWDED, JOIN, &again).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let second = answer.json()["arrival"].clone();
    assert_ne!(second, first);
    // The number that lapsed is exchanged, and buys nothing else once the new one was left.
    let left = post(&person, CROWDED, "/api/v1/queue/leave", &json!({ "sale": SALE })).await;
    assert_eq!(left.status, StatusCode::NO_CONTENT, "{}", left.text());
    let answer = post(&kept, CROWDED, JOIN, &again).await;
    assert_eq!(answer.problem(), "proof_required", "{}", answer.text());
}

async fn state_from(visitor: &Visitor) -> (StatusCode, Value) {
    let from = |request: reqwest::RequestBuilder| request.header("x-forwarded-for", CROWDED);
    let path = format!("/api/v1/queue/status?sale={SALE}");
    let answer = visitor.send(Method::GET, &path, from).await;
    (answer.status, answer.json()["state"].clone())
}

#[tokio::test]
async fn case_12_a_person_beside_the_script_gets_in_with_a_proof() {
    let house = house(sale()).await;
    crowd_the_network(&house).await;
    for _ in 0..5 {
        let person = house.visitor();
        let proofs = join_by_proof(&person, CROWDED).await;
        assert!(proofs >= 1, "nobody was asked for anything");
        admitted(&person).await;
    }
    // Without cookies, as an app: the visitor is named in the answer.
    let app = async |visitor: Option<&str>, document: &Value| {
        let fresh = house.visitor().only_at(&house.gateway.nodes()[0]);
        let send = |request: reqwest::RequestBuilder| {
            let request = request.header("x-forwarded-for", CROWDED).json(document);
            visitor.into_iter().fold(request, |request, name| request.header("ropeline-visitor", name))
        };
        fresh.send(Method::POST, JOIN, send).await
    };
    let first = app(None, &json!({ "sale": SALE })).await;
    let name = first.json()["visitor"].as_str().expect("a visitor").to_owned();
    let proof = solve(&asked(&first));
    let answer = app(Some(&name), &json!({ "sale": SALE, "proof": proof })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
}

#[tokio::test]
async fn case_12_who_was_invited_is_no_suspect() {
    let lanes =
        r#"[{ name = "everybody", share = 20 }, { name = "members", share = 80, invitation = true }]"#;
    let house = House::with(sale_not_yet_open().set("lanes", lanes), |settings| {
        guarded(settings).set("keys", "invitation", r#"["keys/invitation.public.jwk"]"#)
    })
    .await;
    crowd_the_network(&house).await;
    let jwk = std::fs::read(house.gateway.folder().join("keys/invitation.jwk")).unwrap();
    let key = SigningKey::from_jwk(&jwk).unwrap();
    let invitation = |jti: &str| {
        let claims = InvitationClaims {
            aud: SALE.to_owned(),
            lane: "members".to_owned(),
            jti: jti.to_owned(),
            sub: None,
            nbf: None,
            exp: 4_000_000_000,
        };
        key.sign_invitation(&claims).unwrap()
    };
    let shows = async |invitation: &str| {
        post(&house.visitor(), CROWDED, JOIN, &json!({ "sale": SALE, "invitation": invitation })).await
    };
    for jti in ["a", "b", "c"] {
        let answer = shows(&invitation(jti)).await;
        assert_eq!(answer.json()["lane"], "members", "{}", answer.text());
        // One invitation is one number, so that it cannot be used to get around the proof.
        assert_eq!(shows(&invitation(jti)).await.problem(), "invitation_used");
    }
    assert_eq!(shows("a forged one").await.problem(), "invitation_invalid");
    assert_eq!(join(&house.visitor(), CROWDED).await.problem(), "proof_required");
}

/// Leaving gives an invitation back, and the number that it brings then costs what it costs anybody.
#[tokio::test]
async fn case_12_an_invitation_brings_no_number_after_number_for_nothing() {
    let lanes =
        r#"[{ name = "everybody", share = 20 }, { name = "members", share = 80, invitation = true }]"#;
    let house = House::with(sale_not_yet_open().set("lanes", lanes), |settings| {
        guarded(settings).set("keys", "invitation", r#"["keys/invitation.public.jwk"]"#)
    })
    .await;
    crowd_the_network(&house).await;
    let jwk = std::fs::read(house.gateway.folder().join("keys/invitation.jwk")).unwrap();
    let claims = InvitationClaims {
        aud: SALE.to_owned(),
        lane: "members".to_owned(),
        jti: "a".to_owned(),
        sub: None,
        nbf: None,
        exp: 4_000_000_000,
    };
    let invitation = SigningKey::from_jwk(&jwk).unwrap().sign_invitation(&claims).unwrap();
    let visitor = house.visitor().only_at(&house.gateway.nodes()[0]);
    let joins = async |more: Value| {
        let mut document = json!({ "sale": SALE, "invitation": invitation });
        document.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        post(&visitor, CROWDED, JOIN, &document).await
    };
    let first = joins(json!({})).await.json();
    assert_eq!(first["lane"], "members", "{first}");
    assert_eq!(joins(json!({})).await.json()["arrival"], first["arrival"], "another tab is another number");
    assert_eq!(visitor.leave(SALE).await.status, StatusCode::NO_CONTENT);
    let again = joins(json!({})).await;
    assert_eq!(again.problem(), "proof_required");
    let second = joins(json!({ "proof": solve(&asked(&again)) })).await.json();
    assert_eq!(second["lane"], "members", "{second}");
}
