//! Deno, with the files of `cdn-config/deno-netlify`.

use std::fs;
use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, Upstream, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing, permitted};
use ropeline_tests::guests::{deployed, set, with_package};

use crate::renewal::Sale;
use crate::traffic::{InPlace, Silent, course};

struct Deno;

impl EdgeUnderTest for Deno {
    fn name(&self) -> &str {
        "deno"
    }

    fn traits(&self) -> HostTraits {
        use RawForm::*;

        HostTraits {
            alters: [DotSegments, Backslash, UrlCharacters, Target, Host, Method, RepeatedField, FieldBytes]
                .into(),
            keeps_host: false,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let main = deployed("deno-netlify/main.js");
        Ok(start(&main, settings, gateway, shop).await?.into())
    }
}

async fn start(
    main: &str,
    settings: &str,
    gateway: SocketAddr,
    shop: SocketAddr,
) -> Result<EdgeHost, Missing> {
    launched(main, settings, &[("GATEWAY", gateway), ("SHOP", shop)]).await
}

/// Deno with these upstreams, each in its variable.
async fn launched(main: &str, settings: &str, upstreams: &[(&str, SocketAddr)]) -> Result<EdgeHost, Missing> {
    let origins: Vec<String> = upstreams.iter().map(|(_, address)| address.to_string()).collect();
    EdgeHost::start("deno", |address, folder| {
        let launch = upstreams.iter().fold(with_package(Launch::new()), |launch, (name, address)| {
            launch.variable(*name, format!("http://{address}"))
        });
        launch
            .file("main.js", main)
            .file("settings.json", settings)
            .variable("DENO_DIR", folder.join("deno"))
            .variable("ROPELINE_SETTINGS", "settings.json")
            .arguments(["serve", "--no-prompt", "--allow-read=."])
            .arguments(["--allow-env=GATEWAY,SHOP,ROPELINE_SETTINGS".to_owned()])
            .arguments([format!("--allow-net={}", origins.join(","))])
            .arguments(["--host".to_owned(), address.ip().to_string()])
            .arguments(["--port".to_owned(), address.port().to_string(), "main.js".to_owned()])
    })
    .await
}

#[tokio::test]
async fn deno_does_as_every_edge_does() {
    run(&Deno).await;
}

#[tokio::test]
async fn deno_serves_on_whatever_changes_and_whoever_is_away() {
    let main =
        set(&deployed("deno-netlify/main.js"), "server(module)", "server(module, { everySeconds: 1 })");
    course("deno", Silent::GivenUp, |settings, gateway, shop| async move {
        let host = start(&main, &settings, gateway, shop).await?;
        Ok(InPlace::new(host, |folder, settings| {
            let next = folder.join("next.json");
            fs::write(&next, settings).expect("a file");
            fs::rename(next, folder.join("settings.json")).expect("it takes the other's place");
        }))
    })
    .await;
}

/// Who forgot the one value to set finds its name in the log, and nobody passes meanwhile.
#[tokio::test]
async fn without_an_address_that_is_needed_nobody_passes_and_the_log_names_it() {
    let (gateway, shop, sale) = (Upstream::open("gateway").await, Upstream::open("shop").await, Sale::new());
    let main = deployed("deno-netlify/main.js");
    let upstreams = [("GATEWAY", gateway.address()), ("SHOP", shop.address())];
    for (missing, set) in [("GATEWAY", &upstreams[1..]), ("SHOP", &upstreams[..1])] {
        let Some(mut deno) = permitted(launched(&main, &sale.both_keys(), set).await) else { return };
        let edge = deno.address();
        assert_eq!((sale.admitted(edge).await, sale.without_token(edge).await), (503, 503), "{missing}");
        let log = deno.process().log();
        assert!(log.contains(&format!("nobody passes: {missing} is not set")), "{log}");
    }
}
