//! A real shop on a free port, and a gateway's key to let visitors in with.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use ropeline_origin::config::{
    RawAdmission, RawKind, RawLimits, RawOutbox, RawPayments, RawProduct, RawProvider,
};
use ropeline_origin::{Handle, Origin, RawConfig};
use ropeline_token::{AdmissionClaims, Claims, KeySet, SigningKey};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const ISSUER: &str = "https://shop.example";
pub const SALE: &str = "sneaker";
pub const SECRET: &str = "whsec_0123456789abcdef";

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// Lets visitors in.
pub struct Gate(SigningKey);

impl Gate {
    pub fn new(seed: u8) -> Self {
        Self(SigningKey::from_seed([seed; 32]))
    }

    pub fn jwks(&self) -> String {
        KeySet::new([self.0.public_key()]).unwrap().to_jwks()
    }

    pub fn claims(visitor: &str) -> AdmissionClaims {
        let now = unix_seconds();
        AdmissionClaims {
            claims: Claims {
                iss: ISSUER.into(),
                aud: SALE.into(),
                sub: visitor.into(),
                jti: format!("{SALE}-0-{visitor}"),
                iat: now,
                nbf: now,
                exp: now + 3_600,
                epoch: 0,
                arrival: 1,
            },
            place: 1,
        }
    }

    pub fn sign(&self, claims: &AdmissionClaims) -> String {
        self.0.sign_admission(claims).unwrap()
    }

    pub fn token(&self, visitor: &str) -> String {
        self.sign(&Self::claims(visitor))
    }
}

/// A shop that can be closed and opened again on the same books.
pub struct Shop {
    /// Kept so that the books are.
    _dir: TempDir,
    pub gate: Gate,
    pub raw: RawConfig,
    pub base: String,
    pub handle: Handle,
    pub client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

pub fn product(id: &str, total: i64) -> RawProduct {
    RawProduct {
        id: id.into(),
        name: format!("The {id}"),
        description: "One of a kind.".into(),
        price_minor: 18_900,
        currency: "EUR".into(),
        total,
        max_quantity: 3,
        kind: RawKind::Count,
        labels: Vec::new(),
    }
}

pub fn raw_config(database: PathBuf, jwks_file: PathBuf, total: i64) -> RawConfig {
    RawConfig {
        listen: "127.0.0.1:0".into(),
        database,
        public_url: "https://shop.example".into(),
        hold_seconds: 300,
        hold_extension_seconds: 0,
        limits: RawLimits::default(),
        admission: RawAdmission {
            jwks_file: Some(jwks_file),
            jwks_url: None,
            refresh_seconds: 60,
            issuer: ISSUER.into(),
            audience: SALE.into(),
            min_epoch: 0,
            leeway_seconds: 5,
        },
        payments: RawPayments {
            webhook_secret: Some(SECRET.into()),
            reconcile_seconds: 1,
            provider: RawProvider::Test,
            test_delay_ms: Some(3_600_000),
            test_database: None,
            stripe: None,
        },
        outbox: RawOutbox::default(),
        notify: None,
        products: vec![product("runner", total)],
    }
}

async fn start(raw: &RawConfig) -> (String, Handle, oneshot::Sender<()>, JoinHandle<()>) {
    let origin = Origin::bind(raw.clone().check().unwrap()).await.unwrap();
    let (stop, stopped) = oneshot::channel();
    let (base, handle) = (format!("http://{}", origin.local_addr()), origin.handle());
    let task = tokio::spawn(origin.serve(async move {
        let _ = stopped.await;
    }));
    (base, handle, stop, task)
}

impl Shop {
    pub async fn open(total: i64) -> Self {
        Self::open_with(total, |_| {}).await
    }

    pub async fn open_with(total: i64, change: impl FnOnce(&mut RawConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gate = Gate::new(7);
        let jwks = dir.path().join("jwks.json");
        std::fs::write(&jwks, gate.jwks()).unwrap();
        let mut raw = raw_config(dir.path().join("shop.db"), jwks, total);
        change(&mut raw);
        let (base, handle, stop, task) = start(&raw).await;
        let client = client();
        Self { _dir: dir, gate, raw, base, handle, client, stop: Some(stop), task: Some(task) }
    }

    pub async fn close(&mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            task.await.unwrap();
        }
    }

