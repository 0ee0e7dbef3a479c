//! What the scripts refuse to write, each reason alone: the others are as they should be.

use ropeline_queue::Changes;
use ropeline_test_redis::{Durable, Reply, Server};

use super::fixture::settings;
use super::racing::sale as drop_sale;
use crate::contract::definition;
use crate::redis::standing::{Standing, Status};
use crate::redis::{RedisServers, RedisStore, Shared, entry, keys};
use crate::{QueueStore, StoreError};

/// A sale, and a gateway that has read it.
struct Sale {
    server: Server,
    store: RedisStore,
}

/// What a batch was run on.
#[derive(Clone)]
struct Seen {
    line: String,
    version: String,
    /// The server in the head.
    run: String,
}

// === impl Sale ===

impl Sale {
    async fn new() -> Self {
        let server = Server::start(Durable::Never);
        let store = RedisStore::open(&settings(RedisServers::Single(server.url()))).unwrap();
        store.create(definition("drop", 1).check().unwrap(), [1; 32]).await.unwrap();
        store.view(&drop_sale()).await.unwrap();
        Self { server, store }
    }

    fn head(&self, field: &str) -> String {
        match self.server.ask(&["HGET", &keys::head(&drop_sale()), field]) {
            Reply::Text(text) => text,
            other => panic!("{field}: {other:?}"),
        }
    }

    fn seen(&self) -> Seen {
        Seen { line: self.head("line"), version: self.head("version"), run: self.head("run") }
    }

    /// All that a commit writes.
    fn kept(&self) -> [Reply; 2] {
        [
            self.server.ask(&["HGETALL", &keys::head(&drop_sale())]),
            self.server.ask(&["LRANGE", &keys::log(&drop_sale()), "0", "-1"]),
        ]
    }

    async fn commit(&self, on: &Seen, words: &[&str]) -> Result<Standing, StoreError> {
        let Shared { link, scripts, .. } = &*self.store.shared;
        let entry = entry::encode([7; 8], &Changes::default());
        let core = self.head("core");
        let begin = [&*on.line, &on.version].map(str::as_bytes);
        let rest = [&*core, "", "", "", &on.run, "4096", "4194304", "ab", ""].map(str::as_bytes);
        let words = words.iter().map(|word| word.as_bytes());
        let args: Vec<&[u8]> = begin.into_iter().chain([&*entry]).chain(rest).chain(words).collect();
        link.run(&scripts.commit, &[keys::head(&drop_sale()), keys::log(&drop_sale())], &args).await
    }

    async fn replace(&self, line: &str, version: &str) -> Standing {
        let Shared { link, scripts, .. } = &*self.store.shared;
        let (core, definition) = (self.head("core"), self.head("definition"));
        let args = [line, version, "entry", &core, &definition, "cd", "2", "cd", "9", "", "0", "{}"];
        link.run(&scripts.replace, &[keys::head(&drop_sale()), keys::log(&drop_sale())], &args).await.unwrap()
    }
}

#[tokio::test]
async fn a_batch_counts_on_the_very_line_version_and_server_that_it_was_run_on_and_on_no_other() {
    let sale = Sale::new().await;
    let seen = sale.seen();
    let other = || "0".repeat(40);
    for on in [
        Seen { line: "0123456789abcdef".to_owned(), ..seen.clone() },
        Seen { version: "0".to_owned(), ..seen.clone() },
        Seen { version: "2".to_owned(), ..seen.clone() },
        Seen { run: other(), ..seen.clone() },
    ] {
        let before = sale.server.ask(&["LLEN", &keys::log(&drop_sale())]);
        let said = sale.commit(&on, &[]).await.unwrap();
        assert_ne!(said.status, Status::Done);
        assert_eq!((sale.head("version"), sale.head("line")), (seen.version.clone(), seen.line.clone()));
        assert_eq!(sale.server.ask(&["LLEN", &keys::log(&drop_sale())]), before);
        sale.server.ask(&["HDEL", &keys::head(&drop_sale()), "turns", "turn_until", "turn_of"]);
    }
    // Another server took the last commit, as the gateway knows; this one may lack what came after it.
    sale.server.ask(&["HSET", &keys::head(&drop_sale()), "run", &other()]);
    let before = sale.kept();
    let said = sale.commit(&Seen { run: other(), ..seen.clone() }, &[]).await.unwrap();
    assert_eq!((said.status, said.moved()), (Status::Same, true));
    assert_eq!(sale.kept(), before);

    sale.server.ask(&["HSET", &keys::head(&drop_sale()), "run", &seen.run]);
    assert_eq!(sale.commit(&seen, &[]).await.unwrap().status, Status::Done);
    assert_eq!(sale.head("version"), "2");
}

#[tokio::test]
async fn what_a_commit_has_written_before_an_error_belongs_to_no_version() {
    let sale = Sale::new().await;
    let (seen, before) = (sale.seen(), sale.kept());
    // The head is no string.
    let error = sale.commit(&seen, &["w", "1", "0", "joins"]).await.unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(sale.kept(), before);
}

#[tokio::test]
async fn a_sale_is_put_in_the_place_of_the_head_that_was_seen_and_of_no_other() {
    let sale = Sale::new().await;
    let (Seen { line, version, .. }, before) = (sale.seen(), sale.kept());
    for (line, version) in [("0123456789abcdef", &*version), (&*line, "0"), (&*line, "2"), ("", "0")] {
        assert_ne!(sale.replace(line, version).await.status, Status::Done, "{line:?} {version}");
        assert_eq!(sale.kept(), before, "{line:?} {version}");
    }
    assert_eq!(sale.replace(&line, &version).await.status, Status::Done);
    assert_eq!(sale.head("line"), "cd");
}
