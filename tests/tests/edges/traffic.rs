//! Steady traffic while keys rotate, the policy changes and the gateway comes and goes: one course of events, the same on
//! every host.

mod clients;
mod store;

use std::any::Any;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ropeline_tests::conformance::Upstream;
use ropeline_tests::edge_hosts::{EdgeHost, Missing, permitted};
use ropeline_tests::gateway::{Gateway, Sale};
use ropeline_tests::raw::Response;
use ropeline_tests::wait::{PATIENCE, within};
use serde_json::{Value, json};

use crate::gateway_asked::behind;
use crate::rotation::{Key, keys};

use self::clients::{Fault, Traffic, Who, ask};
pub(crate) use self::store::Store;

/// New settings rule after so long at the latest, whatever way they take.
const REFRESH: Duration = PATIENCE;

/// What a gateway that says nothing may cost whoever asks it for a room.
const SILENCE: Duration = Duration::from_secs(15);

/// The same for whoever calls it through a host that sends calls on by itself.
const CALL: Duration = Duration::from_secs(50);

/// A host that runs and takes new settings.
pub(crate) trait Live: Send {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// Gives it these settings as its page says.
    fn renew(&mut self, settings: &str) -> impl Future<Output = ()> + Send;
}

/// A host that takes new settings in place.
pub(crate) struct InPlace {
    address: SocketAddr,
    put: Box<dyn Fn(&str) + Send + Sync>,
    _host: Box<dyn Any + Send>,
}

/// What is protected, and for whom.
struct Rules {
    /// Tokens of older ones are revoked.
    epoch: u32,
    /// Paths of the sale.
    routes: &'static [&'static str],
    /// The gate of the other sale, whose path is [`OTHER`].
    other_gate: &'static str,
}

const PAGE: &str = "/sale";
const OTHER: &str = "/other";
const COMING: &str = "/coming";
const GOING: &str = "/going";
const CALLS: &str = "/api/v1/queue/status?sale=drop";

const BEFORE: Rules = Rules { epoch: 0, routes: &[PAGE, GOING], other_gate: "open" };
const AFTER: Rules = Rules { epoch: 1, routes: &[PAGE, COMING], other_gate: "queue" };

// === impl InPlace ===

impl InPlace {
    /// A host that is given settings by `put`, which is told its folder.
    pub(crate) fn new(host: EdgeHost, put: impl Fn(&Path, &str) + Send + Sync + 'static) -> Self {
        let folder = host.folder().to_owned();
        let address = host.address();
        Self { address, put: Box::new(move |settings| put(&folder, settings)), _host: Box::new(host) }
    }
}

impl Live for InPlace {
    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn renew(&mut self, settings: &str) {
        (self.put)(settings);
    }
}

// === impl Rules ===

impl Rules {
    /// Settings for an edge in front of the shop that knows these keys.
    fn with(&self, keys: &[&Key]) -> String {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        let routes: Vec<Value> = self.routes.iter().map(|path| json!({ "path": path })).collect();
        let sale = |name: &str, gate: &str, routes: Value| {
            json!({ "sale": name, "epoch": self.epoch, "gate": gate, "routes": routes,
                    "page_status": 202, "other_status": 429 })
        };
        json!({
            "version": 1,
            "policy": {
                "issuer": "https://shop.example", "api_prefix": "/api/v1/queue", "secure_cookies": true,
                "sales": [
                    sale("drop", "queue", routes.into()),
                    sale("other", self.other_gate, json!([{ "path": OTHER }])),
                ],
            },
            "keys": { "keys": keys },
            "send_to": "shop",
        })
        .to_string()
    }
}

/// How long this host lets a silent gateway keep shoppers waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silent {
    /// Not long.
    GivenUp,
    /// For ever: the limit is the platform's, and there is none at home.
    WaitedFor,
}

/// The whole course. `start` is given settings and the addresses of gateway and shop.
pub(crate) async fn course<L: Live, F>(
    name: &str,
    silent: Silent,
    start: impl FnOnce(String, SocketAddr, SocketAddr) -> F,
) where
    F: Future<Output = Result<L, Missing>>,
{
    let shop = Upstream::open("shop").await;
    let mut gateway = Gateway::start(behind(shop.address()), &[Sale::new("drop", &[PAGE])]).await;
    let [old, new] = keys();
    let started = start(BEFORE.with(&[&old]), gateway.address(), shop.address()).await;
    let Some(mut host) = permitted(started) else { return };
    let traffic = Traffic::start(host.address(), &old.token(), &Key::forger_of(&old).token());
    keys_rotate(&mut host, &traffic, &old, &new).await;
    the_policy_changes(&mut host, &traffic, &new).await;
    the_gateway_comes_and_goes(&mut gateway, &traffic, silent).await;
    eprintln!("traffic: {name}: {}", traffic.end().await);
}

