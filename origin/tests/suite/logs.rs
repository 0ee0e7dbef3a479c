//! What the service writes to its log: JSON, and nothing of a shopper.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Gate, ISSUER, SALE, SECRET, client, said};

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_purchase_leaves_nothing_of_the_shopper_in_the_logs() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::new(7);
    let (jwks, config, log) =
        (folder.path().join("jwks.json"), folder.path().join("origin.toml"), folder.path().join("log"));
    std::fs::write(&jwks, gate.jwks()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let text = format!(
        "listen = \"{address}\"\ndatabase = {:?}\npublic_url = \"https://shop.example\"\nhold_seconds = 60\n\
         hold_extension_seconds = 60\n[admission]\njwks_file = {jwks:?}\nissuer = {ISSUER:?}\naudience = {SALE:?}\n\
         [payments]\nwebhook_secret = {SECRET:?}\nreconcile_seconds = 1\ntest_delay_ms = 10\n\
         [[products]]\nid = \"runner\"\nname = \"The runner\"\nprice_minor = 1\ncurrency = \"EUR\"\ntotal = 9\n",
        folder.path().join("shop.db"),
    );
    std::fs::write(&config, text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
        .args(["serve", "--config"])
        .arg(&config)
        .env("RUST_LOG", "debug,sqlx=warn")
        .stderr(Stdio::from(std::fs::File::create(&log).unwrap()))
        .spawn()
        .unwrap();
    let client = client();
    let base = format!("http://{address}");
    while client.get(format!("{base}/healthz")).send().await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let post = |visitor: &str, key: &str, path: &str, body: Value| {
        said(
            client
                .post(format!("{base}{path}"))
                .header("ropeline-admission", gate.token(visitor))
                .header("idempotency-key", key)
                .json(&body),
        )
    };
    // Good and bad: what is refused is no better kept.
    for (at, card) in
        ["4242 4242 4242 4242", "4000 0000 0000 0119", "4000 0000 0000 0341", "4000 0000 0000 0259"]
            .into_iter()
            .enumerate()
    {
        let visitor = format!("visitor-zebra-{at}");
        let key = |call: &str| format!("key-walrus-{call}-{at}");
        let held = post(&visitor, &key("hold"), "/products/runner/reservations", json!({})).await;
        assert_eq!(held.status.as_u16(), 201, "{}", held.text);
        let links = &held.body["links"];
        post(&visitor, &key("extend"), links["extension"].as_str().unwrap(), json!({})).await;
        let pay = links["purchases"].as_str().unwrap();
        post(&visitor, &key("typo"), pay, json!({ "payment_method": "4111-pelican" })).await;
        let email = json!({ "payment_method": card, "email": "ann.gazelle@shop.example" });
        let paid = post(&visitor, &key("pay"), pay, email).await;
        assert!(matches!(paid.status.as_u16(), 201 | 202 | 402), "{}", paid.text);
        for _ in 0..600 {
            let path = paid.header("location").unwrap();
            let seen = client.get(format!("{base}{path}")).header("ropeline-admission", gate.token(&visitor));
            let state = said(seen).await.body["state"].as_str().unwrap().to_owned();
            if matches!(state.as_str(), "sold" | "declined" | "voided" | "refunded") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let _ = post(
        "visitor-zebra-x",
        "key-walrus-x",
        "/products/runner/reservations",
        json!({ "quantity": "pelican" }),
    )
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    let mut written = String::new();
    std::fs::File::open(&log).unwrap().read_to_string(&mut written).unwrap();
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["fields"]["message"] == "listening"), "{written}");
    for secret in ["zebra", "gazelle", "walrus", "pelican", "4242", "0119", "0341", "test_", "eyJ", SECRET] {
        assert!(!written.contains(secret), "{secret} is in the log:\n{written}");
    }
}
