//! Sales on demand: nobody sees the room while there is room, and nobody overtakes once there is none.

use reqwest::header::{CACHE_CONTROL, COOKIE};
use reqwest::{Method, StatusCode};
use ropeline_tests::gateway::{Sale, Settings};
use ropeline_tests::shop;
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};
use ropeline_tests::wait::until;
use tokio::task::JoinSet;

use crate::common::*;

fn sale_on_demand(max_active: &str) -> Sale {
    sale()
        .set("on_demand", "true")
        .set("max_active", max_active)
        .set("pace", r#"{ admit = 1000, per = "1s", burst = 1000 }"#)
}

fn is_the_shop(answer: &Answer) -> bool {
    answer.status == StatusCode::OK && answer.text() == shop::BODY
}

async fn house(max_active: &str) -> House {
    under_way(House::open(sale_on_demand(max_active)).await).await
}

/// The gateway has moved the sale on: before that it calls nobody.
async fn under_way(house: House) -> House {
    let start = house.sale().await;
    until("the sale is moved on", || async { (house.sale().await["as_of"] != start["as_of"]).then_some(()) })
        .await;
    house
}

/// The arrival that the visitor's ticket bears.
async fn arrival(visitor: &Visitor) -> u64 {
    number(&visitor.status(SALE).await.json()["arrival"])
}

#[tokio::test]
async fn while_there_is_room_the_first_request_reaches_the_shop_and_the_next_ones_are_the_same_visitor_s() {
    let house = house("2").await;
    let visitor = house.visitor();
    let answer = visitor.visit(PAGE).await;
    assert!(is_the_shop(&answer), "{} {}", answer.status, answer.text());
    assert_eq!(answer.headers[CACHE_CONTROL], "private, no-cache");
    let kept: Vec<String> = visitor.cookies().into_keys().collect();
    assert_eq!(kept, [ADMISSION_COOKIE, TICKET_COOKIE, VISITOR_COOKIE]);
    for _ in 0..3 {
        assert!(is_the_shop(&visitor.visit(PAGE).await));
    }
    assert!(is_the_shop(&visitor.fetch(PAGE).await), "what the page fetches is the visitor's as well");
    assert_eq!(number(&house.sale().await["arrivals"]), 1);

    let requests = house.shop.requests();
    let said = |name: &str| requests.iter().map(|request| request.header(name)).collect::<Vec<_>>();
    assert!(
        said("ropeline-admission").iter().all(|lines| lines.len() == 1),
        "{:?}",
        said("ropeline-admission")
    );
    assert!(said("ropeline-visitor").windows(2).all(|two| two[0] == two[1]));
}

#[tokio::test]
async fn what_is_sent_goes_on_with_its_body_and_under_the_one_spelling_of_its_path() {
    let house = house("2").await;
    let visitor = house.visitor();
    let send = |request: reqwest::RequestBuilder| request.header("accept", BROWSER_ACCEPT).body("size=42");
    let answer = visitor.send(Method::POST, "/x/..//sale/basket?a=b", send).await;
    assert!(is_the_shop(&answer), "{} {}", answer.status, answer.text());
    let received = house.shop.requests().pop().unwrap();
    assert!(received.line.starts_with("POST /sale/basket?a=b "), "{}", received.line);
    assert_eq!(received.body, b"size=42");
}

#[tokio::test]
async fn only_who_can_keep_a_name_is_given_one() {
    let house = house("2").await;
    // Each fetch of a script that keeps no cookies would be somebody else, and take up room for as long as a lease.
    for _ in 0..5 {
        let answer = house.visitor().fetch(PAGE).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.text());
    }
    assert_eq!(number(&house.sale().await["arrivals"]), 0);
}

