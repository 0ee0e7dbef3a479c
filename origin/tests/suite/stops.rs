//! Books that do not add up: the service stops the product by itself, and only the operator takes it up again.

use std::path::Path;
use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value, json};

use crate::commands::write_config;
use crate::common::{Shop, said};

fn audit(config: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
        .args(["audit", "--config"])
        .arg(config)
        .args(more)
        .output()
        .unwrap()
}

#[tokio::test]
async fn a_product_that_differs_is_stopped_by_itself_and_resumed_by_command() {
    let mut shop = Shop::open(5).await;
    let held = shop.held("ann").await;
    shop.close().await;
    sqlx::query("UPDATE reservations SET quantity = 2").execute(&mut shop.books().await).await.unwrap();
    shop.reopen().await;
    let mut refused = shop.reserve("bob", "k").await;
    for _ in 0..600 {
        if refused.code() == "product_stopped" {
            break;
        }
        // It had been sold one before the first audit: another visitor's is not.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        refused = shop.reserve("cid", "k").await;
    }
    assert_eq!((refused.status.as_u16(), refused.code()), (503, "product_stopped"), "{}", refused.text);
    assert_eq!(refused.header("retry-after"), Some("30"));
    let page = said(shop.get("dan", "/products/runner").header("accept", "text/html")).await;
    assert!(page.text.contains("Its sale is stopped for now"), "{}", page.text);
    let seen = said(shop.get("dan", "/products/runner")).await;
    assert_eq!(seen.body["stopped"], true);
    let metrics = said(shop.request(Method::GET, "/metrics")).await;
    for line in [
        "# TYPE ropeline_origin_stopped gauge",
        "ropeline_origin_stopped{product=\"runner\"} 1",
        "ropeline_origin_balanced{product=\"runner\"} 0",
        "ropeline_origin_units_total{product=\"runner\"} 5",
    ] {
        assert!(metrics.text.lines().any(|one| one == line), "{line}: {}", metrics.text);
    }

    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    let still = audit(&config, &["--resume", "runner"]);
    assert!(!still.status.success());
    assert!(String::from_utf8_lossy(&still.stderr).contains("do not add up"), "{still:?}");
    assert_eq!(audit(&config, &[]).status.code(), Some(1));

    let ann = held["links"]["self"].as_str().unwrap().trim_start_matches("/reservations/");
    sqlx::query("UPDATE reservations SET quantity = 1 WHERE id = ?1")
        .bind(ann)
        .execute(&mut shop.books().await)
        .await
        .unwrap();
    assert_eq!(shop.reserve("dan", "k").await.code(), "product_stopped", "the operator has to say so");
    let good = audit(&config, &["--resume", "runner"]);
    assert!(good.status.success(), "{good:?}");
    let books: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!((&books["balanced"], &books["products"][0]["stopped"]), (&json!(true), &json!(false)));
    assert_eq!(shop.reserve("dan", "k").await.status, 201, "while the service ran on");
    let again = audit(&config, &["--resume", "runner"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("not stopped"), "{again:?}");
}
