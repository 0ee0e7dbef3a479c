//! A gateway goes to Redis by each of the ways that the documentation offers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reqwest::StatusCode;
use ropeline_test_postgres::Postgres;
use ropeline_test_redis::{Certificates, Durable, Reply, Sentinel, Server};
use ropeline_tests::gateway::{Gateway, Servers, Settings, Store};
use ropeline_tests::http;
use ropeline_tests::ports::Port;
use ropeline_tests::process::binary;
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::visitor::Visitor;
use ropeline_tests::wait::{PATIENCE, until, within};

use crate::common::*;

const PASSWORD: &str = "correct-horse-battery";

/// The rights that the documentation says are enough for a user of Redis.
fn documented_rights() -> Vec<&'static str> {
    let (_, after) = include_str!("../../../docs/redis.md").split_once(">PASSWORD").expect("the rights");
    let (rights, _) = after.split_once("```").expect("their end");
    rights.split_whitespace().collect()
}

/// A file that its owner alone can read, as TOML.
fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    format!("{path:?}")
}

/// Somebody who is inside, and somebody who has joined behind.
async fn two(gateway: &Gateway) -> (Visitor, Visitor) {
    let inside = joined(gateway).await;
    admitted(&inside).await;
    assert_eq!(inside.visit(PAGE).await.text(), BODY);
    (inside, joined(gateway).await)
}

async fn arrival(visitor: &Visitor) -> u64 {
    number(&visitor.status(SALE).await.json()["arrival"])
}

#[tokio::test]
async fn tls_with_both_certificates_and_a_user_with_the_documented_rights_is_enough() {
    let (certificates, rights) = (Certificates::new(), documented_rights());
    let password = format!(">{PASSWORD}");
    let mut options = vec!["--user", "ropeline", "on", &password];
    options.extend(rights);
    let redis = Server::start_by_tls(Durable::Always, &certificates, &options);

    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str| file(folder.path(), name, text);
    let url = format!("rediss://ropeline:{PASSWORD}@127.0.0.1:{}\n", redis.tls_port());
    let settings = Settings::new(shop.address())
        .set("store", "redis_file", &file("redis.url", &url))
        .set("store", "redis_ca", &file("ca.pem", &certificates.authority))
        .set("store", "redis_client_certificate", &file("client.pem", &certificates.client))
        .set("store", "redis_client_key", &file("client.key", &certificates.client_key))
        .set("store", "checkpoint", &format!("{:?}", folder.path()));
    let mut gateway = Gateway::start(settings, &[sale_for_one()]).await;
    let (inside, waiting) = two(&gateway).await;
    assert_eq!(inside.leave(SALE).await.status, StatusCode::NO_CONTENT);
    admitted(&waiting).await;
    assert!(redis.calls("evalsha") > 0, "the queue is not in this Redis");

    let checked = Command::new(binary("ropeline"))
        .args(["check".as_ref(), "-c".as_ref(), gateway.folder().join("ropeline.toml").as_os_str()])
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.status.success() && said.contains("is good"), "{said}");
    let log = gateway.process().log();
    assert!(!said.contains(PASSWORD) && !log.contains(PASSWORD), "the password is shown: {said} {log}");
}

#[tokio::test]
async fn when_sentinels_make_a_replica_the_master_the_queue_goes_on_and_everybody_keeps_the_place() {
    let mut master = Server::start(Durable::Always);
    let replica = master.replica(Durable::Always);
    let sentinel = Sentinel::watch(&master, 1);
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let servers = Servers::Sentinel { address: sentinel.url(), service: sentinel.service().to_owned() };
    let settings = servers.named_in(Settings::new(shop.address())).set(
        "store",
        "checkpoint",
        &format!("{:?}", folder.path()),
    );
    let gateway = Gateway::start(settings, &[sale_for_one()]).await;
    let (inside, waiting) = two(&gateway).await;
    let before = waiting.status(SALE).await.json();

    master.kill();
    sentinel.wait_for(&replica);
    let late = Visitor::new(&gateway);
    until("joins go on", || async { (late.join(SALE).await.status == StatusCode::OK).then_some(()) }).await;
    let after = waiting.status(SALE).await.json();
    assert_eq!((&after["arrival"], &after["place"]), (&before["arrival"], &before["place"]), "{after}");
    assert!(arrival(&late).await > number(&before["arrival"]), "a number was given twice");
    assert_eq!(inside.visit(PAGE).await.text(), BODY, "an admitted shopper does not pass");
    assert_eq!(inside.leave(SALE).await.status, StatusCode::NO_CONTENT);
    admitted(&waiting).await;
    assert_eq!(state(&late).await, "waiting");
    assert!(replica.calls("evalsha") > 0, "the queue is not in the new master");
}

