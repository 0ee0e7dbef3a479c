use std::time::Instant;

use ropeline_decision::PathPattern;
use ropeline_queue::RawDefinition;
use ropeline_store::{RedisCheckpoint, RedisServers, RedisSettings, RedisStore, RedisTls};
use ropeline_test_redis::{Durable, Server};
use ropeline_token::Leeway;

use super::*;
use crate::edge::decider::Decides;
use crate::metrics::Metrics;

/// Gateways on a Redis, and its checkpoint.
struct Shared {
    _redis: Server,
    folder: tempfile::TempDir,
    settings: RedisSettings,
}

impl Shared {
    fn new() -> Self {
        let (redis, folder) = (Server::start(Durable::Never), tempfile::tempdir().unwrap());
        let settings = RedisSettings {
            servers: RedisServers::Single(redis.url()),
            tls: RedisTls::default(),
            patience: std::time::Duration::from_secs(5),
            checkpoint: Some(RedisCheckpoint::Folder(folder.path().to_path_buf())),
        };
        Self { _redis: redis, folder, settings }
    }

    /// The sales of a gateway that starts, of which those named are configured.
    fn sales(&self, configured: &[&str]) -> Sales {
        let keys = Arc::new(Keys::of_seeds(1, 2));
        let rules = PolicyRules {
            issuer: "shop".to_owned(),
            leeway: Leeway::default(),
            api_prefix: "/q".to_owned(),
            api_pattern: PathPattern::parse("/q").unwrap(),
            secure_cookies: false,
            one_host: false,
        };
        let metrics = Arc::new(Metrics::new().unwrap());
        let decider = Arc::new(Decider::new(&Decides::Native, &keys, metrics).unwrap());
        let definition = |id: &&str| RawDefinition::new(id.parse().unwrap(), 10).check().unwrap();
        let store = Arc::new(RedisStore::open(&self.settings).unwrap());
        let room = Arc::new(page::Room::new().unwrap());
        Sales::new(store, room, rules, keys, decider, configured.iter().map(definition).collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_cannot_be_read_hides_no_other_and_lets_nobody_past_it() {
    let shared = Shared::new();
    shared.sales(&["bad", "good", "also"]).begin().await.unwrap();
    let document = shared.folder.path().join("bad.json");
    let whole = std::fs::read(&document).unwrap();
    std::fs::write(&document, &whole[..whole.len() / 2]).unwrap();

    for configured in [&["bad", "good"][..], &["good"], &[]] {
        let sales = shared.sales(configured);
        sales.begin().await.unwrap();
        sales.stand_in(UnixMillis(1));
        assert!(sales.have_begun(), "the others are not served");
        assert!(!sales.are_complete(), "nobody knows what it protects");
        let said = sales.amiss().unwrap();
        assert!(said.contains("sale bad") && said.contains("bad.json"), "{said}");
        for good in ["good", "also"] {
            assert!(!sales.get(good).unwrap().is_away());
        }
        assert!(sales.get("bad").is_none_or(|sale| !sale.is_known()));
        // As soon as it is mended.
        std::fs::write(&document, &whole).unwrap();
        sales.begin().await.unwrap();
        assert!(sales.are_complete() && sales.amiss().is_none());
        assert!(!sales.get("bad").unwrap().is_away());
        std::fs::write(&document, "{").unwrap();
    }
    // Where there is nothing else, there is nothing to be ready for.
    for other in ["good", "also"] {
        std::fs::write(shared.folder.path().join(format!("{other}.json")), "{").unwrap();
    }
    let sales = shared.sales(&[]);
    assert!(sales.begin().await.is_err());
    assert!(!sales.have_begun() && sales.amiss().unwrap().contains("and 2 more"), "{:?}", sales.amiss());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_reaches_one_of_its_sales_is_not_cut_off() {
    let shared = Shared::new();
    let sales = shared.sales(&["here", "there"]);
    sales.stand_in(UnixMillis(1));
    assert!(sales.cut_off().is_none(), "as far as is known nobody reaches them");
    for mark in 1..=3 {
        sales.get("there").unwrap().seen().see(Some(mark), Instant::now());
    }
    assert_eq!(sales.cut_off().unwrap().id.as_str(), "there");
    shared.sales(&["here"]).begin().await.unwrap();
    sales.refresh(&"here".parse().unwrap()).await.unwrap();
    assert!(sales.cut_off().is_none(), "nobody is left for the one that it reaches");
}
