//! The cap holds whoever asks where, and however many gateways move the sale on: case 6.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use ropeline_tests::gateway::{Gateway, Settings, Store};
use ropeline_tests::shop::Shop;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;
use tokio::task::JoinSet;

use crate::common::*;

/// How long a crowd storms the door.
const STORM: Duration = Duration::from_secs(3);

/// Everybody claims at whichever gateway comes next, again and again, and some of those inside leave; nobody ever sees more
/// inside than there may be.
async fn storm(max_active: u64, crowd_size: usize) {
    let shop = Shop::open().await;
    let settings = Settings::new(shop.address()).on(Store::Redis(8)).set("limits", "threads", "1");
    let sale = sale_not_yet_open()
        .set("max_active", &max_active.to_string())
        .set("pace", r#"{ admit = 1000, every = "100ms" }"#);
    let gateway = Arc::new(Gateway::start(settings, &[sale]).await);
    let crowd = crowd(&gateway, crowd_size).await;
    gateway.command(SALE, "open", &serde_json::Value::Null).await;
    let until_then = Instant::now() + STORM;
    let mut storming: JoinSet<(Visitor, bool)> = crowd
        .into_iter()
        .enumerate()
        .map(|(number, visitor)| async move {
            let mut inside = false;
            while Instant::now() < until_then {
                inside = visitor.claim(SALE).await.status == StatusCode::OK;
                // Every third of those who get in goes at once, and makes room for the next.
                if inside && number % 3 == 0 {
                    visitor.leave(SALE).await;
                    return (visitor, false);
                }
                if inside {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            (visitor, inside)
        })
        .collect();
    while Instant::now() < until_then {
        let sale = gateway.sale(SALE).await;
        let busy = number(&sale["active"]) + number(&sale["unclaimed"]);
        assert!(busy <= max_active, "{busy} of {max_active}: {sale}");
    }
    let mut inside = 0;
    while let Some(done) = storming.join_next().await {
        inside += u64::from(done.expect("a visitor").1);
    }
    assert!(inside <= max_active, "{inside} of {max_active} are inside");
    until("as many are inside as may be, no more", || async {
        let sale = gateway.sale(SALE).await;
        let busy = number(&sale["active"]) + number(&sale["unclaimed"]);
        assert!(busy <= max_active, "{busy} of {max_active}: {sale}");
        (busy == max_active).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_6_of_one_place_one_is_given_by_eight_gateways_that_race_for_it() {
    storm(1, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_6_of_two_places_two_are_given_by_eight_gateways_that_race_for_them() {
    storm(2, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_6_of_two_hundred_places_two_hundred_are_given_by_eight_gateways_that_race_for_them() {
    storm(200, 330).await;
}
