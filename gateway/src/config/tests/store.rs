//! `[store]` on Redis: what is read, what is refused, and that no password is ever shown.

use std::sync::LazyLock;
use std::time::Duration;

use ropeline_store::{RedisCheckpoint, RedisClientCertificate, RedisServers, RedisSettings, RedisTls};
use ropeline_test_redis::Certificates;

use super::*;

const PASSWORD: &str = "correct-horse-battery";

static CERTIFICATES: LazyLock<[Certificates; 2]> = LazyLock::new(Default::default);

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
    private(&folder.path().join("keys/redis.url"), &secret);
    let service = format!("redis://shop:{PASSWORD}@sales\n");
    let checkpoint = format!("postgres://shop:{PASSWORD}@db.internal/sales\n");
    private(&folder.path().join("service.url"), &service);
    private(&folder.path().join("keys/checkpoint.url"), &checkpoint);
    let tls = folder.path().join("tls");
    fs::create_dir(&tls).unwrap();
    let [ours, other] = &*CERTIFICATES;
    for (name, text) in [
        ("redis-ca.pem", &ours.authority),
        ("redis.pem", &ours.client),
        ("redis.key", &ours.client_key),
        ("other.key", &other.client_key),
    ] {
        private(&tls.join(name), text);
    }
    let env = |name: &str| match name {
        "REDIS" | "ROPELINE_REDIS" => Some(secret.clone()),
        "EMPTY" => Some(String::new()),
        "SERVICE" => Some(service.clone()),
        "ROPELINE_CHECKPOINT" => Some(checkpoint.clone()),
        _ => None,
    };
    let text = GOOD.replace("[limits]\n", &format!("[store]\n{store}\n[limits]\n"));
    Config::parse(&text, &Surroundings { base: folder.path(), env: &env, now: NOW })
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
fn redis_is_named_by_sentinels_and_the_name_of_what_they_watch() {
    let (one, secret) = ("redis://sales".to_owned(), format!("redis://shop:{PASSWORD}@sales"));
    let nodes = ["redis://a.internal:6379", "redis://b.internal:6379", "redis://c.internal:6379"];
    let addresses = nodes.map(str::to_owned).to_vec();
    for (store, service) in [
        (format!("redis_sentinel = {nodes:?}\nredis_sentinel_service = \"{one}\""), &one),
        (
            "redis_sentinel_file = \"nodes.url\"\nredis_sentinel_service_file = \"service.url\"".into(),
            &secret,
        ),
        (format!("redis_sentinel = {nodes:?}\nredis_sentinel_service_env = \"SERVICE\""), &secret),
    ] {
        let (read, warnings) = settings(&format!("{store}\ncheckpoint = \"/x\""));
        let (addresses, service) = (addresses.clone(), service.clone());
        assert_eq!(read.servers, RedisServers::Sentinel { addresses, service }, "{store}");
        assert_eq!(warnings, [], "{store}");
    }
    let (read, _) = settings(
        "redis_sentinel_env = \"REDIS\"\nredis_sentinel_service = \"redis://sales\"\ncheckpoint = \"/x\"",
    );
    let addresses = vec![format!("rediss://shop:{PASSWORD}@a.internal:6380/2")];
    assert_eq!(read.servers, RedisServers::Sentinel { addresses, service: one });
}

