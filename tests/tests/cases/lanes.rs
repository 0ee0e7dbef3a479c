//! Lanes: who may join one is found out when joining, and what each gets of the pace: case 14.

use std::process::Command;

use reqwest::header::{LOCATION, REFERER};
use reqwest::{Method, StatusCode};
use ropeline_tests::gateway::{Sale, Settings, Store};
use ropeline_tests::process::binary;
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};
use ropeline_tests::wait::until;
use ropeline_token::{InvitationClaims, SigningKey};
use serde_json::{Value, json};

use crate::common::*;

const JOIN: &str = "/api/v1/queue/join";
const ROOM_REFUSES: StatusCode = StatusCode::FORBIDDEN;

/// Everybody's lane with a fifth of the pace, and one for members.
fn with_lanes(sale: Sale) -> Sale {
    sale.set(
        "lanes",
        r#"[{ name = "everybody", share = 20 }, { name = "members", title = "Club & friends", share = 80, invitation = true }]"#,
    )
}

async fn house(sale: Sale) -> House {
    House::with(sale, |settings| settings.set("keys", "invitation", r#"["keys/invitation.public.jwk"]"#))
        .await
}

/// What `ropeline invite` prints.
fn invite(house: &House, more: &[&str]) -> Vec<String> {
    let key = house.gateway.folder().join("keys/invitation.jwk");
    let signed = Command::new(binary("ropeline"))
        .args(["invite", "--sale", SALE, "--lane", "members", "--key"])
        .arg(key)
        .args(more)
        .output()
        .expect("ropeline invite");
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    String::from_utf8(signed.stdout).unwrap().lines().map(str::to_owned).collect()
}

async fn join_with(visitor: &Visitor, invitation: &str) -> Answer {
    visitor.post(JOIN, &json!({ "sale": SALE, "invitation": invitation })).await
}

/// What is said of a visitor whose invitation is refused.
async fn refused(visitor: &Visitor, invitation: &str) -> String {
    let answer = join_with(visitor, invitation).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text());
    answer.problem()
}

#[tokio::test]
async fn case_14_an_invitation_is_checked_when_joining_and_not_after_the_queue() {
    let house = house(with_lanes(sale_for_one())).await;
    let jwk = std::fs::read(house.gateway.folder().join("keys/invitation.jwk")).unwrap();
    let key = SigningKey::from_jwk(&jwk).unwrap();
    let claims = InvitationClaims {
        aud: SALE.to_owned(),
        lane: "members".to_owned(),
        jti: "1".to_owned(),
        sub: None,
        nbf: None,
        exp: 4_000_000_000,
    };
    let signed = |claims| key.sign_invitation(&claims).unwrap();
    let good = signed(claims.clone());
    let forged = SigningKey::from_seed([9; 32]).sign_invitation(&claims).unwrap();
    let other = |change: fn(&mut InvitationClaims)| {
        let mut claims = claims.clone();
        change(&mut claims);
        signed(claims)
    };
    let bad = [
        (forged, "invitation_invalid"),
        (good[..good.len() - 8].to_owned(), "invitation_invalid"),
        ("SUMMER".to_owned(), "invitation_invalid"),
        (other(|claims| claims.aud = "another".into()), "invitation_other_sale"),
        (other(|claims| claims.lane = "press".into()), "invitation_other_lane"),
        (other(|claims| claims.lane = "everybody".into()), "invitation_other_lane"),
        (other(|claims| claims.sub = Some("somebody".into())), "invitation_other_visitor"),
        (other(|claims| claims.exp = 1_700_000_000), "invitation_expired"),
        (other(|claims| claims.nbf = Some(3_900_000_000)), "invitation_not_yet_valid"),
    ];
    for (invitation, code) in &bad {
        let visitor = house.visitor();
        assert_eq!(refused(&visitor, invitation).await, *code);
        assert!(!visitor.cookies().contains_key(TICKET_COOKIE), "{code}: a ticket all the same");
    }
    assert_eq!(house.sale().await["arrivals"], 0, "somebody refused was given a number");

    // Who holds a ticket keeps it, whatever is shown with it.
    let waiting = house.joined().await;
    let ticket = waiting.cookies()[TICKET_COOKIE].clone();
    assert_eq!(refused(&waiting, &bad[0].0).await, "invitation_invalid");
    assert_eq!(waiting.cookies()[TICKET_COOKIE], ticket);

    // The first is called at once, the next waits, and each stands in a lane of its own.
    let member = house.visitor();
    let answer = join_with(&member, &good).await.json();
    assert_eq!(
        (&answer["lane"], &answer["arrival"], &answer["place"]),
        (&json!("members"), &json!(0), &json!(0))
    );
    let answer = house.joined().await.status(SALE).await.json();
    assert_eq!((&answer["lane"], &answer["arrival"]), (&json!("everybody"), &json!(1)));
}

#[tokio::test]
async fn case_14_a_code_that_forty_people_share_gives_one_place() {
    let house = house(with_lanes(sale_not_yet_open())).await;
    let codes = invite(&house, &["--count", "2"]);
    let mut answers = Vec::new();
    for visitor in (0..40).map(|_| house.visitor()) {
        let code = codes[0].clone();
        answers.push(tokio::spawn(async move {
            let answer = join_with(&visitor, &code).await;
            (visitor, answer)
        }));
    }
    let mut inside = Vec::new();
    for answer in answers {
        let (visitor, answer) = answer.await.unwrap();
        if answer.status == StatusCode::OK {
            inside.push(visitor);
        } else {
            assert_eq!(answer.problem(), "invitation_used");
            assert_eq!(visitor.join(SALE).await.json()["lane"], "everybody");
        }
    }
    assert_eq!(inside.len(), 1, "one code let several in, or nobody");
    let again = join_with(&inside[0], &codes[0]).await;
    assert_eq!((again.status, again.json()["arrival"].clone()), (StatusCode::OK, json!(0)));

    // Who waits in the lane for everybody goes over, and the old ticket is worth nothing.
    let visitor = house.joined().await;
    let before = visitor.another_tab();
    let over = join_with(&visitor, &codes[1]).await.json();
    assert_eq!((&over["lane"], &over["arrival"]), (&json!("members"), &json!(1)));
    assert_eq!(visitor.join(SALE).await.json()["lane"], "members");
    house.gateway.command(SALE, "open", &json!({})).await;
    admitted(&visitor).await;
    assert_eq!(before.claim(SALE).await.problem(), "left");
}

#[tokio::test]
async fn case_14_a_sale_for_the_invited_says_so_at_once() {
    let lanes = r#"[{ name = "press", share = 50, invitation = true }, { name = "members", share = 50, invitation = true }]"#;
    let house = house(sale_for_one().set("lanes", lanes)).await;
    let visitor = house.visitor();
    let answer = visitor.join(SALE).await;
    assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::FORBIDDEN, "invitation_needed"));
    let invited = invite(&house, &[]);
    assert_eq!(join_with(&visitor, &invited[0]).await.json()["lane"], "members");
    admitted(&visitor).await;
    assert_eq!(visitor.visit(PAGE).await.status, StatusCode::OK);
}

