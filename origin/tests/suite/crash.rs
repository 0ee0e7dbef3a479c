//! The process is killed at random instants of a running sale. Nothing that was answered is lost, and no unit.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Gate, ISSUER, SALE, SECRET, Said, client, open_books, read};

const ROUNDS: u32 = 10;
const SHOPPERS: u32 = 12;
const TOTAL: i64 = 600;
const CARDS: [&str; 6] =
    ["test_accepted", "test_declined", "test_lost_reply", "test_silent", "test_slow", "test_capture_refused"];

/// A running `ropeline-origin`, killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) base: String,
}

impl Process {
    pub(crate) fn start(config: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
            .args(["serve", "--config"])
            .arg(config)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the service did not start");
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["fields"]["message"] == "listening" {
                break said["fields"]["address"].as_str().unwrap().to_owned();
            }
        };
        // Read on, or the service would wait for its log to be read.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, base: format!("http://{address}") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL: nothing is flushed, nothing is said goodbye to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What shoppers were told: by visitor, the status and body of each answered call, by its key.
type Told = Arc<Mutex<HashMap<(String, String), (u16, Value, Value)>>>;

struct Sale {
    client: reqwest::Client,
    gate: Gate,
    told: Told,
}

impl Sale {
    async fn post(&self, base: &str, visitor: &str, key: &str, path: &str, body: &Value) -> Option<Said> {
        let sent = self
            .client
            .request(Method::POST, format!("{base}{path}"))
            .header("ropeline-admission", self.gate.token(visitor))
            .header("idempotency-key", key)
            .json(body)
            .send()
            .await
            .ok()?;
        let said = read(sent).await;
        // A refusal that passes is not kept, so it need not come again.
        said.body["retry_after_s"].is_null().then_some(said)
    }

    /// Makes a call and writes down what was answered; an answer that was written down before must come again.
    async fn call(&self, base: &str, visitor: &str, key: &str, path: &str, body: &Value) -> Option<Value> {
        let said = self.post(base, visitor, key, path, body).await?;
        let answer = (said.status.as_u16(), said.body.clone(), json!([path, body]));
        let before = self.told.lock().unwrap().insert((visitor.into(), key.into()), answer.clone());
        assert!(
            before.is_none_or(|before| before == answer),
            "{visitor} was told something else before: {answer:?}"
        );
        Some(said.body)
    }

    async fn shop(&self, base: &str, visitor: &str, card: &str) -> Option<()> {
        let held = self
            .call(base, visitor, "hold", "/products/runner/reservations", &json!({ "quantity": 1 }))
            .await?;
        let path = held["links"]["purchases"].as_str()?.to_owned();
        self.call(base, visitor, "pay", &path, &json!({ "payment_method": card })).await?;
        Some(())
    }
}

fn random(below: u32) -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).unwrap();
    u32::from_le_bytes(bytes) % below
}

