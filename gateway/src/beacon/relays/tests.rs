//! Relays as real HTTP servers, honest and otherwise.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;

/// Rounds 1000 and 123 as quicknet published them.
pub(crate) const ROUND: &str = r#"{"round":1000,"randomness":"fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd","signature":"b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"}"#;
const OTHER_SIGNATURE: &str =
    "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";

/// What a relay does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// Answers with this status and body.
    Answers(u16, String),
    /// Says how long the body is, and breaks off in the middle of it.
    BreaksOff(String),
    /// Says nothing for as long as one waits.
    IsSilent,
    /// Sends the asker elsewhere.
    SendsTo(String),
}

/// A relay that a test runs; its manner can change.
pub(crate) struct TestRelay {
    pub(crate) address: RelayAddress,
    at: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl TestRelay {
    pub(crate) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let manner = Arc::new(Mutex::new(manner));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (shared, noted) = (Arc::clone(&manner), Arc::clone(&asked));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&shared), Arc::clone(&noted)));
            }
        });
        Self { address: format!("http://{at}").parse().unwrap(), at, manner, asked, serving }
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// The targets it was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream, manner: Arc<Mutex<Manner>>, asked: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    asked.lock().unwrap().push(head.split(' ').nth(1).unwrap().to_owned());
    let manner = manner.lock().unwrap().clone();
    let text = match manner {
        Manner::Answers(status, body) => {
            format!(
                "HTTP/1.1 {status} .\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        }
        Manner::BreaksOff(body) => {
            format!("HTTP/1.1 200 .\r\ncontent-length: {}\r\n\r\n{}", body.len(), &body[..body.len() / 2])
        }
        Manner::SendsTo(address) => {
            format!("HTTP/1.1 302 .\r\nlocation: {address}\r\ncontent-length: 0\r\n\r\n")
        }
        Manner::IsSilent => return std::future::pending().await,
    };
    let _ = stream.write_all(text.as_bytes()).await;
}

fn good() -> Manner {
    Manner::Answers(200, ROUND.to_owned())
}

/// Asks relays of these manners, in this order, for round 1000.
async fn ask(manners: Vec<Manner>) -> (Fetched, Vec<TestRelay>) {
    let mut relays = Vec::new();
    for manner in manners {
        relays.push(TestRelay::start(manner).await);
    }
    let addresses: Vec<_> = relays.iter().map(|relay| relay.address.clone()).collect();
    let asked = Relays::new(addresses, Duration::from_millis(500));
    (asked.fetch(Beacon::DrandQuicknet, 1_000).await, relays)
}

/// What is said of a relay of this manner, the next one having the round.
async fn passed_over(manner: Manner) -> RelayFault {
    let (fetched, relays) = ask(vec![manner, good()]).await;
    let (output, from) = fetched.round.unwrap();
    assert_eq!((output.round, from), (1_000, relays[1].at.to_string()));
    assert_eq!(fetched.passed_over.len(), 1);
    assert_eq!(fetched.passed_over[0].0, relays[0].at.to_string());
    fetched.passed_over.into_iter().next().unwrap().1
}

#[tokio::test]
async fn the_first_relay_that_has_the_round_is_the_last_one_asked() {
    let (fetched, relays) = ask(vec![good(), good()]).await;
    let (output, from) = fetched.round.unwrap();
    assert_eq!(hex(&output.signature.randomness())[..8], *"fe290bec");
    assert_eq!((from, fetched.passed_over), (relays[0].at.to_string(), Vec::new()));
    let chain = Beacon::DrandQuicknet.chain_hash();
    assert_eq!(relays[0].asked(), [format!("/{chain}/public/1000")]);
    assert_eq!(relays[1].asked(), [""; 0]);
}

#[tokio::test]
async fn a_relay_that_lies_is_passed_over() {
    let forged = ROUND.replace("b44679b9", "b44679ba");
    assert_eq!(passed_over(Manner::Answers(200, forged)).await, RelayFault::WrongSignature);
    let (_, rest) = ROUND.split_once(r#""signature":""#).unwrap();
    let of_another = ROUND.replace(rest, &format!("{OTHER_SIGNATURE}\"}}"));
    assert_eq!(passed_over(Manner::Answers(200, of_another)).await, RelayFault::WrongSignature);
    let another = ROUND.replace(":1000,", ":123,").replace(rest, &format!("{OTHER_SIGNATURE}\"}}"));
    assert_eq!(passed_over(Manner::Answers(200, another)).await, RelayFault::OtherRound(123));
    let randomness = ROUND.replace("fe290bec", "fe290bed");
    assert_eq!(passed_over(Manner::Answers(200, randomness)).await, RelayFault::WrongRandomness);
}

#[tokio::test]
async fn a_relay_that_is_behind_slow_broken_or_gone_is_passed_over() {
    for status in [404, 425] {
        let fault = passed_over(Manner::Answers(status, "{}".to_owned())).await;
        assert_eq!(fault.as_str(), "not_yet", "{status}");
    }
    let fault = passed_over(Manner::Answers(500, ROUND.to_owned())).await;
    assert_eq!(fault, RelayFault::Status(StatusCode::INTERNAL_SERVER_ERROR));
    for manner in [Manner::IsSilent, Manner::BreaksOff(ROUND.to_owned())] {
        let fault = passed_over(manner.clone()).await;
        assert_eq!(fault.as_str(), "unreachable", "{manner:?}: {fault}");
    }
    for body in
        ["", "<html>", r#"{"round":1000}"#, &ROUND[..ROUND.len() / 2], &ROUND.replace("b44679b9", "b44679")]
    {
        let fault = passed_over(Manner::Answers(200, body.to_owned())).await;
        assert!(matches!(fault, RelayFault::Malformed(_)), "{body}: {fault}");
    }
    let endless = format!("{ROUND}{}", " ".repeat(MAX_ANSWER));
    assert!(matches!(passed_over(Manner::Answers(200, endless)).await, RelayFault::Malformed(_)));
    let elsewhere = TestRelay::start(good()).await;
    let fault = passed_over(Manner::SendsTo(format!("http://{}/", elsewhere.at))).await;
    assert_eq!(fault, RelayFault::Status(StatusCode::FOUND));
    assert_eq!(elsewhere.asked(), [""; 0]);

    let gone = ropeline_test_ports::Port::free();
    let nobody: RelayAddress = format!("http://{}", gone.address()).parse().unwrap();
    let relay = TestRelay::start(good()).await;
    let relays = Relays::new(vec![nobody, relay.address.clone()], Duration::from_secs(5));
    let fetched = relays.fetch(Beacon::DrandQuicknet, 1_000).await;
    assert_eq!(fetched.passed_over[0].1.as_str(), "unreachable");
    assert!(fetched.round.is_some());
}

#[tokio::test]
async fn where_no_relay_has_the_round_each_is_named() {
    let (fetched, relays) =
        ask(vec![Manner::Answers(404, String::new()), Manner::Answers(503, String::new())]).await;
    assert!(fetched.round.is_none());
    let named: Vec<_> =
        fetched.passed_over.iter().map(|(name, fault)| (name.clone(), fault.as_str())).collect();
    assert_eq!(named, [(relays[0].at.to_string(), "not_yet"), (relays[1].at.to_string(), "unreachable")]);
}

#[test]
fn an_address_has_a_host_and_nothing_that_would_be_lost() {
    for address in RelayAddress::PUBLIC.into_iter().chain(["http://127.0.0.1:8080/drand/", "https://[::1]"]) {
        assert!(address.parse::<RelayAddress>().is_ok(), "{address}");
    }
    let under: RelayAddress = "https://relay.example:8443/drand/".parse().unwrap();
    let chain = Beacon::DrandQuicknet.chain_hash();
    assert_eq!(
        under.round(Beacon::DrandQuicknet, 7),
        format!("https://relay.example:8443/drand/{chain}/public/7")
    );
    assert_eq!(under.to_string(), "relay.example:8443");
    for bad in [
        "",
        "api.drand.sh",
        "ftp://relay",
        "https://",
        "https://me@relay",
        "https://relay?x",
        "https://relay#x",
    ] {
        assert_eq!(bad.parse::<RelayAddress>(), Err(RelayAddressError), "{bad}");
    }
}
