//! Traefik, with the files of `cdn-config/traefik`.

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, Upstream, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing, permitted};
use ropeline_tests::guests::{deployed, guest, set};
use ropeline_tests::ports::Port;
use ropeline_tests::raw::exchange;
use ropeline_tests::wait::{PATIENCE, until};
use serde_json::Value;

use crate::renewal::{Sale, an_export_that_goes_on_brings_each_change};
use crate::traffic::{Live, Silent, course};

struct Traefik;

impl EdgeUnderTest for Traefik {
    fn name(&self) -> &str {
        "traefik"
    }

    fn traits(&self) -> HostTraits {
        HostTraits {
            alters: [
                RawForm::BrokenEscape,
                RawForm::DotSegments,
                RawForm::EmptySegments,
                RawForm::NeedlessEscape,
                RawForm::Host,
                RawForm::Target,
            ]
            .into(),
            keeps_host: true,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let traefik = Started::new(settings, gateway, shop).await?;
        Ok(Running::new(traefik.host.address(), traefik))
    }
}

/// Traefik with its second entry point.
struct Started {
    host: EdgeHost,
    again: Port,
    gateway: SocketAddr,
    shop: SocketAddr,
}

impl Started {
    async fn new(settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Self, Missing> {
        let again = Port::free();
        let host = EdgeHost::start("traefik", |address, _| {
            launch(settings, address, again.address(), gateway, shop)
        })
        .await?;
        // It takes connections before it has read who is to get them.
        until("Traefik has its routes", || async {
            let asked =
                exchange(host.address(), b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", PATIENCE)
                    .await;
            (asked.answer().status != 404).then_some(())
        })
        .await;
        Ok(Self { host, again, gateway, shop })
    }

    fn renew(&self, settings: &str) {
        let text = dynamic(settings, self.again.address(), self.gateway, self.shop);
        // Moved, for a file that is being written is read as it is.
        let next = self.host.folder().join("next.yml");
        fs::write(&next, text).expect("a file");
        fs::rename(next, self.host.folder().join("dynamic.yml")).expect("it takes the other's place");
    }
}

impl Live for Started {
    fn address(&self) -> SocketAddr {
        self.host.address()
    }

    async fn renew(&mut self, settings: &str) {
        Self::renew(self, settings);
    }
}

const PLUGIN: &str = "plugins-local/src/github.com/ropeline/ropeline";

fn launch(
    settings: &str,
    address: SocketAddr,
    again: SocketAddr,
    gateway: SocketAddr,
    shop: SocketAddr,
) -> Launch {
    let mut fixed =
        set(&deployed(&format!("{}/traefik.yml", folder(settings))), "\":8080\"", &address.to_string());
    if to_shop(settings) {
        fixed = set(&fixed, "127.0.0.1:8081", &again.to_string());
    }
    Launch::new()
        .file("traefik.yml", fixed)
        .file("dynamic.yml", dynamic(settings, again, gateway, shop))
        .file(format!("{PLUGIN}/.traefik.yml"), deployed(&format!("traefik/{PLUGIN}/.traefik.yml")))
        .copy(
            format!("{PLUGIN}/ropeline_edge_http_wasm.wasm"),
            &guest("ropeline-edge-http-wasm", "wasm32v1-none", "abi"),
        )
        .arguments(["--configFile=traefik.yml"])
}

/// What Traefik reads again whenever it changes.
fn dynamic(settings: &str, again: SocketAddr, gateway: SocketAddr, shop: SocketAddr) -> String {
    let mut text = set(&deployed(&format!("{}/dynamic.yml", folder(settings))), "SETTINGS", settings);
    text = set(&text, "http://gateway.example:8080", &format!("http://{gateway}"));
    if to_shop(settings) {
        text = set(&text, "127.0.0.1:8081", &again.to_string());
        text = set(&text, "http://shop.example:8080", &format!("http://{shop}"));
    }
    text
}

fn folder(settings: &str) -> &'static str {
    if to_shop(settings) { "traefik/shop" } else { "traefik" }
}

fn to_shop(settings: &str) -> bool {
    let document: Value = serde_json::from_str(settings).expect("JSON");
    document["send_to"] == "shop"
}

#[tokio::test]
async fn traefik_does_as_every_edge_does() {
    run(&Traefik).await;
}

#[tokio::test]
async fn traefik_serves_on_whatever_changes_and_whoever_is_away() {
    course("traefik", Silent::GivenUp, |settings, gateway, shop| async move {
        Started::new(&settings, gateway, shop).await
    })
    .await;
}

#[tokio::test]
async fn new_settings_are_taken_while_shoppers_come_and_under_bad_ones_nobody_passes() {
    let (gateway, shop, sale) = (Upstream::open("gateway").await, Upstream::open("shop").await, Sale::new());
    let Some(traefik) = permitted(Started::new(&sale.both_keys(), gateway.address(), shop.address()).await)
    else {
        return;
    };
    let edge = traefik.host.address();
    let renew = |settings: &str| traefik.renew(settings);
    assert_eq!((sale.admitted(edge).await, sale.without_token(edge).await), (200, 401));

    renew(&sale.signing_key());
    let taken = Instant::now();
    sale.admits_until(edge, "a rotation is over", || taken.elapsed().as_secs() >= 4).await;
    renew(&sale.other_key());
    sale.refuses_soon(edge).await;

    renew(r#"{"version":1,"send_to":"shop"}"#);
    until("the plugin has bad settings", || async { (sale.admitted(edge).await == 503).then_some(()) }).await;
    assert_eq!(sale.without_token(edge).await, 503);
    let log = fs::read_to_string(traefik.host.folder().join("traefik.log")).expect("its log");
    assert!(log.contains("ropeline: nobody passes: settings_member_invalid"), "{log}");
    renew(&sale.both_keys());
    until("the plugin has good settings again", || async {
        (sale.admitted(edge).await == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_export_that_goes_on_brings_each_change_to_traefik() {
    let template = Some("template.yml");
    an_export_that_goes_on_brings_each_change(
        "traefik",
        template,
        "dynamic.yml",
        |gateway, shop| async move {
            let again = Port::free();
            EdgeHost::start("traefik", |address, _| {
                let text = deployed("traefik/dynamic.yml");
                let text = set(&text, "http://gateway.example:8080", &format!("http://{gateway}"));
                launch("{}", address, again.address(), gateway, shop).file("template.yml", text)
            })
            .await
        },
    )
    .await;
}
