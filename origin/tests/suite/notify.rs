//! Order confirmations by mail: from the stream, through a real mail server.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ropeline_origin::config::RawOutbox;
use tempfile::TempDir;

use crate::common::{ISSUER, SALE, SECRET, Shop};
use crate::outbox::buy;
use crate::receivers::{Killed, MailServer, Redis, eventually};

pub const STREAM: &str = "shop";
pub const EMAIL: &str = "ann@example.org";

/// Runs the worker, which tries again after a second and gives up a mail that was refused twice.
fn worker(redis: &Redis, mails: &MailServer, folder: &TempDir) -> Killed {
    worker_at(redis, &mails.url(), folder, &[])
}

/// The same, with the mail server's address and variables of the environment.
pub fn worker_at(redis: &Redis, smtp_url: &str, folder: &TempDir, environment: &[(&str, &Path)]) -> Killed {
    let config = folder.path().join("origin.toml");
    let text = format!(
        "listen = '127.0.0.1:0'\ndatabase = 'none.db'\npublic_url = 'https://shop.example'\n\
         [admission]\njwks_file = 'none'\nissuer = '{ISSUER}'\naudience = '{SALE}'\n\
         [payments]\nwebhook_secret = '{SECRET}'\n\
         [outbox]\nredis_url = '{}'\nstream = '{STREAM}'\n\
         [notify]\nsmtp_url = '{}'\nfrom = 'Shop <orders@shop.example>'\ntries = 2\nretry_seconds = 1\n\
         [[products]]\nid = 'runner'\nname = 'Night Runner'\nprice_minor = 18900\ncurrency = 'EUR'\ntotal = 9\n",
        redis.url(),
        smtp_url,
    );
    std::fs::write(&config, text).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
        .args(["notify", "--config"])
        .arg(config)
        .env_remove("RUST_LOG")
        .envs(environment.iter().copied())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Killed(child)
}

/// What a worker logged, once it is killed.
pub fn log(mut worker: Killed) -> String {
    worker.0.kill().unwrap();
    let mut log = String::new();
    worker.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    log
}

pub async fn shop(redis: &Redis) -> Shop {
    let url = redis.url();
    Shop::open_with(9, |raw| {
        raw.outbox = RawOutbox { redis_url: Some(url), stream: STREAM.into(), ..RawOutbox::default() };
    })
    .await
}

/// How many entries the group has read and not confirmed.
pub async fn pending(redis: &Redis) -> Option<usize> {
    let pending: redis::RedisResult<redis::streams::StreamPendingReply> = redis::cmd("XPENDING")
        .arg(STREAM)
        .arg("ropeline-notify")
        .query_async(&mut redis.connection().await)
        .await;
    Some(pending.ok()?.count())
}

/// How often the entry that is pending was read.
pub async fn tries(redis: &Redis) -> Option<usize> {
    let pending: redis::streams::StreamPendingCountReply = redis::cmd("XPENDING")
        .arg(STREAM)
        .arg("ropeline-notify")
        .arg("-")
        .arg("+")
        .arg(1)
        .query_async(&mut redis.connection().await)
        .await
        .ok()?;
    Some(pending.ids.first()?.times_delivered)
}

pub async fn all_confirmed(redis: &Redis) {
    eventually("nothing pending", || async { (pending(redis).await == Some(0)).then_some(()) }).await;
}

#[tokio::test]
async fn who_bought_and_gave_an_address_gets_a_confirmation() {
    let (redis, mut mails, folder) = (Redis::start().await, MailServer::new(), tempfile::tempdir().unwrap());
    mails.start(1 << 20).await;
    let shop = shop(&redis).await;
    buy(&shop, "bob", None).await;
    buy(&shop, "ann", Some(EMAIL)).await;
    let entries = redis.first(STREAM, 2).await;
    let id = &entries.iter().find(|entry| entry["payload"].contains(EMAIL)).unwrap()["id"];
    let mut worker = worker(&redis, &mails, &folder);
    let mail = mails.first(1).await.remove(0);
    assert!(mail.contains(&format!("Message-ID: <{id}@shop.example>")), "{mail}");
    assert!(
        mail.contains(&format!("To: {EMAIL}")) && mail.contains("From: Shop <orders@shop.example>"),
        "{mail}"
    );
    assert!(
        mail.contains("Subject: Your order: Night Runner") && mail.contains("Paid: 189.00 EUR"),
        "{mail}"
    );
    assert!(mail.contains("text/plain") && mail.contains("text/html"), "{mail}");
    all_confirmed(&redis).await;
    assert_eq!(mails.mails().len(), 1);
    // The same event once more, as after a crash of whoever told it.
    let again: Vec<(&String, &String)> =
        entries.iter().find(|entry| entry["id"] == *id).unwrap().iter().collect();
    redis::cmd("XADD")
        .arg(STREAM)
        .arg("*")
        .arg(&again)
        .exec_async(&mut redis.connection().await)
        .await
        .unwrap();
    let both = mails.first(2).await;
    assert!(both.iter().all(|mail| mail.contains(&format!("Message-ID: <{id}@shop.example>"))), "{both:?}");
    terminate(&mut worker.0).await;
    assert!(!log(worker).contains(EMAIL));
}

