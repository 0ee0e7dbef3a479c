//! The place belongs to the visitor: cases 1, 11 and 19.

use reqwest::StatusCode;
use ropeline_tests::accounts::{self, Accounts};
use ropeline_tests::visitor::{Answer, Visitor};
use ropeline_tests::wait::until;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::*;

fn arrival(answer: &Answer) -> u64 {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    number(&answer.json()["arrival"])
}

fn ticket(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    answer.json()["ticket"].clone()
}

async fn place(visitor: &Visitor) -> u64 {
    let answer = visitor.status(SALE).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    number(&answer.json()["place"])
}

/// A device on which an account is signed in.
fn device(house: &House, accounts: &Accounts, name: &str) -> Visitor {
    let device = house.visitor();
    device.keep_cookie(accounts::COOKIE, &accounts.sign_in(name, 600));
    device
}

/// Sends the same request from all of them at the same time.
async fn at_once<F: Future<Output = Answer> + Send + 'static>(
    tabs: Vec<Visitor>,
    ask: impl Fn(Visitor) -> F,
) -> Vec<Answer> {
    let asked: JoinSet<Answer> = tabs.into_iter().map(ask).collect();
    asked.join_all().await
}

#[tokio::test]
async fn case_1_the_place_follows_the_account_to_any_device() {
    let accounts = Accounts::new();
    let house = House::with(sale_not_yet_open(), |settings| accounts.settings(settings)).await;
    for name in ["bob", "carol"] {
        device(&house, &accounts, name).join(SALE).await;
    }
    let phone = device(&house, &accounts, "ada");
    let joined = phone.join(SALE).await;
    assert_eq!(arrival(&joined), 2);
    device(&house, &accounts, "dan").join(SALE).await;

    let laptop = device(&house, &accounts, "ada");
    assert_eq!(laptop.status(SALE).await.problem(), "ticket_missing");
    assert_eq!(ticket(&laptop.join(SALE).await), ticket(&joined), "the laptop got another ticket");
    assert_eq!((place(&phone).await, place(&laptop).await), (2, 2));
    assert_eq!(house.sale().await["arrivals"], 4);

    // Whoever signs in next on this device is somebody else, with a place of their own.
    laptop.keep_cookie(accounts::COOKIE, &accounts.sign_in("bob", 600));
    assert_eq!(laptop.status(SALE).await.problem(), "ticket_missing");
    assert_eq!(arrival(&laptop.join(SALE).await), 0);

    laptop.keep_cookie(accounts::COOKIE, &accounts.sign_in("ada", -600));
    assert_eq!(laptop.join(SALE).await.problem(), "account_refused");
    assert_eq!(house.visitor().join(SALE).await.problem(), "visitor_unknown");
}

#[tokio::test]
async fn case_1_the_admission_follows_the_account_even_when_its_call_is_long_over() {
    let accounts = Accounts::new();
    let sale = sale().set("claim_window", r#""1s""#).set("recall_grace", r#""0s""#);
    let house = House::with(sale, |settings| accounts.settings(settings)).await;
    let phone = device(&house, &accounts, "ada");
    phone.join(SALE).await;
    let claimed = admitted(&phone).await.json();
    let laptop = device(&house, &accounts, "ada");
    laptop.join(SALE).await;
    until("the call is over", || async { (state(&laptop).await == "lapsed").then_some(()) }).await;

    let sent = laptop.visit(PAGE).await;
    assert_eq!(
        (sent.status, sent.header("location")),
        (StatusCode::SEE_OTHER, Some(PAGE)),
        "{}",
        sent.text()
    );
    assert_eq!(laptop.visit(PAGE).await.text(), ropeline_tests::shop::BODY);
    assert_eq!(laptop.claim(SALE).await.json(), claimed, "one admission for one ticket");
}

#[tokio::test]
async fn case_1_closing_the_tab_or_losing_the_phone_keeps_the_place() {
    let house = House::open(sale_not_yet_open()).await;
    house.joined().await;
    let tab = house.visitor();
    let joined = tab.join(SALE).await;
    assert_eq!(arrival(&joined), 1);
    // What a browser is to keep outlives its end: a cookie without an age would go with the last tab.
    for line in joined.headers.get_all("set-cookie") {
        let line = line.to_str().unwrap();
        let (_, age) = line.split_once("Max-Age=").unwrap_or_else(|| panic!("{line} ends with the session"));
        let age: u64 = age.split(';').next().unwrap().parse().unwrap();
        assert!(age >= 24 * 3600, "{line}");
    }
    house.joined().await;

    let next_day = tab.another_tab();
    drop(tab);
    assert_eq!(place(&next_day).await, 1);
    assert_eq!(ticket(&next_day.join(SALE).await), ticket(&joined));
    // Of a visitor who is known, nothing else is needed.
    next_day.lose_cookie(TICKET_COOKIE);
    assert_eq!(ticket(&next_day.join(SALE).await), ticket(&joined));
    assert_eq!(house.sale().await["arrivals"], 3);
}

#[tokio::test]
async fn case_1_a_crash_of_the_gateway_keeps_every_place() {
    let mut house = House::open(sale_not_yet_open()).await;
    let mut before = Vec::new();
    for _ in 0..10 {
        let visitor = house.visitor();
        let joined = visitor.join(SALE).await;
        before.push((visitor, arrival(&joined), ticket(&joined)));
    }
    house.gateway.kill_and_restart().await;
    for (visitor, arrival, kept) in before {
        assert_eq!(place(&visitor).await, arrival);
        assert_eq!(ticket(&visitor.join(SALE).await), kept);
    }
    assert_eq!(arrival(&house.visitor().join(SALE).await), 10, "a number was given twice, or skipped");
}

#[tokio::test]
async fn case_11_forty_tabs_that_join_at_once_are_one_visitor_with_one_place() {
    let house = House::open(sale()).await;
    let person = house.visitor();
    // The page gives its visitor a name before anything is joined.
    person.visit(PAGE).await;
    assert_eq!(person.cookies().keys().collect::<Vec<_>>(), ["ropeline-newcomer"]);

    let tabs = (0..40).map(|_| person.another_tab()).collect();
    let joins = at_once(tabs, |tab| async move { tab.join(SALE).await }).await;
    let tickets: Vec<_> = joins.iter().map(ticket).collect();
    assert!(tickets.iter().all(|ticket| *ticket == tickets[0]), "{tickets:?}");
    let sale = house.sale().await;
    assert_eq!(sale["arrivals"], 1, "{sale}");

    person.join(SALE).await;
    admitted(&person).await;
    let tabs = (0..40).map(|_| person.another_tab()).collect();
    let claims = at_once(tabs, |tab| async move { tab.claim(SALE).await }).await;
    let tokens: Vec<_> = claims.iter().map(|claim| claim.json()["admission_token"].clone()).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0] && token.is_string()), "{tokens:?}");
    assert_eq!(house.sale().await["totals"]["claimed"], 1);
}

