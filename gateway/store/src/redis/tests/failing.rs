//! Servers, gateways and what lies between them fail, as processes do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use ropeline_queue::{Arrival, Command as Order, Joined, Pace, RawDefinition, SaleId, TickInput};
use ropeline_test_redis::{Cluster, Durable, Proxy, Sentinel, Server, Way, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

use super::fixture::settings;
use super::history::History;
use super::racing::{sale, visitor};
use super::scene::{CAP, Scene, patiently};
use crate::contract::definition;
use crate::redis::sale::Sale;
use crate::redis::standing::Standing;
use crate::redis::{RedisCheckpoint, RedisServers, RedisSettings, RedisStore, Shared, keys};
use crate::{Clock, Join, QueueStore, StoreError, SystemClock};

fn join(who: u64) -> Vec<Join> {
    vec![Join::of(visitor(who))]
}

// === Servers ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_makes_a_replica_master_that_lacks_the_end() {
    let mut master = Server::start(Durable::Never);
    let replica = master.replica(Durable::Never);
    let sentinel = Sentinel::watch(&master, 1);
    let servers = RedisServers::Sentinel {
        addresses: vec![sentinel.url()],
        service: format!("redis://{}", sentinel.service()),
    };
    let mut scene = Scene::on((), settings(servers)).await;
    let (store, other) = (scene.gateway(), scene.gateway());
    scene.join(&store, 0..100).await;
    scene.tick(&other).await;
    scene.claim(&other, 0..5).await;
    master.leave_behind(&replica);
    scene.join(&store, 100..300).await;
    scene.claim(&store, 5..20).await;
    scene.tick(&store).await;
    master.kill();
    replica.thaw();
    sentinel.wait_for(&replica);
    // The one that knows less is the first to go on.
    scene.join(&other, 500_000..500_100).await;
    scene.join(&store, 0..300).await;
    scene.claim(&store, 0..20).await;
    scene.everybody_comes_back(&other).await;
    // The old master comes back, and is not asked any more.
    master.again();
    scene.join(&store, 600_000..600_100).await;
    scene.everybody_comes_back(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_makes_a_replica_master_that_lacks_the_end() {
    let mut cluster = Cluster::start(3, Durable::Never);
    let holder = cluster.holder(&keys::head(&sale()));
    let replica = cluster.replica(holder);
    let mut scene = Scene::on((), settings(RedisServers::Cluster(cluster.urls()))).await;
    let (store, other) = (scene.gateway(), scene.gateway());
    scene.join(&store, 0..100).await;
    scene.tick(&other).await;
    cluster.masters()[holder].leave_behind(&replica);
    scene.join(&store, 100..300).await;
    scene.claim(&store, 0..20).await;
    cluster.master(holder).kill();
    replica.thaw();
    cluster.wait_for(&replica, holder);
    scene.join(&other, 500_000..500_100).await;
    scene.join(&store, 0..300).await;
    scene.claim(&store, 0..20).await;
    scene.everybody_comes_back(&other).await;
}

// === The way between ===

/// A sale that is reached through a proxy, and a gateway that goes around it.
async fn with_proxy() -> (Scene<Server>, Proxy, RedisStore) {
    let mut scene = Scene::new(Durable::Never).await;
    let proxy = Proxy::before(scene.server.port());
    let around = RedisStore::open(&scene.settings).unwrap();
    scene.settings.servers = RedisServers::Single(proxy.url());
    scene.settings.patience = Duration::from_millis(500);
    (scene, proxy, around)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_told_at_once_and_healed_by_itself() {
    let (mut scene, proxy, around) = with_proxy().await;
    let store = scene.gateway();
    scene.join(&store, 0..50).await;
    for way in [Way::Closed, Way::OneWay, Way::Closed, Way::OneWay] {
        let seed = scene.history.tickets().len() as u64;
        proxy.set(way);
        let (asked, cut) = (Instant::now(), seed..seed + 20);
        let joins: Vec<Join> = cut.clone().flat_map(join).collect();
        let refused = store.join(&sale(), joins).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{way:?}: {refused:?}");
        assert!(store.redis_report().last_error.is_some());
        // The others go on.
        scene.join(&around, seed + 20..seed + 40).await;
        scene.tick(&around).await;
        scene.claim(&around, seed..seed + 5).await;
        proxy.set(Way::Open);
        // Asked again, they have one number each, whether or not the first time took effect.
        for who in cut {
            let joined = patiently(async || store.join(&sale(), join(who)).await).await;
            scene.history.joined(asked, visitor(who), joined[0].unwrap());
        }
        scene.tick(&store).await;
    }
    assert!(
        store.redis_report().connected && store.redis_report().connections > 4,
        "{:?}",
        store.redis_report()
    );
    scene.history.check();
    scene.history.check_admissions(u64::from(CAP));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_server_that_hangs_waits_no_longer_for_others_who_wait() {
    let (scene, proxy, _around) = with_proxy().await;
    let store = Arc::new(scene.gateway());
    let patience = scene.settings.patience;
    let sales: Vec<SaleId> = (0..32).map(|number| format!("hangs-{number}").parse().unwrap()).collect();
    for id in &sales {
        store.create(RawDefinition::new(id.clone(), 10).check().unwrap(), [7; 32]).await.unwrap();
        store.view(id).await.unwrap();
    }
    proxy.set(Way::Closed);
    // Nobody is connected, and all want to be. Whoever tried anew after each attempt of the others would take 32 times as
    // long as it is patient, each time.
    let mut times = Vec::new();
    for _ in 0..2 {
        let asked = Instant::now();
        let all: JoinSet<_> = (sales.iter().cloned())
            .flat_map(|id| [id.clone(), id])
            .map(|id| {
                let store = Arc::clone(&store);
                async move { store.tick(&id, TickInput::default()).await }
            })
            .collect();
        for answer in all.join_all().await {
            assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
        }
        times.push(asked.elapsed());
    }
    assert!(times.iter().any(|time| *time < patience * 16), "{times:?}");
    let before = store.redis_report().connections;
    proxy.set(Way::Open);
    for id in &sales {
        patiently(async || store.view(id).await).await;
    }
    let made = store.redis_report().connections - before;
    // A slow machine may lose one or the other again.
    assert!(made < sales.len() as u64 / 2, "{made} connections were made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_takes_effect_once() {
    let (mut scene, proxy, around) = with_proxy().await;
    scene.settings.patience = Duration::from_secs(5);
    let store = scene.gateway();
    scene.join(&around, 0..20).await;
    // What an operator orders is not the same when it is done twice.
    let order = async || store.command(&sale(), Order::Admit { batch_size: 2, lease_ms: None }).await;
    order().await.unwrap().unwrap();
    // Nobody is called but by hand.
    let by_hand = async || {
        let view = around.tick(&sale(), TickInput { health_limit: Some(0) }).await.unwrap();
        view.totals.by_hand
    };
    let called = by_hand().await;
    assert_eq!(called, 2);
    for round in 1..=5 {
        proxy.lose_answer_to(store.shared.scripts.commit.digest().as_bytes());
        order().await.unwrap().unwrap();
        assert_eq!(proxy.lost(), round, "no answer was lost");
        assert_eq!(by_hand().await, called + u64::from(round) * 2, "not once");
    }
    let joined = |answer: Result<Vec<Result<Joined, _>>, _>| -> Joined {
        let answer: Result<_, StoreError> = answer;
        let first: Result<Joined, ropeline_queue::JoinRefusal> = answer.unwrap().remove(0);
        first.unwrap()
    };
    proxy.lose_answer_to(store.shared.scripts.commit.digest().as_bytes());
    let first = joined(store.join(&sale(), join(100)).await);
    assert!(first.new, "it was taken for somebody else's");
    assert_eq!(joined(around.join(&sale(), join(100)).await).arrival, first.arrival);
    assert!(store.redis_report().uncertain >= 6, "{:?}", store.redis_report());
}

#[tokio::test]
async fn a_gateway_that_starts_while_the_servers_clock_is_ahead_does_not_follow_it() {
    let server = Server::start(Durable::Never);
    let store = RedisStore::open(&settings(RedisServers::Single(server.url()))).unwrap();
    let wall = SystemClock::new().now().0;
    let mut sale = Sale::new(sale(), Arc::clone(&store.shared), "a".into());
    let now = sale.now(wall + 3_600_000).0;
    assert!(now < wall + 1_800_000, "the leap of {} ms was believed at once", now - wall);
}

// === Gateways ===

const CHILD: &str = "ROPELINE_REDIS_CHILD";
/// Lines of answers begin with it; the test harness prints lines of its own.
const MARK: &str = "answer ";

/// A gateway in a process of its own, and what it was told.
struct Gateway {
    process: Child,
    lines: mpsc::Receiver<String>,
    began: Instant,
}

// === impl Gateway ===

impl Gateway {
    /// Joins, ticks and claims without pause.
    fn start(settings: &RedisSettings, first: u64) -> Self {
        let (RedisServers::Single(url), Some(RedisCheckpoint::Folder(folder))) =
            (&settings.servers, &settings.checkpoint)
        else {
            panic!("one server and a folder");
        };
        let began = Instant::now();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "redis::tests::failing::child", "--ignored", "--nocapture"])
            .env(CHILD, format!("{url} {} {first}", folder.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The last line of a child that was killed may be cut off.
                if let Some((_, answer)) = line.split_once(MARK)
                    && let Some(whole) = answer.strip_suffix('.')
                {
                    let _ = tell.send(whole.to_owned());
                }
            }
        });
        Self { process, lines, began }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Adds what it was told to a history, and says how many answers that were.
    fn told(&self, history: &mut History) -> usize {
        let mut answers = 0;
        for line in self.lines.try_iter() {
            answers += 1;
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            if line.starts_with("join") {
                let joined = Joined {
                    arrival: Arrival(numbers[1]),
                    joined_at: numbers[2],
                    epoch: ropeline_queue::Epoch::default(),
                    new: numbers[3] == 1,
                };
                history.joined(self.began, visitor(numbers[0]), joined);
            } else {
                let claimed = ropeline_queue::Claimed {
                    place: ropeline_queue::Place(numbers[1]),
                    claimed_at: ropeline_queue::UnixMillis(numbers[2]),
                    expires_at: ropeline_queue::UnixMillis(numbers[3]),
                    epoch: ropeline_queue::Epoch::default(),
                };
                history.claimed(self.began, Arrival(numbers[0]), claimed);
            }
        }
        answers
    }

    /// Waits for answers.
    fn works(&self, history: &mut History) {
        let mut answers = 0;
        eventually("the gateway to be answered", || {
            answers += self.told(history);
            answers > 5
        });
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_stopped_in_a_commit_overwrites_nothing_when_it_goes_on() {
    let (mut scene, proxy, around) = with_proxy().await;
    scene.settings.patience = Duration::from_secs(5);
    let gateway = Gateway::start(&scene.settings, 1_000_000);
    for round in 0..5 {
        gateway.works(&mut scene.history);
        // Its next commit is on the way, and arrives late.
        proxy.set(Way::Slow);
        let held = proxy.held();
        eventually("a question to be on the way", || proxy.held() > held);
        gateway.signal(Signal::STOP);
        let seed = round * 100;
        // Longer than a turn and than the leases.
        let began = Instant::now();
        for step in 0.. {
            scene.join(&around, seed..seed + 1 + step % 100).await;
            scene.tick(&around).await;
            scene.claim(&around, 0..3).await;
            if began.elapsed() > Duration::from_millis(if round == 0 { 1_600 } else { 400 }) {
                break;
            }
        }
        proxy.set(Way::Open);
        scene.join(&around, seed..seed + 100).await;
        gateway.signal(Signal::CONT);
    }
    gateway.works(&mut scene.history);
    drop(gateway);
    everything_is_true(&mut scene, &around).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_at_any_moment_leaves_the_queue_whole() {
    let mut scene = Scene::new(Durable::Never).await;
    let around = scene.gateway();
    for round in 0..12 {
        let gateway = Gateway::start(&scene.settings, 1_000_000 * (round + 1));
        gateway.works(&mut scene.history);
        scene.join(&around, round * 50..round * 50 + 50).await;
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..30_000)));
        gateway.signal(Signal::KILL);
        scene.join(&around, round * 50..round * 50 + 50).await;
        gateway.told(&mut scene.history);
    }
    everything_is_true(&mut scene, &around).await;
}

/// Whoever was told something finds it so.
async fn everything_is_true(scene: &mut Scene<Server>, store: &RedisStore) {
    for ticket in scene.history.tickets() {
        let joins = vec![Join::of(ticket.visitor)];
        let joined = store.join(&sale(), joins).await.unwrap().remove(0).unwrap();
        assert_eq!((joined.arrival, joined.new), (ticket.arrival, false), "a number was lost");
    }
    scene.tick(store).await;
    scene.history.check();
    scene.history.check_cap(u64::from(CAP));
    assert!(scene.history.tickets().len() > 100 && scene.history.claims() > 0, "too little happened");
}

/// Works until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of the tests above, which run it"]
async fn child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let settings = RedisSettings {
        checkpoint: Some(RedisCheckpoint::Folder(told[1].into())),
        ..settings(RedisServers::Single(told[0].into()))
    };
    let store = RedisStore::open(&settings).unwrap();
    let first: u64 = told[2].parse().unwrap();
    for step in 0.. {
        let who = first + step * 5..first + step * 5 + 5;
        let joins: Vec<Join> = who.clone().flat_map(join).collect();
        let answers = patiently(async || store.join(&sale(), joins.clone()).await).await;
        let mut said = String::new();
        for (who, joined) in who.zip(answers) {
            let Joined { arrival, joined_at, new, .. } = joined.unwrap();
            said += &format!("{MARK}join {who} {arrival} {joined_at} {}.\n", u8::from(new));
        }
        let view = patiently(async || store.tick(&sale(), TickInput::default()).await).await;
        let arrival = Arrival(fastrand::u64(0..view.serving.0.max(1)));
        let position = view.position(arrival);
        if let Ok(claimed) = patiently(async || store.claim(&sale(), position).await).await {
            let times = (claimed.claimed_at, claimed.expires_at);
            said += &format!("{MARK}claim {arrival} {} {} {}.\n", claimed.place, times.0, times.1);
        }
        let mut out = std::io::stdout().lock();
        out.write_all(said.as_bytes()).and_then(|()| out.flush()).unwrap();
    }
}

// === The server's clock ===

fn now_s() -> i64 {
    i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lease_ends_early_and_nobody_is_called_early_by_a_clock_that_is_set() {
    let server = Server::start(Durable::Never);
    let proxy = Proxy::before(server.port());
    let mut scene = Scene::on(server, settings(RedisServers::Single(proxy.url()))).await;
    let (store, other) = (scene.gateway(), scene.gateway());
    // One sale that is full, and one where the pace alone holds.
    scene.join(&store, 0..200).await;
    scene.tick(&store).await;
    scene.claim(&store, 0..5).await;
    let flow: SaleId = "flow".parse().unwrap();
    let mut raw = definition("flow", 1_000_000);
    raw.pace = Pace::Smooth { admit: 100, per_ms: 1_000, burst: 20 };
    raw.claim_window_ms = 3_000_000;
    store.create(raw.check().unwrap(), [1; 32]).await.unwrap();
    store.join(&flow, (0..5_000).flat_map(join).collect()).await.unwrap();
    let (began, before) = (Instant::now(), scene.tick(&other).await);
    let mut called = 0;
    for seconds in [3_600, 0, -3_600, 0, 3_600] {
        proxy.step_clock(seconds);
        let keys = [keys::head(&sale()), keys::log(&sale())];
        let Shared { link, scripts, .. } = &*store.shared;
        let said: Standing = link.run(&scripts.sync, &keys, &["", "0", "", ""]).await.unwrap();
        let off = i64::try_from(said.now_ms).unwrap() / 1_000 - now_s();
        assert!(off.abs_diff(seconds) < 60, "{off} s off");
        let (stepped, called_before) = (Instant::now(), called);
        while stepped.elapsed() < Duration::from_millis(1_500) || called <= called_before + 30 {
            assert!(
                stepped.elapsed() < Duration::from_secs(30),
                "nobody is called any more, {seconds} s off"
            );
            for gateway in [&store, &other] {
                let view = scene.tick(gateway).await;
                let inside = (view.active, view.unclaimed);
                assert_eq!(inside, (before.active, before.unclaimed), "ended early, {seconds} s off");
                called = gateway.tick(&flow, TickInput::default()).await.unwrap().serving.0;
                // Half a second is as much as a clock may be off unnoticed.
                let earned = 20 + (began.elapsed().as_millis() + 500) / 10;
                assert!(u128::from(called) <= earned, "{called} called, {earned} earned, {seconds} s off");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    scene.claim(&other, 0..5).await;
    scene.history.check();
    scene.history.check_admissions(u64::from(CAP));
}
