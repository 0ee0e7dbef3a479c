//! Envoy, with the files of `cdn-config/envoy`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, Upstream, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing, permitted};
use ropeline_tests::guests::{deployed, guest, set};
use ropeline_tests::raw::exchange;
use ropeline_tests::wait::{PATIENCE, until};
use serde_json::{Value, json};

use crate::renewal::{Sale, an_export_that_goes_on_brings_each_change};
use crate::traffic::{InPlace, Silent, course};

/// How the guest gets at a room.
#[derive(Clone, Copy, PartialEq)]
enum Rooms {
    /// It fetches it, and keeps it.
    Fetched,
    /// It turns the request into one for the room, as on hosts that let no plugin fetch.
    AskedFor,
}

struct Envoy(Rooms);

impl EdgeUnderTest for Envoy {
    fn name(&self) -> &str {
        match self.0 {
            Rooms::Fetched => "envoy",
            Rooms::AskedFor => "envoy, as a plugin of Google Service Extensions",
        }
    }

    fn traits(&self) -> HostTraits {
        // Its own parser answers 400 to what is no request, and takes the path out of an absolute target.
        HostTraits {
            alters: [RawForm::Host, RawForm::Method, RawForm::Target].into(),
            keeps_host: true,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        Ok(start(settings, self.0, gateway, shop).await?.into())
    }
}

async fn start(
    settings: &str,
    rooms: Rooms,
    gateway: SocketAddr,
    shop: SocketAddr,
) -> Result<EdgeHost, Missing> {
    let filter = filter(settings, rooms);
    EdgeHost::start("envoy", |address, _| launch(address, gateway, shop).file("ropeline.json", filter)).await
}

fn launch(address: SocketAddr, gateway: SocketAddr, shop: SocketAddr) -> Launch {
    let at = |host: &str, address: SocketAddr| {
        (
            format!("address: {host}, port_value: 8080"),
            format!("address: {}, port_value: {}", address.ip(), address.port()),
        )
    };
    let mut text = deployed("envoy/envoy.yaml");
    for (placeholder, value) in
        [at("0.0.0.0", address), at("gateway.example", gateway), at("shop.example", shop)]
    {
        text = set(&text, &placeholder, &value);
    }
    let module = guest("ropeline-edge-proxy-wasm", "wasm32-wasip1", "abi");
    Launch::new().file("envoy.yaml", text).copy("ropeline_edge_proxy_wasm.wasm", &module).arguments([
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "warning",
        "-c",
        "envoy.yaml",
    ])
}

/// The file of the filter with these settings, as `jq` writes it.
fn filter(settings: &str, rooms: Rooms) -> String {
    let mut filter: Value = serde_json::from_str(&deployed("envoy/ropeline.json")).expect("JSON");
    let plugin = &mut filter["resources"][0]["typed_config"]["config"];
    plugin["configuration"]["value"] = settings.into();
    if rooms == Rooms::AskedFor {
        plugin["vm_config"]["environment_variables"] = json!({});
    }
    filter.to_string()
}

#[tokio::test]
async fn envoy_does_as_every_edge_does() {
    run(&Envoy(Rooms::Fetched)).await;
}

#[tokio::test]
async fn a_plugin_that_may_not_fetch_does_as_every_edge_does() {
    run(&Envoy(Rooms::AskedFor)).await;
}

/// Moves a file with these settings in the place of the one that is there.
fn renew(envoy: &EdgeHost, settings: &str) {
    put(envoy.folder(), settings);
}

fn put(folder: &Path, settings: &str) {
    let next = folder.join("next.json");
    fs::write(&next, filter(settings, Rooms::Fetched)).expect("a file");
    fs::rename(next, folder.join("ropeline.json")).expect("it takes the other's place");
}

#[tokio::test]
async fn envoy_serves_on_whatever_changes_and_whoever_is_away() {
    course("envoy", Silent::GivenUp, |settings, gateway, shop| async move {
        Ok(InPlace::new(start(&settings, Rooms::Fetched, gateway, shop).await?, put))
    })
    .await;
}

#[tokio::test]
async fn new_settings_are_taken_while_shoppers_come_and_bad_ones_change_nothing() {
    let (gateway, shop, sale) = (Upstream::open("gateway").await, Upstream::open("shop").await, Sale::new());
    let Some(mut envoy) =
        permitted(start(&sale.both_keys(), Rooms::Fetched, gateway.address(), shop.address()).await)
    else {
        return;
    };
    let edge = envoy.address();
    assert_eq!((sale.admitted(edge).await, sale.without_token(edge).await), (200, 401));

    renew(&envoy, r#"{"version":1,"sales":[]}"#);
    let process = envoy.process();
    sale.admits_until(edge, "bad settings are refused", || process.log().contains("update rejected")).await;
    assert_eq!(sale.without_token(edge).await, 401);

    renew(&envoy, &sale.signing_key());
    let taken = Instant::now();
    sale.admits_until(edge, "a rotation is over", || taken.elapsed().as_secs() >= 2).await;
    renew(&envoy, &sale.other_key());
    sale.refuses_soon(edge).await;
    assert_eq!(sale.without_token(edge).await, 401);
}

#[tokio::test]
async fn an_export_that_goes_on_brings_each_change_to_envoy() {
    let template = Some("template.json");
    an_export_that_goes_on_brings_each_change(
        "envoy",
        template,
        "ropeline.json",
        |gateway, shop| async move {
            let text = deployed("envoy/ropeline.json");
            EdgeHost::start("envoy", |address, _| {
                launch(address, gateway, shop).file("template.json", text.clone()).file("ropeline.json", text)
            })
            .await
        },
    )
    .await;
}

#[tokio::test]
async fn without_settings_that_hold_nobody_passes() {
    let (gateway, shop, sale) = (Upstream::open("gateway").await, Upstream::open("shop").await, Sale::new());
    let Some(envoy) =
        permitted(start(r#"{"version":1}"#, Rooms::Fetched, gateway.address(), shop.address()).await)
    else {
        return;
    };
    let edge = envoy.address();
    assert_eq!((sale.admitted(edge).await, sale.without_token(edge).await), (500, 500));

    renew(&envoy, &sale.both_keys());
    until("the first good settings are taken", || async { (sale.admitted(edge).await == 200).then_some(()) })
        .await;
}

/// Whoever makes up languages without end, one after another, gets the room and costs the gateway nothing more.
#[tokio::test]
async fn languages_that_are_made_up_share_the_plain_room() {
    const LANGUAGES: usize = 600;
    const FORMS: usize = 65;

    let (gateway, shop, sale) = (Upstream::open("gateway").await, Upstream::open("shop").await, Sale::new());
    let started = start(&sale.both_keys(), Rooms::Fetched, gateway.address(), shop.address()).await;
    let Some(envoy) = permitted(started) else { return };
    let begun = Instant::now();
    for number in 0..LANGUAGES {
        let page = format!(
            "GET /sale HTTP/1.1\r\nHost: shop.example\r\nAccept: text/html\r\nAccept-Language: x-{number}\r\n\
             Connection: close\r\n\r\n"
        );
        let answer = exchange(envoy.address(), page.as_bytes(), PATIENCE).await;
        assert_eq!(answer.answer().status, 200, "x-{number}");
    }
    // A room is good for a second, or until the clock of its host shows the next one.
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("few");
    let asked = gateway.rooms().len();
    assert!(
        (1..=FORMS * (seconds + 2)).contains(&asked),
        "{LANGUAGES} languages in {seconds} s: the gateway was asked {asked} times"
    );
}

/// A crowd of shoppers at the edge is none at the gateway.
#[tokio::test]
async fn a_crowd_asks_the_gateway_once_a_second() {
    const CROWD: usize = 300;

    let (gateway, shop, sale) = (Upstream::open("gateway").await, Upstream::open("shop").await, Sale::new());
    let Some(envoy) =
        permitted(start(&sale.both_keys(), Rooms::Fetched, gateway.address(), shop.address()).await)
    else {
        return;
    };
    let edge = envoy.address();
    let page = b"GET /sale HTTP/1.1\r\nHost: shop.example\r\nAccept: text/html\r\nCookie: who=me\r\nConnection: close\r\n\r\n";
    let begun = Instant::now();
    let crowd = (0..CROWD).map(|_| exchange(edge, page, PATIENCE));
    for answer in futures_util::future::join_all(crowd).await {
        assert_eq!(answer.answer().status, 200);
    }
    // A room is good for a second, or until the clock of its host shows the next one.
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("few");
    let asked = gateway.rooms().len();
    assert!(
        (1..=seconds + 2).contains(&asked),
        "{CROWD} visitors in {seconds} s: the gateway was asked {asked} times"
    );
}
