//! People who come, join, ask until it is their turn, shop and leave, over whatever goes wrong meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use ropeline_tests::shop::BODY;
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::history::{History, Told, Way};
use crate::{PAGE, SALE};

/// How long a client waits for one answer where there are faults; then it asks anew, on another connection.
pub(crate) const ANSWER: Duration = Duration::from_secs(3);
/// How long anybody may go without any progress, faults and all.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(80);

/// People under way.
pub(crate) struct Crowd {
    over: Arc<AtomicBool>,
    people: JoinSet<Vec<Way>>,
    watchers: JoinSet<Vec<Told<u64>>>,
    /// Requests that no gateway answered, so that they were sent again.
    unanswered: Arc<AtomicU64>,
    claimed: Arc<AtomicU64>,
}

/// Who makes requests.
struct Client {
    visitor: Visitor,
    way: Way,
    unanswered: Arc<AtomicU64>,
}

// === impl Crowd ===

impl Crowd {
    /// So many at a time, who reach the gateways at `base` and wait so long for one answer; each gateway's snapshot is watched,
    /// too.
    pub(crate) fn come(size: u32, base: &str, gateways: Vec<String>, answer: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (unanswered, claimed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut people = JoinSet::new();
        for seat in 0..size {
            let (over, base) = (Arc::clone(&over), base.to_owned());
            let (unanswered, claimed) = (Arc::clone(&unanswered), Arc::clone(&claimed));
            people.spawn(async move {
                let mut ways = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let visitor = Visitor::at(&base).within(answer);
                    let client = Client { visitor, way: Way::default(), unanswered: Arc::clone(&unanswered) };
                    let turn = u32::try_from(ways.len()).unwrap();
                    let leisure = Duration::from_millis(u64::from((seat * 7 + turn * 13) % 10) * 80 + 200);
                    ways.push(client.go(leisure, &claimed).await);
                }
                ways
            });
        }
        let mut watchers = JoinSet::new();
        for gateway in gateways {
            let over = Arc::clone(&over);
            watchers.spawn(watch(gateway, over));
        }
        Self { over, people, watchers, unanswered, claimed }
    }

    /// How many have been let in so far.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
    }

    /// How many requests of admitted shoppers got no answer so far.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Nobody else comes; all that are there go through to the end.
    pub(crate) async fn end(self) -> History {
        let Self { over, mut people, mut watchers, .. } = self;
        over.store(true, Ordering::Relaxed);
        let mut history = History::default();
        while let Some(ways) = people.join_next().await {
            history.ways.extend(ways.expect("a shopper gave up"));
        }
        while let Some(told) = watchers.join_next().await {
            history.servings.push(told.expect("a watcher"));
        }
        history
    }
}

async fn watch(gateway: String, over: Arc<AtomicBool>) -> Vec<Told<u64>> {
    let visitor = Visitor::at(&gateway).within(ANSWER);
    let mut servings = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let path = format!("/api/v1/queue/sales/{SALE}/snapshot");
        if let Ok(answer) = visitor.try_send(Method::GET, &path, |request| request).await
            && let Some(serving) = value(&answer)["serving"].as_u64()
        {
            servings.push(Told { asked, answered: Instant::now(), what: serving });
        }
        sleep(PAUSE).await;
    }
    servings
}

// === impl Client ===

/// Asks until it is so. No closure: those of futures that are sent to other threads do not compile yet.
macro_rules! patiently {
    ($client:ident, $what:literal, $so:expr) => {
        let deadline = Instant::now() + PATIENCE;
        while !$so {
            assert!(Instant::now() < deadline, concat!("{:?} waited in vain for ", $what), $client.way);
            sleep(PAUSE).await;
        }
    };
}

