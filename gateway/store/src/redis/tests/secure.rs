//! Whom the store talks to, with which rights, and what it says of it.

use std::sync::Arc;
use std::time::Duration;

use ropeline_queue::SaleId;
use ropeline_test_ports::Port;
use ropeline_test_redis::{Certificates, Cluster, Durable, Reply, Sentinel, Server};

use super::fairness::be_too_late;
use super::fixture::{secured, settings};
use super::racing::visitor;
use super::scene::patiently;
use crate::contract::{ManualClock, definition};
use crate::redis::{RedisServers, RedisSettings, RedisStore, RedisTls, keys};
use crate::{Clock, Join, QueueStore, StoreError};

/// The rights that the documentation says are enough.
pub(in crate::redis) fn rights() -> String {
    let page = include_str!("../../redis.rs");
    let (_, after) = page.split_once(">PASSWORD resetchannels").unwrap();
    let (rights, _) = after.split_once("/// ```").unwrap();
    rights.replace("///", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is documented beside them, between these words, here and for operators.
fn more_rights(before: &str, after: &str) -> String {
    let page = include_str!("../../redis.rs");
    let rights = page.split_once(before).unwrap().1.split_once(after).unwrap().0.to_owned();
    assert!(rights.len() < 60, "{rights}");
    assert!(include_str!("../../../../../docs/redis.md").contains(&rights), "{rights} is not documented");
    rights
}

/// Beside them in a cluster.
fn cluster_rights() -> String {
    more_rights("/// and `", "` beside it in a cluster")
}

/// All that a store does with a server. So much is joined in the end that the log has to be cut, if `much`.
async fn everything(settings: &RedisSettings, server: &Server, much: bool) -> Result<(), StoreError> {
    server.ask(&["FLUSHALL"]);
    server.ask(&["SCRIPT", "FLUSH"]);
    let sale: SaleId = "drop".parse().unwrap();
    let clock: Arc<ManualClock> = Arc::default();
    let open = || RedisStore::with_clock(settings, Some(Arc::clone(&clock) as Arc<dyn Clock>)).unwrap();
    let (store, other) = (open(), open());
    let joins = |who: std::ops::Range<u64>| who.map(|who| Join::of(visitor(who))).collect::<Vec<_>>();
    store.create(definition("drop", 10).check().unwrap(), [1; 32]).await?;
    assert_eq!(store.sales().await?, std::slice::from_ref(&sale));
    store.join(&sale, joins(0..5_000)).await?;
    other.join(&sale, joins(5_000..5_010)).await?;
    let view = store.tick(&sale, ropeline_queue::TickInput::default()).await?;
    let position = |arrival| view.position(ropeline_queue::Arrival(arrival));
    store.claim(&sale, position(0)).await?.unwrap();
    store.leave(&sale, position(5_000)).await?.unwrap();
    // The whole sale is read.
    open().view(&sale).await?;
    // Turns are waited for, and given up.
    let head = server.ask(&["EXISTS", "{rl:drop}:head"]);
    assert_eq!(head, Reply::Number(1));
    be_too_late(
        &RedisStore::open(&super::fixture::settings(RedisServers::Single(server.url()))).unwrap(),
        "ab",
    )
    .await;
    store.join(&sale, joins(6_000..6_010)).await?;
    if much {
        for from in [1_000_000, 2_000_000] {
            store.join(&sale, joins(from..from + 110_000)).await?;
        }
    }
    // What is lost is put back.
    server.ask(&["DEL", "{rl:drop}:head"]);
    store.join(&sale, joins(7_000..7_010)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_and_each_is_needed() {
    let server = Server::start(Durable::Never);
    let url = format!("redis://ropeline:s3cret@127.0.0.1:{}", server.port());
    let settings = RedisSettings { patience: Duration::from_secs(2), ..settings(RedisServers::Single(url)) };
    let rights = rights();
    let rights: Vec<&str> = rights.split(' ').collect();
    assert!(rights.len() > 20, "{rights:?}");
    let allow = |rights: &[&str]| {
        let mut set = vec!["ACL", "SETUSER", "ropeline", "reset", "on", ">s3cret", "resetchannels"];
        set.extend(rights);
        assert_eq!(server.ask(&set), Reply::Text("OK".into()), "{rights:?}");
    };
    allow(&rights);
    everything(&settings, &server, true).await.unwrap();
    for number in 0..rights.len() {
        let mut fewer = rights.clone();
        let missing = fewer.remove(number);
        allow(&fewer);
        let done = everything(&settings, &server, missing == "+lpop").await;
        assert!(done.is_err(), "{missing} is not needed");
        let said = format!("{done:?}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_in_a_cluster_and_by_sentinels_are_as_documented() {
    let rights = rights();
    let rights: Vec<&str> = rights.split(' ').collect();
    let allow = |server: &Server, more: &str| {
        let mut set = vec!["ACL", "SETUSER", "ropeline", "reset", "on", ">s3cret", "resetchannels"];
        set.extend(&rights);
        set.extend(more.split_whitespace());
        assert_eq!(server.ask(&set), Reply::Text("OK".into()));
    };
    let cluster = Cluster::start(1, Durable::Never);
    let node = &cluster.masters()[0];
    let server = Server::start(Durable::Never);
    let sentinel = Sentinel::watch(&server, 0);
    let by_cluster = RedisServers::Cluster(vec![node.url().replace("redis://", "redis://ropeline:s3cret@")]);
    let by_sentinel = RedisServers::Sentinel {
        addresses: vec![sentinel.url().replace("redis://", "redis://asks:0ther@")],
        service: format!("redis://ropeline:s3cret@{}", sentinel.service()),
    };
    let allow_at_sentinel = |rights: &[&str]| {
        let mut set = vec!["ACL", "SETUSER", "asks", "reset", "on", ">0ther", "resetchannels"];
        set.extend(rights);
        assert_eq!(sentinel.ask(&set), Some(Reply::Text("OK".into())), "{rights:?}");
    };
    let at_sentinel = more_rights("At sentinels it needs `", "`.");
    let at_sentinel: Vec<&str> = at_sentinel.split(' ').collect();
    let quick = |servers| RedisSettings { patience: Duration::from_secs(2), ..settings(servers) };
    allow(&server, "");
    allow_at_sentinel(&at_sentinel);
    everything(&quick(by_sentinel.clone()), &server, false).await.unwrap();
    for number in 0..at_sentinel.len() {
        let mut fewer = at_sentinel.clone();
        let missing = fewer.remove(number);
        allow_at_sentinel(&fewer);
        let done = RedisStore::open(&quick(by_sentinel.clone())).unwrap().sales().await;
        assert!(done.is_err(), "{missing} is not needed at sentinels");
    }
    allow(node, &cluster_rights());
    everything(&quick(by_cluster.clone()), node, false).await.unwrap();
    allow(node, &cluster_rights().replace("+cluster|slots", ""));
    assert!(everything(&quick(by_cluster), node, false).await.is_err(), "+cluster|slots is not needed");
}

/// The keys of a sale are on another master than the one that has its slot, until that one hands it over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_whose_slot_moves_goes_on_with_the_documented_rights() {
    let sale: SaleId = "drop".parse().unwrap();
    let head = keys::head(&sale);
    for asks in [false, true] {
        let cluster = Cluster::start(2, Durable::Never);
        let in_cluster = cluster_rights();
        let in_cluster = if asks { in_cluster } else { in_cluster.replace("+asking", "") };
        let rights = format!("{} {in_cluster}", rights());
        for node in cluster.masters() {
            let mut set = vec!["ACL", "SETUSER", "ropeline", "reset", "on", ">s3cret", "resetchannels"];
            set.extend(rights.split_whitespace());
            assert_eq!(node.ask(&set), Reply::Text("OK".into()));
        }
        let urls = cluster.urls();
        let urls = urls.iter().map(|url| url.replace("redis://", "redis://ropeline:s3cret@"));
        let servers = RedisServers::Cluster(urls.collect());
        let quick = RedisSettings { patience: Duration::from_secs(2), ..settings(servers) };
        let (store, other) = (RedisStore::open(&quick).unwrap(), RedisStore::open(&quick).unwrap());
        store.create(definition("drop", 10).check().unwrap(), [1; 32]).await.unwrap();
        store.join(&sale, vec![Join::of(visitor(0))]).await.unwrap()[0].unwrap();
        other.view(&sale).await.unwrap();
        let to = 1 - cluster.holder(&head);
        cluster.begin_move(&head, to);
        let joined = store.join(&sale, vec![Join::of(visitor(1))]).await;
        if !asks {
            assert!(joined.is_err(), "+asking is not needed");
            continue;
        }
        assert_eq!(joined.unwrap()[0].unwrap().arrival.0, 1);
        assert_eq!(other.view(&sale).await.unwrap().next_arrival.0, 2);
        cluster.end_move(&head, to);
        let joined = patiently(async || other.join(&sale, vec![Join::of(visitor(2))]).await).await;
        assert_eq!(joined[0].unwrap().arrival.0, 2);
        assert_eq!(patiently(async || store.view(&sale).await).await.next_arrival.0, 3);
        // Whoever asks without being let is noted down.
        for node in cluster.masters() {
            let refused = format!("{:?}", node.ask(&["ACL", "LOG"]));
            for command in ["ping", "asking", "cluster|slots"] {
                assert!(!refused.contains(&format!("Text(\"{command}\")")), "{refused}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_nobody_vouches_for_is_not_told_anything() {
    let certificates = Certificates::new();
    let (_server, trusted) = secured(&certificates, Durable::Never);
    RedisStore::open(&trusted).unwrap().sales().await.unwrap();
    let stranger = Certificates::new();
    let by_another = RedisTls { authority: Some(stranger.authority.into_bytes()), ..trusted.tls.clone() };
    let by_the_machine = RedisTls { authority: None, ..trusted.tls.clone() };
    let shows_nothing = RedisTls { client: None, ..trusted.tls.clone() };
    for (what, tls) in
        [("another", by_another), ("the machine", by_the_machine), ("no certificate", shows_nothing)]
    {
        let store = RedisStore::open(&RedisSettings { tls, ..trusted.clone() }).unwrap();
        let refused = store.sales().await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{what}: {refused:?}");
        assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
        assert!(
            !store.redis_report().connected && store.redis_report().last_error.is_some(),
            "{:?}",
            store.redis_report()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_know_the_gateway_is_not_called_away() {
    let server = Server::start_with(Durable::Always, &["--user", "ropeline", "on", ">kn0wn", "~*", "+ping"]);
    let asked = async |who: &str| {
        let url = server.url().replace("redis://", &format!("redis://{who}@"));
        RedisStore::open(&settings(RedisServers::Single(url))).unwrap().examine().await.unwrap_err()
    };
    for (who, mend) in
        [("ropeline:0ther", "the password"), ("nobody:kn0wn", "the user"), ("ropeline:kn0wn", "the rights")]
    {
        let denied = asked(who).await;
        assert!(matches!(denied, StoreError::Denied { .. }), "{who}: {denied:?}");
        let said = denied.to_string();
        assert!(said.contains(mend) && !said.contains("0ther") && !said.contains("kn0wn"), "{who}: {said}");
    }
    server.ask(&["CONFIG", "SET", "requirepass", "kn0wn"]);
    let denied = RedisStore::open(&settings(RedisServers::Single(server.url()))).unwrap().examine().await;
    assert!(matches!(denied, Err(StoreError::Denied { .. })), "{denied:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_names_a_password() {
    let server = Server::start_with(Durable::Never, &["--user", "ropeline", "on", ">0ther", "+@all", "~*"]);
    let nobody = Port::free();
    let urls = |address: &str| format!("redis://ropeline:s3cret@{address}");
    let mut servers = Vec::new();
    for address in
        [format!("127.0.0.1:{}", server.port()), nobody.address().to_string(), "[".into(), "host:x".into()]
    {
        let url = urls(&address);
        servers.push(RedisServers::Single(url.clone()));
        servers.push(RedisServers::Cluster(vec![url.clone()]));
        servers
            .push(RedisServers::Sentinel { addresses: vec![url], service: "redis://who:s3cret@name".into() });
    }
    for servers in servers {
        let settings = RedisSettings { patience: Duration::from_secs(1), ..settings(servers) };
        let said = match RedisStore::open(&settings) {
            Err(error) => format!("{error} {error:?}"),
            Ok(store) => {
                let error = store.sales().await.unwrap_err();
                format!("{error} {error:?} {store:?} {:?}", store.redis_report())
            }
        };
        assert!(!said.contains("s3cret"), "{said}");
    }
}