#[test]
fn tls_goes_by_the_files_that_are_named() {
    let [ours, _] = &*CERTIFICATES;
    let authority = Some(ours.authority.clone().into_bytes());
    let client = Some(RedisClientCertificate {
        certificate: ours.client.clone().into_bytes(),
        key: ours.client_key.clone().into_bytes(),
    });
    let ca = "redis_ca = \"tls/redis-ca.pem\"";
    let shown = "redis_client_certificate = \"tls/redis.pem\"\nredis_client_key = \"tls/redis.key\"";
    let sentinels =
        "redis_sentinel = [\"redis://a.internal\"]\nredis_sentinel_service = \"rediss://sales\"".to_owned();
    for servers in [
        "redis = \"rediss://a.internal\"".to_owned(),
        "redis_file = \"redis.url\"".to_owned(),
        "redis_cluster = [\"rediss://a.internal\"]".to_owned(),
        sentinels,
    ] {
        for (keys, tls) in [
            (ca.to_owned(), RedisTls { authority: authority.clone(), client: None }),
            (shown.to_owned(), RedisTls { authority: None, client: client.clone() }),
            (format!("{ca}\n{shown}"), RedisTls { authority: authority.clone(), client: client.clone() }),
        ] {
            let (read, warnings) = settings(&format!("{servers}\n{keys}\ncheckpoint = \"/x\""));
            assert_eq!((read.tls, warnings), (tls, vec![]), "{servers}\n{keys}");
        }
    }
}

#[test]
fn the_checkpoint_is_a_folder_or_a_database() {
    let checkpoint = |keys: &str| {
        let (read, warnings) = settings(&format!("redis = \"redis://a.internal\"\n{keys}"));
        (read.checkpoint.unwrap(), warnings)
    };
    let secret = format!("postgres://shop:{PASSWORD}@db.internal/sales");
    for keys in ["checkpoint_file = \"keys/checkpoint.url\"", "checkpoint_env = \"ROPELINE_CHECKPOINT\""] {
        assert_eq!(checkpoint(keys), (RedisCheckpoint::Postgres(secret.clone()), vec![]), "{keys}");
    }
    for plain in ["postgres://shop@db.internal/sales", "postgresql:///sales?host=/run/postgresql"] {
        let read = checkpoint(&format!("checkpoint = \"{plain}\""));
        assert_eq!(read, (RedisCheckpoint::Postgres(plain.to_owned()), vec![]));
    }
    for open in [secret, format!("postgres://db.internal/sales?password={PASSWORD}")] {
        let (_, warnings) = checkpoint(&format!("checkpoint = \"{open}\""));
        assert_eq!((warnings.len(), warnings[0].key.as_str()), (1, "store.checkpoint"), "{warnings:#?}");
        assert!(warnings[0].mend.contains("store.checkpoint_file"));
        assert!(!warnings[0].to_string().contains(PASSWORD));
    }
    let (read, _) = checkpoint("checkpoint = \"places\"");
    assert!(matches!(&read, RedisCheckpoint::Folder(path) if path.is_absolute() && path.ends_with("places")));
}

#[test]
fn a_password_in_the_file_is_warned_about_and_shown_nowhere() {
    let (_, warnings) = settings(&format!("redis = \"redis://:{PASSWORD}@a.internal\"\ncheckpoint = \"/x\""));
    assert_eq!((warnings.len(), warnings[0].key.as_str()), (1, "store.redis"), "{warnings:#?}");
    assert!(warnings[0].mend.contains("store.redis_file") && !warnings[0].to_string().contains(PASSWORD));
}