async fn status(traffic: &Traffic, path: &str, token: Option<&str>) -> u16 {
    ask(traffic.edge(), path, "application/json", token, PATIENCE).await.expect("an answer").status
}

/// A new key is published, signs, and the old one is dropped.
async fn keys_rotate<L: Live>(host: &mut L, traffic: &Traffic, old: &Key, new: &Key) {
    let (before, after) = (old.token(), new.token());
    traffic.pass("before anything changes", &Who::ALL).await;
    assert_eq!(status(traffic, PAGE, Some(&after)).await, 429, "a key that nobody has published");

    host.renew(&BEFORE.with(&[old, new])).await;
    within(REFRESH, "a published key holds", || async {
        (status(traffic, PAGE, Some(&after)).await == 200).then_some(())
    })
    .await;
    traffic.sign_with(&after);
    traffic.pass("the new key signs", &Who::ALL).await;

    host.renew(&BEFORE.with(&[new])).await;
    within(REFRESH, "a dropped key does not hold", || async {
        (status(traffic, PAGE, Some(&before)).await == 429).then_some(())
    })
    .await;
    traffic.pass("the old key is dropped", &Who::ALL).await;
}

/// An epoch is raised, a gate closed, one route added and another taken away.
async fn the_policy_changes<L: Live>(host: &mut L, traffic: &Traffic, key: &Key) {
    let revoked = key.token();
    traffic.sign_with(&key.token_of_epoch(AFTER.epoch));
    traffic.pass("the gateway signs for the next epoch", &Who::ALL).await;
    // Path, token, and what each of the two policies has to say.
    let asked = [
        (PAGE, Some(revoked.as_str()), 200, 429),
        (OTHER, None, 200, 429),
        (COMING, None, 200, 429),
        (GOING, None, 429, 200),
    ];
    for (path, token, before, _) in asked {
        assert_eq!(status(traffic, path, token).await, before, "{path} under the old policy");
    }
    host.renew(&AFTER.with(&[key])).await;
    for (path, token, before, after) in asked {
        within(REFRESH, "the new policy rules", || async {
            let status = status(traffic, path, token).await;
            assert!(status == before || status == after, "{path} while the policy changes: {status}");
            (status == after).then_some(())
        })
        .await;
    }
    traffic.pass("the new policy rules", &Who::ALL).await;
}

/// The gateway is killed, is there again, says nothing, and goes on.
async fn the_gateway_comes_and_goes(gateway: &mut Gateway, traffic: &Traffic, silent: Silent) {
    let answer = call(traffic).await;
    assert!(matches!(answer, Ok(Response { status: 401, .. })), "a call without a ticket: {answer:?}");

    traffic.may_be_torn(true);
    gateway.process().kill();
    traffic.until_closed("the gateway is killed").await;
    traffic.may_be_torn(false);
    traffic.pass("the gateway is away", &Who::ALL).await;
    let answer = call(traffic).await;
    assert!(matches!(answer, Ok(Response { status: 502..=504, .. })), "nobody is there: {answer:?}");

    gateway.kill_and_restart().await;
    traffic.until_open("the gateway is there again").await;
    traffic.pass("the gateway is there again", &Who::ALL).await;

    // An answer that stops in its middle is another matter, and nobody can make another of it.
    let nobody = traffic.pause().await;
    gateway.process().pause();
    drop(nobody);
    match silent {
        Silent::GivenUp => {
            traffic.until_closed("the gateway says nothing").await;
            let (answer, ()) =
                tokio::join!(call(traffic), traffic.pass("the gateway says nothing", &Who::ALL));
            assert!(matches!(answer, Ok(Response { status: 502..=504, .. })), "{answer:?}");
        }
        Silent::WaitedFor => {
            traffic.lets_wait();
            traffic.pass("the gateway says nothing", &[Who::Admitted, Who::Forger, Who::Elsewhere]).await;
        }
    }
    gateway.process().resume();
    traffic.until_open("the gateway speaks again").await;
    traffic.pass("the gateway speaks again", &Who::ALL).await;
    within(REFRESH, "calls reach the gateway again", || async {
        call(traffic).await.is_ok_and(|answer| answer.status == 401).then_some(())
    })
    .await;
}

async fn call(traffic: &Traffic) -> Result<Response, Fault> {
    ask(traffic.edge(), CALLS, "application/json", None, CALL).await
}