/// It stops by itself when told to.
async fn terminate(worker: &mut Child) {
    let killed = Command::new("kill").arg(worker.id().to_string()).status().unwrap();
    assert!(killed.success());
    for _ in 0..1_200 {
        if let Some(status) = worker.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the worker did not stop");
}

#[tokio::test]
async fn mails_wait_for_a_mail_server_that_is_away() {
    let (mut redis, mut mails, folder) =
        (Redis::start().await, MailServer::new(), tempfile::tempdir().unwrap());
    let shop = shop(&redis).await;
    buy(&shop, "ann", Some(EMAIL)).await;
    redis.first(STREAM, 1).await;
    let worker = worker(&redis, &mails, &folder);
    eventually("an entry in hand", || async { (pending(&redis).await == Some(1)).then_some(()) }).await;
    // And for Redis, too.
    redis.stop();
    redis.again().await;
    mails.start(1 << 20).await;
    mails.first(1).await;
    all_confirmed(&redis).await;
    assert!(redis.entries(&format!("{STREAM}:dead")).await.is_empty());
    mails.stop();
    assert!(!log(worker).contains(EMAIL));
}

#[tokio::test]
async fn a_mail_that_is_refused_again_and_again_ends_in_a_stream_of_its_own() {
    let (redis, mut mails, folder) = (Redis::start().await, MailServer::new(), tempfile::tempdir().unwrap());
    // No mail is as short as that.
    mails.start(10).await;
    let shop = shop(&redis).await;
    buy(&shop, "ann", Some(EMAIL)).await;
    let worker = worker(&redis, &mails, &folder);
    let dead = redis.first(&format!("{STREAM}:dead"), 1).await.remove(0);
    let told = redis.entries(STREAM).await.remove(0);
    assert_eq!((&dead["id"], &dead["payload"]), (&told["id"], &told["payload"]));
    assert_eq!(dead["failure"], "status 552");
    all_confirmed(&redis).await;
    let refused: usize = redis::cmd("EXISTS")
        .arg(format!("{STREAM}:ropeline-notify:refused"))
        .query_async(&mut redis.connection().await)
        .await
        .unwrap();
    assert_eq!(refused, 0, "what was counted is forgotten");
    let log = log(worker);
    assert!(log.contains("a mail is dead") && !log.contains(EMAIL), "{log}");
}

#[tokio::test]
async fn what_a_worker_left_when_it_died_is_mailed_by_another() {
    let (redis, mut mails, folder) = (Redis::start().await, MailServer::new(), tempfile::tempdir().unwrap());
    mails.start(1 << 20).await;
    let shop = shop(&redis).await;
    buy(&shop, "ann", Some(EMAIL)).await;
    redis.first(STREAM, 1).await;
    let mut beside = redis.connection().await;
    redis::cmd("XGROUP")
        .arg("CREATE")
        .arg(STREAM)
        .arg("ropeline-notify")
        .arg("0")
        .exec_async(&mut beside)
        .await
        .unwrap();
    redis::cmd("XREADGROUP")
        .arg("GROUP")
        .arg("ropeline-notify")
        .arg("notify")
        .arg("STREAMS")
        .arg(STREAM)
        .arg(">")
        .exec_async(&mut beside)
        .await
        .unwrap();
    assert_eq!(pending(&redis).await, Some(1));
    let _worker = worker(&redis, &mails, &folder);
    mails.first(1).await;
    all_confirmed(&redis).await;
}

/// A server of the old kind, which knows no addresses in other letters than ASCII's: it takes every mail but those.
#[tokio::test]
async fn a_mail_that_the_server_cannot_take_does_not_hold_up_the_others() {
    let (redis, mut mails, folder) = (Redis::start().await, MailServer::new(), tempfile::tempdir().unwrap());
    mails.start(1 << 20).await;
    let shop = shop(&redis).await;
    buy(&shop, "uma", Some("ü@example.org")).await;
    buy(&shop, "host", Some("ann@münchen.example")).await;
    for visitor in ["ann", "bob"] {
        buy(&shop, visitor, Some(EMAIL)).await;
    }
    redis.first(STREAM, 4).await;
    let worker = worker(&redis, &mails, &folder);
    let sent = mails.first(3).await;
    assert!(sent.iter().any(|mail| mail.contains("To: ann@xn--mnchen-3ya.example")), "{sent:?}");
    let dead = redis.first(&format!("{STREAM}:dead"), 1).await;
    assert!(dead[0]["payload"].contains("ü@example.org"), "{dead:?}");
    assert_eq!(dead[0]["failure"], "it cannot do what is needed");
    all_confirmed(&redis).await;
    assert_eq!(mails.mails().len(), 3);
    assert!(!log(worker).contains("example.org"));
}