    /// Closes the shop and opens it on the same books.
    pub async fn reopen(&mut self) {
        self.close().await;
        let (base, handle, stop, task) = start(&self.raw).await;
        (self.base, self.handle, self.stop, self.task) = (base, handle, Some(stop), Some(task));
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub fn get(&self, visitor: &str, path: &str) -> RequestBuilder {
        self.request(Method::GET, path).header("ropeline-admission", self.gate.token(visitor))
    }

    pub fn post(&self, visitor: &str, key: &str, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, path)
            .header("ropeline-admission", self.gate.token(visitor))
            .header("idempotency-key", key)
            .json(body)
    }

    pub fn form(&self, visitor: &str, path: &str, fields: &str) -> RequestBuilder {
        self.request(Method::POST, path)
            .header("ropeline-admission", self.gate.token(visitor))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
            .body(fields.to_owned())
    }

    pub async fn reserve(&self, visitor: &str, key: &str) -> Said {
        said(self.post(visitor, key, "/products/runner/reservations", &json!({}))).await
    }

    pub async fn pay(&self, visitor: &str, key: &str, reservation: &Value, method: &str) -> Said {
        let path = reservation["links"]["purchases"].as_str().unwrap();
        said(self.post(visitor, key, path, &json!({ "payment_method": method }))).await
    }

    /// A held reservation.
    pub async fn held(&self, visitor: &str) -> Value {
        let said = self.reserve(visitor, &format!("hold-{visitor}")).await;
        assert_eq!(said.status, 201, "{}", said.body);
        said.body
    }

    /// Asks until the purchase is in one of `states`; how long that may take is bounded, not measured.
    pub async fn settled(&self, visitor: &str, path: &str, states: &[&str]) -> Said {
        // What is left to the reconciler is asked about after longer and longer pauses, up to a minute.
        for _ in 0..2_400 {
            let said = said(self.get(visitor, path)).await;
            if states.contains(&said.body["state"].as_str().unwrap_or_default()) {
                return said;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{path} never came to one of {states:?}: {}", said(self.get(visitor, path)).await.body);
    }

    /// Available, held and sold, after checking that they add up.
    pub async fn stock(&self) -> (i64, i64, i64) {
        let audit = self.handle.audit().await.unwrap();
        assert!(audit.balanced, "{audit:?}");
        let product = &audit.products[0];
        assert_eq!(product.total, product.available + product.held + product.sold);
        (product.available, product.held, product.sold)
    }

    /// The books, to look at or to move time in: expiry is on the database's clock, so a test moves the holds instead.
    pub(crate) async fn books(&self) -> sqlx::SqliteConnection {
        open_books(&self.raw.database).await
    }

    pub async fn payment_books(&self) -> sqlx::SqliteConnection {
        let mut name = self.raw.database.clone().into_os_string();
        name.push("-payments");
        open_books(&PathBuf::from(name)).await
    }

    /// The bank decides now what it would have decided in an hour.
    pub async fn let_the_bank_decide(&self) {
        sqlx::query("UPDATE payments SET due_at = 1 WHERE due_at IS NOT NULL")
            .execute(&mut self.payment_books().await)
            .await
            .unwrap();
    }

    /// The bank has said yes, and its message never comes.
    pub async fn let_the_bank_decide_unheard(&self) {
        sqlx::query("UPDATE payments SET due_at = NULL, status = 'authorised' WHERE due_at IS NOT NULL")
            .execute(&mut self.payment_books().await)
            .await
            .unwrap();
    }

    /// Ends the time of every hold.
    pub async fn let_holds_run_out(&self) {
        sqlx::query("UPDATE reservations SET expires_at = 1").execute(&mut self.books().await).await.unwrap();
    }
}

pub async fn open_books(path: &std::path::Path) -> sqlx::SqliteConnection {
    use sqlx::ConnectOptions;
    sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(std::time::Duration::from_secs(10))
        .connect()
        .await
        .unwrap()
}

/// What was answered.
#[derive(Debug)]
pub struct Said {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Said {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

pub async fn said(request: RequestBuilder) -> Said {
    read(request.send().await.unwrap()).await
}

pub async fn read(response: Response) -> Said {
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Said { status, headers, body, text }
}
