//! From the closing to the places, with a store, relays over HTTP, and the clock of a test.

use std::sync::atomic::{AtomicU64, Ordering};

use ropeline_queue::beacon::{Beacon, FALLBACK_AFTER_MS, MARGIN_MS};
use ropeline_queue::{
    DrawBeacon, DrawDefinition, DrawState, Phase, RawDefinition, Trust, UnixMillis, VisitorKey,
};
use ropeline_store::{EmbeddedStore, Join};
use ropeline_token::{Leeway, SigningKey};
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::beacon::relays::tests::{Manner, ROUND, TestRelay};
use crate::draw_document::DrawDocument;
use crate::edge::decider::{Decider, Decides};
use crate::keys::Keys;
use crate::page::Room;
use crate::sales::PolicyRules;

const DUE_AT: UnixMillis = Beacon::DrandQuicknet.round_at(1_000);
const CLOSES_AT: UnixMillis = UnixMillis(DUE_AT.0 - MARGIN_MS);

struct TestClock(AtomicU64);

impl TestClock {
    fn set(&self, now: UnixMillis) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }

    fn skew_ms(&self) -> i64 {
        0
    }
}

/// One store, one sale whose draw closes in a minute, and what a gateway has.
struct Scene {
    clock: Arc<TestClock>,
    store: Arc<dyn QueueStore>,
    keys: Arc<Keys>,
    id: SaleId,
    _folder: TempDir,
}

struct TestGateway {
    sales: Arc<Sales>,
    watch: BeaconWatch,
    metrics: Arc<Metrics>,
    waiting: HashMap<SaleId, Waiting>,
}

impl Scene {
    async fn new(fallback: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = Arc::new(Keys::of_seeds(1, 2));
        let clock = Arc::new(TestClock(AtomicU64::new(CLOSES_AT.0 - 60_000)));
        let store =
            EmbeddedStore::open(folder.path().join("q.redb"), Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
        let id: SaleId = "drop".parse().unwrap();
        let mut raw = RawDefinition::new(id.clone(), 1_000);
        let beacon = Some(DrawBeacon { name: Beacon::DrandQuicknet, round: None, fallback });
        raw.draw = Some(DrawDefinition { closes_at: CLOSES_AT, beacon });
        raw.opens_at = Some(DUE_AT);
        store.create(raw.check().unwrap(), [7; 32]).await.unwrap();
        Self { clock, store: Arc::new(store), keys, id, _folder: folder }
    }

    async fn join(&self, visitors: u8) {
        let join = |who| Join::of(VisitorKey([who; 16]));
        let joined = self.store.join(&self.id, (1..=visitors).map(join).collect()).await.unwrap();
        assert!(joined.iter().all(Result::is_ok));
    }

    async fn gateway(&self, relays: &[&TestRelay]) -> TestGateway {
        let metrics = Arc::new(Metrics::new().unwrap());
        let rules = PolicyRules {
            issuer: "shop".to_owned(),
            leeway: Leeway::default(),
            api_prefix: "/q".to_owned(),
            api_pattern: ropeline_decision::PathPattern::parse("/q").unwrap(),
            secure_cookies: false,
            one_host: false,
        };
        let decider = Arc::new(Decider::new(&Decides::Native, &self.keys, Arc::clone(&metrics)).unwrap());
        let room = Arc::new(Room::new().unwrap());
        let sales =
            Sales::new(Arc::clone(&self.store), room, rules, Arc::clone(&self.keys), decider, Vec::new());
        sales.begin().await.unwrap();
        let sales = Arc::new(sales);
        let addresses: Vec<_> = relays.iter().map(|relay| relay.address.clone()).collect();
        let watch = BeaconWatch::new(
            Arc::clone(&sales),
            Arc::clone(&self.store),
            Relays::new(addresses, Duration::from_millis(500)),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&metrics),
        );
        TestGateway { sales, watch, metrics, waiting: HashMap::new() }
    }
}

impl TestGateway {
    /// What the ticker and the watch do at one instant.
    async fn look(&mut self) {
        let sale = self.sales.get("drop").unwrap();
        self.sales.tick(&sale).await.unwrap();
        self.watch.look(&mut self.waiting).await;
    }

    /// As if the pause after a failure were over.
    fn pause_is_over(&mut self) {
        for waiting in self.waiting.values_mut() {
            waiting.again_at = Instant::now();
        }
    }

    fn view(&self) -> Arc<ropeline_queue::SaleView> {
        Arc::clone(&self.sales.get("drop").unwrap().showing().view)
    }

    fn draw(&self) -> DrawView {
        self.view().draw.clone().unwrap()
    }

    fn snapshot(&self) -> Value {
        serde_json::from_slice(&self.sales.get("drop").unwrap().showing().snapshot).unwrap()
    }

    fn document(&self) -> DrawDocument {
        let showing = self.sales.get("drop").unwrap().showing().draw.clone().unwrap();
        serde_json::from_slice(&showing.identity().body).unwrap()
    }
}