fn called(snapshot: &Value) -> [u64; 2] {
    [0, 1].map(|lane| number(&snapshot["lanes"][lane]["serving"]))
}

#[tokio::test]
async fn lanes_of_20_and_80_percent_are_called_so_at_every_look() {
    let pace = r#"{ admit = 5, every = "100ms" }"#;
    let house = house(with_lanes(sale_not_yet_open().set("pace", pace))).await;
    let everybody = crowd(&house.gateway, 60).await;
    let codes = invite(&house, &["--count", "120"]);
    for code in &codes {
        assert_eq!(join_with(&house.visitor(), code).await.status, StatusCode::OK);
    }
    house.gateway.command(SALE, "open", &json!({})).await;
    let looks = until("both lanes have been called a hundred times together", || async {
        let [everybody, members] = called(&house.snapshot().await);
        let all = everybody + members;
        // For as long as both have somebody waiting.
        if members < 120 {
            assert!(everybody.abs_diff(all / 5) <= 1, "{everybody} of {all}");
        }
        (all >= 100).then_some(all)
    });
    looks.await;
    let first = house.snapshot().await;
    let share = |lane: usize| first["lanes"][lane]["share"].clone();
    assert_eq!((share(0), share(1)), (json!(20), json!(80)));
    admitted(&everybody[0]).await;
}

/// Sends a form of the room, as a browser without a script does from the page it shows.
async fn send_form(visitor: &Visitor, page: &str, fields: &[(&str, &str)]) -> Answer {
    let body = fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let post = |request: reqwest::RequestBuilder| {
        request
            .header("accept", BROWSER_ACCEPT)
            .header("content-type", "application/x-www-form-urlencoded")
            .header(REFERER, page)
            .body(body)
    };
    visitor.send(Method::POST, JOIN, post).await
}

#[tokio::test]
async fn case_14_without_a_script_a_link_or_a_form_shows_the_invitation() {
    // A page and its forms are one gateway's.
    let keys = r#"["keys/invitation.public.jwk"]"#;
    let settings = |settings: Settings| settings.set("keys", "invitation", keys).on(Store::Embedded);
    let house = House::with(with_lanes(sale_not_yet_open()), settings).await;
    let url = house.gateway.url(&format!("{PAGE}?size=42"));
    let links = invite(&house, &["--count", "2", "--link", &url]);
    let path = links[0].strip_prefix(&house.gateway.url("")).unwrap();

    // The link leads to the room, whose button takes the place.
    let visitor = house.visitor();
    let room = visitor.visit(path).await.text();
    assert!(room.contains("I have an invitation"), "{room}");
    let fields = [("sale", SALE), ("return", "%2Fsale")];
    let answer = send_form(&visitor, &links[0], &fields).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text());
    assert_eq!(
        answer.header(LOCATION.as_str()),
        Some("/sale?size=42"),
        "the invitation goes round with the visitor"
    );
    let status = visitor.status(SALE).await.json();
    assert_eq!((&status["lane"], &status["arrival"]), (&json!("members"), &json!(0)));
    let room = visitor.visit(PAGE).await.text();
    assert!(
        room.contains("Club &amp; friends") && !room.contains("I have an invitation</summary></details>")
    );

    // Somebody else enters the same one, is told why not, and keeps the place they have.
    let second = house.joined().await;
    let code = path.split_once("invitation=").unwrap().1;
    let page = house.gateway.url(PAGE);
    let answer = send_form(&second, &page, &[fields[0], fields[1], ("invitation", code)]).await;
    assert_eq!(answer.status, ROOM_REFUSES);
    assert!(answer.text().contains("This invitation has been used by another visitor."), "{}", answer.text());
    assert!(answer.header("cache-control").is_some_and(|caching| caching.contains("no-store")));
    assert_eq!(second.status(SALE).await.json()["lane"], "everybody");
    let code = links[1].split_once("invitation=").unwrap().1;
    let answer = send_form(&second, &page, &[fields[0], fields[1], ("invitation", code)]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(second.status(SALE).await.json()["lane"], "members");
}