#[tokio::test]
async fn case_11_a_page_that_comes_late_makes_no_stranger_of_a_visitor_who_has_joined() {
    let house = House::open(sale()).await;
    let (first, late) = (house.visitor(), house.visitor());
    first.visit(PAGE).await;
    // Asked for at the same instant by the same browser, when it had no cookie yet; it arrives after the join.
    late.visit(PAGE).await;
    let joined = first.join(SALE).await;
    for (name, value) in late.cookies() {
        first.keep_cookie(&name, &value);
    }
    assert_eq!(first.status(SALE).await.status, 200, "the ticket is no longer its visitor's");
    assert_eq!(arrival(&first.join(SALE).await), arrival(&joined));
    assert_eq!(house.sale().await["arrivals"], 1);
}

#[tokio::test]
async fn case_11_forty_devices_of_one_account_that_join_at_once_have_one_place() {
    let accounts = Accounts::new();
    let house = House::with(sale_not_yet_open(), |settings| accounts.settings(settings)).await;
    let devices = (0..40).map(|_| device(&house, &accounts, "ada")).collect();
    let joins = at_once(devices, |device| async move { device.join(SALE).await }).await;
    assert!(joins.iter().all(|join| arrival(join) == 0));
    assert_eq!(house.sale().await["arrivals"], 1);
}

#[tokio::test]
async fn case_19_a_join_that_is_sent_again_never_changes_the_arrival() {
    let mut house = House::open(sale_not_yet_open()).await;
    house.joined().await;
    let visitor = house.visitor();
    let first = visitor.join(SALE).await;
    let path = "/api/v1/queue/join";
    for round in 0..3 {
        house.joined().await;
        for repeated in [json!({ "sale": SALE }), json!({ "sale": SALE, "again": true })] {
            let again = visitor.post(path, &repeated).await;
            assert_eq!((arrival(&again), ticket(&again)), (1, ticket(&first)), "round {round}: {repeated}");
        }
        if round == 1 {
            house.gateway.kill_and_restart().await;
        }
    }
    assert_eq!(house.sale().await["arrivals"], 5);
}

#[tokio::test]
async fn case_19_who_has_lapsed_is_not_moved_to_the_back_unasked_and_an_old_ticket_takes_no_place_back() {
    let sale = sale().set("claim_window", r#""1s""#).set("recall_grace", r#""0s""#);
    let house = House::open(sale).await;
    let visitor = house.joined().await;
    let late = visitor.another_tab();
    until("the call lapses", || async { (state(&visitor).await == "lapsed").then_some(()) }).await;
    house.joined().await;

    let joined = visitor.join(SALE).await;
    assert_eq!((arrival(&joined), &joined.json()["state"]), (0, &json!("lapsed")));
    let again = visitor.post("/api/v1/queue/join", &json!({ "sale": SALE, "again": true })).await;
    assert_eq!(arrival(&again), 2, "asked for, a new place is at the back");
    // A tab that slept through it all still holds the first ticket; it changes nothing.
    assert_eq!(state(&late).await, "lapsed");
    assert_eq!(late.claim(SALE).await.problem(), "lapsed");
    assert_eq!(arrival(&late.join(SALE).await), 2);
    assert_eq!(arrival(&visitor.join(SALE).await), 2);
}