#[tokio::test]
async fn a_draw_is_made_with_its_round_as_soon_as_one_honest_relay_has_it() {
    let scene = Scene::new(false).await;
    scene.join(50).await;
    let liar = TestRelay::start(Manner::Answers(200, ROUND.replace("b44679b9", "b44679ba"))).await;
    let honest = TestRelay::start(Manner::Answers(404, String::new())).await;
    let mut one = scene.gateway(&[&liar, &honest]).await;
    let mut other = scene.gateway(&[&liar, &honest]).await;
    let before = one.document();

    // Before the closing and until the round's own time nobody is asked.
    for now in [CLOSES_AT.0 - 1, CLOSES_AT.0, DUE_AT.0 - 1] {
        scene.clock.set(UnixMillis(now));
        one.look().await;
    }
    assert_eq!((liar.asked().len(), honest.asked().len()), (0, 0));
    let frozen = one.document();
    assert_eq!((frozen.size, frozen.seed.clone()), (Some(50), None));

    // Its time has come, and only a liar says so.
    scene.clock.set(DUE_AT);
    one.look().await;
    assert_eq!((liar.asked().len(), honest.asked().len()), (1, 1));
    one.look().await;
    assert_eq!(liar.asked().len(), 1, "asked again at once");
    let shown = one.snapshot();
    assert_eq!((&shown["phase"], &shown["draw"]["beacon"]["late"]), (&"drawing".into(), &false.into()));

    scene.clock.set(DUE_AT.plus(LATE_AFTER_MS));
    one.pause_is_over();
    one.look().await;
    assert_eq!(honest.asked().len(), 2);
    assert_eq!(one.snapshot()["draw"]["beacon"]["late"], true);
    assert_eq!(one.waiting[&scene.id].failures, 2);

    honest.behave(Manner::Answers(200, ROUND.to_owned()));
    one.pause_is_over();
    one.look().await;
    assert!(matches!(one.draw().state, DrawState::Drawn { size: 50, .. }));
    assert_eq!((one.view().phase, one.draw().trust()), (Phase::Open, Trust::Beacon));
    assert!(one.waiting.is_empty());

    // Whoever kept the documents of each step finds all of it as it should be.
    let keys = ropeline_token::KeySet::new([SigningKey::from_seed([1; 32]).public_key()]).unwrap();
    let verification = one.document().verify(&keys, &[before, frozen]);
    assert!(verification.is_good() && !verification.is_trusting(), "{verification:?}");
    assert!(verification.drawn.is_some());

    // Another gateway finds it made and asks nobody.
    other.look().await;
    assert_eq!(honest.asked().len(), 3);
    assert_eq!(other.document(), one.document());

    let counted = String::from_utf8(one.metrics.encode().unwrap()).unwrap();
    for (result, relay, count) in [("wrong", &liar, 3), ("not_yet", &honest, 2), ("good", &honest, 1)] {
        let name = relay.address.to_string();
        let line = format!("ropeline_beacon_fetches_total{{relay=\"{name}\",result=\"{result}\"}} {count}");
        assert!(counted.contains(&line), "{line} in {counted}");
    }
}

#[tokio::test]
async fn two_gateways_that_bring_the_round_at_once_make_one_draw() {
    let scene = Scene::new(false).await;
    scene.join(20).await;
    let relay = TestRelay::start(Manner::Answers(200, ROUND.to_owned())).await;
    let mut one = scene.gateway(&[&relay]).await;
    let mut other = scene.gateway(&[&relay]).await;
    for now in [CLOSES_AT, DUE_AT] {
        scene.clock.set(now);
        let sales = [&one.sales, &other.sales].map(|sales| sales.get("drop").unwrap());
        one.sales.tick(&sales[0]).await.unwrap();
        other.sales.tick(&sales[1]).await.unwrap();
    }
    tokio::join!(one.watch.look(&mut one.waiting), other.watch.look(&mut other.waiting));
    assert_eq!(relay.asked().len(), 2);
    assert!(one.draw().state.seed().is_some());
    assert_eq!(one.document(), other.document());
}

#[tokio::test]
async fn a_draw_that_the_operator_made_meanwhile_is_left_alone() {
    let scene = Scene::new(true).await;
    scene.join(20).await;
    let relay = TestRelay::start(Manner::Answers(503, String::new())).await;
    let mut gateway = scene.gateway(&[&relay]).await;
    scene.clock.set(CLOSES_AT);
    gateway.look().await;
    scene.clock.set(DUE_AT.plus(FALLBACK_AFTER_MS));
    gateway.look().await;
    assert!(gateway.draw().is_overdue(scene.clock.now()));
    let by_secret = Command::DrawBySecret { reason: "the network is down".to_owned() };
    scene.store.command(&scene.id, by_secret).await.unwrap().unwrap();
    // This gateway has not heard of it yet, and brings the round that has come after all.
    relay.behave(Manner::Answers(200, ROUND.to_owned()));
    gateway.pause_is_over();
    gateway.watch.look(&mut gateway.waiting).await;
    assert_eq!(relay.asked().len(), 2);
    assert_eq!(gateway.draw().trust(), Trust::Operator);
    let keys = ropeline_token::KeySet::new([SigningKey::from_seed([1; 32]).public_key()]).unwrap();
    let verification = gateway.document().verify(&keys, &[]);
    assert!(verification.is_good() && verification.is_trusting() && verification.drawn.is_some());
}
