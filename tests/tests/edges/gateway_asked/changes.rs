//! The gateway's keys and policy change while shoppers come. Nothing of it is told to the host, which asks each time.

use std::fs;
use std::process::Command;

use reqwest::{Method, StatusCode};
use ropeline_tests::process::binary;
use ropeline_tests::shop::BODY;
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::until;
use serde_json::{Value, json};

use super::{ADMISSION_COOKIE, House, PAGE, SALE};

const OTHER: &str = "other";

/// A sale comes, and a revocation: whoever is admitted comes through all the time, and what nothing protects is served.
pub(super) async fn the_policy_changes_under_traffic(house: &House) {
    let (visitor, _) = house.admitted().await;
    let passer_by = house.visitor();
    let change = async {
        assert_eq!(house.visitor().visit("/other").await.text(), BODY, "nothing protects it yet");
        let sale = json!({ "id": OTHER, "max_active": 10, "protect": { "routes": ["/other"] } });
        let (status, answer) =
            house.gateway.operator(Method::POST, "/api/v1/operator/sales", Some(&sale)).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        until("the new sale's gate is closed", || async {
            let answer = house.visitor().fetch("/other").await;
            (answer.status == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
    };
    tokio::pin!(change);
    let mut visits = 0;
    loop {
        tokio::select! {
            (page, free) = async { (visitor.visit(PAGE).await, passer_by.visit("/free").await) } => {
                assert_eq!((page.text(), free.text()), (BODY.to_owned(), BODY.to_owned()));
                visits += 1;
            }
            () = &mut change => break,
        }
    }
    assert!(visits > 0, "nobody came meanwhile");

    house.gateway.command(SALE, "revoke", &Value::Null).await;
    until("a revoked token is refused", || async {
        let answer = visitor.fetch(PAGE).await;
        (answer.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    assert_eq!(passer_by.visit("/free").await.text(), BODY);
}

/// A new key signs, and then the old one is dropped. The gateway reads its keys at its start.
pub(super) async fn keys_rotate(house: &mut House) {
    const OLD: &str = r#"{ path = "keys/admission.jwk", state = "sign" }"#;
    const NEW: &str = r#"{ path = "keys/next.jwk", state = "sign" }"#;

    let (early, _) = house.admitted().await;
    let made = Command::new(binary("ropeline"))
        .args(["keygen", "admission", "--name", "next.jwk", "--dir"])
        .arg(house.gateway.folder().join("keys"))
        .output()
        .expect("ropeline keygen");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let both = format!("{}, {NEW}", OLD.replace("sign\"", "verify\""));
    restarted_with(house, OLD, &both).await;
    admitted_again(&early).await;
    let (late, _) = house.admitted().await;
    admitted_again(&late).await;

    restarted_with(house, &both, NEW).await;
    admitted_again(&late).await;
    assert_eq!(early.fetch(PAGE).await.status, StatusCode::UNAUTHORIZED, "a key that was dropped");
    assert!(early.cookies().contains_key(ADMISSION_COOKIE));
}

async fn restarted_with(house: &mut House, keys: &str, others: &str) {
    let file = house.gateway.folder().join("ropeline.toml");
    let text = fs::read_to_string(&file).expect("its configuration");
    assert_eq!(text.matches(keys).count(), 1, "{text}");
    fs::write(&file, text.replace(keys, others)).expect("its configuration");
    house.gateway.kill_and_restart().await;
}

/// Hosts leave an address alone for a moment after it has refused them.
async fn admitted_again(visitor: &Visitor) {
    until("a token that holds admits", || async { (visitor.visit(PAGE).await.text() == BODY).then_some(()) })
        .await;
}