#[tokio::test]
async fn with_its_checkpoint_in_postgresql_no_number_is_given_twice_after_redis_and_the_gateway_have_lost_all()
 {
    let postgres = Postgres::start();
    let mut redis = Server::start(Durable::Never);
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let settings = Settings::new(shop.address()).set("store", "redis", &format!("{:?}", redis.url())).set(
        "store",
        "checkpoint_file",
        &file(folder.path(), "checkpoint.url", &postgres.create("places")),
    );
    let mut gateway = Gateway::start(settings, &[sale()]).await;
    let (inside, waiting) = two(&gateway).await;
    let before = arrival(&waiting).await;
    assert_eq!(
        postgres.psql("places", "SELECT sale FROM ropeline_checkpoints WHERE sale NOT LIKE '%.%'").trim(),
        SALE
    );

    gateway.process().kill();
    redis.again_empty();
    gateway.nodes_mut()[0].restart().await;
    // First it waits for others, who might know more.
    let stranger = Visitor::new(&gateway);
    until("joins go on", || async { (stranger.join(SALE).await.status == StatusCode::OK).then_some(()) })
        .await;
    assert!(arrival(&stranger).await > before, "a number was given twice");
    assert_eq!(number(&waiting.join(SALE).await.json()["arrival"]), before, "the ticket is not known");
    assert_eq!(inside.visit(PAGE).await.text(), BODY, "an admitted shopper does not pass");
    admitted(&waiting).await;
    assert_eq!(waiting.visit(PAGE).await.text(), BODY);
    // Who is new waits until all who may be missing have had the time to show up.
    let limit = Duration::from_secs(75) + PATIENCE;
    within(limit, "the stranger is called", || async {
        (stranger.claim(SALE).await.status == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(stranger.visit(PAGE).await.text(), BODY);
}

#[tokio::test]
async fn a_gateway_that_redis_does_not_let_in_does_not_start_and_says_what_to_mend() {
    let known = format!(">{PASSWORD}");
    let redis = Server::start_with(Durable::Always, &["--user", "ropeline", "on", &known, "~*", "+@all"]);
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let url = |password: &str| redis.url().replace("redis://", &format!("redis://ropeline:{password}@"));
    let named = file(folder.path(), "redis.url", &url(PASSWORD));
    let settings = Settings::new(shop.address()).set("store", "redis_file", &named).set(
        "store",
        "checkpoint",
        &format!("{:?}", folder.path()),
    );
    let mut gateway = Gateway::start(settings, &[sale()]).await;
    gateway.process().kill();

    file(folder.path(), "redis.url", &url("an0ther"));
    let said = refused(gateway.folder()).await;
    assert!(said.contains("the password that it knows") && !said.contains("an0ther"), "{said}");
}

/// What a gateway says that does not start.
async fn refused(folder: &Path) -> String {
    let ended = tokio::process::Command::new(binary("ropeline"))
        .args(["serve".as_ref(), "-c".as_ref(), folder.join("ropeline.toml").as_os_str()])
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(PATIENCE, ended).await.expect("it starts").unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(!ended.status.success(), "{said}");
    said
}

#[tokio::test]
async fn a_gateway_with_other_keys_or_another_checkpoint_does_not_start_beside_others_and_says_what_to_mend()
{
    let (shop, redis) = (Shop::open().await, Server::start(Durable::Always));
    let settings = Settings::new(shop.address()).set("operator", "metrics_open", "true");
    let gateway = Gateway::start(settings.on(Store::At(Servers::Single(redis.url()), 2)), &[sale()]).await;
    let other = tempfile::tempdir().unwrap();
    let (shop_port, operator_port) = (Port::free(), Port::free());
    let configuration = fs::read_to_string(gateway.folder().join("ropeline.toml"))
        .unwrap()
        .replace(&gateway.address().to_string(), &shop_port.address().to_string())
        .replace(&gateway.operator_address().to_string(), &operator_port.address().to_string());
    fs::write(other.path().join("ropeline.toml"), &configuration).unwrap();
    let keys = other.path().join("keys");
    let made = Command::new(binary("ropeline"))
        .args(["keygen", "ticket", "admission", "visitor-secret", "operator-token", "--dir"])
        .arg(&keys)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    // One kind after the other is what it should be.
    for (kind, file) in [
        ("keys.admission: ", "admission.jwk"),
        ("keys.ticket: ", "ticket.jwk"),
        ("visitor.cookie_secrets: ", "visitor.secret"),
    ] {
        let said = refused(other.path()).await;
        assert!(said.contains(kind) && said.contains("does not have"), "{said}");
        fs::copy(gateway.folder().join("keys").join(file), keys.join(file)).unwrap();
    }
    let named = format!("{:?}", gateway.folder().join("checkpoint"));
    assert!(configuration.contains(&named), "{configuration}");
    let elsewhere = configuration.replace(&named, &format!("{:?}", other.path()));
    fs::write(other.path().join("ropeline.toml"), elsewhere).unwrap();
    let said = refused(other.path()).await;
    assert!(said.contains("store.checkpoint: this one is "), "{said}");
    // Those who are there have nothing against each other.
    for node in gateway.nodes() {
        until("it has looked at the others", || async {
            let counted = http::client().get(node.metrics_url()).send().await.unwrap().text().await.unwrap();
            counted.contains("ropeline_store_disagrees 0").then_some(())
        })
        .await;
    }
    joined(&gateway).await;
}

#[tokio::test]
async fn keys_that_are_all_replaced_at_once_wait_for_nobody_but_the_killed_and_for_those_not_for_long() {
    let (shop, redis) = (Shop::open().await, Server::start(Durable::Always));
    let settings = Settings::new(shop.address()).on(Store::At(Servers::Single(redis.url()), 1));
    let mut gateway = Gateway::start(settings, &[sale()]).await;
    let keys = gateway.folder().join("keys");
    for killed in [false, true] {
        if killed {
            gateway.process().kill();
        } else {
            gateway.stop(PATIENCE).await;
        }
        assert_eq!(redis.ask(&["HLEN", "{rl:}:gateways"]), Reply::Number(i64::from(killed)));
        fs::remove_file(keys.join("ticket.jwk")).unwrap();
        let made = Command::new(binary("ropeline")).args(["keygen", "ticket", "--dir"]).arg(&keys).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{made:?}");
        gateway.nodes_mut()[0].restart().await;
        let waited = gateway.process().log().contains("looking whether it is still there");
        assert_eq!(waited, killed);
        joined(&gateway).await;
    }
}

#[tokio::test]
async fn a_gateway_that_meets_a_sale_of_a_newer_version_keeps_out_of_it_and_says_so() {
    let (shop, redis) = (Shop::open().await, Server::start(Durable::Always));
    let settings = Settings::new(shop.address()).on(Store::At(Servers::Single(redis.url()), 1));
    let generous = sale_for_one().set("store_away", r#"{ open_for = "10m" }"#);
    let mut gateway = Gateway::start(settings, &[generous]).await;
    let (inside, waiting) = two(&gateway).await;
    redis.ask(&["HSET", "{rl:drop}:head", "format", "2"]);
    let mend = "written by a newer Ropeline (format 2, this one knows 1): upgrade this gateway, or stop it";
    until("it says so", || async { gateway.nodes()[0].readiness().await.1.contains(mend).then_some(()) })
        .await;
    assert_eq!(inside.visit(PAGE).await.text(), BODY, "an admitted shopper does not pass");
    assert_eq!(waiting.join(SALE).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_ne!(waiting.visit(PAGE).await.text(), BODY, "somebody is let past a queue that others keep");
    assert!(gateway.process().log().contains(mend));
    gateway.process().kill();
    let said = refused(gateway.folder()).await;
    assert!(said.contains(mend), "{said}");
}