impl Client {
    async fn go(mut self, leisure: Duration, claimed: &AtomicU64) -> Way {
        // The page names the visitor, who keeps that name through everything that goes unanswered.
        patiently!(self, "the page", self.page().await.is_some_and(|page| page.status == StatusCode::OK));
        self.join().await;
        let mut turns = 0_u32;
        patiently!(self, "the call", {
            turns += 1;
            // Another tab, another device.
            if turns % 7 == 3 {
                self.join().await;
            }
            if turns % 5 == 1 {
                self.status().await;
            }
            self.claim().await
        });
        claimed.fetch_add(1, Ordering::Relaxed);

        let until = Instant::now() + leisure;
        while Instant::now() < until {
            patiently!(self, "the shop", self.shops().await);
            sleep(PAUSE).await;
        }
        self.claim().await;
        self.way.left = Some(Instant::now());
        patiently!(self, "to be let go", {
            let done = [StatusCode::NO_CONTENT, StatusCode::GONE];
            self.call("leave").await.is_some_and(|answer| done.contains(&answer.status))
        });
        self.way
    }

    /// An admitted shopper's request.
    async fn shops(&self) -> bool {
        let Some(answer) = self.page().await else { return false };
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (StatusCode::OK, BODY),
            "an admitted shopper was turned away"
        );
        true
    }

    async fn join(&mut self) {
        patiently!(self, "a ticket", self.try_join().await);
    }

    async fn try_join(&mut self) -> bool {
        let asked = Instant::now();
        let Some(answer) = self.call("join").await else { return false };
        if answer.status != StatusCode::OK {
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text());
            return false;
        }
        let document = value(&answer);
        let arrival = document["arrival"].as_u64().expect("an arrival");
        let ticket = document["ticket"].as_str().expect("a ticket").to_owned();
        self.way.joins.push(Told { asked, answered: Instant::now(), what: (arrival, ticket) });
        self.note_place(asked, &document);
        true
    }

    /// Whoever has a ticket is told where it stands, whatever else is broken.
    async fn status(&mut self) {
        let asked = Instant::now();
        let path = format!("/api/v1/queue/status?sale={SALE}");
        if let Some(answer) = self.noted(self.visitor.try_send(Method::GET, &path, |request| request).await) {
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
            let document = value(&answer);
            self.note_place(asked, &document);
        }
    }

    fn note_place(&mut self, asked: Instant, document: &Value) {
        if let Some(place) = document["place"].as_u64() {
            self.way.places.push(Told { asked, answered: Instant::now(), what: place });
        }
    }

    /// True when it is in.
    async fn claim(&mut self) -> bool {
        let asked = Instant::now();
        let Some(answer) = self.call("claim").await else { return false };
        let answered = Instant::now();
        match answer.status {
            StatusCode::OK => {
                let token = value(&answer)["admission_token"].as_str().expect("a token").to_owned();
                self.way.claims.push(Told { asked, answered, what: token });
                true
            }
            StatusCode::CONFLICT => {
                match answer.problem().as_str() {
                    "not_called" => {
                        assert!(self.way.claims.is_empty(), "{:?} was thrown back", self.way);
                        self.way.refused.push(Told { asked, answered, what: () });
                    }
                    // Called, not claimed in time because nobody answered, and called again as soon as there is room.
                    "recall_pending" => {}
                    other => panic!("{other}: {}", answer.text()),
                }
                false
            }
            StatusCode::SERVICE_UNAVAILABLE => false,
            _ => panic!("{}: {}", answer.status, answer.text()),
        }
    }

    async fn page(&self) -> Option<Answer> {
        let sent =
            self.visitor.try_send(Method::GET, PAGE, |request| request.header("accept", BROWSER_ACCEPT));
        self.noted(sent.await)
    }

    fn noted(&self, sent: Result<Answer, reqwest::Error>) -> Option<Answer> {
        if let Err(error) = &sent {
            println!("no answer: {error:?}");
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        sent.ok()
    }

    /// None: no answer came.
    async fn call(&self, call: &str) -> Option<Answer> {
        let path = format!("/api/v1/queue/{call}");
        let document = json!({ "sale": SALE });
        let sent = self.visitor.try_send(Method::POST, &path, |request| {
            request.header("accept", "application/json").json(&document)
        });
        self.noted(sent.await)
    }
}

/// The document of an answer, if it is one.
fn value(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_default()
}
