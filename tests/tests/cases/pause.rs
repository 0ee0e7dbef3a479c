//! The reason for a pause: case 20.

use serde_json::{Value, json};

use crate::common::*;

#[tokio::test]
async fn case_20_the_operators_reason_for_a_pause_is_shown_wherever_anybody_looks_and_goes_with_the_pause() {
    let house = House::open(sale_for_one()).await;
    let (_inside, waiting, outside) = (house.admitted().await, house.joined().await, house.visitor());
    let reason = json!({
        "reason": "The till is being mended; <b>ten minutes</b>.",
        "translations": { "de": "Die Kasse wird repariert.", "pt-BR": "A caixa está em conserto." },
    });
    let public = json!({ "text": reason["reason"], "translations": reason["translations"] });
    house.gateway.command(SALE, "pause", &reason).await;

    let snapshot = house.snapshot().await;
    assert_eq!((&snapshot["phase"], &snapshot["paused_reason"]), (&json!("paused"), &public));
    let status = waiting.status(SALE).await.json();
    assert_eq!((&status["state"], &status["phase"]), (&json!("waiting"), &json!("paused")));
    assert_eq!(status["paused_reason"], public);
    // Whoever joins meanwhile is told at once.
    assert_eq!(house.visitor().join(SALE).await.json()["paused_reason"], public);
    let shown = "The till is being mended; &lt;b&gt;ten minutes&lt;/b&gt;.";
    let pages = [house.room().await, waiting.visit(PAGE).await.text(), outside.visit(PAGE).await.text()];
    for page in &pages {
        assert!(page.contains(shown), "{page}");
    }
    assert!(pages[1].contains("The queue is paused"), "{}", pages[1]);

    house.gateway.command(SALE, "resume", &Value::Null).await;
    assert_eq!(house.snapshot().await["paused_reason"], Value::Null);
    assert_eq!(waiting.status(SALE).await.json()["paused_reason"], Value::Null);
    let pages = [house.room().await, waiting.visit(PAGE).await.text(), outside.visit(PAGE).await.text()];
    assert!(pages.iter().all(|page| !page.contains("The till")), "a reason that is no longer true is shown");
}

#[tokio::test]
async fn case_20_there_is_no_pause_without_a_reason() {
    let house = House::open(sale()).await;
    let path = format!("/api/v1/operator/sales/{SALE}/pause");
    for (said, mend) in [
        (json!({}), "missing field `reason`"),
        (json!({ "reason": " " }), "A reason has 1 to 500 characters"),
        (json!({ "reason": "x", "translations": { "de": "" } }), "A reason has 1 to 500 characters"),
        (json!({ "reason": "x", "translations": { "german!": "y" } }), "is not a language tag"),
    ] {
        let (status, problem) = house.gateway.operator(reqwest::Method::POST, &path, Some(&said)).await;
        assert_eq!(status, 400, "{said}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(mend), "{said}: {problem}");
    }
    assert_eq!(house.snapshot().await["phase"], "open");
}
