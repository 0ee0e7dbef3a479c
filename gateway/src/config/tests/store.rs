//! `[store]` on Redis: what is read, what is refused, and that no password is ever shown.

use std::time::Duration;

use ropeline_store::{RedisCheckpoint, RedisServers, RedisSettings, RedisTls};

use super::*;

const PASSWORD: &str = "correct-horse-battery";

/// What is read of [`GOOD`] with this `[store]`, with an address in the environment and in a file.
fn read(store: &str) -> Result<Config, Vec<Problem>> {
    let folder = folder();
    let secret = format!("rediss://shop:{PASSWORD}@a.internal:6380/2\n");
    private(&folder.path().join("redis.url"), &secret);
    private(
        &folder.path().join("nodes.url"),
        "redis://a.internal:6379,redis://b.internal:6379\nredis://c.internal:6379",
    );
    private(&folder.path().join("no.url"), &format!("mysql://{PASSWORD}@a.internal"));
    let env = |name: &str| match name {
        "REDIS" => Some(secret.clone()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let text = GOOD.replace("[limits]\n", &format!("[store]\n{store}\n[limits]\n"));
    Config::parse(&text, &Surroundings { base: folder.path(), env: &env })
}

fn settings(store: &str) -> (RedisSettings, Vec<Problem>) {
    let config = read(store).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(!format!("{config:?}").contains(PASSWORD), "the configuration shows the password");
    let Store::Shared(shared) = &config.store else { panic!("{store}: {:?}", config.store) };
    (shared.settings().clone(), config.warnings)
}

#[test]
fn redis_is_named_by_an_address_a_file_or_the_environment() {
    let plain = "redis = \"redis://queue.internal:6379\"\ncheckpoint = \"/mnt/ropeline\"";
    let (read, warnings) = settings(plain);
    let expected = RedisSettings {
        servers: RedisServers::Single("redis://queue.internal:6379".to_owned()),
        tls: RedisTls::default(),
        patience: Duration::from_secs(2),
        checkpoint: Some(RedisCheckpoint::Folder("/mnt/ropeline".into())),
    };
    assert_eq!((read, warnings), (expected, vec![]));

    let secret = format!("rediss://shop:{PASSWORD}@a.internal:6380/2");
    for store in ["redis_file = \"redis.url\"", "redis_env = \"REDIS\""] {
        let (read, warnings) = settings(&format!("{store}\nredis_patience = \"500ms\""));
        assert_eq!(read.servers, RedisServers::Single(secret.clone()), "{store}");
        assert_eq!(read.patience, Duration::from_millis(500));
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert!(warnings[0].what.contains("no checkpoint"), "{warnings:#?}");
    }
    let nodes = ["redis://a.internal:6379", "redis://b.internal:6379", "redis://c.internal:6379"];
    let nodes = nodes.map(str::to_owned).to_vec();
    for store in [format!("redis_cluster = {nodes:?}"), "redis_cluster_file = \"nodes.url\"".to_owned()] {
        assert_eq!(settings(&store).0.servers, RedisServers::Cluster(nodes.clone()), "{store}");
    }
}

#[test]
fn a_password_in_the_file_is_warned_about_and_shown_nowhere() {
    let (_, warnings) = settings(&format!("redis = \"redis://:{PASSWORD}@a.internal\"\ncheckpoint = \"/x\""));
    assert_eq!((warnings.len(), warnings[0].key.as_str()), (1, "store.redis"), "{warnings:#?}");
    assert!(warnings[0].mend.contains("store.redis_file") && !warnings[0].to_string().contains(PASSWORD));
}

#[test]
fn what_is_wrong_is_said_with_a_way_out_and_without_the_address() {
    let ok = "\"redis://a.internal\"";
    for (store, key, what) in [
        (format!("redis = \"http://x:{PASSWORD}@a.internal\""), "redis", "neither with redis://"),
        (format!("redis = \"{PASSWORD}\""), "redis", "no address"),
        (format!("redis = \"redis://x:{PASSWORD}@\""), "redis", "no address"),
        (format!("redis = \"redis://x:{PASSWORD}@a.internal/notanumber\""), "redis", "redis: "),
        ("redis = 6379".to_owned(), "redis", "not text"),
        ("redis_env = \"NONE\"".to_owned(), "redis_env", "not set"),
        ("redis_env = \"EMPTY\"".to_owned(), "redis_env", "names no server"),
        ("redis_file = \"none.url\"".to_owned(), "redis_file", "cannot read"),
        ("redis_file = \"no.url\"".to_owned(), "redis_file", "neither with redis://"),
        ("redis_file = \"nodes.url\"".to_owned(), "redis_file", "several servers"),
        ("redis_cluster = []".to_owned(), "redis_cluster", "names no server"),
        (format!("redis_cluster = [{ok}, \"{PASSWORD}\"]"), "redis_cluster[1]", "no address"),
        (format!("redis = {ok}\nredis_cluster = [{ok}]"), "redis_cluster", "named twice"),
        (format!("redis = {ok}\nredis_env = \"REDIS\""), "redis_env", "named twice"),
        (format!("redis = {ok}\npath = \"queue.redb\""), "redis", "two stores"),
        (format!("redis = {ok}\nredis_patience = \"1h\""), "redis_patience", "out of range"),
        ("redis_patience = \"1s\"".to_owned(), "redis_patience", "no meaning without Redis"),
        ("checkpoint = \"/x\"".to_owned(), "checkpoint", "no meaning without Redis"),
        (format!("redis_clutser = [{ok}]"), "redis_clutser", "not a known key"),
    ] {
        let problems = read(&store).unwrap_err();
        assert_eq!(problems.len(), 1, "{store}: {problems:#?}");
        let Problem { key: at, what: said, mend, .. } = &problems[0];
        assert_eq!(*at, format!("store.{key}"), "{store}: {problems:#?}");
        assert!(said.contains(what) && !mend.is_empty(), "{store}: {problems:#?}");
        assert!(!problems[0].to_string().contains(PASSWORD), "{store} shows the password");
    }
}

#[test]
fn every_key_of_the_example_is_known() {
    let keys = EXAMPLE.lines().skip_while(|line| *line != "[store]").skip(1);
    let keys = keys.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("# "));
    let lines: Vec<&str> = keys.filter(|line| line.contains(" = ") && !line.starts_with("path")).collect();
    let servers: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| line.starts_with("redis ") || line.starts_with("redis_cluster"))
        .collect();
    assert_eq!((lines.len(), servers.len()), (6, 2), "{lines:#?}");
    for one in servers {
        let others = ["redis_patience", "checkpoint"];
        let common = lines.iter().filter(|line| others.iter().any(|key| line.starts_with(key)));
        let store: Vec<&str> = std::iter::once(one).chain(common.copied()).collect();
        let (read, _) = settings(&store.join("\n"));
        assert_eq!(read.patience, Duration::from_secs(2));
    }
}
