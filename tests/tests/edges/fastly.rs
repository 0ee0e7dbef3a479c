//! Viceroy, on which services of Fastly Compute run at home, with the files of `cdn-config/fastly`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use ropeline_tests::conformance::{CASE, EdgeUnderTest, HostTraits, RawForm, Running, Upstream, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing, permitted};
use ropeline_tests::guests::{deployed, guest, set};
use ropeline_tests::raw::exchange;
use ropeline_tests::wait::PATIENCE;
use serde_json::json;

use crate::rotation::{admitted_throughout, keys, settings, visit};
use crate::traffic::{InPlace, Silent, course};

/// What an entry of a config store takes, in characters.
const ENTRY: usize = 8_000;

struct Fastly;

impl EdgeUnderTest for Fastly {
    fn name(&self) -> &str {
        "fastly"
    }

    fn traits(&self) -> HostTraits {
        use RawForm::{Backslash, DotSegments, Host, Target, UrlCharacters};

        // Its SDK reads targets as the URL standard does, and sends on what it has read.
        HostTraits {
            alters: [Backslash, DotSegments, Host, Target, UrlCharacters].into(),
            keeps_host: true,
            shares_calls: true,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        Ok(start(settings, gateway, shop).await?.into())
    }
}

async fn start(settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<EdgeHost, Missing> {
    let mut manifest = deployed("fastly/fastly.toml");
    for (placeholder, address) in [("http://127.0.0.1:8080", gateway), ("http://127.0.0.1:8081", shop)] {
        manifest = set(&manifest, placeholder, &format!("http://{address}"));
    }
    EdgeHost::start("viceroy", |address, _| {
        Launch::new()
            .file("fastly.toml", manifest)
            .file("ropeline.json", store(settings))
            .copy("ropeline_edge_fastly.wasm", &guest("ropeline-edge-fastly", "wasm32-wasip1", "release"))
            .arguments(["--addr", &address.to_string(), "-C", "fastly.toml", "ropeline_edge_fastly.wasm"])
    })
    .await
}

/// The config store with these settings.
fn store(settings: &str) -> String {
    if settings.chars().count() <= ENTRY {
        return json!({ "settings": settings }).to_string();
    }
    let characters: Vec<char> = settings.chars().collect();
    let mut store = serde_json::Map::new();
    for (number, part) in characters.chunks(ENTRY).enumerate() {
        store.insert(format!("part.{number}"), part.iter().collect::<String>().into());
    }
    let names: Vec<&str> = store.keys().map(String::as_str).collect();
    let names = names.join(" ");
    store.insert("settings".to_owned(), names.into());
    serde_json::Value::from(store).to_string()
}

/// Puts other settings into the store of a host that runs, in one step.
fn change(host: &Path, settings: &str) {
    let (new, file) = (host.join("ropeline.json.new"), host.join("ropeline.json"));
    fs::write(&new, store(settings)).expect("a store");
    fs::rename(new, file).expect("its place");
}

#[tokio::test]
async fn fastly_does_as_every_edge_does() {
    run(&Fastly).await;
}

#[tokio::test]
async fn keys_are_exchanged_under_traffic() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [old, new] = keys();
    let Some(host) = permitted(start(&settings(&[&old]), gateway.address(), shop.address()).await) else {
        return;
    };
    assert_eq!(visit(host.address(), &new.token()).await, Some(429), "a key that is not published yet");
    let published = async {
        change(host.folder(), &settings(&[&old, &new]));
        visit(host.address(), &new.token()).await
    };
    let (status, _) = admitted_throughout(host.address(), &old.token(), published).await;
    assert_eq!(status, Some(200), "a new key holds from the next request on");
    let withdrawn = async {
        change(host.folder(), &settings(&[&new]));
        visit(host.address(), &old.token()).await
    };
    let (status, _) = admitted_throughout(host.address(), &new.token(), withdrawn).await;
    assert_eq!(status, Some(429), "a key that was withdrawn");
}

#[tokio::test]
async fn fastly_serves_on_whatever_changes_and_whoever_is_away() {
    // How long a backend may be silent is set with it at Fastly. Viceroy has no such limit.
    course("fastly", Silent::WaitedFor, |settings, gateway, shop| async move {
        Ok(InPlace::new(start(&settings, gateway, shop).await?, change))
    })
    .await;
}

/// What the cache may keep is asked for by nobody in particular, and only in the one spelling that it has.
#[tokio::test]
async fn nothing_of_a_shopper_goes_through_the_cache() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [key, _] = keys();
    let started = start(&settings(&[&key]), gateway.address(), shop.address()).await;
    let Some(host) = permitted(started) else { return };
    let calls = [
        ("sales/drop/snapshot", false),
        ("sales/drop/room", false),
        ("assets/room.0.js", false),
        ("sales/drop/status", true),
        ("sales/drop/snapshot?a", true),
        ("sales//drop/snapshot", true),
        ("assets/x/%2e%2e/%2e%2e/queue", true),
        ("queue", true),
    ];
    for (number, (call, personal)) in calls.into_iter().enumerate() {
        let request = format!(
            "GET /api/v1/queue/{call} HTTP/1.1\r\nHost: shop.example\r\n{CASE}: {number}\r\nCookie: who=me\r\n\
             Authorization: Basic eDp5\r\nRopeline-Ticket: x\r\nConnection: close\r\n\r\n"
        );
        exchange(host.address(), request.as_bytes(), PATIENCE).await.answer();
        let received = gateway.received(number);
        let [received] = &received[..] else { panic!("{call}: {received:?}") };
        for name in ["cookie", "authorization", "ropeline-ticket"] {
            assert_eq!(received.header(name).is_empty(), !personal, "{call}: {name}");
        }
    }
}

/// Settings too long for one entry are read from several, and an entry that is missing lets nobody pass.
#[tokio::test]
async fn long_settings_are_in_several_entries() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [key, _] = keys();
    let mut document: serde_json::Value = serde_json::from_str(&settings(&[&key])).expect("JSON");
    let sales = document["policy"]["sales"].as_array_mut().expect("sales");
    for number in 0..100 {
        let mut sale = sales[0].clone();
        sale["sale"] = format!("drop-{number}").into();
        sale["routes"] = json!([{ "path": format!("/sale-{number}") }]);
        sales.push(sale);
    }
    let long = document.to_string();
    assert!(long.len() > ENTRY, "it is long: {}", long.len());
    let Some(host) = permitted(start(&long, gateway.address(), shop.address()).await) else { return };
    assert_eq!(visit(host.address(), &key.token()).await, Some(200));
    let broken = store(&long).replace("\"part.1\"", "\"part.x\"");
    fs::write(host.folder().join("ropeline.json"), broken).expect("a store");
    assert_eq!(visit(host.address(), &key.token()).await, Some(503));
}