#[tokio::test]
async fn above_its_limit_it_queues_and_nobody_who_comes_later_passes_before_those_who_wait() {
    let brief = sale_on_demand("1").set("claim_window", r#""1s""#).set("recall_grace", r#""0s""#);
    let house = under_way(House::open(brief).await).await;
    let first = house.visitor();
    assert!(is_the_shop(&first.visit(PAGE).await));
    let second = house.visitor();
    assert!(!is_the_shop(&second.visit(PAGE).await));
    second.join(SALE).await;
    assert_eq!(state(&second).await, "waiting");
    first.leave(SALE).await;
    // The place is free now, and it is the second's.
    assert!(!is_the_shop(&house.visitor().visit(PAGE).await));
    admitted(&second).await;
    assert!(is_the_shop(&second.visit(PAGE).await));
    second.leave(SALE).await;
    until("who comes passes again", || async {
        is_the_shop(&house.visitor().visit(PAGE).await).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_crowd_at_the_edge_gets_in_as_far_as_there_is_room_and_in_its_order() {
    let house = house("10").await;
    let mut crowd: JoinSet<(Visitor, bool)> = (0..60)
        .map(|_| {
            let visitor = house.visitor();
            async move {
                let answer = visitor.visit(PAGE).await;
                let through = is_the_shop(&answer);
                if !through {
                    assert_eq!(visitor.join(SALE).await.status, StatusCode::OK);
                }
                (visitor, through)
            }
        })
        .collect();
    let (mut inside, mut waiting) = (Vec::new(), Vec::new());
    while let Some(done) = crowd.join_next().await {
        let (visitor, through) = done.unwrap();
        (if through { &mut inside } else { &mut waiting }).push(arrival(&visitor).await);
    }
    inside.sort_unstable();
    assert!(inside.len() <= 10, "{inside:?}");
    let sale = house.sale().await;
    assert_eq!(number(&sale["arrivals"]), 60, "one number each: {sale}");
    assert!(number(&sale["active"]) + number(&sale["unclaimed"]) <= 10, "{sale}");
    let next = waiting.iter().min().unwrap();
    assert!(inside.iter().all(|arrival| arrival < &number(&sale["serving"])), "{inside:?} {next} {sale}");
}

#[tokio::test]
async fn who_comes_back_after_the_lease_passes_again_while_there_is_room() {
    let house = under_way(House::open(sale_on_demand("1").set("lease", r#""1s""#)).await).await;
    let visitor = house.visitor();
    assert!(is_the_shop(&visitor.visit(PAGE).await));
    let before = arrival(&visitor).await;
    // The browser drops the admission when it is over.
    until("the lease is over", || async { (number(&house.sale().await["active"]) == 0).then_some(()) }).await;
    visitor.lose_cookie(ADMISSION_COOKIE);
    until("the visitor passes again", || async { is_the_shop(&visitor.visit(PAGE).await).then_some(()) })
        .await;
    assert!(arrival(&visitor).await > before, "under a new number");
}

#[tokio::test]
async fn who_was_let_through_while_the_shop_is_away_is_let_in_later_as_the_same() {
    let impatient = |settings: Settings| settings.set("upstream", "read_timeout", r#""1s""#);
    let house = under_way(House::with(sale_on_demand("1"), impatient).await).await;
    house.shop.answer(false);
    let visitor = house.visitor();
    let answer = visitor.visit(PAGE).await;
    assert!(answer.status.is_server_error(), "{}", answer.status);
    assert!(visitor.cookies().contains_key(ADMISSION_COOKIE), "{:?}", visitor.cookies());
    house.shop.answer(true);
    assert!(is_the_shop(&visitor.visit(PAGE).await));
}

#[tokio::test]
async fn edges_in_front_of_the_gateway_leave_a_sale_on_demand_to_it() {
    let house = house("1").await;
    let settings = |query: &'static str| {
        let gateway = &house.gateway;
        async move {
            let url = format!("http://{}/api/v1/queue/edge/settings{query}", gateway.operator_address());
            let request = ropeline_tests::http::client().get(url).bearer_auth(gateway.operator_token());
            request.header(COOKIE, "").send().await.unwrap().json::<serde_json::Value>().await.unwrap()
        }
    };
    assert_eq!(settings("").await["policy"]["sales"][0]["gate"], "open");
    assert_eq!(settings("?send_to=shop").await["policy"]["sales"][0]["gate"], "queue");
}