#[test]
fn what_is_wrong_is_said_with_a_way_out_and_without_the_address() {
    let (ok, tls) = ("\"redis://a.internal\"", "\"rediss://a.internal\"");
    let shown = "redis_client_certificate = \"tls/redis.pem\"";
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
        (
            format!("redis = {ok}\ncheckpoint = \"mysql://{PASSWORD}@a.internal\""),
            "checkpoint",
            "neither a folder nor",
        ),
        (
            format!("redis = {ok}\ncheckpoint = \"postgres:/x:{PASSWORD}@a.internal\""),
            "checkpoint",
            "neither a folder nor",
        ),
        (
            format!("redis = {ok}\ncheckpoint = \"postgres://x:{PASSWORD}@a.internal:port/x\""),
            "checkpoint",
            "not that of a PostgreSQL",
        ),
        (format!("redis = {ok}\ncheckpoint = \"\""), "checkpoint", "names no folder"),
        (format!("redis = {ok}\ncheckpoint_env = \"EMPTY\""), "checkpoint_env", "names no folder"),
        (format!("redis = {ok}\ncheckpoint_env = \"NONE\""), "checkpoint_env", "not set"),
        (format!("redis = {ok}\ncheckpoint_file = \"no.url\""), "checkpoint_file", "neither a folder nor"),
        (
            format!("redis = {ok}\ncheckpoint = \"/x\"\ncheckpoint_env = \"ROPELINE_CHECKPOINT\""),
            "checkpoint_env",
            "named twice",
        ),
        ("checkpoint_env = \"ROPELINE_CHECKPOINT\"".into(), "checkpoint_env", "no meaning without Redis"),
        (format!("redis_sentinel = [{ok}]"), "redis_sentinel", "which of the servers"),
        (
            format!("redis = {ok}\nredis_sentinel_service = \"redis://sales\""),
            "redis_sentinel_service",
            "no meaning without sentinels",
        ),
        (
            "redis_sentinel_service = \"redis://sales\"".into(),
            "redis_sentinel_service",
            "no meaning without Redis",
        ),
        (
            format!("redis_sentinel = [{ok}]\nredis_sentinel_service = \"{PASSWORD}\""),
            "redis_sentinel_service",
            "not the name",
        ),
        (
            format!("redis_sentinel = [{ok}]\nredis_sentinel_service = \"redis://{PASSWORD}:26379\""),
            "redis_sentinel_service",
            "not the name",
        ),
        (
            format!(
                "redis_sentinel = [{ok}]\nredis_sentinel_service_env = \"SERVICE\"\nredis_sentinel_service_file = \"service.url\""
            ),
            "redis_sentinel_service_file",
            "named twice",
        ),
        (format!("redis_sentinel = [{ok}]\nredis = {ok}"), "redis_sentinel", "named twice"),
        (format!("redis = {ok}\nredis_ca = \"tls/redis-ca.pem\""), "redis_ca", "no meaning without TLS"),
        ("redis_ca = \"tls/redis-ca.pem\"".into(), "redis_ca", "no meaning without Redis"),
        (format!("redis = {tls}\nredis_ca = \"tls/none.pem\""), "redis_ca", "cannot read"),
        (format!("redis = {tls}\nredis_ca = \"no.url\""), "redis_ca", "no certificate in PEM"),
        (
            format!("redis = {tls}\n{shown}\nredis_client_key = \"tls/redis.pem\""),
            "redis_client_key",
            "no private key in PEM",
        ),
        (
            format!("redis = {tls}\n{shown}\nredis_client_key = \"tls/other.key\""),
            "redis_client_key",
            "does not go with store.redis_client_certificate",
        ),
        (format!("redis = {tls}\n{shown}"), "redis_client_key", "is missing"),
        (
            format!("redis = {tls}\nredis_client_key = \"tls/redis.key\""),
            "redis_client_certificate",
            "is missing",
        ),
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
    let line = |key: &str| {
        let found = lines.iter().find(|line| line.split(" = ").next() == Some(key));
        *found.unwrap_or_else(|| panic!("{key} is not in the example"))
    };
    let sentinel = format!("{}\n{}", line("redis_sentinel"), line("redis_sentinel_service"));
    let ways = ["redis", "redis_file", "redis_env", "redis_cluster"];
    let common = ["redis_ca", "redis_client_certificate", "redis_client_key", "redis_patience"].map(line);
    let checkpoints = ["checkpoint", "checkpoint_file", "checkpoint_env"];
    assert_eq!(lines.len(), ways.len() + 2 + common.len() + checkpoints.len(), "{lines:#?}");
    for servers in ways.map(|way| line(way).to_owned()).into_iter().chain([sentinel]) {
        let servers = servers.replace("redis://", "rediss://");
        for checkpoint in checkpoints.map(line) {
            let (read, warnings) = settings(&format!("{servers}\n{}\n{checkpoint}", common.join("\n")));
            assert!(read.tls.client.is_some() && read.checkpoint.is_some() && warnings.is_empty());
            assert_eq!(read.patience, Duration::from_secs(2));
        }
    }
}
