//! Shoppers who come all the time, and what each of them may be answered.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ropeline_tests::raw::{Outcome, Raw, Response};
use ropeline_tests::wait::until;
use tokio::net::TcpStream;
use tokio::sync::{RwLock, RwLockWriteGuard, watch};
use tokio::task::JoinSet;

use super::{PAGE, SILENCE};
use crate::gateway_asked::CLOSED;

/// Between two requests of one client.
const PACE: Duration = Duration::from_millis(15);

/// So many visits of each kind are one pass.
const PASS: usize = 3;

/// What an answer says that is the shop's.
const SHOPS: &str = "\"upstream\":\"shop\"";

/// What a room says.
const ROOM: &str = "Sale drop";

/// Who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Somebody with a token that holds.
    Admitted,
    /// A browser without one.
    Visitor,
    /// Somebody who has signed a token for themselves.
    Forger,
    /// Somebody who wants what nothing protects.
    Elsewhere,
}

/// Clients of every kind, each with its next request as soon as the last was answered.
pub(super) struct Traffic {
    edge: SocketAddr,
    token: watch::Sender<String>,
    seen: Arc<Mutex<Seen>>,
    ends: Arc<AtomicBool>,
    /// Shared by whoever is on the way to the gateway.
    way: Arc<RwLock<()>>,
    clients: JoinSet<()>,
}

/// What the clients were answered.
#[derive(Default)]
struct Seen {
    /// By kind.
    answers: [Vec<Answered>; 4],
    faults: Vec<String>,
    /// Whether an answer may take as long as it likes.
    patient: bool,
    /// Whether a room may end in its middle: its gateway is being killed, and nobody can make a whole of it.
    torn: bool,
}

/// No answer, or a wrong one.
#[derive(Debug)]
pub(super) struct Fault {
    what: String,
    /// Whether it is an answer that began and ended too early.
    torn: bool,
}

struct Answered {
    begun: Instant,
    /// Of a visitor: whether the room could not be reached.
    closed: bool,
}

impl Who {
    pub(super) const ALL: [Self; 4] = [Self::Admitted, Self::Visitor, Self::Forger, Self::Elsewhere];

    async fn asks(self, edge: SocketAddr, token: &str, forged: &str) -> Result<Response, Fault> {
        let limit = Duration::from_secs(120);
        match self {
            Self::Admitted => ask(edge, PAGE, "text/html", Some(token), limit).await,
            Self::Visitor => ask(edge, PAGE, "text/html", None, limit).await,
            Self::Forger => ask(edge, PAGE, "application/json", Some(forged), limit).await,
            Self::Elsewhere => ask(edge, "/elsewhere", "text/html", None, limit).await,
        }
    }

    /// Whether such an answer is the truth, at one time or another: whether the room could not be reached.
    fn judge(self, answer: &Response) -> Result<bool, Fault> {
        let text = answer.text();
        let told = match (self, answer.status) {
            (Self::Admitted | Self::Elsewhere, 200) if text.contains(SHOPS) => Some(false),
            (Self::Visitor, 202) if text.contains(ROOM) => Some(false),
            (Self::Visitor, 503) if text.contains(CLOSED) => Some(true),
            (Self::Forger, 429) if answer.header("content-type") == Some("application/problem+json") => {
                Some(false)
            }
            _ => None,
        };
        told.ok_or_else(|| Fault::from(format!("{} {text:.300}", answer.status)))
    }
}

/// One request on a connection of its own.
pub(super) async fn ask(
    edge: SocketAddr,
    path: &str,
    accept: &str,
    token: Option<&str>,
    limit: Duration,
) -> Result<Response, Fault> {
    let mut request =
        format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nAccept: {accept}\r\nConnection: close\r\n");
    if let Some(token) = token {
        write!(request, "Ropeline-Admission: {token}\r\n").expect("memory");
    }
    request += "\r\n";
    let stream = TcpStream::connect(edge).await.map_err(|error| format!("{edge}: {error}"))?;
    let mut raw = Raw::over(stream);
    raw.send(request.as_bytes()).await;
    match raw.receive(limit, false).await {
        Outcome::Answer(answer) => Ok(answer),
        Outcome::Closed(bytes) => Err(Fault {
            what: format!("closed without a whole answer: {}", bytes.escape_ascii()),
            torn: !bytes.is_empty(),
        }),
        Outcome::Silence(_) => Err(format!("no answer for {limit:?}").into()),
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self { what, torn: false }
    }
}

// === impl Traffic ===

