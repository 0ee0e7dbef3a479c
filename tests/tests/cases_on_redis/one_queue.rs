//! What one gateway knows, every gateway knows.

use std::time::Duration;

use reqwest::StatusCode;
use ropeline_tests::shop::BODY;
use ropeline_tests::wait::within;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::*;

#[tokio::test]
async fn one_visitor_who_joins_at_two_gateways_at_the_same_instant_has_one_ticket() {
    let house = House::open(sale_not_yet_open()).await;
    for _ in 0..10 {
        let person = house.visitor();
        person.visit(PAGE).await;
        let tabs: Vec<_> = house.gateway.nodes().iter().map(|node| person.only_at(node)).collect();
        let joins: JoinSet<_> = tabs.into_iter().map(|tab| async move { tab.join(SALE).await }).collect();
        let tickets: Vec<Value> =
            joins.join_all().await.iter().map(|join| join.json()["ticket"].clone()).collect();
        assert!(tickets.iter().all(|ticket| ticket.is_string() && *ticket == tickets[0]), "{tickets:?}");
    }
    assert_eq!(house.sale().await["arrivals"], 10);
}

#[tokio::test]
async fn a_ticket_of_one_gateway_is_claimed_at_the_other_and_passes_at_both() {
    let house = House::open(sale_for_one()).await;
    let [one, other] = house.gateway.nodes() else { panic!("two gateways") };
    let here = house.visitor().only_at(one);
    assert_eq!(here.join(SALE).await.status, StatusCode::OK);
    let there = here.only_at(other);
    let claimed = admitted(&there).await.json();
    assert_eq!(here.claim(SALE).await.json(), claimed, "one admission for one ticket");
    for tab in [&here, &there] {
        assert_eq!(tab.visit(PAGE).await.text(), BODY);
    }
}

#[tokio::test]
async fn case_13_what_an_operator_tells_one_gateway_reaches_everybody_at_the_other_within_two_seconds() {
    let house = House::open(sale_for_one()).await;
    let waiting = {
        house.admitted().await;
        house.joined().await
    };
    for (command, document, phase) in [
        ("pause", json!({ "reason": "The till is being mended." }), "paused"),
        ("resume", Value::Null, "open"),
        ("sold-out", Value::Null, "sold_out"),
        ("restock", Value::Null, "open"),
        ("close", Value::Null, "closed"),
    ] {
        house.gateway.command(SALE, command, &document).await;
        for node in house.gateway.nodes() {
            let tab = waiting.only_at(node);
            within(Duration::from_secs(2), "everybody knows", || async {
                let (snapshot, status) = (node.snapshot(SALE).await, tab.status(SALE).await.json());
                (snapshot["phase"] == phase && status["phase"] == phase).then_some(())
            })
            .await;
            let says = tab.visit(PAGE).await.text().contains("The till is being mended.");
            assert_eq!(says, phase == "paused", "{phase}");
        }
    }
}
