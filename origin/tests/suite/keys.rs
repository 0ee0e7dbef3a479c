//! The key set: rotated, unreachable, and there before or after the shop.

use std::sync::{Arc, Mutex};

use reqwest::Method;

use crate::common::{Gate, Shop, said};

/// What a gateway answers, and how often it was asked.
#[derive(Default)]
struct Published {
    answer: Option<String>,
    asked: u64,
}

/// A gateway's `/.well-known/jwks.json`, whose answer can be changed; `None` answers 500.
async fn publish(keys: Arc<Mutex<Published>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/.well-known/jwks.json", listener.local_addr().unwrap());
    let answer = move || {
        let mut keys = keys.lock().unwrap();
        keys.asked += 1;
        let answer = keys.answer.clone();
        async move { answer.ok_or(http::StatusCode::INTERNAL_SERVER_ERROR) }
    };
    let app = axum::Router::new().route("/.well-known/jwks.json", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// Changes the answer and waits until the shop has taken note of it: it asks again only after that.
async fn answer_with(keys: &Mutex<Published>, answer: Option<String>) {
    let before = {
        let mut keys = keys.lock().unwrap();
        keys.answer = answer;
        keys.asked
    };
    for _ in 0..400 {
        if keys.lock().unwrap().asked >= before + 2 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the shop asks for its keys no more");
}

async fn code_of(shop: &Shop, gate: &Gate) -> (u16, String) {
    let request =
        shop.request(Method::GET, "/products/runner").header("ropeline-admission", gate.token("ann"));
    let said = said(request).await;
    (said.status.as_u16(), said.code().to_owned())
}

async fn until(shop: &Shop, gate: &Gate, status: u16) {
    for _ in 0..400 {
        if code_of(shop, gate).await.0 == status {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("never {status}: {:?}", code_of(shop, gate).await);
}

#[tokio::test]
async fn keys_may_come_late_are_rotated_and_outlive_a_bad_answer() {
    let (old, new) = (Gate::new(1), Gate::new(2));
    let published = Arc::<Mutex<Published>>::default();
    let url = publish(published.clone()).await;
    let shop = Shop::open_with(1, |raw| {
        raw.admission.jwks_file = None;
        raw.admission.jwks_url = Some(url);
        raw.admission.refresh_seconds = 1;
    })
    .await;
    assert_eq!(code_of(&shop, &old).await, (503, "keys_unavailable".into()));
    assert_eq!(said(shop.request(Method::GET, "/healthz")).await.status, 503);
    published.lock().unwrap().answer = Some(old.jwks());
    until(&shop, &old, 200).await;
    assert_eq!(code_of(&shop, &new).await, (401, "key_unknown".into()));
    for broken in [None, Some("no key set".to_owned()), Some("x".repeat(100_000))] {
        answer_with(&published, broken).await;
        assert_eq!(code_of(&shop, &old).await.0, 200, "the keys so far stay in force");
    }
    published.lock().unwrap().answer = Some(new.jwks());
    until(&shop, &new, 200).await;
    assert_eq!(code_of(&shop, &old).await, (401, "key_unknown".into()), "withdrawn keys are");
}

/// What goes without TLS because it stays on this machine does not leave it through a proxy that the environment names.
#[tokio::test]
async fn a_gateway_on_this_machine_is_asked_past_any_proxy() {
    let gate = Gate::new(3);
    let published = Arc::<Mutex<Published>>::default();
    published.lock().unwrap().answer = Some(gate.jwks());
    let url = publish(published.clone()).await;
    let (folder, port) = (tempfile::tempdir().unwrap(), ropeline_test_ports::Port::free());
    let config = folder.path().join("origin.toml");
    let text = format!(
        "listen = '{}'\ndatabase = {:?}\npublic_url = 'https://shop.example'\n\
         [admission]\njwks_url = '{url}'\nissuer = 'a'\naudience = 'a'\n\
         [payments]\nwebhook_secret = '{}'\n\
         [[products]]\nid = 'a'\nname = 'a'\nprice_minor = 1\ncurrency = 'EUR'\ntotal = 1\n",
        port.address(),
        folder.path().join("shop.db"),
        crate::common::SECRET,
    );
    std::fs::write(&config, text).unwrap();
    let process = std::process::Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
        .args(["serve", "--config"])
        .arg(&config)
        .envs(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:9")))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let _process = crate::receivers::Killed(process);
    let client = crate::common::client();
    crate::receivers::eventually("a key set", || async {
        let health = client.get(format!("http://{}/healthz", port.address())).send().await.ok()?;
        health.status().is_success().then_some(())
    })
    .await;
}