impl Traffic {
    pub(super) fn start(edge: SocketAddr, token: &str, forged: &str) -> Self {
        let (token, tokens) = watch::channel(token.to_owned());
        let (seen, ends) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let way = Arc::<RwLock<()>>::default();
        let mut clients = JoinSet::new();
        for who in Who::ALL {
            let (tokens, forged) = (tokens.clone(), forged.to_owned());
            let (seen, ends, way) = (Arc::clone(&seen), Arc::clone(&ends), Arc::clone(&way));
            clients.spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    {
                        // Held as long as the request is on its way.
                        let token = tokens.borrow().clone();
                        let _way = if who == Who::Visitor { Some(way.read().await) } else { None };
                        let begun = Instant::now();
                        let answer = who.asks(edge, &token, &forged).await;
                        seen.lock().expect("no panic while noting").note(who, begun, answer);
                    }
                    tokio::time::sleep(PACE).await;
                }
            });
        }
        Self { edge, token, seen, ends, way, clients }
    }

    /// Where shoppers are sent.
    pub(super) const fn edge(&self) -> SocketAddr {
        self.edge
    }

    /// The admitted have this token from now on.
    pub(super) fn sign_with(&self, token: &str) {
        self.token.send_replace(token.to_owned());
    }

    /// From now on answers may take as long as they like.
    pub(super) fn lets_wait(&self) {
        self.seen.lock().expect("no panic while noting").patient = true;
    }

    /// Whether the room may end in its middle from now on.
    pub(super) fn may_be_torn(&self, torn: bool) {
        self.seen.lock().expect("no panic while noting").torn = torn;
    }

    /// Waits until nobody is on the way to the gateway, and keeps it so as long as the value is kept.
    pub(super) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.way.write().await
    }

    /// Waits until each of these has come a few times and was answered. Nobody was ever answered amiss.
    pub(super) async fn pass(&self, what: &str, who: &[Who]) {
        let since = Instant::now();
        until(what, || async {
            let seen = self.sound(what);
            who.iter().all(|who| seen.since(*who, since).count() >= PASS).then_some(())
        })
        .await;
    }

    /// Waits until visitors are told that there is no room, all of them: rooms are kept for a second.
    pub(super) async fn until_closed(&self, what: &str) {
        self.until_told(what, true).await;
    }

    /// Waits until visitors see rooms again.
    pub(super) async fn until_open(&self, what: &str) {
        self.until_told(what, false).await;
    }

    async fn until_told(&self, what: &str, closed: bool) {
        let since = Instant::now();
        until(what, || async {
            let seen = self.sound(what);
            let last = seen.since(Who::Visitor, since).last();
            last.is_some_and(|answer| answer.closed == closed).then_some(())
        })
        .await;
    }

    fn sound(&self, what: &str) -> std::sync::MutexGuard<'_, Seen> {
        let seen = self.seen.lock().expect("no panic while noting");
        assert!(seen.faults.is_empty(), "until {what}:\n{}", seen.faults.join("\n"));
        seen
    }

    /// Sends everybody home, and says how many there were.
    pub(super) async fn end(mut self) -> String {
        self.ends.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client");
        }
        let seen = self.sound("the end");
        let [admitted, visitors, forgers, elsewhere] = &seen.answers;
        let closed = visitors.iter().filter(|answer| answer.closed).count();
        format!(
            "{} admitted, {} in the room, {closed} told that there is none, {} forgers refused, {} elsewhere",
            admitted.len(),
            visitors.len() - closed,
            forgers.len(),
            elsewhere.len(),
        )
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Poisoned where somebody failed while looking at it.
            let seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for who in Who::ALL {
                let answers = &seen.answers[who as usize];
                let last = answers.last().map(|answer| (answer.begun.elapsed(), answer.closed));
                eprintln!(
                    "--- {who:?}: {} answers; the last was asked for, and closed: {last:?}",
                    answers.len()
                );
            }
        }
    }
}

// === impl Seen ===

impl Seen {
    fn note(&mut self, who: Who, begun: Instant, answer: Result<Response, Fault>) {
        let took = begun.elapsed();
        let late = took > SILENCE && !self.patient;
        match answer.and_then(|answer| who.judge(&answer)) {
            Ok(_) if late => self.faults.push(format!("{who:?}: an answer after {took:?}")),
            Ok(closed) => self.answers[who as usize].push(Answered { begun, closed }),
            Err(fault) if fault.torn && self.torn && who == Who::Visitor => {}
            Err(fault) => self.faults.push(format!("{who:?}, after {took:?}: {}", fault.what)),
        }
    }

    fn since(&self, who: Who, begun: Instant) -> impl Iterator<Item = &Answered> {
        self.answers[who as usize].iter().filter(move |answer| answer.begun >= begun)
    }
}
