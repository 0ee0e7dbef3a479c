//! The server: requests, keys, and what the plan does to them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::books::{Books, Kept, Payment, Refusal};
use crate::plan::{Fate, Plan};
use crate::webhooks;

const LARGEST_BODY: usize = 64 * 1024;

/// A running payment service. It ends with this value.
#[derive(Debug)]
pub struct PaymentService {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    books: Mutex<Books>,
    chance: Mutex<fastrand::Rng>,
    plan: Mutex<Plan>,
    /// Where events go, and what they are signed with.
    endpoint: Mutex<Option<(String, String)>>,
    client: reqwest::Client,
    base: String,
    secret_key: String,
}

/// The connection is cut without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut by the plan")
    }
}

impl std::error::Error for Cut {}

type Answer = (u16, Value);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused((status, kind, code, message): Refusal) -> Answer {
    (status, json!({ "error": { "type": kind, "code": code, "message": message } }))
}

// === impl PaymentService ===

impl PaymentService {
    /// Starts it on a free port of this machine, for whoever knows `secret_key`.
    ///
    /// # Errors
    /// When there is no port, or no HTTP client.
    pub async fn start(plan: Plan, secret_key: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        // Whoever tests may have chosen a provider already; that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(std::io::Error::other)?;
        let shared = Arc::new(Shared {
            books: Mutex::default(),
            chance: Mutex::new(fastrand::Rng::with_seed(plan.seed)),
            plan: Mutex::new(plan),
            endpoint: Mutex::new(None),
            client,
            base: format!("http://{address}"),
            secret_key: secret_key.to_owned(),
        });
        let task = tokio::spawn(serve(listener, shared.clone()));
        Ok(Self { shared, address, task })
    }

    /// What stands in for `https://api.stripe.com`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on events go to `url`, signed with `secret`.
    pub fn send_events_to(&self, url: &str, secret: &str) {
        *lock(&self.shared.endpoint) = Some((url.to_owned(), secret.to_owned()));
    }

    /// From now on it goes by another plan.
    pub fn change(&self, plan: Plan) {
        *lock(&self.shared.chance) = fastrand::Rng::with_seed(plan.seed);
        *lock(&self.shared.plan) = plan;
    }

    /// The books.
    #[must_use]
    pub fn payments(&self) -> Vec<Payment> {
        lock(&self.shared.books).payments.values().cloned().collect()
    }

    /// The payments of a purchase.
    #[must_use]
    pub fn of(&self, purchase: &str) -> Vec<Payment> {
        self.payments().into_iter().filter(|payment| payment.purchase == purchase).collect()
    }

    /// Every event that was ever made, in order, as its body, whether or not it was sent.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        lock(&self.shared.books).events.iter().map(|(_, event)| event.clone()).collect()
    }

    /// The bank decides all that is pending, now.
    pub fn let_the_bank_decide(&self) {
        let pending: Vec<String> = lock(&self.shared.books).payments.keys().cloned().collect();
        for id in pending {
            self.shared.change(|books, base| books.decide(&id, base));
        }
    }

    /// Seven days are over: what is set aside runs out.
    pub fn let_authorisations_run_out(&self) {
        for payment in self.payments() {
            if payment.state == crate::State::Authorised {
                let _ = self.shared.change(|books, base| books.cancel(&payment.id, base));
            }
        }
    }
}

impl Drop for PaymentService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Shared ===

impl Shared {
    /// Changes the books, and sends on its way what they have to tell of it.
    fn change<T>(&self, change: impl FnOnce(&mut Books, &str) -> T) -> T {
        let (done, events) = {
            let mut books = lock(&self.books);
            let before = books.events.len();
            let done = change(&mut books, &self.base);
            (done, books.events[before..].to_vec())
        };
        if let Some((url, secret)) = lock(&self.endpoint).clone() {
            for (_, event) in events {
                let (plan, chance) = (lock(&self.plan).clone(), lock(&self.chance).fork());
                let (client, url, secret) = (self.client.clone(), url.clone(), secret.clone());
                tokio::spawn(webhooks::deliver(client, url, secret, event, plan, chance));
            }
        }
        done
    }

    fn fate(&self, path: &str) -> (Fate, Duration) {
        let (plan, mut chance) = (lock(&self.plan).clone(), lock(&self.chance));
        (plan.fate(path, &mut chance), plan.pause(&mut chance))
    }