async fn until_settled(books: &mut sqlx::SqliteConnection) {
    for _ in 0..600 {
        let unsettled: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM purchases WHERE state IN ('authorising', 'capturing', 'voiding', 'refunding')",
        )
        .fetch_one(&mut *books)
        .await
        .unwrap();
        if unsettled == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the reconciler left purchases unsettled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_no_answer_and_no_unit() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::new(7);
    let jwks = dir.path().join("jwks.json");
    std::fs::write(&jwks, gate.jwks()).unwrap();
    let (config, database) = (dir.path().join("origin.toml"), dir.path().join("shop.db"));
    let text = format!(
        "listen = '127.0.0.1:0'\ndatabase = '{}'\npublic_url = 'https://shop.example'\n\
         [admission]\njwks_file = '{}'\nissuer = '{ISSUER}'\naudience = '{SALE}'\n\
         [payments]\nwebhook_secret = '{SECRET}'\nreconcile_seconds = 1\ntest_delay_ms = 100\n\
         [[products]]\nid = 'runner'\nname = 'Runner'\nprice_minor = 100\ncurrency = 'EUR'\ntotal = {TOTAL}\n",
        database.display(),
        jwks.display()
    );
    std::fs::write(&config, text).unwrap();
    let sale = Arc::new(Sale { client: client(), gate, told: Told::default() });
    for round in 0..ROUNDS {
        let process = Process::start(&config);
        let shoppers: Vec<_> = (0..SHOPPERS)
            .map(|shopper| {
                let (sale, base) = (sale.clone(), process.base.clone());
                tokio::spawn(async move {
                    for turn in 0.. {
                        let visitor = format!("{round}-{shopper}-{turn}");
                        let card = CARDS[usize::try_from(random(6)).unwrap()];
                        if sale.shop(&base, &visitor, card).await.is_none() {
                            break;
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(u64::from(30 + random(700)))).await;
        // On a slow machine, until there is something to lose.
        let of_round = format!("{round}-");
        while sale.told.lock().unwrap().keys().filter(|(visitor, _)| visitor.starts_with(&of_round)).count()
            < 4
            && !shoppers.iter().all(tokio::task::JoinHandle::is_finished)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(process);
        for shopper in shoppers {
            shopper.abort();
            let _ = shopper.await;
        }
        // At once, while much is unsettled: nothing that was told has changed.
        let process = Process::start(&config);
        let told: Vec<_> = sale.told.lock().unwrap().clone().into_iter().collect();
        for ((visitor, key), (_, _, call)) in
            told.iter().filter(|((visitor, _), _)| visitor.starts_with(&format!("{round}-")))
        {
            let (path, body) = (call[0].as_str().unwrap(), &call[1]);
            sale.call(&process.base, visitor, key, path, body).await.expect("no answer");
        }
        let audit: Value =
            sale.client.get(format!("{}/audit", process.base)).send().await.unwrap().json().await.unwrap();
        assert_eq!(audit["balanced"], true, "{audit}");
    }
    let process = Process::start(&config);
    let mut books = open_books(&database).await;
    until_settled(&mut books).await;
    let mut payments = open_books(&dir.path().join("shop.db-payments")).await;
    let ledger: HashMap<String, String> = sqlx::query_as("SELECT purchase, status FROM payments")
        .fetch_all(&mut payments)
        .await
        .unwrap()
        .into_iter()
        .collect();
    let purchases: HashMap<String, String> = sqlx::query_as("SELECT id, state FROM purchases")
        .fetch_all(&mut books)
        .await
        .unwrap()
        .into_iter()
        .collect();
    for (purchase, status) in &ledger {
        let state = purchases[purchase].as_str();
        let fits = match status.as_str() {
            "captured" => state == "sold",
            "declined" => state == "declined",
            "voided" => state == "voided",
            _ => false,
        };
        assert!(fits, "{purchase} is {state} here and {status} there");
    }
    for (purchase, state) in &purchases {
        assert!(state != "sold" || ledger[purchase] == "captured", "{purchase} was given away");
    }
    let told = sale.told.lock().unwrap().clone();
    let answered = |status| told.values().filter(|(told, ..)| *told == status).count();
    assert!(answered(201) > 20, "the sale never got going: {} holds and purchases", answered(201));
    for (status, body, _) in told.values() {
        let state: Option<String> = match body["id"].as_str() {
            Some(id) if *status == 201 && id.starts_with("pur_") => Some(purchases[id].clone()),
            Some(id) if *status == 201 => sqlx::query_scalar("SELECT state FROM reservations WHERE id = ?1")
                .bind(id)
                .fetch_optional(&mut books)
                .await
                .unwrap(),
            _ => continue,
        };
        let kept = matches!(state.as_deref(), Some("sold" | "held"));
        assert!(kept, "{body} was answered and is {state:?}");
    }
    let audit: Value =
        sale.client.get(format!("{}/audit", process.base)).send().await.unwrap().json().await.unwrap();
    let product = &audit["products"][0];
    let sum = |name: &str| product[name].as_i64().unwrap();
    assert_eq!((audit["balanced"].as_bool(), sum("total")), (Some(true), TOTAL), "{audit}");
    assert_eq!(sum("available") + sum("held") + sum("sold"), TOTAL, "{audit}");
}
