//! Whom the store talks to, with which rights, and what it says of it.

use std::sync::Arc;
use std::time::Duration;

use ropeline_queue::SaleId;
use ropeline_test_redis::{Certificates, Cluster, Durable, Reply, Sentinel, Server, free_port};

use super::fairness::be_too_late;
use super::fixture::{secured, settings};
use super::racing::visitor;
use crate::contract::{ManualClock, definition};
use crate::redis::{RedisServers, RedisSettings, RedisStore, RedisTls};
use crate::{Clock, Join, QueueStore, StoreError};

/// The rights that the documentation says are enough.
pub(super) fn rights() -> String {
    let page = include_str!("../../redis.rs");
    let (_, after) = page.split_once(">PASSWORD resetchannels").unwrap();
    let (rights, _) = after.split_once("/// ```").unwrap();
    rights.replace("///", " ").split_whitespace().collect::<Vec<_>>().join(" ")
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
        set.extend(Some(more).filter(|more| !more.is_empty()));
        assert_eq!(server.ask(&set), Reply::Text("OK".into()));
    };
    let cluster = Cluster::start(1, Durable::Never);
    let node = &cluster.masters()[0];
    let server = Server::start(Durable::Never);
    let sentinel = Sentinel::watch(&server, 0);
    let by_cluster = RedisServers::Cluster(vec![node.url().replace("redis://", "redis://ropeline:s3cret@")]);
    let by_sentinel = RedisServers::Sentinel {
        addresses: vec![sentinel.url()],
        service: format!("redis://ropeline:s3cret@{}", sentinel.service()),
    };
    let quick = |servers| RedisSettings { patience: Duration::from_secs(2), ..settings(servers) };
    allow(&server, "");
    everything(&quick(by_sentinel), &server, false).await.unwrap();
    allow(node, "+cluster|slots");
    everything(&quick(by_cluster.clone()), node, false).await.unwrap();
    allow(node, "");
    assert!(everything(&quick(by_cluster), node, false).await.is_err(), "+cluster|slots is not needed");
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
    let nobody = free_port();
    let urls = |address: &str| format!("redis://ropeline:s3cret@{address}");
    let mut servers = Vec::new();
    for address in
        [format!("127.0.0.1:{}", server.port()), format!("127.0.0.1:{nobody}"), "[".into(), "host:x".into()]
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