    /// Does what a request asks for.
    fn act(self: &Arc<Self>, method: &Method, path: &str, fields: &HashMap<String, String>) -> Answer {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let show = |done: Result<String, Refusal>| match done {
            Ok(id) => (200, lock(&self.books).payments.get(&id).map_or(Value::Null, |p| p.json(&self.base))),
            Err(refusal) => refused(refusal),
        };
        match (method.as_str(), parts.as_slice()) {
            ("POST", ["v1", "payment_intents"]) => {
                show(self.change(|books, base| books.create(fields, base)))
            }
            ("GET", ["v1", "payment_intents", id]) => {
                let found = lock(&self.books).find(id).map(|payment| payment.id.clone());
                show(found)
            }
            ("POST", ["v1", "payment_intents", id, "confirm"]) => {
                let back = fields.get("return_url").cloned();
                match self.change(|books, base| books.confirm(id, back, base)) {
                    Ok(true) => {
                        self.decide_later(id);
                        show(Ok((*id).to_owned()))
                    }
                    Ok(false) => show(Ok((*id).to_owned())),
                    Err(refusal) => refused(refusal),
                }
            }
            ("POST", ["v1", "payment_intents", id, "capture"]) => {
                show(self.change(|books, base| books.capture(id, base)).map(|()| (*id).to_owned()))
            }
            ("POST", ["v1", "payment_intents", id, "cancel"]) => {
                show(self.change(|books, base| books.cancel(id, base)).map(|()| (*id).to_owned()))
            }
            ("POST", ["v1", "refunds"]) => {
                let intent = fields.get("payment_intent").cloned().unwrap_or_default();
                match self.change(|books, base| books.refund(&intent, base)) {
                    Ok(refund) => (200, refund),
                    Err(refusal) => refused(refusal),
                }
            }
            _ => refused((404, "invalid_request_error", "url_invalid", "Unrecognized request URL.")),
        }
    }

    fn decide_later(self: &Arc<Self>, id: &str) {
        let Some(most) = lock(&self.plan).bank else { return };
        let (shared, id) = (self.clone(), id.to_owned());
        let wait = most.mul_f64(lock(&self.chance).f64());
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            shared.change(|books, base| books.decide(&id, base));
        });
    }

    /// One request, through keys and plan.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(|_| Cut)?.to_bytes();
        // The bank's page: whoever looks at it has confirmed.
        if let Some(id) = path.strip_prefix("/bank/") {
            self.change(|books, base| books.decide(id, base));
            let back = lock(&self.books).find(id).ok().and_then(|payment| payment.return_url.clone());
            return Ok(match back {
                Some(back) => plain(303, &[("location", &back)], &Value::Null),
                None => plain(404, &[], &Value::Null),
            });
        }
        let header = |name: &str| parts.headers.get(name).and_then(|line| line.to_str().ok());
        if header("authorization") != Some(&format!("Bearer {}", self.secret_key)) {
            let (status, body) = refused((401, "invalid_request_error", "", "Invalid API Key provided."));
            return Ok(plain(status, &[], &body));
        }
        let (fate, pause) = self.fate(&path);
        match fate {
            Fate::DroppedBefore => return Err(Cut),
            Fate::Unavailable => return Ok(plain(503, &[], &json!({ "error": { "type": "api_error" } }))),
            Fate::Limited => {
                let (status, body) =
                    refused((429, "invalid_request_error", "rate_limit", "Too many requests."));
                return Ok(plain(status, &[], &body));
            }
            Fate::Fine | Fate::DroppedAfter | Fate::FailedBefore | Fate::FailedAfter => {}
        }
        tokio::time::sleep(pause).await;
        let fields: HashMap<String, String> = serde_urlencoded::from_bytes(&body).unwrap_or_default();
        let Some(key) = header("idempotency-key").map(str::to_owned) else {
            let answer = self.act(&parts.method, &path, &fields);
            return if fate == Fate::DroppedAfter { Err(Cut) } else { Ok(plain(answer.0, &[], &answer.1)) };
        };
        let named = format!("{path}?{}", String::from_utf8_lossy(&body));
        if let Some(answer) = self.known(&key, &named) {
            return if fate == Fate::DroppedAfter { Err(Cut) } else { Ok(answer) };
        }
        let failure = (500, json!({ "error": { "type": "api_error", "message": "Something went wrong." } }));
        // Done, and kept, whether or not anybody is there to be told: in a task that a closed connection does not end.
        let (shared, method) = (self.clone(), parts.method.clone());
        let work = tokio::spawn(async move {
            let answer = match fate {
                Fate::FailedBefore => failure,
                Fate::FailedAfter => {
                    shared.act(&method, &path, &fields);
                    failure
                }
                _ => shared.act(&method, &path, &fields),
            };
            if let Some(kept) = lock(&shared.books).keys.get_mut(&key) {
                kept.answer = Some(answer.clone());
            }
            answer
        });
        let (status, body) = work.await.map_err(|_| Cut)?;
        if fate == Fate::DroppedAfter { Err(Cut) } else { Ok(plain(status, &[], &body)) }
    }

    /// What a key stands for; `None`: it is new, and from now on at work.
    fn known(&self, key: &str, request: &str) -> Option<Response<Full<Bytes>>> {
        let mut books = lock(&self.books);
        let Some(kept) = books.keys.get(key) else {
            books.keys.insert(key.to_owned(), Kept { request: request.to_owned(), answer: None });
            return None;
        };
        let refusal = |status, code| {
            let (status, body) =
                refused((status, "idempotency_error", code, "This key cannot be used for it."));
            plain(status, &[], &body)
        };
        Some(match &kept.answer {
            _ if kept.request != request => refusal(400, ""),
            None => refusal(409, "idempotency_key_in_use"),
            Some((status, body)) => plain(*status, &[("idempotent-replayed", "true")], body),
        })
    }
}

fn plain(status: u16, headers: &[(&str, &str)], body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Full::new(Bytes::from(body.to_string()))).unwrap_or_default()
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| shared.clone().answer(request));
            let served =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _: Result<(), Infallible> = served.await.or(Ok(()));
        });
    }
}
